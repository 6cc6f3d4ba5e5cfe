"""The Gini gain of two classes, and the best binary split of a discrete attribute.

Breiman et al. 1984, Theorem 9.4: with the categories ordered by P[class 1 | category],
the best of all subsets is a prefix of the order.
"""

from typing import NamedTuple

from jaxtyping import Float

from secret_jax.runtime.linalg import AnyArray, namespace, safe_divide

# A smaller product of both shares is float32's rounding: all rows go one way.
_ROUNDING = 1e-10


def gini_gain(
    class_fraction: AnyArray, left_fraction: AnyArray, left_and_class: AnyArray
) -> AnyArray:
    r"""Gini gain, :math:`2 (P[1, L] - P[1] P[L])^2 / (P[L] (1 - P[L]))`.

    Equation (1) of Dobra & Gehrke 2002 as it follows from the definition above it; the
    printed one does not.

    ``class_fraction``: P[1], the share of the first class; ``left_fraction``: P[L], the
    share of the rows that go left; ``left_and_class``: P[1, L], the share that is of
    the first class and goes left. Zero where all rows go one way.

    Examples
    --------
    >>> import numpy as np
    >>> gini_gain(*np.full((3, 1), 0.5)).item()
    0.5
    """
    xp = namespace(left_fraction)
    spread = left_fraction * (1 - left_fraction)
    excess = left_and_class - class_fraction * left_fraction
    usable = spread > _ROUNDING
    return xp.where(usable, 2 * excess**2 / xp.where(usable, spread, 1.0), 0.0)


class DiscreteSplit(NamedTuple):
    """The best split of a discrete attribute; of many, arrays have their axes first."""

    gain: AnyArray  # (...): minus infinity where no split is allowed
    # (..., n_categories), bool: categories absent from the node follow the larger side;
    # the first present one is on the left.
    goes_left: AnyArray


def best_subset(
    counts: Float[AnyArray, "... 2 n_categories"], min_weight: Float[AnyArray, "..."]
) -> DiscreteSplit:
    """Best subset of categories by Gini gain.

    ``counts``: weight of each class in each category; ``min_weight``: least weight on
    each side.
    """
    xp = namespace(counts)
    weight = counts.sum(axis=-2)
    total = weight.sum(axis=-1, keepdims=True)
    present, first = weight > 0, counts[..., 0, :]
    share = safe_divide(first, weight)
    order = xp.argsort(xp.where(present, -share, xp.inf), axis=-1, stable=True)

    def sums_in_order(values: AnyArray) -> AnyArray:
        return xp.cumsum(xp.take_along_axis(values, order, axis=-1), axis=-1)

    left = sums_in_order(weight)
    of_first = first.sum(axis=-1, keepdims=True)
    gain = gini_gain(
        safe_divide(of_first, total),
        safe_divide(left, total),
        safe_divide(sums_in_order(first), total),
    )
    least = xp.minimum(left, total - left)
    allowed = xp.take_along_axis(present, order, axis=-1)
    allowed = allowed & (least >= min_weight[..., None]) & (least > 0)
    gain = xp.where(allowed, gain, -xp.inf)
    cut = xp.argmax(gain, axis=-1)[..., None]
    rank = xp.argsort(order, axis=-1, stable=True)
    at_cut = xp.take_along_axis(left, cut, axis=-1)
    goes_left = xp.where(present, rank <= cut, at_cut >= total - at_cut)
    # Which class is called the first is chance; which side is left must not be.
    earliest = xp.argmax(present, axis=-1)[..., None]
    turned = ~xp.take_along_axis(goes_left, earliest, axis=-1)
    return DiscreteSplit(xp.max(gain, axis=-1), goes_left ^ turned)
