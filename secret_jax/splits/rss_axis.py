"""Splits on one attribute: thresholds, sides of missing values, orders of categories.

All attributes of all nodes of a level are screened at once, and with them the
directions that are proposed for oblique splits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secret_jax.runtime.linalg import (
    AnyArray,
    largest,
    leading_eigenvectors,
    matmul,
    matvec,
    safe_divide,
    small_matmul,
    taken,
)
from secret_jax.splits.axis import Pick, gain_of_order, order_of_means
from secret_jax.splits.interface import Level
from secret_jax.splits.rss_nodes import (
    ROUNDING,
    Nodes,
    best_cuts,
    cuts_of,
    exact_sides,
    gains_of_cuts,
)
from secret_jax.tree.structure import SplitKind

# A direction that gains a smaller share more than the best so far does so by rounding.
LEAST_RISE = 1e-4


class AttributeCuts(NamedTuple):
    """Every attribute, and every direction, at its best cut.

    Candidates are directions, columns with missing values, if any, on the right,
    columns with missing values on the left, and discrete attributes.
    """

    direction: AnyArray  # (n_nodes, n_directions, n_columns): in standardised columns
    # values (n_cut, rows), codes (n_discrete, rows): row arrays; missing values are
    # infinite.
    values: AnyArray
    codes: AnyArray
    column: np.ndarray  # (n_cut,), int: column of each value; of a direction any
    gaps: np.ndarray  # (n_gaps,), int: which of the values may be missing
    indicator: np.ndarray  # (n_gaps,), int: column that says where
    gain: AnyArray  # (n_nodes, n_candidates): by first moments
    cut: AnyArray  # the same shape: in standardised units, or last rank on the left
    chance: AnyArray  # the same shape: see `gain_of_order`
    rank: AnyArray | None  # (n_nodes, n_discrete, n_categories)

    @property
    def n_ordered(self) -> int:
        """Number of candidates that are no discrete attributes."""
        return len(self.column) + len(self.gaps)

    def value_of(self, candidate: AnyArray, xp: Any) -> AnyArray:
        """Which of the values a candidate cuts; of a discrete one any."""
        which = np.concatenate([np.arange(len(self.column)), self.gaps])
        if not len(which):
            return xp.zeros_like(candidate)
        return xp.asarray(which)[xp.minimum(candidate, len(which) - 1)]

    def left(self, rows: Any, candidate: AnyArray, cut: AnyArray) -> AnyArray:
        """Whether rows are left of cuts, (k, rows), of (n_nodes, k) candidates."""
        xp, left = rows.xp, None
        if len(self.column):
            value = rows.chosen(self.value_of(candidate, xp), self.values)
            left = value <= rows.spread(cut)
            if len(self.gaps):
                missing_left = rows.spread(candidate >= len(self.column))
                left = left | (xp.isinf(value) & missing_left)
        if not self.codes.shape[-2]:
            return left
        discrete = candidate - self.n_ordered
        own = xp.maximum(discrete, 0)
        goes_left = taken(self.rank, own, 1) <= cut[..., None]
        listed = rows.looked_up(goes_left, rows.chosen(own, self.codes))
        if left is None:
            return listed
        return xp.where(rows.spread(discrete >= 0), listed, left)


def attributes_of(
    level: Level, nodes: Nodes, direction: AnyArray, n_thresholds: int
) -> AttributeCuts:
    """Find the best cut of every attribute of every node, and of directions."""
    xp, roles, n_columns = level.rows.xp, level.roles, level.x.shape[-2]
    gaps = len(roles.thresholded) + np.arange(len(roles.missing))
    column = np.concatenate([roles.thresholded, roles.missing[:, 0]]).astype(int)
    indicator = roles.missing[:, 1].astype(int)
    values = nodes.z
    if not np.array_equal(column, np.arange(n_columns)):
        values = nodes.z[..., column, :]
    if len(gaps):
        missing = level.x[..., indicator, :] > 0
        observed = values[..., len(roles.thresholded) :, :]
        observed = xp.where(missing, xp.inf, observed)
        values = xp.concatenate(
            [values[..., : len(roles.thresholded), :], observed], axis=-2
        )
    n_directions, place = direction.shape[1], np.concatenate([column, column[gaps]])
    column, gaps = np.insert(column, 0, [0] * n_directions), n_directions + gaps
    slope = nodes.cross[:, column[n_directions:]]
    if n_directions:
        # Both in one product: what is far is bounded by the schema, and what deviates
        # little by `CONSTANT`, so that zeros times columns are zero.
        if values is nodes.z and xp is not np:
            own = xp.broadcast_to(xp.eye(n_columns), (len(direction), *[n_columns] * 2))
            values = nodes.along(xp.concatenate([direction, own], axis=1))
        else:
            along = nodes.along(direction)
            values = xp.concatenate([along, values], axis=-2)
        slope = xp.concatenate([small_matmul(direction, nodes.cross), slope], axis=1)
    parts = [_columns(level, nodes, values, slope, column, gaps, n_thresholds)]
    rank = None
    if level.codes.shape[-2]:
        gain, cut, chance, rank = _categories(level, nodes)
        parts.append((gain, cut, chance))
        place = np.concatenate([place, n_columns + np.arange(level.codes.shape[-2])])
    gain, cut, chance = (xp.concatenate(a, axis=1) for a in zip(*parts, strict=True))
    obliquely = level.oblique[:, None] & np.ones(n_directions, bool)
    allowed = xp.concatenate([obliquely, level.allowed[:, place]], axis=1)
    gain = xp.where(allowed, gain, -xp.inf)
    return AttributeCuts(
        *(direction, values, level.codes, column, gaps, indicator),
        *(gain, cut, chance, rank),
    )


def _columns(
    level: Level,
    nodes: Nodes,
    values: AnyArray,
    slope: AnyArray,
    column: np.ndarray,
    gaps: np.ndarray,
    n_thresholds: int,
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Gains, cuts and what is chance of values, and of their missing ones left."""
    rows, xp, weight = level.rows, level.rows.xp, level.weight
    if not len(column):
        return (xp.zeros(slope.shape[:2], values.dtype),) * 3
    if len(gaps):
        weight = xp.where(xp.isinf(values), 0.0, level.weight[..., None, :])
    # Where nodes may be split on few columns, these are all that is looked at.
    looked = None
    if xp is np and not len(gaps):
        open_to = np.asarray(level.allowed)[:, column]
        open_to[:, : len(column) - len(level.roles.thresholded)] = True  # directions
        number = max(int(open_to.sum(axis=1).max()), 1)
        if number < len(column):
            looked = np.argsort(~open_to, axis=1, kind="stable")[:, :number]
    if looked is not None:
        values = rows.chosen(looked, values)
        slope = np.take_along_axis(slope, looked[..., None], axis=1)
    cuts = cuts_of(rows, values, weight, n_thresholds)
    left, own = rows.moments_below(values, cuts, nodes.moments, level.weight)
    if len(gaps):
        # With missing values on the left: these, and what models see in their place.
        gone = xp.isinf(values[..., gaps, :]).astype(values.dtype)
        missing = rows.products(gone, nodes.moments)
        z = gone * nodes.z[..., column[gaps], :]
        z = xp.stack([z, z**2], axis=-2)
        filled = rows.sums(level.weight[..., None, None, :] * z)
        left = xp.concatenate([left, left[:, gaps] + missing[..., None]], axis=1)
        own = xp.concatenate([own, own[:, gaps] + filled[..., None]], axis=1)
        twice = np.concatenate([np.arange(len(column)), gaps])
        slope, cuts = slope[:, twice], cuts[:, twice]
    gain, cut = best_cuts(
        gains_of_cuts(nodes.whole, nodes.min_weight, left, own, slope), cuts
    )
    if looked is not None:
        shape = len(gain), len(column)
        every = np.full(shape, -np.inf, gain.dtype), np.zeros(shape, cut.dtype)
        for array, some in zip(every, (gain, cut), strict=True):
            np.put_along_axis(array, looked, some, axis=1)
        gain, cut = every
    return gain, cut, xp.zeros_like(gain)


def _categories(level: Level, nodes: Nodes) -> tuple[AnyArray, ...]:
    """Gains, last ranks, what is chance, and ranks of discrete attributes."""
    # Two at least, so that there is a cut.
    rows, xp, n = level.rows, level.rows.xp, max(2, level.n_categories)
    first, n_model = 1 + nodes.n_outputs, nodes.n_model
    basis = level.weight[..., None, :] * nodes.design[..., first : first + n_model, :]
    both = xp.concatenate([nodes.moments, basis], axis=-2)
    sums = rows.sums_by_code(level.codes, n, both)
    n_moments = both.shape[-2] - n_model
    weight = sums[:, :, 0]
    among = nodes.gram[:, : first - 1, : first - 1]
    score = xp.ones_like(among[:, 0])
    if nodes.n_outputs > 1:
        score = leading_eigenvectors(among, 1)[:, 0]
    total = sums[:, :, 1 : n_moments : 1 + n_model]
    total = xp.sum(score[:, None, :, None] * total, axis=2)
    square = xp.sum(matvec(among, score) * score, axis=1)
    order = order_of_means(weight, total)
    sums = xp.take_along_axis(sums, order[:, :, None], axis=3)
    # Ranks as a projection, standardised in each node.
    value, mass = np.arange(n, dtype=np.float32), sums[:, :, 0]
    value = value - (matvec(mass, value) / nodes.total[:, None])[..., None]
    variance = xp.sum(mass * value**2, axis=2) / nodes.total[:, None]
    value = safe_divide(value, xp.sqrt(variance)[..., None])
    own = xp.stack([mass * value, mass * value**2], axis=2)
    along = xp.sum(sums[:, :, n_moments:] * value[:, :, None], axis=3)
    along = along / nodes.total[:, None, None]
    slope = matmul(along, xp.swapaxes(nodes.whitener, 1, 2))
    left = xp.cumsum(sums[:, :, :n_moments, :-1], axis=-1)
    own = xp.cumsum(own[..., :-1], axis=-1)
    gain = gains_of_cuts(nodes.whole, nodes.min_weight, left, own, slope)
    last = xp.broadcast_to(np.arange(n - 1, dtype=np.float32), gain.shape)
    gain, cut = best_cuts(gain, last)
    chance = gain_of_order(weight, square[:, None])
    rank = xp.argsort(order, axis=2, stable=True).astype(cut.dtype)
    return gain - chance, cut, chance, rank


class Best(NamedTuple):
    """The best split of each node so far."""

    gain: AnyArray  # (n_nodes,)
    candidate: AnyArray  # (n_nodes,): of `AttributeCuts`; -1 for a direction
    direction: AnyArray  # (n_nodes, n_columns): in standardised columns
    cut: AnyArray  # (n_nodes,)
    # (n_nodes, 2, 1 + n_model, n_outputs): of the sides; None if nothing asks for them.
    models: Any


def best_attribute(
    attributes: AttributeCuts,
    nodes: Nodes,
    n_finalists: int,
    ridge: AnyArray | float,
    *,
    alone: bool,
) -> Best:
    """Score directions and the most promising attributes exactly; take the best.

    ``alone``: whether no oblique split competes: then a single finalist needs no score.
    """
    rows, xp, n_columns = nodes.rows, nodes.rows.xp, nodes.z.shape[-2]
    n, gain = attributes.direction.shape[1], attributes.gain
    finalists = n + largest(gain[:, n:], min(n_finalists, gain.shape[1] - n))
    n_others = finalists.shape[1]
    first = xp.broadcast_to(np.arange(n, dtype=finalists.dtype), (len(gain), n))
    finalists = xp.concatenate([finalists, first], axis=1)
    screened, cut, chance = (
        taken(a, finalists, 1)
        for a in (attributes.gain, attributes.cut, attributes.chance)
    )
    if alone and n_others == 1:
        none = xp.zeros((len(gain), n_columns), nodes.z.dtype)
        return Best(screened[:, 0], finalists[:, 0], none, cut[:, 0], None)
    left = attributes.left(rows, finalists, cut)
    exact, models = exact_sides(nodes, left, ridge)
    # What was ruled out before, such as an attribute that is not allowed, stays out.
    gain = xp.where(xp.isfinite(screened), exact - chance, -xp.inf)
    known = np.ones(n_others + n, np.float32)
    known[n_others:] -= LEAST_RISE
    best = xp.argmax(gain * known, axis=1)
    # An attribute has no direction.
    none = xp.zeros((len(gain), n_others, n_columns), nodes.z.dtype)
    direction = xp.concatenate([none, attributes.direction], axis=1)
    candidate = xp.where(finalists < n, -1, finalists)
    found = gain, candidate, direction, cut, models
    return Best(*(taken(array, best, 1) for array in found))


def picked(best: Best, level: Level, nodes: Nodes, attributes: AttributeCuts) -> Pick:
    """The rows along the best splits, those on a column in units of the table."""
    rows, xp = level.rows, level.rows.xp
    candidate = xp.maximum(best.candidate, 0)
    is_oblique, is_discrete = best.candidate < 0, candidate >= attributes.n_ordered
    left = attributes.left(rows, candidate[:, None], best.cut[:, None])[..., 0, :]
    # Categories lie at zero or at one.
    projection = xp.where(left, 0.0, 1.0).astype(level.x.dtype)
    threshold = xp.full_like(best.cut, 0.5)
    attribute, direction = candidate - attributes.n_ordered, best.direction
    if len(attributes.column):
        column, value, highest, direction = _on_column(
            level, attributes, candidate, left, direction
        )
        attribute = xp.where(is_discrete, attribute, column)
        threshold = xp.where(is_discrete, threshold, highest)
        projection = xp.where(rows.spread(is_discrete), projection, value)
    kind = xp.where(is_discrete, int(SplitKind.DISCRETE), int(SplitKind.AXIS))
    if level.any_oblique:
        along = nodes.along(best.direction[:, None])[..., 0, :]
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
    attributes: AttributeCuts,
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
        to_left = xp.where(
            gone > 0, candidate >= len(attributes.column), on_left >= on_right
        )
        value = xp.where(
            missing, rows.spread(xp.where(to_left, highest, lowest)), value
        )
        side = np.zeros((len(attributes.column), level.x.shape[-2]), level.x.dtype)
        side[attributes.gaps, attributes.indicator] = 1
        direction = xp.asarray(side)[which]
        direction = xp.where(to_left[:, None], -direction, direction)
    return column, value, highest, direction
