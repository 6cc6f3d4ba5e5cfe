"""Splits on one attribute: thresholds, orders of categories, sides of missing values.

What finders share: the attributes of a level as projections of its rows, and the
chosen split of every node as a split of the table.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from secret_jax.runtime.linalg import (
    AnyArray,
    leading_eigenvectors,
    namespace,
    safe_divide,
    taken,
)
from secret_jax.splits.interface import Level, Split, SplitFinder
from secret_jax.tree.structure import SplitKind

# A category of n rows is ranked by its mean times n / (n + 2): as if two more rows of
# the node's mean were in it.
CATEGORY_PRIOR = 2.0
# So many categories gain by chance what the best threshold of a number does.
_FREE_CATEGORIES = 7


class Pick(NamedTuple):
    """One split of every node: a threshold along a projection of its rows.

    ``direction``: of an oblique split, in standardised columns; of one on an attribute
    with gaps the side that missing values go to, see `Projections`; else zero.
    """

    gain: AnyArray  # (n_nodes,)
    projection: AnyArray  # (rows,); up to the threshold they go left
    threshold: AnyArray  # (n_nodes,)
    kind: AnyArray  # (n_nodes,), int
    attribute: AnyArray  # (n_nodes,), int: see `Split`
    direction: AnyArray  # (n_nodes, n_columns)

    def where(self, chosen: AnyArray, other: Pick, level: Level) -> Pick:
        """These splits in some nodes, and others in the rest."""
        xp = level.rows.xp
        masks = [chosen] * len(self)
        masks[1] = level.rows.spread(chosen)  # of the projections
        masks[-1] = chosen[:, None]
        return Pick(*map(xp.where, masks, self, other))


class Projections(NamedTuple):
    """The attributes that a split may cut, as projections of the rows of a level.

    Numbers first, those with gaps twice: once with missing values on the left of all
    others, once on the right; then discrete ones.
    """

    # (n, rows): values of a number, ranks of the categories of a discrete one.
    projection: AnyArray
    kind: np.ndarray  # (n,), int: AXIS or DISCRETE
    attribute: np.ndarray  # (n,), int32: the column or the discrete attribute
    # (n, n_columns), float32: at the column that tells of gaps -1 where they go to the
    # left, 1 where to the right; else zero.
    direction: np.ndarray
    allowed: AnyArray  # (n_nodes, n), bool
    chance: AnyArray  # (n_nodes, n): see `gain_of_order`

    def pick(
        self,
        which: AnyArray,
        gain: Float[AnyArray, "n_nodes n"],
        threshold: Float[AnyArray, "n_nodes n"],
        level: Level,
    ) -> Pick:
        """Splits at a threshold along one attribute of every node.

        ``which`` (n_nodes,), int.
        """
        xp = level.rows.xp
        return Pick(
            gain=taken(gain, which, 1),
            projection=chosen_rows(self.projection, which, level),
            threshold=taken(threshold, which, 1),
            kind=xp.asarray(self.kind)[which],
            attribute=xp.asarray(self.attribute)[which],
            direction=xp.asarray(self.direction)[which],
        )


def attributes(level: Level, score: Float[AnyArray, " rows"]) -> Projections:
    """Every continuous attribute, and every discrete one by its mean score.

    ``score`` (rows,): orders the categories: of the best binary split for one output
    they are a prefix of the order of their means (Breiman et al. 1984, Proposition
    8.16).
    """
    xp, roles, dtype = level.rows.xp, level.roles, level.x.dtype
    n_columns, n_discrete = level.x.shape[-2], level.codes.shape[-2]
    n_missing = 2 * len(roles.missing)
    n_numbers = len(roles.thresholded) + n_missing
    kinds = np.array([SplitKind.AXIS, SplitKind.DISCRETE], np.int32)
    kind = np.repeat(kinds, [n_numbers, n_discrete])
    column, indicator = np.concatenate([roles.missing] * 2).T
    attribute = np.concatenate(
        [roles.thresholded, column, np.arange(n_discrete, dtype=np.int32)]
    )
    direction = np.zeros((len(kind), n_columns), dtype)
    side = np.repeat(np.array([-1, 1], dtype), n_missing // 2)
    direction[np.arange(n_numbers - n_missing, n_numbers), indicator] = side
    parts, ranks = [level.x[..., roles.thresholded, :]], []
    chance = [xp.zeros((level.n_nodes, n_numbers), dtype)]
    if n_discrete:
        both = xp.stack([level.weight, level.weight * score], axis=-2)
        sums = level.rows.sums_by_code(level.codes, level.n_categories, both)
        mass, moment = sums[..., 0, :], sums[..., 1, :]
        rank = xp.argsort(order_of_means(mass, moment), axis=-1, stable=True)
        ranks.append(level.rows.looked_up(rank.astype(dtype), level.codes))
        square = level.rows.sums(level.weight * score**2)
        chance.append(gain_of_order(mass, square[:, None]).astype(dtype))
    if n_missing:
        seen = level.x[..., roles.missing[:, 1], :] <= 0
        given = level.x[..., roles.missing[:, 0], :]
        parts += _beyond(level, given, seen)
    place = attribute + np.where(kind == SplitKind.DISCRETE, n_columns, 0)
    return Projections(
        projection=xp.concatenate(parts + ranks, axis=-2),
        kind=kind,
        attribute=attribute,
        direction=direction,
        allowed=level.allowed[:, place],
        chance=xp.concatenate(chance, axis=1),
    )


def order_of_means(weight: AnyArray, moment: AnyArray) -> AnyArray:
    """Categories in the order of their means, those that do not occur last.

    ``weight``, ``moment`` (..., n_categories): sums of weights, and of weighted scores.
    """
    xp = namespace(weight)
    mean = xp.where(weight > 0, moment / (weight + CATEGORY_PRIOR), xp.inf)
    return xp.argsort(mean, axis=-1, stable=True)


def gain_of_order(weight: AnyArray, square: AnyArray) -> AnyArray:
    """What the order of categories gains where it is chance alone.

    Of k means of noise the larger half and the other differ by 1.6 of their deviations:
    a split between them gains 2/pi of k noise variances. The best threshold of a number
    gains by chance what seven categories do: only what is more than that counts.

    ``weight`` (..., n_categories): zero where there is none; ``square`` (...): weighted
    sum of the squared scores, which stand for the noise. Returns (...).
    """
    xp = namespace(weight)
    noise = safe_divide(square, xp.sum(weight, axis=-1))
    number = xp.sum(weight > 0, axis=-1).astype(noise.dtype)
    number = xp.maximum(number - _FREE_CATEGORIES, 0.0)
    return np.float32(2.0 / np.pi) * number * noise


def _beyond(level: Level, value: AnyArray, seen: AnyArray) -> list[AnyArray]:
    """Values with missing ones to the left of all others, and to their right."""
    xp, rows = level.rows.xp, level.rows
    known = seen & (level.weight > 0)[..., None, :]
    lowest = rows.least(xp.where(known, value, xp.inf))
    highest = -rows.least(xp.where(known, -value, xp.inf))
    # A threshold is a value that occurs: the lowest is never right of it.
    lowest = xp.where(xp.isfinite(lowest), lowest, 0.0)
    highest = xp.where(xp.isfinite(highest), highest, 0.0)
    after = xp.nextafter(highest, xp.full_like(highest, xp.inf))
    return [xp.where(seen, value, rows.spread(bound)) for bound in (lowest, after)]


def chosen_rows(values: AnyArray, which: AnyArray, level: Level) -> AnyArray:
    """Of what is known of the rows, what their node has chosen.

    ``values`` (n, rows); ``which`` (n_nodes,), int: below n. Returns (rows,).
    """
    return level.rows.chosen(which[:, None], values)[..., 0, :]


def split_of(
    pick: Pick,
    level: Level,
    *,
    pure: Bool[AnyArray, " n_nodes"],
    chance_gain: Float[AnyArray, " n_nodes"] | None = None,
    units: tuple[AnyArray, AnyArray] | None = None,
) -> Split:
    """The chosen splits as splits of the table; the cut goes between the rows.

    ``pure``, ``chance_gain``: as in `Split`, by default zero; ``units``: center and
    scale (n_nodes, n_columns), by which oblique directions were standardised.
    """
    rows, xp = level.rows, level.rows.xp
    n_columns = level.x.shape[-2]
    present = level.weight > 0
    below = pick.projection <= rows.spread(pick.threshold)
    left, right = below & present, ~below & present
    lowest, cut = _between(rows, pick.projection, left, right)

    direction = (pick.attribute[:, None] == xp.arange(n_columns)).astype(cut.dtype)
    if len(level.roles.missing):
        inside = _value_of_missing(pick, level, (left, cut), (right, lowest))
        direction = direction + inside[:, None] * xp.abs(pick.direction)
    threshold = cut
    if units is not None:
        # An axis split compares the attribute itself, so its cut is exact.
        is_axis = pick.kind == SplitKind.AXIS
        center, scale = units
        oblique = pick.direction / scale
        length = xp.sqrt(xp.sum(oblique**2, axis=1))
        length = xp.where(length > 0, length, 1.0)
        from_center = xp.sum(oblique * center, axis=1)
        oblique = oblique / length[:, None]
        direction = xp.where(is_axis[:, None], direction, oblique)
        threshold = xp.where(is_axis, cut, (cut + from_center) / length)

    discrete = pick.kind == SplitKind.DISCRETE
    usable = (pick.gain > 0) & xp.isfinite(pick.gain) & ~pure
    return Split(
        kind=xp.where(usable, pick.kind, int(SplitKind.LEAF)),
        attribute=pick.attribute,
        direction=xp.where(discrete[:, None], 0.0, direction),
        threshold=xp.where(discrete, 0.0, threshold),
        goes_left=_categories(pick, level, left) & discrete[:, None],
        gain=xp.where(usable, pick.gain, 0.0),
        chance_gain=xp.zeros_like(pick.gain) if chance_gain is None else chance_gain,
        pure=pure,
    )


def middle_between(level: Level, value: AnyArray, cut: AnyArray) -> AnyArray:
    """Threshold in the middle of the values on both sides of a cut, (n_nodes,)."""
    below = value <= level.rows.spread(cut)
    present = (level.weight > 0) & level.rows.xp.isfinite(value)
    return _between(level.rows, value, below & present, ~below & present)[1]


def _between(
    rows: Any, value: AnyArray, left: AnyArray, right: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """Lowest value on the right, and the middle of both; zero if a side has none."""
    xp = rows.xp
    highest = -rows.least(xp.where(left, -value, xp.inf))
    lowest = rows.least(xp.where(right, value, xp.inf))
    usable = xp.isfinite(highest) & xp.isfinite(lowest)
    middle = 0.5 * xp.where(usable, highest + lowest, 0.0)
    # Between neighbouring floats the middle is one of them: never the right one.
    cut = xp.where(usable, xp.where(middle < lowest, middle, highest), 0.0)
    return lowest, cut


def _value_of_missing(
    pick: Pick, level: Level, left: tuple[AnyArray, ...], right: tuple[AnyArray, ...]
) -> AnyArray:
    """Mean of the side that missing values go to: rows of a side, and its end."""
    xp, n_columns = level.rows.xp, level.x.shape[-2]
    to_left = xp.sum(pick.direction, axis=1) < 0
    side = xp.where(level.rows.spread(to_left), left[0], right[0])
    attribute = xp.clip(pick.attribute, 0, n_columns - 1)
    value = chosen_rows(level.x, attribute, level)
    indicator = xp.argmax(xp.abs(pick.direction), axis=1)
    observed = chosen_rows(level.x, indicator, level) <= 0
    weight = xp.where(observed & side, level.weight, 0.0)
    total, moment = (level.rows.sums(own) for own in (weight, weight * value))
    mean = safe_divide(moment, total)
    # It stays on its side of the cut, which lies between the rows.
    mean = xp.where(to_left, xp.minimum(mean, left[1]), xp.maximum(mean, right[1]))
    return xp.where(xp.isfinite(mean), mean, 0.0)


def _categories(pick: Pick, level: Level, left: AnyArray) -> AnyArray:
    """Categories of the left side; absent ones follow the larger side."""
    xp, n, n_discrete = level.rows.xp, level.n_categories, level.codes.shape[-2]
    if not n_discrete:
        return xp.zeros((level.n_nodes, n), bool)
    # Of a split on a column any attribute will do.
    attribute = xp.clip(pick.attribute, 0, n_discrete - 1)
    code = chosen_rows(level.codes, attribute, level)[..., None, :]
    both = xp.stack([level.weight, xp.where(left, level.weight, 0.0)], axis=-2)
    found = level.rows.sums_by_code(code, n, both)[:, 0]
    weight, left_weight = found[:, 0], found[:, 1]
    larger_left = left_weight.sum(axis=1) >= 0.5 * weight.sum(axis=1)
    return xp.where(weight > 0, left_weight > 0, larger_left[:, None])


AxisGains: TypeAlias = tuple[Projections, AnyArray, AnyArray, AnyArray]
"""Attributes, gain and threshold of each (n_nodes, n), whether nodes are pure."""


@dataclass(frozen=True, kw_only=True)
class AxisSplits(SplitFinder):
    """Base of the finders that split on one attribute."""

    @property
    def max_attributes(self) -> int:
        return 1

    @abstractmethod
    def gains(self, level: Level) -> AxisGains:
        """Gain and threshold of every attribute of every node, and which are pure."""

    def find(self, level: Level) -> Split:
        """The split on the attribute that gains most, of every node."""
        axis, gain, threshold, pure = self.gains(level)
        xp = level.rows.xp
        gain = xp.where(axis.allowed, gain, -xp.inf)
        pick = axis.pick(xp.argmax(gain, axis=1), gain, threshold, level)
        return split_of(pick, level, pure=pure)


def leading_component(
    values: Float[AnyArray, "n rows"], level: Level
) -> Float[AnyArray, " rows"]:
    """A list of numbers of the rows, or the first principal component of several."""
    if values.shape[-2] == 1:
        return values[..., 0, :]
    covariance = level.rows.products(level.weight[..., None, :] * values, values)
    leading = leading_eigenvectors(covariance, 1)[:, 0]
    return (level.rows.spread(leading) * values).sum(axis=-2)
