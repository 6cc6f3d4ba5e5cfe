"""Losses of numeric targets: squared error and Huber; see `quantile`, `deviance`."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from secret_jax.losses.interface import Loss, Pair
from secret_jax.losses.quantile import Quantile
from secret_jax.losses.robust import quantile, robust_scale
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.values import POSITIVE

# Squared errors below this share of the target's variance are float32's rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class SquaredError(Loss):
    """Squared error of targets that are standardised: models predict their means.

    Its models are least squares, in closed form from sufficient statistics.

    Examples
    --------
    >>> SquaredError().losses(np.array([[1.0]]), np.array([[3.0]]))
    array([[4.]])
    """

    least_squares: ClassVar[bool] = True
    trains_gates: ClassVar[bool] = True
    link: ClassVar = "identity"
    error_name: ClassVar[str] = "root mean squared error"
    error_word: ClassVar[str] = "error"

    @property
    def of_sizes(self) -> Loss:
        """Half the absolute error."""
        return Quantile()

    def name_of_regression(self, n_outputs: int) -> str:
        """Linear."""
        return "linear"

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Squared residuals."""
        return (targets - value) ** 2

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        """Slopes and curvatures of the squares."""
        return 2.0 * (targets - value), np.full(value.shape, 2.0)

    def steps(self, targets: np.ndarray, value: np.ndarray, weight: np.ndarray) -> Pair:
        """Residuals of any length, and the weights as they are."""
        return targets - value, weight

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Means."""
        return weight @ targets / weight.sum()

    def of_constant(self, mean: np.ndarray) -> np.ndarray:
        """Variance of standardised targets: one."""
        return np.ones_like(mean)

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return error

    def noise_of_nodes(
        self, overall: np.ndarray, own: np.ndarray, mean: np.ndarray
    ) -> np.ndarray:
        """Mean squared errors of the nodes."""
        return own

    def deviance(
        self, total: np.ndarray, n_rows: float, n_outputs: int
    ) -> tuple[np.ndarray, float, np.ndarray]:
        """See `Loss`: outputs are independent and normal, with one variance."""
        n = n_rows * n_outputs
        variance = np.maximum(total / n, _ROUNDING)
        return n * np.log(variance), n, variance

    def deviations(self, prediction: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        return deviation

    def reported(self, error: float, scale: float) -> float:
        """Root mean squared error in units of the target."""
        return max(error, 0.0) ** 0.5 * scale

    def explained(self, error: float, variance: float) -> float | None:
        """R², if the target varies."""
        return 1.0 - error / variance if variance > 0 else None

    def row_losses(self, value: AnyArray, targets: AnyArray, xp: Any) -> Any:
        return xp.sum((value - targets) ** 2, axis=1)

    def row_slopes(self, value: AnyArray, targets: AnyArray, xp: Any) -> Any:
        return 2.0 * (value - targets)


SQUARED_ERROR = SquaredError()


@dataclass(frozen=True, kw_only=True)
class Huber(Loss):
    """Huber loss: quadratic for small residuals, linear for large ones.

    Attributes
    ----------
    delta : float, default=0.3
        Where one passes into the other, in robust standard deviations of the target:
        1.4826 times its median absolute deviation, which outliers do not make.

    References
    ----------
    P. J. Huber. Robust Estimation of a Location Parameter. Annals of Mathematical
    Statistics 35, 1964.
    """

    delta: Annotated[float, POSITIVE] = 0.3
    link: ClassVar = "identity"
    units: ClassVar = "robust"
    says_means: ClassVar = False  # what errs far counts less

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        size = np.abs(targets - value)
        small = np.minimum(size, self.delta)
        return small * (size - 0.5 * small)

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        residual = targets - value
        curvature = self.delta / np.maximum(np.abs(residual), self.delta)
        return curvature * residual, curvature

    def derivatives(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        residual = targets - value
        inside = np.abs(residual) <= self.delta
        return np.clip(residual, -self.delta, self.delta), inside.astype(np.float64)

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Minimise the loss by 50 steps of weighted means, from the medians."""
        value = np.array([quantile(y, weight, 0.5) for y in targets.T])
        for _ in range(50):
            share = weight[:, None] * self.working(targets, value)[1]
            value = (share * targets).sum(axis=0) / share.sum(axis=0)
        return value

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return 2.0 * error

    def typical(
        self, targets: np.ndarray, value: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        """See `Loss`: half the squared robust scale of the residuals."""
        scales = [robust_scale(residual, weight) for residual in (targets - value).T]
        return 0.5 * np.square(scales)
