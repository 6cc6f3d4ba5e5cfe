"""The best split of each node as one of the table: its cut goes between the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax.runtime.arrays import taken
from secret_jax.runtime.linalg import AnyArray, namespace, safe_divide
from secret_jax.splits.interface import Level, Split
from secret_jax.splits.rss_axis import Attributes, Best
from secret_jax.splits.rss_nodes import Nodes, Units
from secret_jax.tree.structure import SplitKind


class _Between(NamedTuple):
    """Where a split goes between the rows of its node."""

    cut: AnyArray  # (n_nodes,): at least every value on the left
    lowest: AnyArray  # (n_nodes,): value on the right
    mean: AnyArray  # (n_nodes,): of the values on the side of the missing ones


def split_of(
    best: Best, level: Level, nodes: Nodes, units: Units, attributes: Attributes
) -> Split:
    """Put the cuts between the rows, and the splits in units of the table."""
    xp, n_columns = level.rows.xp, level.x.shape[-2]
    is_oblique = best.candidate < 0
    candidate = xp.maximum(best.candidate, 0)
    is_discrete = ~is_oblique & (candidate >= attributes.n_ordered)
    is_axis = ~(is_oblique | is_discrete)
    usable = (best.gain > 0) & xp.isfinite(best.gain) & ~units.pure

    along = best.direction / units.scale
    length = xp.sqrt(xp.sum(along**2, axis=1))
    direction = safe_divide(along, length[:, None])
    threshold = cut = xp.zeros_like(best.cut)
    attribute = xp.where(is_discrete, candidate - attributes.n_ordered, -1)
    if attributes.n_cut:
        value = attributes.value_of(candidate, xp)
        column = xp.asarray(attributes.column)[value]
        between = _between(best, level, nodes, attributes, column)
        cut, attribute = between.cut, xp.where(is_axis, column, attribute)
        axis = (column[:, None] == np.arange(n_columns)).astype(level.x.dtype)
        if len(attributes.gaps):
            axis = axis + _of_missing(between, attributes, candidate, n_columns)
        direction = xp.where(is_axis[:, None], axis, direction)
        threshold = safe_divide(cut + xp.sum(along * units.center, axis=1), length)
        # An axis split compares the attribute itself, so its cut is exact.
        threshold = xp.where(is_axis, cut, threshold)
    goes_left = xp.zeros((level.n_nodes, level.n_categories), bool)
    if attributes.codes.shape[-2]:
        own = xp.maximum(candidate - attributes.n_ordered, 0)
        weight = taken(attributes.weight, own, 1)
        left = taken(attributes.rank, own, 1) <= best.cut[:, None]
        # Absent categories follow the larger side.
        heavy = xp.sum(xp.where(left, weight, 0.0), axis=1) * 2 >= xp.sum(weight, 1)
        goes_left = xp.where(weight > 0, left, heavy[:, None]) & is_discrete[:, None]
    kinds = [int(SplitKind.OBLIQUE), int(SplitKind.DISCRETE), int(SplitKind.AXIS)]
    kind = xp.select([is_oblique, is_discrete, is_axis], kinds)
    gain = xp.where(usable, best.gain * units.residual**2, 0.0)
    return Split(
        kind=xp.where(usable, kind, int(SplitKind.LEAF)).astype(xp.int32),
        attribute=attribute.astype(xp.int32),
        direction=xp.where(is_discrete[:, None], 0.0, direction).astype(level.x.dtype),
        threshold=xp.where(is_discrete, 0.0, threshold).astype(level.x.dtype),
        goes_left=goes_left,
        gain=gain.astype(level.x.dtype),
        chance_gain=units.chance_gain.astype(level.x.dtype),
        pure=units.pure,
    )


def _between(
    best: Best, level: Level, nodes: Nodes, attributes: Attributes, column: AnyArray
) -> _Between:
    """Where splits go between the rows; an oblique one in standardised columns."""
    rows, xp = level.rows, level.rows.xp
    value = rows.chosen(column[:, None], level.x)[..., 0, :]
    candidate = xp.maximum(best.candidate, 0)
    left = attributes.left(rows, candidate[:, None], best.cut[:, None])[..., 0, :]
    if level.any_oblique:
        is_oblique = rows.spread(best.candidate < 0)
        projection = rows.transformed(best.direction[:, None], nodes.z)[..., 0, :]
        value = xp.where(is_oblique, projection, value)
        left = xp.where(is_oblique, projection <= rows.spread(best.cut), left)
    counted = level.weight > 0
    if len(attributes.gaps):
        source = attributes.value_of(candidate, xp)[:, None]
        missing = xp.isinf(rows.chosen(source, attributes.values)[..., 0, :])
        counted = counted & ~(missing & rows.spread(best.candidate >= 0))
    highest = -rows.least(xp.where(left & counted, -value, xp.inf))
    lowest = rows.least(xp.where(~left & counted, value, xp.inf))
    # Where only missing values are on the right, all others are on the left.
    above = xp.nextafter(highest, xp.full_like(highest, xp.inf))
    lowest = xp.where(xp.isfinite(lowest), lowest, above)
    middle = 0.5 * (highest + lowest)
    # Between neighbouring floats the middle is one of them: never the right one.
    cut = xp.where(middle < lowest, middle, highest)
    cut = xp.where(xp.isfinite(highest), cut, 0.0)
    mean = cut
    if len(attributes.gaps):
        missing_left = rows.spread(candidate >= attributes.n_cut)
        side = counted & (left == missing_left)
        mass = xp.where(side, level.weight, 0.0)
        mean = safe_divide(rows.sums(mass * value), rows.sums(mass))
    return _Between(cut, lowest, mean)


def _of_missing(
    between: _Between, attributes: Attributes, candidate: AnyArray, n_columns: int
) -> AnyArray:
    """What missing values count as: the mean of the side that they go to."""
    xp = namespace(candidate)
    missing_left = candidate >= attributes.n_cut
    inside = xp.where(
        missing_left,
        xp.minimum(between.mean, between.cut),
        xp.maximum(between.mean, between.lowest),
    )
    inside = xp.where(xp.isfinite(inside), inside, 0.0)
    gap = np.zeros((max(attributes.n_cut, 1), n_columns), np.float32)
    gap[attributes.gaps, attributes.indicator] = 1
    value = attributes.value_of(candidate, xp)
    return xp.asarray(gap)[value] * inside[:, None]
