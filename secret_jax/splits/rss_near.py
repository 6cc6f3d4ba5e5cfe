"""Thresholds sought again among the values near the best quantile.

Quantiles tell which attribute, or direction, to split on; a step of the target may lie
between them. Exact scores of values near the best one find the slope that leads there,
the models of its two sides then show the very row from which on the other errs less.
"""

from __future__ import annotations

import numpy as np

from secret_jax.runtime.linalg import AnyArray, taken, where_each
from secret_jax.splits.axis import middle_between
from secret_jax.splits.interface import Level, Split
from secret_jax.splits.rss_axis import AttributeCuts, Best
from secret_jax.splits.rss_nodes import (
    ROUNDING,
    Nodes,
    advantage_of_left,
    exact_cuts,
)
from secret_jax.tree.structure import SplitKind

# The values lie within this share of a node's rows on both sides of the best quantile:
# two of sixteen quantiles, of 128 rows, may be so far apart.
_NEAR = 0.1
# The models of the sides choose among many rows: their choice must save so many times
# the variance that they leave, as where a step lies between the values tried before.
_CLEAR = 10.0
# Most rows of a node in whose order values are looked at.
_MOST_ROWS = 2048


def refined(
    nodes: Nodes,
    best: Best,
    value: AnyArray,
    movable: AnyArray,
    ridge: AnyArray | float,
    *,
    n_tried: int,
    share: float = _NEAR,
) -> Best:
    """Move thresholds to the best value near them.

    ``value`` (rows,): along the splits; missing values are infinite, on their side;
    ``movable`` (n_nodes,): which splits are thresholds; ``n_tried``: values, within a
    ``share`` of the rows on both sides, that get exact scores before the models of the
    sides point to one more.
    """
    rows, xp, n = nodes.rows, nodes.rows.xp, min(_MOST_ROWS, nodes.rows.longest)
    known = xp.isfinite(value) & (nodes.weight > 0)
    head = rows.head(xp.where(known, value, 0.0), n)
    head = xp.where(rows.head(known, n), head, xp.inf)
    order = xp.argsort(head, axis=-1)
    rising = xp.take_along_axis(head, order, axis=-1)
    n_known = xp.sum(xp.isfinite(rising), axis=-1)[:, None]
    most, width = xp.maximum(n_known - 1, 1), n_known.astype(value.dtype)

    def upto(cut: AnyArray) -> AnyArray:
        # A row at the cut may be rounded otherwise than when it was chosen.
        above = cut + ROUNDING * (1 + xp.abs(cut))
        return xp.sum(rising <= above[:, None], axis=-1)[:, None]

    step = share * np.linspace(-1.0, 1.0, n_tried) if n_tried > 1 else np.zeros(1)
    step = xp.round(step.astype(value.dtype) * width).astype(n_known.dtype)
    place = xp.clip(upto(best.cut) + step, 1, most) - 1
    best = _with_best(nodes, best, value, taken(rising, place, 1), movable, ridge)
    gained = rows.head(nodes.weight * advantage_of_left(nodes, best.models), n)
    gained = xp.cumsum(xp.take_along_axis(gained, order, axis=-1), axis=-1)
    number = xp.arange(1, n + 1, dtype=n_known.dtype)
    is_near = xp.abs(number - upto(best.cut)).astype(value.dtype) <= share * width
    is_edge = (rising[:, :-1] < rising[:, 1:]) & (number[:-1] <= most)
    is_edge = xp.pad(is_edge, [(0, 0), (0, 1)])
    gained = xp.where(is_near & is_edge, gained, -xp.inf)
    cut = taken(rising, xp.argmax(gained, axis=-1), 1)[:, None]
    noise = xp.maximum(nodes.noise / nodes.unit**2 - best.gain / nodes.total, 0.0)
    return _with_best(nodes, best, value, cut, movable, ridge, _CLEAR * noise)


def values_along(nodes: Nodes, best: Best, attributes: AttributeCuts) -> AnyArray:
    """The rows along the best splits; missing values are infinite, on their side."""
    rows, xp = nodes.rows, nodes.rows.xp
    is_oblique = best.candidate < 0
    if not len(attributes.column):
        return xp.zeros_like(nodes.weight)
    which = attributes.value_of(xp.maximum(best.candidate, 0), xp)
    value = rows.chosen(which[:, None], attributes.values)[..., 0, :]
    if len(attributes.gaps):
        to_left = rows.spread(best.candidate >= len(attributes.column))
        value = xp.where(xp.isinf(value) & to_left, -xp.inf, value)
    if xp is np and not is_oblique.any():
        return value
    along = nodes.along(best.direction[:, None])[..., 0, :]
    return xp.where(rows.spread(is_oblique), along, value)


def moved(level: Level, nodes: Nodes, split: Split, ridge: AnyArray | float) -> Split:
    """Splits at the best thresholds of rows that lie close together near them.

    ``level``: with these rows first.
    """
    rows, xp = level.rows, level.rows.xp
    value = rows.transformed(split.direction[:, None], level.x)[..., 0, :]
    on_column = split.kind == SplitKind.AXIS
    to_left = split.direction <= split.threshold[:, None]
    for column, indicator in level.roles.missing:
        here = rows.spread(on_column & (split.attribute == column))
        side = xp.where(to_left[:, indicator], -xp.inf, xp.inf).astype(value.dtype)
        is_missing = level.x[..., indicator, :] > 0
        value = xp.where(here & is_missing, rows.spread(side), value)
    movable = on_column | (split.kind == SplitKind.OBLIQUE)
    shape = level.n_nodes, 2, 1 + nodes.n_model, nodes.n_outputs
    best = Best(
        gain=xp.full_like(split.threshold, -xp.inf),
        candidate=split.attribute,
        direction=split.direction,
        cut=split.threshold,
        models=xp.zeros(shape, value.dtype),
    )
    best = refined(nodes, best, value, movable, ridge, n_tried=1, share=1.0)
    threshold = middle_between(level, value, best.cut)
    found = movable & xp.isfinite(best.gain)
    threshold = xp.where(found, threshold, split.threshold)
    # Missing values stay on their side: what they count as moves along.
    above = xp.nextafter(threshold, xp.full_like(threshold, xp.inf))[:, None]
    bounded = xp.where(
        to_left,
        xp.minimum(split.direction, threshold[:, None]),
        xp.maximum(split.direction, above),
    )
    stands_in = np.zeros((level.x.shape[-2] + 1, level.x.shape[-2]), bool)
    stands_in[level.roles.missing[:, 0], level.roles.missing[:, 1]] = True
    stands_in = xp.asarray(stands_in)[xp.where(on_column, split.attribute, -1)]
    direction = xp.where(stands_in, bounded, split.direction)
    return split._replace(threshold=threshold, direction=direction)


def _with_best(
    nodes: Nodes,
    best: Best,
    value: AnyArray,
    cuts: AnyArray,
    movable: AnyArray,
    ridge: AnyArray | float,
    rise: AnyArray | float = 0.0,
) -> Best:
    """The best split at one of some cuts (n_nodes, k) of movable ones.

    ``rise``: what it must gain more.
    """
    gain, models = exact_cuts(nodes, value, cuts, ridge)
    which = nodes.rows.xp.argmax(gain, axis=1)
    found = (taken(array, which, 1) for array in (gain, cuts, models))
    new = best._replace(**dict(zip(("gain", "cut", "models"), found, strict=True)))
    better = movable & (new.gain > best.gain + rise)
    return Best(*(where_each(better, *pair) for pair in zip(new, best, strict=True)))
