"""Conditions on single attributes, and splits of one or several of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.runtime.arrays import taken, weighted_quantiles, where_each
from secret_jax.runtime.linalg import AnyArray, matvec, namespace
from secret_jax.runtime.pieces import for_rows, heads
from secret_jax.splits.interface import NO_CONDITION, Conditions, Split
from secret_jax.splits.node_chosen import Candidates, split_of
from secret_jax.splits.one_node import Node
from secret_jax.splits.rss_search import Begun
from secret_jax.splits.scoring import fit_sides
from secret_jax.tree.structure import SplitKind

# Rows whose quantiles are thresholds, and how many times the share of rows between two
# coarse thresholds is looked at about one.
_QUANTILE_ROWS, _NEAR = 2048, 2.0


class Condition(NamedTuple):
    """A condition of each node: one side of a split on one attribute."""

    pick: Candidates  # the split
    above: AnyArray  # (...), bool: whether its right side is meant

    def holds(self, batch: Node) -> AnyArray:
        """Mask of the rows that meet it, shape (..., n_rows)."""
        threshold = for_rows(self.pick.threshold, batch.pieces)[..., None]
        below = self.pick.projection <= threshold
        return below ^ for_rows(self.above, batch.pieces)[..., None]

    def where(self, chosen: AnyArray, other: Condition, batch: Node) -> Condition:
        """This condition in some nodes, and another one in all others."""
        pick = self.pick.where(chosen, other.pick, batch.pieces)
        return Condition(pick, where_each(chosen, self.above, other.above))


def sharpened(
    conditions: Sequence[Condition],
    n_held: AnyArray,
    gain: AnyArray,
    start: Begun,
    batch: Node,
    n_thresholds: int,
) -> tuple[list[Condition], AnyArray]:
    """Move each threshold to the best of some near it, the others being what they are.

    A conjunction is as good as the product of its thresholds: the few quantiles that
    found it are too coarse for it.

    ``n_held`` (...), int: how many of the conditions, the first ones, are those of each
    node; ``gain`` (...). Only thresholds change.
    """
    xp, pieces, node = namespace(batch.x), batch.pieces, start.node
    share = (np.arange(n_thresholds, dtype=np.float32) + 0.5) / n_thresholds

    def quantiles_of(values: AnyArray, weight: AnyArray, share: np.ndarray) -> AnyArray:
        pair = (heads(array, pieces, _QUANTILE_ROWS) for array in (values, weight))
        values, weight = pair
        return weighted_quantiles(values[..., None, :], weight, share)[..., 0, :]

    found = list(conditions)
    for place, (pick, above) in enumerate(conditions):
        has = n_held > place
        weight = xp.where(_others(found, n_held, place, batch), batch.weight, 0.0)
        threshold = for_rows(pick.threshold, pieces)[..., None]
        apart = xp.abs(pick.projection - threshold)
        near = quantiles_of(apart, weight, np.array([_NEAR / n_thresholds], np.float32))
        near = xp.where(apart <= for_rows(near, pieces), weight, 0.0)
        cuts = quantiles_of(pick.projection, near, share)
        below = pick.projection[..., None, :] <= for_rows(cuts, pieces)[..., None]
        left = below ^ for_rows(above, pieces)[..., None, None]
        left = left & (weight > 0)[..., None, :]
        models = fit_sides(node.rows, left, node.min_weight, n_model=node.n_model)
        best = xp.argmax(models.gain, axis=-1)
        better = has & (models.gain.max(axis=-1) > gain)
        gain = xp.where(better, models.gain.max(axis=-1), gain)
        cut = xp.where(better, taken(cuts, best, best.ndim), pick.threshold)
        found[place] = Condition(pick._replace(threshold=cut), above)
    return found, gain


def _others(
    conditions: Sequence[Condition], n_held: AnyArray, place: int, batch: Node
) -> AnyArray:
    """Mask of the rows that meet all conditions of their node but one."""
    masks = [
        one.holds(batch) | (for_rows(n_held, batch.pieces) <= other)[..., None]
        for other, one in enumerate(conditions)
        if other != place
    ]
    return namespace(batch.x).stack(masks).all(axis=0)


def split_on(
    conditions: Sequence[Condition],
    n_held: AnyArray,
    gain: AnyArray,
    start: Begun,
    batch: Node,
) -> Split:
    """Make splits of conditions: an ordinary one, or a conjunction of several.

    Cuts go between the rows for which the other conditions hold, one condition after
    the other, so that no row changes sides.

    ``n_held`` (...), int: how many of the conditions, the first ones, are those of each
    node; ``gain`` (...): in the units of the search.
    """
    xp, gain = namespace(batch.x), gain * start.unit**2

    def split(condition: Condition, rows: Node) -> Split:
        pick = condition.pick._replace(gain=gain)
        return split_of(pick, rows, pure=start.pure, chance_gain=start.chance_gain)

    alone = split(conditions[0], batch)
    several = (n_held > 1) & (alone.kind != SplitKind.LEAF)
    held = [several & (n_held > place) for place in range(len(conditions))]
    holds = [
        one.holds(batch) | ~for_rows(has, batch.pieces)[..., None]
        for one, has in zip(conditions, held, strict=True)
    ]
    found = []
    for place, (condition, has) in enumerate(zip(conditions, held, strict=True)):
        others = xp.stack(holds[:place] + holds[place + 1 :]).all(axis=0)
        rows = replace(batch, weight=xp.where(others, batch.weight, 0.0))
        side = _only_if(has, _side(split(condition, rows), condition.above))
        holds[place] = _left_of(side, batch)
        found.append(side)
    own = _only_if(
        ~several, Conditions(*(getattr(alone, f) for f in NO_CONDITION._fields))
    )
    own = own._replace(kind=xp.where(several, SplitKind.CONJUNCTION, own.kind))
    every = (xp.stack(each, axis=several.ndim) for each in zip(*found, strict=True))
    return alone._replace(
        **own._asdict(),
        chance_gain=alone.chance_gain + (n_held - 1).astype(gain.dtype) * start.noise,
        conditions=Conditions(*every),
    )


def _side(split: Split, above: AnyArray) -> Conditions:
    """The split as a condition whose left side is the split's left or right one."""
    threshold = split.threshold
    return Conditions(
        kind=split.kind,
        attribute=split.attribute,
        direction=where_each(above, -split.direction, split.direction),
        threshold=where_each(above, -next_above(threshold), threshold),
        goes_left=split.goes_left ^ above[..., None],
    )


def next_above(threshold: AnyArray) -> AnyArray:
    """The next float; about zero the smallest normal one, as some devices know none
    between them."""
    xp = namespace(threshold)
    above = xp.nextafter(threshold, xp.full_like(threshold, xp.inf))
    tiny = xp.finfo(threshold.dtype).tiny
    nearly = xp.minimum(xp.abs(threshold), xp.abs(above)) < tiny
    return xp.where(nearly, tiny, above)


def _only_if(chosen: AnyArray, condition: Conditions) -> Conditions:
    xp = namespace(chosen)
    return Conditions(
        *(
            where_each(chosen, own, xp.full_like(own, none))
            for own, none in zip(condition, NO_CONDITION, strict=True)
        )
    )


def _left_of(condition: Conditions, batch: Node) -> AnyArray:
    """Mask of the rows that meet a condition of each node, shape (..., n_rows)."""
    xp, pieces = namespace(batch.x), batch.pieces
    threshold = for_rows(condition.threshold, pieces)[..., None]
    left = matvec(batch.x, for_rows(condition.direction, pieces)) <= threshold
    if not batch.codes.shape[-1]:
        return left
    attribute = xp.clip(condition.attribute, 0, batch.codes.shape[-1] - 1)
    codes = xp.swapaxes(batch.codes, -1, -2)
    codes = taken(codes, for_rows(attribute, pieces), left.ndim - 1)
    listed = for_rows(condition.goes_left, pieces)
    listed = xp.take_along_axis(listed, codes, axis=-1)
    discrete = for_rows(condition.kind == SplitKind.DISCRETE, pieces)[..., None]
    return xp.where(discrete, listed, left)
