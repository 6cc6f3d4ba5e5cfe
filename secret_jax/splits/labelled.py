"""Splits of rows with given labels: discriminants and subsets, by their Gini gain.

Dobra & Gehrke 2002, sections 4.2.1 to 4.2.4. Two slips of the printed text are mended:
the direction inverts the *within*-class scatter, and the argument of Erf in the
half-space probability has the opposite sign.

Categories ordered by P[class 1 | category]: the best of all subsets is a prefix of the
order (Breiman et al. 1984, Theorem 9.4).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax.scipy.special
import numpy as np
import scipy.special
from jaxtyping import Bool, Float

from secret_jax.runtime.linalg import (
    AnyArray,
    guarded_solve,
    namespace,
    safe_divide,
    taken,
    unit_vectors,
)
from secret_jax.splits.interface import Level, Split
from secret_jax.tree.structure import SplitKind
from secret_jax.tree.walk import goes_left

# A pivot of a correlation matrix below this is rounding: the column is dependent.
DEPENDENT = 4e-6
# Below this share of an attribute's variance the spread of a class is rounding.
_NO_SPREAD = 1e-10
# A smaller product of both shares is float32's rounding: all rows go one way.
_ROUNDING = 1e-10

Gain = Literal["normal", "counted"]


def qda_threshold(
    fraction: Float[AnyArray, "... 2"],
    mean: Float[AnyArray, "... 2 n"],
    variance: Float[AnyArray, "... 2 n"],
) -> tuple[Float[AnyArray, "... n"], Bool[AnyArray, "... n"]]:
    r"""Point between two class means where the weighted normal densities are equal.

    Where no root lies between the means (above all where they coincide) the point is
    :math:`(\alpha_1\sigma_1\eta_1 + \alpha_2\sigma_2\eta_2) / (\alpha_1\sigma_1 +
    \alpha_2\sigma_2)`; where one class has no spread,
    :math:`\alpha_1\eta_1 + \alpha_2\eta_2`.

    ``fraction``: class probabilities. Returns ``between``: whether it is a root between
    the means.

    Examples
    --------
    >>> threshold, between = qda_threshold(
    ...     np.array([0.5, 0.5]), np.array([[0.0], [2.0]]), np.array([[1.0], [1.0]])
    ... )
    >>> threshold.item(), between.item()
    (1.0, True)
    """
    xp = namespace(mean)
    tiny = xp.finfo(mean.dtype).tiny
    alpha, spread = fraction[..., None], variance > 0
    both = spread.all(axis=-2)
    safe = xp.where(spread, variance, 1.0)
    # Coordinates about the midpoint in units of the larger deviation: well scaled.
    middle = 0.5 * (mean[..., 0, :] + mean[..., 1, :])
    unit = xp.sqrt(xp.max(safe, axis=-2))
    apart = (mean - middle[..., None, :]) / unit[..., None, :]
    scaled = safe / unit[..., None, :] ** 2
    (first, second), (v1, v2) = (xp.moveaxis(a, -2, 0) for a in (apart, scaled))
    log_ratio = xp.log(fraction[..., :1]) - xp.log(fraction[..., 1:])

    a = 1 / v1 - 1 / v2
    b = -2 * (first / v1 - second / v2)
    c = first**2 / v1 - second**2 / v2 - 2 * log_ratio + xp.log(v1 / v2)
    discriminant = b * b - 4 * a * c
    root = xp.sqrt(xp.maximum(discriminant, 0.0))
    # Of the two roots the smaller one, without cancellation. Only it can lie between
    # the means, and for equal variances it solves the linear equation.
    q = -0.5 * (b + xp.where(b >= 0, root, -root))
    candidate = c / xp.where(xp.abs(q) > tiny, q, 1.0)

    low, high = xp.minimum(first, second), xp.maximum(first, second)
    inside = (candidate > low) & (candidate < high)
    between = inside & (discriminant >= 0) & both

    deviation = xp.sqrt(xp.maximum(variance, 0.0))
    pull = xp.where(both[..., None, :], alpha * deviation, alpha)
    total = xp.maximum(xp.sum(pull, axis=-2), tiny)
    fallback = xp.sum(pull * mean, axis=-2) / total
    return xp.where(between, middle + unit * candidate, fallback), between


def lda_direction(
    within: Float[AnyArray, "... n n"],
    difference: Float[AnyArray, "... n"],
    tolerance: float,
) -> Float[AnyArray, "... n"]:
    r"""Fisher's direction, :math:`(\sum_i \alpha_i\Sigma_i)^{-1}(\mu_1-\mu_2)`.

    ``within``: mean of the covariances of the classes; ``difference``: of their means;
    ``tolerance``: columns whose pivot is at or below it get a zero. Of unit length, or
    zero where the means coincide.
    """
    return unit_vectors(guarded_solve(within, difference, tolerance))


def oriented(direction: Float[AnyArray, "... n"]) -> AnyArray:
    """Unit vector whose largest component is positive; zero stays zero.

    Which class is called the first is chance; which side is left must not be.
    """
    xp = namespace(direction)
    largest = xp.argmax(xp.abs(direction), axis=-1)
    turned = taken(direction, largest, direction.ndim - 1)[..., None] < 0
    unit = unit_vectors(direction)
    return xp.where(turned, -unit, unit)


def left_probability(
    mean: AnyArray, variance: AnyArray, threshold: AnyArray
) -> AnyArray:
    r"""P[x <= threshold] of a normal variable, a step where it has no spread.

    With ``mean`` :math:`n^T\mu` and ``variance`` :math:`n^T\Sigma n` this is the
    probability of a half-space (Proposition 1 of Dobra & Gehrke 2002).
    """
    xp = namespace(mean)
    ndtr = scipy.special.ndtr if xp is np else jax.scipy.special.ndtr
    spread = variance > 0
    deviation = xp.sqrt(xp.where(spread, variance, 1.0))
    step = (mean <= threshold).astype(mean.dtype)
    return xp.where(spread, ndtr((threshold - mean) / deviation), step)


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
    counts: Float[AnyArray, "... 2 n_categories"], min_weight: AnyArray
) -> DiscreteSplit:
    """Best subset of categories by Gini gain.

    ``counts``: weight of each class in each category; ``min_weight``: least weight on
    each side.
    """
    xp = namespace(counts)
    weight = counts.sum(axis=-2)
    total = weight.sum(axis=-1, keepdims=True)
    present, first = weight > 0, counts[..., 0, :]
    rank = xp.where(present, -safe_divide(first, weight), xp.inf)
    order = xp.argsort(rank, axis=-1, stable=True)
    both = xp.stack([weight, first])
    left, of_first = xp.cumsum(xp.take_along_axis(both, order[None], axis=-1), axis=-1)
    share = first.sum(axis=-1, keepdims=True), left, of_first
    gain = gini_gain(*(safe_divide(part, total) for part in share))
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


def best_labelled_split(
    level: Level, first: Float[AnyArray, "... rows"], gain: Gain
) -> Split:
    """The candidate with the largest gain: axis, oblique and discrete together.

    ``first``: weights of the rows in the first of two classes; the rest is in the
    second; ``gain``: how thresholds are compared, see `secret_jax.SecretSplits`.
    """
    xp, n_columns, n_discrete = level.rows.xp, level.x.shape[-2], level.codes.shape[-2]
    classes = xp.stack([first, level.weight - first], axis=-2)
    found, threshold, oblique = _cuts(level, classes, gain)
    counts = level.rows.sums_by_code(level.codes, level.n_categories, classes)
    subsets = best_subset(counts, level.min_weight[:, None])
    of_subsets = xp.where(level.allowed[:, n_columns:], subsets.gain, -xp.inf)
    every = xp.concatenate([found, of_subsets], axis=-1)
    best = xp.argmax(every, axis=-1)
    threshold = xp.concatenate([threshold, xp.zeros_like(of_subsets)], axis=-1)
    n_oblique = found.shape[-1] - n_columns
    number = [n_columns, n_oblique, n_discrete]
    kinds = [SplitKind.AXIS, SplitKind.OBLIQUE, SplitKind.DISCRETE]
    kind = xp.asarray(np.repeat(kinds, number).astype(np.int32))[best]
    places = [*range(n_columns), *[-1] * n_oblique, *range(n_discrete)]
    attribute = xp.asarray(np.array(places, np.int32))[best]
    axis = attribute[:, None] == np.arange(n_columns, dtype=np.int32)
    axis = (axis & (kind == SplitKind.AXIS)[:, None]).astype(level.x.dtype)
    is_oblique, is_discrete = kind == SplitKind.OBLIQUE, kind == SplitKind.DISCRETE
    subset = attribute[:, None] == np.arange(n_discrete, dtype=np.int32)
    subset = (subset[..., None] & subsets.goes_left).any(axis=1)
    return Split(
        kind=kind,
        attribute=attribute,
        direction=xp.where(is_oblique[:, None], oblique, axis),
        threshold=taken(threshold, best, 1),
        goes_left=subset & is_discrete[:, None],
        gain=taken(every, best, 1),
        chance_gain=xp.zeros(level.n_nodes, level.x.dtype),
        pure=xp.zeros(level.n_nodes, bool),
    )


def left_rows(level: Level, split: Split) -> Bool[AnyArray, "... rows"]:
    """Which rows go left at the splits of their nodes."""
    rows, xp = level.rows, level.rows.xp
    along = rows.transformed(split.direction[:, None, :], level.x)[..., 0, :]
    threshold, discrete = rows.spread(split.threshold), split.kind == SplitKind.DISCRETE
    if not level.codes.shape[-2]:
        return along <= threshold
    # Of a split on a column any attribute will do. Every category occurs.
    attribute = xp.clip(split.attribute, 0, level.codes.shape[-2] - 1)
    code = rows.chosen(attribute[:, None], level.codes)
    listed = rows.looked_up(split.goes_left[:, None], code)[..., 0, :]
    code, discrete = code[..., 0, :], rows.spread(discrete)
    return goes_left(along, threshold, discrete, code, listed, listed, xp)


class _ClassMoments(NamedTuple):
    """Moments of columns in each class, of values less the first row's (the shift)."""

    shift: AnyArray  # (n_nodes, n_columns)
    mean: AnyArray  # (n_nodes, 2, n_columns)
    variance: AnyArray  # (n_nodes, 2, n_columns)


def _class_moments(
    level: Level, values: AnyArray, classes: AnyArray
) -> tuple[AnyArray, _ClassMoments]:
    """Weights of the classes; means and variances, in two passes, of some columns."""

    def first(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray, AnyArray]:
        values, classes = arrays
        apart = values - rows.spread(*of_nodes)
        if rows.xp is np:
            return rows.sums(classes), rows.products(classes, apart)
        weighted = classes[:, :, None] * apart[:, None]
        return rows.sums(classes), rows.sums(weighted)

    def second(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray]:
        values, classes = arrays
        squares = _centred(rows, of_nodes, values) ** 2
        return (rows.products(classes[..., :, None, :], squares)[..., 0, :],)

    arrays, shift = (values, classes), level.rows.head(values, 1)[..., 0]
    mass, moment = level.rows.total(first, (shift,), arrays)
    mean = safe_divide(moment, mass[..., None])
    (squares,) = level.rows.total(second, (shift, mean), arrays)
    return mass, _ClassMoments(shift, mean, safe_divide(squares, mass[..., None]))


def _centred(rows: Any, of_nodes: Any, values: AnyArray) -> AnyArray:
    """Columns less the means of each class, (2, n_columns, rows)."""
    shift, mean = of_nodes
    return (values - rows.spread(shift))[..., None, :, :] - rows.spread(mean)


def _cuts(
    level: Level, classes: AnyArray, gain: Gain
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Gains and thresholds of every column, then of the discriminant; its direction."""
    xp, values, allowed = level.rows.xp, level.x, level.allowed[:, : level.x.shape[-2]]
    mass, moments = _class_moments(level, values, classes)
    oblique = xp.zeros_like(moments.shift)
    if level.any_oblique and values.shape[-2] > 1:
        oblique = _oblique(level, classes, mass, moments)
        along = level.rows.transformed(oblique[:, None, :], values)
        _, further = _class_moments(level, along, classes)
        pairs = zip(moments, further, strict=True)
        moments = _ClassMoments(*(xp.concatenate(pair, axis=-1) for pair in pairs))
        values = xp.concatenate([values, along], axis=-2)
        allowed = xp.concatenate([allowed, level.oblique[:, None]], axis=-1)
    found, threshold = _thresholds(level, values, classes, mass, moments, gain)
    return xp.where(allowed, found, -xp.inf), threshold, oblique


def _spread_of(mass: AnyArray, moments: _ClassMoments) -> tuple[AnyArray, ...]:
    """Share of each class; means and deviations of columns in the node."""
    fraction = safe_divide(mass, mass.sum(axis=-1, keepdims=True))
    center = (fraction[..., None] * moments.mean).sum(axis=-2)
    squares = moments.variance + (moments.mean - center[:, None]) ** 2
    return fraction, center, (fraction[..., None] * squares).sum(axis=-2) ** 0.5


def _oblique(
    level: Level, classes: AnyArray, mass: AnyArray, moments: _ClassMoments
) -> AnyArray:
    """LDA direction of the two classes over the columns that a split may combine."""
    xp, (_, _, deviation) = level.rows.xp, _spread_of(mass, moments)
    scale = xp.where(deviation > 0, deviation, 1.0)
    allowed = level.roles.combined & level.allowed[:, : level.x.shape[-2]]
    unit = xp.where(allowed, 1.0 / scale, 0.0)
    of_nodes = moments.shift, moments.mean, unit
    (scatter,) = level.rows.total(_within, of_nodes, (level.x, classes))
    within = safe_divide(scatter, mass.sum(axis=-1)[:, None, None])
    difference = (moments.mean[:, 0] - moments.mean[:, 1]) * unit
    return oriented(lda_direction(within, difference, DEPENDENT) / scale)


def _within(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray]:
    """Scatter about the means of the classes, in units of the node."""
    centred = _centred(rows, of_nodes[:2], arrays[0])
    centred = centred * rows.spread(of_nodes[2])[..., None, :, :]
    weighted = arrays[1][..., :, None, :] * centred
    return (rows.products(weighted, centred).sum(axis=1),)


def _thresholds(
    level: Level,
    values: AnyArray,
    classes: AnyArray,
    mass: AnyArray,
    moments: _ClassMoments,
    gain: Gain,
) -> tuple[AnyArray, AnyArray]:
    """Gini gain and QDA threshold of every column, (n_nodes, n_columns) each."""
    xp, (fraction, center, deviation) = level.rows.xp, _spread_of(mass, moments)
    scale = xp.where(deviation > 0, deviation, 1.0)
    mean = (moments.mean - center[:, None]) / scale[:, None]
    variance = moments.variance / scale[:, None] ** 2
    variance = xp.where(variance > _NO_SPREAD, variance, 0.0)
    both = (fraction > 0).all(axis=-1, keepdims=True)
    safe_fraction = xp.where(both, fraction, 0.5)
    standardised, _ = qda_threshold(safe_fraction, mean, variance)
    threshold = moments.shift + (center + scale * standardised)

    def up_to(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray]:
        values, classes = arrays
        below = values <= rows.spread(*of_nodes)
        return (rows.products(classes, below.astype(values.dtype)),)

    # Weight of each class up to the threshold, in the units in which rows are routed.
    (left_class,) = level.rows.total(up_to, (threshold,), (values, classes))
    left, total = left_class.sum(axis=1), mass.sum(axis=1, keepdims=True)
    if gain == "counted":
        left_and_class = safe_divide(left_class[:, 0], total)
        found = gini_gain(fraction[:, :1], safe_divide(left, total), left_and_class)
    else:
        probability = left_probability(mean, variance, standardised[:, None])
        joint = safe_fraction[..., None] * probability
        found = gini_gain(safe_fraction[:, :1], joint.sum(axis=1), joint[:, 0])
    least = xp.minimum(left, total - left)
    enough = (least >= level.min_weight[:, None]) & (least > 0)
    return xp.where(both & (deviation > 0) & enough, found, -xp.inf), threshold
