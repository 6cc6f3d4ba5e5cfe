"""Deviances of targets that are not negative, with a log link: counts, costs, amounts.

P. McCullagh and J. A. Nelder. Generalized Linear Models. Chapman & Hall, 1989.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from secret_jax.losses.interface import Likelihood, Loss, Pair

# Expected values, and weights of rows by them, are at least these.
_RAREST, _LEAST_CURVATURE = 1e-9, 1e-6


@dataclass(frozen=True, kw_only=True)
class LogMean(Loss):
    """Half a Poisson deviance; models predict the logarithm of the mean.

    Amounts have no unit of their own: a tree of them in another unit is the same tree.
    """

    link: ClassVar = "exponential"
    units: ClassVar = "means"
    _power: ClassVar[int] = 1  # of the mean, with which a target's variance grows
    _needs: ClassVar[str] = ""  # what the loss needs, in words

    def check_targets(self, targets: np.ndarray) -> None:
        if (targets < 0).any() or (self._power == 2 and (targets == 0).any()):
            raise ValueError(
                f"{self._needs}: the least target is {targets.min():g}. "
                "Use another loss."
            )
        if not (targets.sum(axis=0) > 0).all():
            raise ValueError(f"{self._needs}, some above zero, but all are zero.")

    def error_units(self, scale: np.ndarray) -> np.ndarray:
        return scale ** (2.0 - self._power)

    def name_of_value(self, target: str, several: bool) -> str:
        return f"log of {target}"

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        mean = self.prediction(value)
        return xlogy(targets, targets) - targets * value - targets + mean

    def working(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        # The curvature is what is expected (Fisher's scores).
        mean = self.prediction(value)
        slope = (targets - mean) * mean ** (1.0 - self._power)
        return slope, np.maximum(mean ** (2.0 - self._power), _LEAST_CURVATURE)

    def constant(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(weight @ targets / weight.sum(), _RAREST))

    def deviations(self, prediction: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        return deviation * prediction  # those of logarithms are shares

    def noise(self, error: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return 2.0 * error / np.maximum(mean, _RAREST) ** (2.0 - self._power)


@dataclass(frozen=True, kw_only=True)
class Poisson(Likelihood, LogMean):
    """Half the Poisson deviance of counts: how far they vary is told by their means."""

    units: ClassVar = "given"
    _needs: ClassVar[str] = "loss='poisson' needs counts, no negative numbers"


@dataclass(frozen=True, kw_only=True)
class QuasiPoisson(LogMean):
    """Half the Poisson deviance of amounts in any unit, which is no likelihood.

    How far they vary is told by their errors (Wedderburn 1974).
    """

    _needs: ClassVar[str] = (
        "Logarithms, which loss='auto' chose, need no negative numbers"
    )


@dataclass(frozen=True, kw_only=True)
class Gamma(LogMean):
    """Half the deviance of a gamma distribution: deviations grow with the mean."""

    _power: ClassVar[int] = 2
    _needs: ClassVar[str] = "loss='gamma' needs numbers above zero"

    def losses(self, targets: np.ndarray, value: np.ndarray) -> np.ndarray:
        ratio = targets / np.maximum(self.prediction(value), _RAREST)
        return ratio - np.log(ratio) - 1.0

    def derivatives(self, targets: np.ndarray, value: np.ndarray) -> Pair:
        mean = self.prediction(value)
        second = np.maximum(targets * mean**-1.0, _LEAST_CURVATURE)
        return self.working(targets, value)[0], second
