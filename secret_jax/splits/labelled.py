"""The best split of rows with given labels: discriminants, compared by their Gini gain.

Dobra & Gehrke 2002, sections 4.2.1 to 4.2.4.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from secret_jax.runtime.linalg import AnyArray, safe_divide
from secret_jax.splits.discrete import best_subset, gini_gain
from secret_jax.splits.discriminant import (
    DEPENDENT,
    lda_direction,
    left_probability,
    oriented,
    qda_threshold,
)
from secret_jax.splits.interface import Level, Split
from secret_jax.tree.comparisons import goes_left
from secret_jax.tree.structure import SplitKind

# Below this share of an attribute's variance the spread of a class is rounding.
_NO_SPREAD = 1e-10

Gain = Literal["normal", "counted"]


def best_labelled_split(
    level: Level, first: Float[AnyArray, "... rows"], gain: Gain
) -> Split:
    """The candidate with the largest gain: axis, oblique and discrete together.

    ``first``: weights of the rows in the first of two classes; the rest is in the
    second; ``gain``: how thresholds are compared, see `secret_jax.SecretSplits`.
    """
    xp, (n_nodes, n_columns) = level.rows.xp, (level.n_nodes, level.x.shape[-2])
    gains, kinds, attributes = [], [], []
    thresholds = [xp.zeros((n_nodes, 0), level.x.dtype)]
    oblique = xp.zeros((n_nodes, n_columns), level.x.dtype)
    subsets = xp.zeros((n_nodes, 1, level.n_categories), bool)
    if n_columns:
        moments = _class_moments(level, level.x, first)
        own, threshold = _thresholds(level, level.x, first, moments, gain)
        gains.append(xp.where(level.allowed[:, :n_columns], own, -xp.inf))
        thresholds.append(threshold)
        kinds += [SplitKind.AXIS] * n_columns
        attributes += range(n_columns)
        if level.any_oblique and n_columns > 1:
            oblique = _oblique(level, first, moments)
            along = level.rows.transformed(oblique[:, None, :], level.x)
            moments = _class_moments(level, along, first)
            own, threshold = _thresholds(level, along, first, moments, gain)
            gains.append(xp.where(level.oblique[:, None], own, -xp.inf))
            thresholds.append(threshold)
            kinds, attributes = [*kinds, SplitKind.OBLIQUE], [*attributes, -1]
    n_cut = len(kinds)
    n_discrete = level.codes.shape[-2]
    if n_discrete:
        classes = _classes(level.rows, first, level.weight)
        counts = level.rows.sums_by_code(level.codes, level.n_categories, classes)
        found = best_subset(counts, level.min_weight[:, None])
        gains.append(xp.where(level.allowed[:, n_columns:], found.gain, -xp.inf))
        thresholds.append(xp.zeros((n_nodes, n_discrete), level.x.dtype))
        kinds += [SplitKind.DISCRETE] * n_discrete
        attributes += range(n_discrete)
        subsets = found.goes_left

    every = xp.concatenate(gains, axis=-1)
    best = xp.argmax(every, axis=-1)
    kind = xp.asarray(np.array(kinds, np.int32))[best]
    attribute = xp.asarray(np.array(attributes, np.int32))[best]

    def of_best(values: AnyArray, index: AnyArray = best) -> AnyArray:
        return xp.take_along_axis(values, index[:, None], axis=1)[:, 0]

    axis = attribute[:, None] == np.arange(n_columns, dtype=np.int32)
    is_axis, is_oblique = kind == SplitKind.AXIS, kind == SplitKind.OBLIQUE
    axis = (axis & is_axis[:, None]).astype(level.x.dtype)
    subset = xp.clip(best - n_cut, 0, subsets.shape[1] - 1)[:, None, None]
    subset = xp.take_along_axis(subsets, subset, axis=1)[:, 0]
    return Split(
        kind=kind,
        attribute=attribute,
        direction=xp.where(is_oblique[:, None], oblique, axis),
        threshold=of_best(xp.concatenate(thresholds, axis=-1)),
        goes_left=subset & (kind == SplitKind.DISCRETE)[:, None],
        gain=of_best(every),
        chance_gain=xp.zeros(n_nodes, level.x.dtype),
        pure=xp.zeros(n_nodes, bool),
    )


def left_rows(level: Level, split: Split) -> Bool[AnyArray, "... rows"]:
    """Which rows go left at the splits of their nodes."""
    rows, xp = level.rows, level.rows.xp
    along = rows.transformed(split.direction[:, None, :], level.x)[..., 0, :]
    threshold, discrete = rows.spread(split.threshold), split.kind == SplitKind.DISCRETE
    if not level.codes.shape[-2]:
        return along <= threshold
    place = np.arange(level.codes.shape[-2], dtype=np.int32)
    chosen = rows.spread(split.attribute[:, None] == place)
    code = xp.sum(xp.where(chosen, level.codes, 0), axis=-2, keepdims=True)
    categories = np.arange(level.n_categories, dtype=np.int32)[:, None]
    listed = (rows.spread(split.goes_left) & (code == categories)).any(axis=-2)
    # Every category occurs.
    code = code[..., 0, :]
    discrete = rows.spread(discrete)
    return goes_left(along, threshold, discrete, code, listed, listed, xp)


def _classes(rows: Any, first: AnyArray, weight: AnyArray) -> AnyArray:
    """Weights of rows in both classes, (2, rows)."""
    return rows.xp.stack([first, weight - first], axis=-2)


class _ClassMoments(NamedTuple):
    """Moments of columns in each class, of values less the first row's (the shift)."""

    shift: AnyArray  # (n_nodes, n_columns)
    mass: AnyArray  # (n_nodes, 2)
    mean: AnyArray  # (n_nodes, 2, n_columns)
    variance: AnyArray  # (n_nodes, 2, n_columns)

    @property
    def fraction(self) -> AnyArray:
        """Share of each class in the weight, shape (n_nodes, 2)."""
        return safe_divide(self.mass, self.mass.sum(axis=-1, keepdims=True))

    @property
    def center(self) -> AnyArray:
        """Means of the columns in the node, (n_nodes, n_columns)."""
        return (self.fraction[..., None] * self.mean).sum(axis=-2)

    @property
    def deviation(self) -> AnyArray:
        """Standard deviations of the columns in the node, (n_nodes, n_columns)."""
        squares = self.variance + (self.mean - self.center[:, None]) ** 2
        return (self.fraction[..., None] * squares).sum(axis=-2) ** 0.5


def _class_moments(level: Level, values: AnyArray, first: AnyArray) -> _ClassMoments:
    """Means and variances, in two passes, of columns (n_columns, rows)."""
    arrays = values, first, level.weight
    shift = level.rows.head(values, 1)[..., 0]
    mass, moment = level.rows.total(_first_moments, (shift,), arrays)
    mean = safe_divide(moment, mass[..., None])
    (squares,) = level.rows.total(_squares, (shift, mean), arrays)
    return _ClassMoments(shift, mass, mean, safe_divide(squares, mass[..., None]))


def _first_moments(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray, AnyArray]:
    values, *weights = arrays
    classes, (shift,) = _classes(rows, *weights), of_nodes
    return rows.sums(classes), rows.products(classes, values - rows.spread(shift))


def _centred(rows: Any, of_nodes: Any, values: AnyArray) -> AnyArray:
    """Columns less the means of each class, (2, n_columns, rows)."""
    shift, mean = of_nodes
    return (values - rows.spread(shift))[..., None, :, :] - rows.spread(mean)


def _squares(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray]:
    values, *weights = arrays
    classes = _classes(rows, *weights)[..., :, None, :]
    squares = rows.products(classes, _centred(rows, of_nodes, values) ** 2)
    return (squares[..., 0, :],)


def _oblique(level: Level, first: AnyArray, moments: _ClassMoments) -> AnyArray:
    """LDA direction of the two classes over the columns that a split may combine."""
    xp, deviation = level.rows.xp, moments.deviation
    scale = xp.where(deviation > 0, deviation, 1.0)
    allowed = level.roles.combined & level.allowed[:, : level.x.shape[-2]]
    unit = xp.where(allowed, 1.0 / scale, 0.0)

    def scatters(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray]:
        values, *weights = arrays
        centred = _centred(rows, of_nodes[:2], values)
        centred = centred * rows.spread(of_nodes[2])[..., None, :, :]
        weighted = _classes(rows, *weights)[..., :, None, :] * centred
        return (rows.products(weighted, centred),)

    (found,) = level.rows.total(
        scatters,
        (moments.shift, moments.mean, unit),
        (level.x, first, level.weight),
    )
    within = safe_divide(found.sum(axis=1), moments.mass.sum(axis=1)[:, None, None])
    difference = (moments.mean[:, 0] - moments.mean[:, 1]) * unit
    return oriented(lda_direction(within, difference, DEPENDENT) / scale)


def _thresholds(
    level: Level, values: AnyArray, first: AnyArray, moments: _ClassMoments, gain: Gain
) -> tuple[AnyArray, AnyArray]:
    """Gini gain and QDA threshold of every column, (n_nodes, n_columns) each."""
    xp, fraction, deviation = level.rows.xp, moments.fraction, moments.deviation
    center = moments.center
    scale = xp.where(deviation > 0, deviation, 1.0)
    mean = (moments.mean - center[:, None]) / scale[:, None]
    variance = moments.variance / scale[:, None] ** 2
    variance = xp.where(variance > _NO_SPREAD, variance, 0.0)
    both = (fraction > 0).all(axis=-1, keepdims=True)
    safe_fraction = xp.where(both, fraction, 0.5)
    standardised, _ = qda_threshold(safe_fraction, mean, variance)
    threshold = moments.shift + (center + scale * standardised)
    arrays = values, first, level.weight
    (left_class,) = level.rows.total(_below, (threshold,), arrays)
    left, total = left_class.sum(axis=1), moments.mass.sum(axis=1, keepdims=True)
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


def _below(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray]:
    """Weight of each class up to a threshold, in the units in which rows are routed."""
    (values, *weights), (threshold,) = arrays, of_nodes
    below = (values <= rows.spread(threshold)).astype(values.dtype)
    return (rows.products(_classes(rows, *weights), below),)
