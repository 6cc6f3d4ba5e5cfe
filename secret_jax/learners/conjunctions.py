"""Conditions on single attributes, and splits of one or several of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.splits.chosen import Pick, chosen_rows, split_of
from secret_jax.splits.interface import NO_COMPARISON, Comparison, Level, Split
from secret_jax.tree.structure import SplitKind


class Condition(NamedTuple):
    """A condition of each node: one side of a split on one attribute."""

    pick: Pick  # the split
    above: np.ndarray  # (n_nodes,), bool: whether its right side is meant

    def holds(self, level: Level) -> Bool[np.ndarray, " rows"]:
        """Mask of the rows that meet it."""
        below = self.pick.projection <= level.rows.spread(self.pick.threshold)
        return below ^ level.rows.spread(self.above)

    def where(self, chosen: np.ndarray, other: Condition, level: Level) -> Condition:
        """This condition in some nodes, and another one in all others."""
        pick = self.pick.where(chosen, other.pick, level)
        return Condition(pick, np.where(chosen, self.above, other.above))


def split_on(
    conditions: Sequence[Condition],
    n_held: Int[np.ndarray, " n_nodes"],
    gain: Float[np.ndarray, " n_nodes"],
    level: Level,
    *,
    pure: Bool[np.ndarray, " n_nodes"],
    chance_gain: Float[np.ndarray, " n_nodes"],
) -> Split:
    """Make splits of conditions: an ordinary one, or a conjunction of several.

    Cuts go between the rows for which the other conditions hold, one condition after
    the other, so that no row changes sides.

    ``n_held``: how many of the conditions, the first ones, are those of each node.
    """

    def split(condition: Condition, of: Level) -> Split:
        pick = condition.pick._replace(gain=gain)
        return split_of(pick, of, pure=pure, chance_gain=chance_gain)

    alone = split(conditions[0], level)
    several = (n_held > 1) & (alone.kind != SplitKind.LEAF)
    held = [several & (n_held > place) for place in range(len(conditions))]
    holds = [
        one.holds(level) | ~level.rows.spread(has)
        for one, has in zip(conditions, held, strict=True)
    ]
    found = []
    for place, (condition, has) in enumerate(zip(conditions, held, strict=True)):
        others = np.all(holds[:place] + holds[place + 1 :], axis=0)
        of = replace(level, weight=np.where(others, level.weight, 0.0))
        side = _only_if(has, _side(split(condition, of), condition.above))
        holds[place] = _left_of(side, level)
        found.append(side)
    first, *further = found
    own = _only_if(several, first, otherwise=alone.comparisons[0])
    return alone._replace(**own._asdict(), further=tuple(further))


def _side(split: Split, above: np.ndarray) -> Comparison:
    """The split as a condition whose left side is the split's left or right one."""
    threshold = split.threshold.astype(np.float32)
    return Comparison(
        kind=split.kind,
        attribute=split.attribute,
        direction=np.where(above[:, None], -split.direction, split.direction),
        threshold=np.where(above, -_next_above(threshold), threshold),
        goes_left=split.goes_left ^ above[:, None],
    )


def _next_above(threshold: np.ndarray) -> np.ndarray:
    """The next float; about zero the smallest normal one, as some devices know none
    between them."""
    above = np.nextafter(threshold, np.float32(np.inf))
    tiny = np.finfo(np.float32).tiny
    nearly = np.minimum(np.abs(threshold), np.abs(above)) < tiny
    return np.where(nearly, tiny, above)


def _only_if(
    chosen: np.ndarray, condition: Comparison, otherwise: Comparison = NO_COMPARISON
) -> Comparison:
    found = []
    for own, other in zip(condition, otherwise, strict=True):
        mask = chosen.reshape(len(chosen), *(1,) * (own.ndim - 1))
        found.append(np.where(mask, own, np.asarray(other, own.dtype)))
    return Comparison(*found)


def _left_of(condition: Comparison, level: Level) -> Bool[np.ndarray, " rows"]:
    """Mask of the rows that meet a condition of each node."""
    rows = level.rows
    direction = condition.direction[:, None].astype(np.float32)
    along = rows.transformed(direction, level.x)[0]
    left = along <= rows.spread(condition.threshold)
    if not len(level.codes):
        return left
    attribute = np.clip(condition.attribute, 0, len(level.codes) - 1)
    code = chosen_rows(level.codes, attribute, level)
    listed = condition.goes_left[rows.slot, code]
    return np.where(rows.spread(condition.kind == SplitKind.DISCRETE), listed, left)
