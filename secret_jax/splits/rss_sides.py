"""The best split of each node, as `secret_jax.splits.chosen` takes it."""

from __future__ import annotations

import numpy as np

from secret_jax.runtime.linalg import AnyArray
from secret_jax.splits.chosen import Pick
from secret_jax.splits.interface import Level
from secret_jax.splits.rss_axis import Attributes, Best
from secret_jax.splits.rss_nodes import ROUNDING, Nodes
from secret_jax.tree.structure import SplitKind


def picked(best: Best, level: Level, nodes: Nodes, attributes: Attributes) -> Pick:
    """The rows along the best splits, those on a column in units of the table."""
    rows, xp = level.rows, level.rows.xp
    candidate = xp.maximum(best.candidate, 0)
    is_oblique, is_discrete = best.candidate < 0, candidate >= attributes.n_ordered
    left = attributes.left(rows, candidate[:, None], best.cut[:, None])[..., 0, :]
    # Categories lie at zero or at one.
    projection = xp.where(left, 0.0, 1.0).astype(level.x.dtype)
    threshold = xp.full_like(best.cut, 0.5)
    attribute, direction = candidate - attributes.n_ordered, best.direction
    if attributes.n_cut:
        column, value, highest, direction = _on_column(
            level, attributes, candidate, left, direction
        )
        attribute = xp.where(is_discrete, attribute, column)
        threshold = xp.where(is_discrete, threshold, highest)
        projection = xp.where(rows.spread(is_discrete), projection, value)
    kind = xp.where(is_discrete, int(SplitKind.DISCRETE), int(SplitKind.AXIS))
    if level.any_oblique:
        along = rows.transformed(best.direction[:, None], nodes.z)[..., 0, :]
        projection = xp.where(rows.spread(is_oblique), along, projection)
        # A row at the cut may be rounded otherwise than when it was chosen.
        above = best.cut + ROUNDING * (1 + xp.abs(best.cut))
        threshold = xp.where(is_oblique, above, threshold)
        direction = xp.where(is_oblique[:, None], best.direction, direction)
        kind = xp.where(is_oblique, int(SplitKind.OBLIQUE), kind)
        attribute = xp.where(is_oblique, -1, attribute)
    return Pick(
        gain=best.gain,
        projection=projection,
        threshold=threshold,
        kind=kind.astype(np.int32),
        attribute=attribute.astype(np.int32),
        direction=direction,
    )


def _on_column(
    level: Level,
    attributes: Attributes,
    candidate: AnyArray,
    left: AnyArray,
    direction: AnyArray,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Columns, values of the rows, the highest on the left, and where gaps go to."""
    rows, xp = level.rows, level.rows.xp
    which = attributes.value_of(candidate, xp)
    column = xp.asarray(attributes.column)[which]
    value = rows.chosen(column[:, None], level.x)[..., 0, :]
    seen = level.weight > 0
    if len(attributes.gaps):
        missing = xp.isinf(rows.chosen(which[:, None], attributes.values)[..., 0, :])
        seen = seen & ~missing
    highest = -rows.least(xp.where(left & seen, -value, xp.inf))
    if len(attributes.gaps):
        # Missing values lie at the cut, on their side of it.
        lowest = rows.least(xp.where(~left & seen, value, xp.inf))
        above = xp.nextafter(highest, xp.full_like(highest, xp.inf))
        lowest = xp.where(xp.isfinite(lowest), lowest, above)
        # Where none is missing both sides gain alike: later ones go to the heavier one.
        parts = xp.stack([missing, left, ~left], axis=-2)
        parts = rows.sums(xp.where(parts, level.weight[..., None, :], 0.0))
        gone, on_left, on_right = xp.moveaxis(parts, -1, 0)
        to_left = xp.where(gone > 0, candidate >= attributes.n_cut, on_left >= on_right)
        value = xp.where(
            missing, rows.spread(xp.where(to_left, highest, lowest)), value
        )
        side = np.zeros((attributes.n_cut, level.x.shape[-2]), level.x.dtype)
        side[attributes.gaps, attributes.indicator] = 1
        direction = xp.asarray(side)[which]
        direction = xp.where(to_left[:, None], -direction, direction)
    return column, value, highest, direction
