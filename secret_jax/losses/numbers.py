"""Losses of numbers: squared error, deviances with a log link, quantiles.

P. McCullagh and J. A. Nelder. Generalized Linear Models. Chapman & Hall, 1989.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy.special import expit, xlogy
from scipy.stats import norm

from secret_jax.losses.interface import (
    RAREST,
    Loss,
    Pair,
    QuasiLikelihood,
    quantile,
    robust_scale,
)
from secret_jax.runtime.values import real

# Weights of rows by their expected values are at least this.
_LEAST_CURVATURE = 1e-6
# A rounded corner is straight far away from it; a small share of the curvature of a
# parabola above the loss keeps steps finite where all rows are.
_LEAST_SHARE = 0.01
# Least width of a rounded corner: the resolution of float32.
_NARROWEST = 1e-6


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

    def remaining(
        self, targets: np.ndarray, value: np.ndarray, weight: np.ndarray
    ) -> Pair:
        return targets - value, weight

    def of_constant(self, mean: np.ndarray) -> np.ndarray:
        return np.ones_like(mean)  # variances of standardised targets

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return error


SQUARED_ERROR = SquaredError()


@dataclass(frozen=True, kw_only=True)
class LogMean(Loss):
    """Half a Poisson deviance; models predict the logarithm of the mean.

    Amounts have no unit of their own: a tree of them in another unit is the same tree.
    """

    link: ClassVar = "exponential"
    units: ClassVar = "means"
    power: ClassVar[int] = 1
    _needs: ClassVar[str] = ""  # what the loss needs, in words

    def check_targets(self, targets: np.ndarray) -> None:
        if (targets < 0).any() or (self.power == 2 and (targets == 0).any()):
            raise ValueError(
                f"{self._needs}: the least target is {targets.min():g}. "
                "Use another loss."
            )
        if not (targets.sum(axis=0) > 0).all():
            raise ValueError(f"{self._needs}, some above zero, but all are zero.")

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        mean = self.prediction(value)
        return xlogy(targets, targets) - targets * value - targets + mean

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        # The curvature is what is expected (Fisher's scores).
        mean = self.prediction(value)
        slope = (targets - mean) * mean ** (1.0 - self.power)
        return slope, np.maximum(mean ** (2.0 - self.power), _LEAST_CURVATURE)

    def remaining(
        self, targets: np.ndarray, value: np.ndarray, weight: np.ndarray
    ) -> Pair:
        # Several outputs share their weights: such fits aim at the same means.
        mean = self.prediction(value)
        return targets / mean, weight * (mean ** (2.0 - self.power)).mean(axis=1)

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return 2.0 * error / np.maximum(mean, RAREST) ** (2.0 - self.power)


@dataclass(frozen=True, kw_only=True)
class Poisson(QuasiLikelihood, LogMean):
    """Half the Poisson deviance of counts, or of rates, weighted by their exposure.

    Variances are in proportion to means, by a dispersion that is estimated: counts may
    be in any unit, and vary more than Poisson's (Wedderburn 1974).
    """

    _needs: ClassVar[str] = "loss='poisson' needs counts, no negative numbers"

    def dispersion(
        self, targets: np.ndarray, value: np.ndarray, weight: np.ndarray, free: float
    ) -> np.ndarray:
        # Pearson's estimate, which holds of rare counts too.
        mean = np.maximum(self.prediction(value), RAREST)
        return weight @ ((targets - mean) ** 2 / mean) / max(free, 1.0)


@dataclass(frozen=True, kw_only=True)
class QuasiPoisson(LogMean):
    """Half the Poisson deviance of amounts, whose curvature is no information.

    How far they vary is told by their errors (Gourieroux, Monfort & Trognon 1984).
    """

    _needs: ClassVar[str] = (
        "Logarithms, which loss='auto' chose, need no negative numbers"
    )


@dataclass(frozen=True, kw_only=True)
class Gamma(LogMean):
    """Half the deviance of a gamma distribution: deviations grow with the mean."""

    power: ClassVar[int] = 2
    _needs: ClassVar[str] = "loss='gamma' needs numbers above zero"

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        ratio = targets / np.maximum(self.prediction(value), RAREST)
        return ratio - np.log(ratio) - 1.0

    def derivatives(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        mean = self.prediction(value)
        second = np.maximum(targets * mean**-1.0, _LEAST_CURVATURE)
        return self.working(targets, value)[0], second


@dataclass(frozen=True, kw_only=True)
class Quantile(Loss):
    """Pinball loss: models predict a quantile of the target, ``level=0.5`` the median.

    Newton's steps on a loss whose corner is rounded less and less (Fernandes, Guerre &
    Horta. Smoothing Quantile Regressions. Journal of Business & Economic Statistics 39,
    2021).

    Examples
    --------
    >>> from secret_jax import Quantile, SecretRegressor
    >>> SecretRegressor(loss=Quantile(level=0.9)).loss
    Quantile(level=0.9)
    """

    level: Annotated[float, real(0.0, 1.0, closed="neither")] = 0.5
    link: ClassVar = "identity"
    units: ClassVar = "robust"
    predicts_mean: ClassVar = False

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        residual = targets - value
        return np.maximum(self.level * residual, (self.level - 1.0) * residual)

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        hardly = RoundedQuantile(level=self.level, width=np.full(value.shape, 1e-3))
        return hardly.working(targets, value)

    def steps(self, targets: np.ndarray, value: np.ndarray, weight: np.ndarray) -> Pair:
        # Slopes alone: far from the corner there is no curvature to divide by.
        return np.where(targets > value, self.level, self.level - 1.0), weight

    def remaining(
        self, targets: np.ndarray, value: np.ndarray, weight: np.ndarray
    ) -> Pair:
        return targets - value, weight

    def smoothed(
        self,
        targets: np.ndarray,
        value: np.ndarray,
        weight: np.ndarray,
        nodes: Sequence[slice],
        share: float,
        least: float,
    ) -> RoundedQuantile:
        # Convolved with a logistic distribution, whose scale is the distance from the
        # residuals' quantile within which the share of the rows lies.
        near = 2.0 * self.level * (1.0 - self.level) * share
        width = np.empty(value.shape)
        for rows in nodes:
            part = min(max(near, least / weight[rows].sum()), 1.0)
            for output in range(value.shape[1]):
                residual = targets[rows, output] - value[rows, output]
                residual = residual - quantile(residual, weight[rows], self.level)
                width[rows, output] = quantile(np.abs(residual), weight[rows], part)
        return RoundedQuantile(level=self.level, width=np.maximum(width, _NARROWEST))

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.array([quantile(y, weight, self.level) for y in targets.T])

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        # Of normal targets of the same loss.
        return (error / norm.pdf(norm.ppf(self.level))) ** 2

    def typical(
        self, targets: np.ndarray, value: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        # Of normal residuals of the same robust scale.
        scales = [
            robust_scale(residual - quantile(residual, weight, 0.5), weight)
            for residual in (targets - value).T
        ]
        return np.array(scales) * norm.pdf(norm.ppf(self.level))


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundedQuantile(Quantile):
    """Pinball loss with a rounded corner."""

    # (n_rows, n_outputs): scale of the logistic distribution that smooths the corner,
    # for every row.
    width: np.ndarray

    def take(self, row: np.ndarray) -> RoundedQuantile:
        return RoundedQuantile(level=self.level, width=self.width[row])

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        residual = targets - value
        over = np.logaddexp(0.0, -residual / self.width)
        return self.level * residual + self.width * over

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        slope, curvature = self.derivatives(targets, value)
        parabola = 0.5 / np.maximum(np.abs(targets - value), self.width)
        return slope, np.maximum(curvature, _LEAST_SHARE * parabola)

    def derivatives(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        above = expit((targets - value) / self.width)
        return above - (1.0 - self.level), above * (1.0 - above) / self.width
