"""Cross-entropy: models say log-odds of classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax

from secret_jax.losses.interface import Loss

# A class that is not there has this share: its logarithm is a number.
_LEAST_SHARE = 1e-12
# Where a probability is this close to 0 or 1 a parabola is too flat to step by.
_LEAST_CURVATURE = 1e-4


@dataclass(frozen=True, kw_only=True)
class CrossEntropy(Loss):
    """The negative log-likelihood of classes, in nats.

    The targets indicate classes, or are shares of them. Of two classes there is one
    output, the second: its value is the log-odds. Of more there is one output for each
    class, and probabilities are proportional to the exponentials of the values
    (symmetric multinomial logistic regression).

    Examples
    --------
    >>> import numpy as np
    >>> loss = CrossEntropy()
    >>> loss.prediction(np.array([[0.0], [np.log(3)]])).ravel()
    array([0.5 , 0.75])
    >>> loss.losses(np.array([[1.0, 0.0]]), np.zeros((1, 2))).sum().round(3)
    np.float64(0.693)
    """

    def scaling(self, center: float, scale: float) -> tuple[float, float]:
        """Indicators and shares stay as they are."""
        del center, scale
        return 0.0, 1.0

    def prediction(self, value: np.ndarray) -> np.ndarray:
        """Probabilities of the outputs' classes."""
        return expit(value) if value.shape[1] == 1 else softmax(value, axis=1)

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        """See `Loss`."""
        if value.shape[1] == 1:
            return -targets * log_expit(value) - (1.0 - targets) * log_expit(-value)
        return -targets * log_softmax(value, axis=1)

    def working(
        self, targets: np.ndarray, value: np.ndarray, output: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Loss`: of several classes one after the other, the others fixed."""
        probability = self.prediction(value)[:, output]
        curvature = np.maximum(probability * (1.0 - probability), _LEAST_CURVATURE)
        return targets[:, output] - probability, curvature

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The log-odds, or the logarithms, of the classes' shares."""
        share = weight @ targets / weight.sum()
        if targets.shape[1] == 1:
            share = np.clip(share, _LEAST_SHARE, 1.0 - _LEAST_SHARE)
            return np.log(share) - np.log1p(-share)
        return np.log(np.maximum(share, _LEAST_SHARE))

    def spread(self, mean: np.ndarray) -> np.ndarray:
        """See `Loss`."""
        return 2.0 / np.maximum(mean * (1.0 - mean), _LEAST_CURVATURE)
