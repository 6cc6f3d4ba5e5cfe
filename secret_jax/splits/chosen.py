"""The chosen split of every node of a level, as a split of the table."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float

from secret_jax.runtime.linalg import AnyArray, safe_divide
from secret_jax.splits.interface import Level, Split
from secret_jax.tree.structure import SplitKind


class Pick(NamedTuple):
    """One split of every node: a threshold along a projection of its rows.

    ``direction``: of an oblique split, in standardised columns; of one on an attribute
    with gaps the side that missing values go to, see
    `secret_jax.splits.axis.Projections`; else zero.
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
    chance_gain: Float[AnyArray, " n_nodes"],
    units: tuple[AnyArray, AnyArray] | None = None,
) -> Split:
    """The chosen splits as splits of the table; the cut goes between the rows.

    ``pure``, ``chance_gain``: as in `Split`; ``units``: center and scale, of shape
    (n_nodes, n_columns), by which oblique directions were standardised, if any is
    there.
    """
    rows, xp = level.rows, level.rows.xp
    n_columns = level.x.shape[-2]
    present = level.weight > 0
    below = pick.projection <= rows.spread(pick.threshold)
    left, right = below & present, ~below & present
    highest = -rows.least(xp.where(left, -pick.projection, xp.inf))
    lowest = rows.least(xp.where(right, pick.projection, xp.inf))
    usable = xp.isfinite(highest) & xp.isfinite(lowest)
    middle = 0.5 * xp.where(usable, highest + lowest, 0.0)
    # Between neighbouring floats the middle is one of them: never the right one.
    cut = xp.where(usable, xp.where(middle < lowest, middle, highest), 0.0)

    direction = (pick.attribute[:, None] == xp.arange(n_columns)).astype(cut.dtype)
    if len(level.roles.missing):
        side = xp.sum(pick.direction, axis=1)
        inside = _inside(pick, level, xp.where(rows.spread(side < 0), left, right))
        # It stays on its side of the cut, which lies between the rows.
        inside = xp.where(side < 0, xp.minimum(inside, cut), xp.maximum(inside, lowest))
        inside = xp.where(xp.isfinite(inside), inside, 0.0)
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
        chance_gain=chance_gain,
        pure=pure,
    )


def _inside(pick: Pick, level: Level, side: AnyArray) -> AnyArray:
    """Mean of the values on the side that missing ones go to, (n_nodes,)."""
    xp, n_columns = level.rows.xp, level.x.shape[-2]
    attribute = xp.clip(pick.attribute, 0, n_columns - 1)
    value = chosen_rows(level.x, attribute, level)
    indicator = xp.argmax(xp.abs(pick.direction), axis=1)
    observed = chosen_rows(level.x, indicator, level) <= 0
    weight = xp.where(observed & side, level.weight, 0.0)
    total, moment = (level.rows.sums(own) for own in (weight, weight * value))
    return safe_divide(moment, total)


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
