"""Losses of numbers: quantiles, Huber's, and Poisson's of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy
from scipy.stats import norm

from secret_jax.losses.interface import Loss
from secret_jax.runtime.values import real

# Residuals below this share of the target's deviation are taken for it: the parabola
# above an absolute value would have no bound at zero (Hunter & Lange 2000).
_SMALLEST = 1e-3
# Expected counts, and weights of rows by them, are at least these.
_RAREST, _LEAST_CURVATURE = 1e-9, 1e-6
# Logarithms of counts stay below this: exponentials are numbers.
_HIGHEST = 30.0


@dataclass(frozen=True, kw_only=True)
class Quantile(Loss):
    """The pinball loss: models say a quantile of the target.

    Weighted least squares by the parabolas of Hunter & Lange (2000).

    Attributes
    ----------
    level : float, default=0.5
        In (0, 1); with 0.5, the median, it is half the absolute error.

    References
    ----------
    D. R. Hunter and K. Lange. Quantile Regression via an MM Algorithm. Journal of
    Computational and Graphical Statistics 9, 2000.

    Examples
    --------
    >>> from secret_jax import Quantile, SecretRegressor
    >>> SecretRegressor(loss=Quantile(level=0.9)).loss
    Quantile(level=0.9)
    """

    level: float = 0.5
    predicts_means: ClassVar[bool] = False
    link: ClassVar = "identity"

    _parameter_constraints: ClassVar[dict] = {
        "level": [real(0.0, 1.0, closed="neither")]
    }

    def prediction(self, value: np.ndarray) -> np.ndarray:
        """The values themselves."""
        return value

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        """See `Loss`."""
        residual = targets - value
        return np.maximum(self.level * residual, (self.level - 1.0) * residual)

    def working(
        self, targets: np.ndarray, value: np.ndarray, output: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Loss`."""
        residual = (targets - value)[:, output]
        curvature = 0.5 / np.maximum(np.abs(residual), _SMALLEST)
        return curvature * residual + self.level - 0.5, curvature

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The quantile."""
        return np.array([_quantile(y, weight, self.level) for y in targets.T])

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """See `Loss`: of a normal target that is as far off."""
        del mean
        return (error / norm.pdf(norm.ppf(self.level))) ** 2


@dataclass(frozen=True, kw_only=True)
class Huber(Loss):
    """Huber's loss: squared for small residuals, absolute for large ones.

    Attributes
    ----------
    delta : float, default=0.3
        Where one passes into the other, in standard deviations of the target.

    References
    ----------
    P. J. Huber. Robust Estimation of a Location Parameter. Annals of Mathematical
    Statistics 35, 1964.
    """

    delta: float = 0.3
    predicts_means: ClassVar[bool] = False
    link: ClassVar = "identity"

    _parameter_constraints: ClassVar[dict] = {"delta": [real(0.0, closed="neither")]}

    def prediction(self, value: np.ndarray) -> np.ndarray:
        """The values themselves."""
        return value

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        """See `Loss`."""
        size = np.abs(targets - value)
        small = np.minimum(size, self.delta)
        return small * (size - 0.5 * small)

    def working(
        self, targets: np.ndarray, value: np.ndarray, output: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Loss`."""
        residual = (targets - value)[:, output]
        curvature = self.delta / np.maximum(np.abs(residual), self.delta)
        return curvature * residual, curvature

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Steps of weighted means from the medians."""
        value = np.array([_quantile(y, weight, 0.5) for y in targets.T])
        for _ in range(50):
            size = np.maximum(np.abs(targets - value), self.delta)
            share = weight[:, None] * self.delta / size
            value = (share * targets).sum(axis=0) / share.sum(axis=0)
        return value

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """See `Loss`."""
        del mean
        return 2.0 * error


@dataclass(frozen=True, kw_only=True)
class Poisson(Loss):
    """Half the deviance of counts: models say logarithms of expected counts.

    References
    ----------
    P. McCullagh and J. A. Nelder. Generalized Linear Models. Chapman & Hall, 1989.
    """

    is_likelihood: ClassVar[bool] = True
    link: ClassVar = "exponential"

    def scaling(self, center: float, scale: float) -> tuple[float, float]:
        """Counts as they are."""
        del center, scale
        return 0.0, 1.0

    def check_targets(self, targets: np.ndarray) -> None:
        """See `Loss`."""
        if (targets < 0).any():
            row = np.argwhere(targets < 0)[0]
            raise ValueError(
                "loss='poisson' needs counts, no negative numbers: the target of row "
                f"{row[0]} is {targets[tuple(row)]:g}. Use another loss."
            )
        if not (targets.sum(axis=0) > 0).all():
            raise ValueError(
                "loss='poisson' needs some counts above zero, but all are zero."
            )

    def name_of_value(self, target: str, several: bool) -> str:
        """A logarithm."""
        del several
        return f"log of {target}"

    def prediction(self, value: np.ndarray) -> np.ndarray:
        """Expected counts."""
        return np.exp(np.minimum(value, _HIGHEST))

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        """See `Loss`."""
        expected = self.prediction(value)
        return xlogy(targets, targets) - targets * value - targets + expected

    def working(
        self, targets: np.ndarray, value: np.ndarray, output: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Loss`."""
        expected = self.prediction(value)[:, output]
        return targets[:, output] - expected, np.maximum(expected, _LEAST_CURVATURE)

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The logarithm of the mean."""
        return np.log(np.maximum(weight @ targets / weight.sum(), _RAREST))

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """See `Loss`."""
        return 2.0 * error / np.maximum(mean, _RAREST)


def _quantile(values: np.ndarray, weight: np.ndarray, level: float) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(total, level * total[-1])]])
