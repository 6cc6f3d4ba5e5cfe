"""Errors of probabilities of classes: log-loss, confusion, calibration, ROC."""

import math
from typing import NamedTuple

import numpy as np
from sklearn.metrics import auc, roc_curve

# A class that was given no probability at all costs no more than this tells.
_LEAST = 1e-15
_MOST_BINS, _ROWS_OF_BIN = 10, 20
_LEAST_SHARE = 0.005  # of a class that is compared


class ClassErrors(NamedTuple):
    """Accuracy and mean log-loss, each with its standard error."""

    accuracy: float
    accuracy_error: float
    log_loss: float
    log_loss_error: float


class Bin(NamedTuple):
    """Rows of similar probability: their mean of it, and the share that it came true.

    ``error`` is the standard error of the share.
    """

    predicted: float
    observed: float
    error: float
    n_rows: int


def class_errors(
    probability: np.ndarray, predicted: np.ndarray, actual: np.ndarray
) -> ClassErrors:
    """Measure how often the predicted class is right, and the cost of probabilities.

    Classes are positions; the actual one may be -1, none of them, and is then wrong.
    """
    right = predicted == actual
    losses = log_losses(probability, actual)
    return ClassErrors(
        *(float(right.mean()), _error_of_mean(right.astype(float))),
        *(float(losses.mean()), _error_of_mean(losses)),
    )


def log_losses(probability: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Log-loss of every row in nats, shape (n_rows,)."""
    own = probability[np.arange(len(actual)), np.maximum(actual, 0)]
    return -np.log(np.clip(np.where(actual >= 0, own, 0.0), _LEAST, 1.0))


def _error_of_mean(values: np.ndarray) -> float:
    if len(values) < 2:
        return 0.0
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def confusion(predicted: np.ndarray, actual: np.ndarray, n_classes: int) -> np.ndarray:
    """Count rows by class and predicted class, shape (n_classes + 1, n_classes).

    The last line is of rows whose class is none of them.
    """
    counts = np.zeros((n_classes + 1, n_classes), np.int64)
    np.add.at(counts, (np.where(actual < 0, n_classes, actual), predicted), 1)
    return counts


def shares_beside(
    probability: np.ndarray, actual: np.ndarray
) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Order the classes by size; their mean probabilities, and their shares of rows."""
    mean = probability.mean(axis=0)
    share = (actual[:, None] == np.arange(len(mean))).mean(axis=0)
    larger = np.maximum(mean, share)
    order = np.argsort(-larger, kind="stable").tolist()
    return [i for i in order if larger[i] >= _LEAST_SHARE], mean, share


def calibration(probability: np.ndarray, came_true: np.ndarray) -> list[Bin]:
    """Put rows in bins of about as many, from the lowest probability on.

    Rows of one probability are in one bin; each bin has twenty rows or so.
    """
    n_bins = int(np.clip(len(probability) // _ROWS_OF_BIN, 1, _MOST_BINS))
    inner = np.quantile(probability, np.arange(1, n_bins) / n_bins)
    bin_of_row = np.searchsorted(np.unique(inner), probability, side="left")
    bins = []
    for one in np.unique(bin_of_row):
        here = bin_of_row == one
        share, n_rows = float(came_true[here].mean()), int(here.sum())
        error = math.sqrt(share * (1.0 - share) / n_rows)
        bins.append(Bin(float(probability[here].mean()), share, error, n_rows))
    return bins


def roc(probability: np.ndarray, came_true: np.ndarray) -> tuple[np.ndarray, float]:
    """Compute the receiver operating characteristic, and the area under it.

    Its points, shape (n_points, 2), are the shares of the false and of the true rows
    above a threshold, from (0, 0) to (1, 1).
    """
    false, true, _ = roc_curve(came_true, probability, drop_intermediate=False)
    return np.stack([false, true], axis=1), float(auc(false, true))
