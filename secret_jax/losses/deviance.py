"""Deviances of targets that are not negative, with a log link: counts, costs, amounts.

P. McCullagh and J. A. Nelder. Generalized Linear Models. Chapman & Hall, 1989.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy.special import xlogy

from secret_jax.losses.interface import Likelihood, Loss, Pair
from secret_jax.runtime.values import real

# Expected values, and weights of rows by them, are at least these.
_RAREST, _LEAST_CURVATURE = 1e-9, 1e-6


@dataclass(frozen=True, kw_only=True)
class LogMean(Loss):
    """Half a deviance whose models predict the logarithm of the mean.

    The variance of a target grows with a power of its mean. Amounts have no unit of
    their own: a tree of them in another unit is the same tree.
    """

    link: ClassVar = "exponential"
    units: ClassVar = "means"

    @property
    @abstractmethod
    def _power(self) -> float:
        """Power of the mean with which the variance grows, 1 to 2."""

    @property
    @abstractmethod
    def _needs(self) -> str:
        """What the loss needs, in words."""

    def check_targets(self, targets: np.ndarray) -> None:
        if (targets < 0).any() or (self._power == 2 and (targets == 0).any()):
            raise ValueError(
                f"{self._needs}: the least target is {targets.min():g}. Use another "
                "loss."
            )
        if not (targets.sum(axis=0) > 0).all():
            raise ValueError(f"{self._needs}, some above zero, but all are zero.")

    def error_units(self, scale: np.ndarray) -> np.ndarray:
        """See `Loss`: what a power of the mean divides squares by."""
        return scale ** (2.0 - self._power)

    def name_of_value(self, target: str, several: bool) -> str:
        """Name of the logarithm of the mean."""
        return f"log of {target}"

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        mean, power = self.prediction(value), self._power
        if power == 1:
            return xlogy(targets, targets) - targets * value - targets + mean
        # A leaf of zeros alone would let a single row of another kind err without end.
        mean = np.maximum(mean, _RAREST)
        if power == 2:
            ratio = targets / mean
            return ratio - np.log(ratio) - 1.0
        one, two = 1.0 - power, 2.0 - power
        ends = targets**two / (one * two), targets * mean**one / one, mean**two / two
        return ends[0] - ends[1] + ends[2]

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        """See `Loss`; the curvature is what is expected (Fisher's scores)."""
        mean = self.prediction(value)
        slope = (targets - mean) * mean ** (1.0 - self._power)
        return slope, np.maximum(mean ** (2.0 - self._power), _LEAST_CURVATURE)

    def derivatives(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        mean, power = self.prediction(value), self._power
        slope, _ = self.working(targets, value)
        second = (2.0 - power) * mean + (power - 1.0) * targets
        return slope, np.maximum(second * mean ** (1.0 - power), _LEAST_CURVATURE)

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Logarithm of the mean."""
        return np.log(np.maximum(weight @ targets / weight.sum(), _RAREST))

    def deviations(self, prediction: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """See `Loss`: those of logarithms are shares."""
        return deviation * prediction

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return 2.0 * error / np.maximum(mean, _RAREST) ** (2.0 - self._power)


@dataclass(frozen=True, kw_only=True)
class Poisson(Likelihood, LogMean):
    """Half the Poisson deviance: models predict the logarithm of expected counts.

    Counts have a unit, one: how far they vary is told by their means. For amounts see
    `QuasiPoisson`.
    """

    units: ClassVar = "given"
    _power: ClassVar[float] = 1.0  # pyright: ignore[reportIncompatibleMethodOverride]
    _needs: ClassVar[str] = "loss='poisson' needs counts, no negative numbers"  # pyright: ignore[reportIncompatibleMethodOverride]


@dataclass(frozen=True, kw_only=True)
class QuasiPoisson(LogMean):
    """Half the Poisson deviance of amounts in any unit: no likelihood, as of counts.

    How far they vary is told by their errors (Wedderburn 1974), so that shrinkage and
    standard errors do not depend on the unit.
    """

    _power: ClassVar[float] = 1.0  # pyright: ignore[reportIncompatibleMethodOverride]
    _needs: ClassVar[str] = (
        "Logarithms, which loss='auto' chose, need no negative numbers"  # pyright: ignore[reportIncompatibleMethodOverride]
    )


@dataclass(frozen=True, kw_only=True)
class Tweedie(LogMean):
    """Half the deviance of a Tweedie distribution: many zeros, or a long tail.

    Models predict the logarithm of the mean, as of claims and of amounts of rain.

    Attributes
    ----------
    power : float, default=1.5
        With which power of its mean the variance of a target grows, above 1 and at most
        2: near 1 as of counts, between them sums of a random number of amounts, with
        zeros; 2 is the gamma distribution, for targets above zero.

    References
    ----------
    B. Jorgensen. Exponential Dispersion Models. Journal of the Royal Statistical
    Society B 49, 1987.
    """

    power: Annotated[float, real(1.0, 2.0, closed="right")] = 1.5

    @property
    def _power(self) -> float:
        return self.power

    @property
    def _needs(self) -> str:
        if self.power == 2:
            return "loss='gamma', Tweedie(power=2), needs numbers above zero"
        return f"Tweedie(power={self.power:g}) needs no negative numbers"
