"""Squared error of numbers; see `quantile` and `deviance` for their other losses."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.losses.interface import Loss, Pair


@dataclass(frozen=True, kw_only=True)
class SquaredError(Loss):
    """Squared error of targets that are standardised: models predict their means.

    Its models are least squares, in closed form from sufficient statistics.
    """

    least_squares: ClassVar[bool] = True
    trains_gates: ClassVar[bool] = True
    link: ClassVar = "identity"
    error_name: ClassVar[str] = "root mean squared error"
    error_word: ClassVar[str] = "error"
    regression: ClassVar[str] = "linear"

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        return (targets - value) ** 2

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        return 2.0 * (targets - value), np.full(value.shape, 2.0)

    def steps(self, targets: np.ndarray, value: np.ndarray, weight: np.ndarray) -> Pair:
        return targets - value, weight

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return weight @ targets / weight.sum()

    def of_constant(self, mean: np.ndarray) -> np.ndarray:
        return np.ones_like(mean)  # variances of standardised targets

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return error

    def deviations(self, prediction: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        return deviation

    def reported(self, error: float, scale: float) -> float:
        return max(error, 0.0) ** 0.5 * scale

    def explained(self, error: float, variance: float) -> float | None:
        return 1.0 - error / variance if variance > 0 else None

    def row_losses(self, value: jax.Array, targets: jax.Array) -> jax.Array:
        return jnp.sum((value - targets) ** 2, axis=1)


SQUARED_ERROR = SquaredError()
