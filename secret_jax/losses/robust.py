"""Units of targets: weighted order statistics, a scale that outliers do not make."""

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

# Standard deviation of a normal variable over its median absolute deviation.
_NORMAL = float(1.0 / norm.ppf(0.75))
# Sums of weights may be rounding errors away from a share of the total.
_ROUNDING = 1e-12


def quantile(
    values: Float[np.ndarray, " n_rows"],
    weight: Float[np.ndarray, " n_rows"],
    level: float,
) -> float:
    """Smallest value with at least a share ``level`` of the weight up to it.

    >>> quantile(np.array([3.0, 1.0, 2.0]), np.ones(3), 0.5)
    2.0
    """
    share = (1.0 - _ROUNDING) * level
    return float(np.quantile(values, share, weights=weight, method="inverted_cdf"))


def robust_scale(
    deviations: Float[np.ndarray, " n_rows"], weight: Float[np.ndarray, " n_rows"]
) -> float:
    """Standard deviation of normal numbers with the same median absolute deviation.

    Without deviations of zero: a value that most rows share is no scale.

    >>> round(robust_scale(np.array([-1.0, 1.0, 0.0, 1.0, 1e6]), np.ones(5)), 4)
    1.4826
    """
    used = (deviations != 0) & (weight > 0)
    if not used.any():
        return 0.0
    return _NORMAL * quantile(np.abs(deviations[used]), weight[used], 0.5)


def robust_units(
    targets: Float[np.ndarray, " n_rows"], weight: Float[np.ndarray, " n_rows"]
) -> tuple[float, float]:
    """Median and robust scale about it; the scale is 1 if nothing varies.

    >>> robust_units(np.array([1.0, 2.0, 3.0, 1e9]), np.ones(4))[0]
    2.0
    """
    center = quantile(targets, weight, 0.5)
    return center, robust_scale(targets - center, weight) or 1.0
