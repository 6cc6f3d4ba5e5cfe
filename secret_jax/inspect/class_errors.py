"""Log-loss of rows, some of which may be of classes that a model has never seen."""

import numpy as np

# A class that was given no probability at all costs no more than this tells.
_LEAST = 1e-15


def log_losses(probability: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Log-loss of every row in nats, shape (n_rows,); a class of -1 has no probability.

    `sklearn.metrics.log_loss` refuses rows of classes without a column.
    """
    own = probability[np.arange(len(actual)), np.maximum(actual, 0)]
    return -np.log(np.clip(np.where(actual >= 0, own, 0.0), _LEAST, 1.0))
