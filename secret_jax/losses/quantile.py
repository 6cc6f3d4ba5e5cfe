"""Pinball loss of quantiles, smoothed while models are fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from secret_jax.losses.interface import Loss, Pair, quantile, robust_scale
from secret_jax.runtime.values import real

# A rounded corner is straight far away from it; a small share of the curvature of a
# parabola above the loss keeps steps finite where all rows are.
_LEAST_SHARE = 0.01
# Least width of a rounded corner: the resolution of float32.
_NARROWEST = 1e-6


@dataclass(frozen=True, kw_only=True)
class Quantile(Loss):
    """Pinball loss: models predict a quantile of the target.

    Newton's steps on a loss whose corner is rounded less and less (Fernandes, Guerre &
    Horta 2021).

    Attributes
    ----------
    level : float, default=0.5
        In (0, 1); with 0.5, the median, it is half the absolute error.

    References
    ----------
    M. Fernandes, E. Guerre and E. Horta. Smoothing Quantile Regressions. Journal of
    Business & Economic Statistics 39, 2021.

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

    def smoothed(
        self,
        targets: np.ndarray,
        value: np.ndarray,
        weight: np.ndarray,
        nodes: Sequence[slice],
        share: float,
        least: float,
    ) -> RoundedQuantile:
        """See `Loss`: convolved with a logistic distribution.

        Its scale is the distance from the residuals' quantile within which the share of
        the rows lies.
        """
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
