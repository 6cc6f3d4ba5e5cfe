"""CART's split finder: one attribute, every threshold, an impurity."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from secret_jax.learners.thresholds import PURE, best_cuts, moments
from secret_jax.splits.axis import (
    AxisGains,
    AxisSplits,
    attributes,
    leading_component,
)
from secret_jax.splits.classes import class_shares
from secret_jax.splits.interface import Level

# A share below this is rounding; it has a logarithm.
_LEAST_SHARE = 1e-30
# Gain assigned to a split that saves nothing: less than any other, but positive.
_NOTHING = 1e-20


@dataclass(frozen=True, kw_only=True)
class CartSplits(AxisSplits):
    """Splits on one attribute by the largest drop of variance or impurity.

    Every threshold between two rows is tried. With ``leaf="constant"`` the trees are
    those of Breiman, Friedman, Olshen & Stone (1984), chapters 4 and 8. A node that is
    not pure is split even where no single split saves anything: of an exclusive or of
    two attributes the next ones do. Not so by misclassification, which nearly every
    split leaves as it is.

    Attributes
    ----------
    criterion : {"variance", "gini", "entropy", "misclassification"}, \
            default="variance"
        The impurities need outputs that indicate classes, or are shares of them; a
        single one of two classes.
        "gini": the sum of the variances of the indicators. "entropy": that of the
        classes' shares, which is half the deviance of a row. "misclassification": the
        share of all classes but the largest; many splits lower it equally.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import CartSplits
    >>> SecretRegressor(splits=CartSplits(criterion="gini")).splits.criterion
    'gini'
    """

    criterion: Literal["variance", "gini", "entropy", "misclassification"] = "variance"

    def gains(self, level: Level) -> AxisGains:
        centred, deviation = moments(level, level.targets)
        values, purity = centred, _PURITIES.get(self.criterion, _squares)
        if self.criterion != "variance":
            # Shares of classes, and indicators as they are, lie between 0 and 1. One
            # that was standardised takes two values, the lower one below 0.
            present, targets = level.weight > 0, level.targets.astype(np.float64)
            lowest = level.rows.least(np.where(present, targets, np.inf))
            step = -level.rows.least(np.where(present, -targets, np.inf)) - lowest
            # Of one class alone there is no step, and nothing to tell apart.
            unit = level.rows.spread(np.where((lowest < 0) & (step > 0), step, 1.0))
            centred = values = centred / unit
            if self.criterion in _PURITIES:
                lowest = level.rows.spread(np.minimum(lowest, 0.0))
                values = class_shares((level.targets - lowest) / unit)
        axis = attributes(level, leading_component(centred, level))
        gain, threshold = best_cuts(level, axis.projection, values, purity)
        if self.criterion != "misclassification":
            gain = np.where(np.isfinite(gain), np.maximum(gain, _NOTHING), gain)
        return axis, gain, threshold, (deviation <= PURE).all(axis=1)


def _squares(moment: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Reduction of the sum of squares of centred targets by the mean."""
    return np.sum(moment**2, axis=0) / np.maximum(weight, _LEAST_SHARE)


def _log_likelihood(moment: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Log-likelihood of classes: minus entropy of the frequencies, times weight."""
    share = moment / np.maximum(weight, _LEAST_SHARE)
    return np.sum(moment * np.log(np.maximum(share, _LEAST_SHARE)), axis=0)


_PURITIES = {
    "entropy": _log_likelihood,
    "misclassification": lambda moment, weight: moment.max(axis=0),  # of the majority
}
