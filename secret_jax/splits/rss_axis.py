"""Splits on one attribute: thresholds, sides of missing values, orders of categories.

All attributes of all nodes of a level are screened at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax.runtime.arrays import largest, taken
from secret_jax.runtime.eigenvectors import leading_eigenvectors
from secret_jax.runtime.linalg import AnyArray, matmul, matvec, safe_divide
from secret_jax.splits.axis import CATEGORY_PRIOR, gain_of_order
from secret_jax.splits.interface import Level
from secret_jax.splits.rss_nodes import Nodes
from secret_jax.splits.rss_scores import Cuts, cuts_of, exact_sides, gains_of_cuts


class Attributes(NamedTuple):
    """Every attribute at its best cut.

    Candidates are columns with missing values, if any, on the right, columns with
    missing values on the left, and discrete attributes.
    """

    # values (n_cut, rows), codes (n_discrete, rows): row arrays; missing values are
    # infinite.
    values: AnyArray
    codes: AnyArray
    column: np.ndarray  # (n_cut,), int: column of each of the values
    gaps: np.ndarray  # (n_gaps,), int: which of the values may be missing
    indicator: np.ndarray  # (n_gaps,), int: column that says where
    gain: AnyArray  # (n_nodes, n_candidates): by first moments
    cut: AnyArray  # the same shape: in standardised units, or last rank on the left
    chance: AnyArray  # the same shape: see `gain_of_order`
    rank: AnyArray | None  # (n_nodes, n_discrete, n_categories), int

    @property
    def n_cut(self) -> int:
        """Number of columns."""
        return len(self.column)

    @property
    def n_ordered(self) -> int:
        """Number of candidates that are no discrete attributes."""
        return self.n_cut + len(self.gaps)

    def value_of(self, candidate: AnyArray, xp) -> AnyArray:
        """Which of the values a candidate cuts; of a discrete one any."""
        which = np.concatenate([np.arange(self.n_cut), self.gaps])
        if not len(which):
            return xp.zeros_like(candidate)
        return xp.asarray(which)[xp.minimum(candidate, len(which) - 1)]

    def left(self, rows, candidate: AnyArray, cut: AnyArray) -> AnyArray:
        """Whether rows are left of cuts, (k, rows), of (n_nodes, k) candidates."""
        xp, left = rows.xp, None
        if self.n_cut:
            value = rows.chosen(self.value_of(candidate, xp), self.values)
            left = value <= rows.spread(cut)
            if len(self.gaps):
                missing_left = rows.spread(candidate >= self.n_cut)
                left = left | (xp.isinf(value) & missing_left)
        if not self.codes.shape[-2]:
            return left
        discrete = candidate - self.n_ordered
        own = xp.maximum(discrete, 0)
        goes_left = taken(self.rank, own, 1) <= cut[..., None]
        listed = rows.looked_up(goes_left, rows.chosen(own, self.codes))
        return (
            listed
            if left is None
            else xp.where(rows.spread(discrete >= 0), listed, left)
        )


def attributes_of(level: Level, nodes: Nodes, n_thresholds: int) -> Attributes:
    """Find the best cut of every attribute of every node."""
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
    parts = [_columns(level, nodes, values, column, gaps, indicator, n_thresholds)]
    place = np.concatenate([column, column[gaps]])
    rank = None
    if level.codes.shape[-2]:
        *found, rank = _categories(level, nodes)
        parts.append(found)
        place = np.concatenate([place, n_columns + np.arange(level.codes.shape[-2])])
    gain, cut, chance = (xp.concatenate(a, axis=1) for a in zip(*parts, strict=True))
    gain = xp.where(level.allowed[:, place], gain, -xp.inf)
    return Attributes(
        *(values, level.codes, column, gaps, indicator),
        *(gain, cut, chance, rank),
    )


def _columns(
    level: Level,
    nodes: Nodes,
    values: AnyArray,
    column: np.ndarray,
    gaps: np.ndarray,
    indicator: np.ndarray,
    n_thresholds: int,
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Gains, cuts and what is chance of columns, and of their missing values left."""
    rows, xp, total = level.rows, level.rows.xp, nodes.total
    weight = level.weight
    if len(gaps):
        weight = level.weight[..., None, :]
        weight = xp.where(xp.isinf(values), 0.0, weight)
    cuts = cuts_of(rows, values, weight, n_thresholds)
    left = rows.sums_below(values, cuts.value, nodes.moments)
    whole = nodes.whole[:, None]
    whole = xp.broadcast_to(whole, (len(whole), len(column), whole.shape[2]))
    slope, value, seen = nodes.cross[:, column], cuts.value, total[:, None]
    if len(gaps):
        gone = xp.isinf(values[..., gaps, :]).astype(values.dtype)
        missing = rows.products(gone, nodes.moments)
        before = [(0, 0), (len(column) - len(gaps), 0)]
        seen = seen - xp.pad(missing[:, :, 0], before)
    own, own_whole = own_sums(cuts, left[:, :, 0], seen)
    if len(gaps):
        z = gone * nodes.z[..., column[gaps], :]
        # What models see in place of missing values.
        filled = xp.stack([z, z**2], axis=-3) * nodes.weight[..., None, None, :]
        filled = xp.moveaxis(rows.sums(filled), 1, 0)
        own_whole = own_whole + xp.pad(filled, [(0, 0), *before])
        to_left = left[:, gaps] + missing[..., None]
        left = xp.concatenate([left, to_left], axis=1)
        own = xp.concatenate([own, own[:, :, gaps] + filled[..., None]], axis=2)
        twice = np.concatenate([np.arange(len(column)), gaps])
        own_whole, whole = own_whole[:, :, twice], whole[:, twice]
        slope, value = slope[:, twice], value[:, twice]
    gain = gains_of_cuts(nodes, left, whole, own, own_whole, slope)
    return (*best_cuts(gain, value), xp.zeros_like(gain[..., 0]))


def own_sums(
    cuts: Cuts, weight: AnyArray, total: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """Sums of values and of their squares left of cuts, and over all of them.

    ``weight``: left of each cut; ``total`` (n_nodes, n_directions), or what broadcasts.
    """
    from secret_jax.runtime.linalg import namespace

    xp = namespace(weight)
    total = xp.broadcast_to(total, weight.shape[:-1])[..., None]
    mass = xp.concatenate([weight, total], axis=-1)
    mass = xp.concatenate([mass[..., :1], mass[..., 1:] - mass[..., :-1]], axis=-1)
    own = xp.cumsum(mass * xp.stack([cuts.mean, cuts.square]), axis=-1)
    return own[..., :-1], own[..., -1]


def best_cuts(gain: AnyArray, value: AnyArray) -> tuple[AnyArray, AnyArray]:
    """The best gain along each direction, and its cut."""
    from secret_jax.runtime.linalg import namespace

    xp = namespace(gain)
    best = xp.argmax(gain, axis=-1)[..., None]
    return tuple(xp.take_along_axis(a, best, axis=-1)[..., 0] for a in (gain, value))


def _categories(level: Level, nodes: Nodes):
    """Gains, last ranks, what is chance, and ranks of discrete attributes."""
    rows, xp, n = level.rows, level.rows.xp, level.n_categories
    first, n_model = 1 + nodes.n_outputs, nodes.n_model
    basis = nodes.weighted[..., first : first + n_model, :]
    both = xp.concatenate([nodes.moments, basis], axis=-2)
    sums = rows.sums_by_code(level.codes, n, both)
    n_moments = both.shape[-2] - n_model
    weight = sums[:, :, 0]
    among = nodes.gram[:, 1:first, 1:first]
    score = xp.ones_like(among[:, 0])
    if nodes.n_outputs > 1:
        score = leading_eigenvectors(among, 1)[:, 0]
    total = sums[:, :, 1 : n_moments : 1 + n_model]
    total = xp.sum(score[:, None, :, None] * total, axis=2)
    square = xp.sum(matvec(among, score) * score, axis=1)
    mean = xp.where(weight > 0, total / (weight + CATEGORY_PRIOR), xp.inf)
    order = xp.argsort(mean, axis=2, stable=True)
    sums = xp.take_along_axis(sums, order[:, :, None], axis=3)
    value = np.arange(n, dtype=np.float32)
    own = xp.stack([value * sums[:, :, 0], value**2 * sums[:, :, 0]])
    own = xp.cumsum(own, axis=-1)
    along = matvec(sums[:, :, n_moments:], value)
    left = xp.cumsum(sums[:, :, :n_moments], axis=-1)
    whole = left[..., -1]
    deviation = own[1, ..., -1] / whole[..., 0] - (own[0, ..., -1] / whole[..., 0]) ** 2
    deviation = xp.sqrt(xp.maximum(deviation, 0.0))
    along = safe_divide(along, (whole[..., 0] * deviation)[..., None])
    slope = matmul(along, xp.swapaxes(nodes.whitener, 1, 2))
    gain = gains_of_cuts(
        nodes, left[..., :-1], whole, own[..., :-1], own[..., -1], slope
    )
    gain, cut = best_cuts(gain, xp.broadcast_to(value[:-1], gain.shape))
    chance = gain_of_order(weight, square[:, None])
    rank = xp.argsort(order, axis=2, stable=True)
    return gain - chance, cut, chance, rank


class Best(NamedTuple):
    """The best split of each node so far."""

    gain: AnyArray  # (n_nodes,)
    candidate: AnyArray  # (n_nodes,): of `Attributes`; -1 for a direction
    direction: AnyArray  # (n_nodes, n_columns): in standardised columns
    cut: AnyArray  # (n_nodes,)
    models: AnyArray  # (n_nodes, 2, 1 + n_model, n_outputs): of the sides


def best_attribute(
    attributes: Attributes, nodes: Nodes, n_finalists: int, ridge: float
) -> Best:
    """Score the most promising attributes exactly, and take the best."""
    rows, xp = nodes.rows, nodes.rows.xp
    finalists = largest(attributes.gain, min(n_finalists, attributes.gain.shape[1]))
    screened, cut, chance = (
        xp.take_along_axis(a, finalists, axis=1)
        for a in (attributes.gain, attributes.cut, attributes.chance)
    )
    exact = exact_sides(nodes, attributes.left(rows, finalists, cut), ridge)
    # What was ruled out before, such as an attribute that is not allowed, stays out.
    gain = xp.where(xp.isfinite(screened), exact.gain - chance, -xp.inf)
    best = xp.argmax(gain, axis=1)
    gain, candidate, cut, models = (
        taken(a, best, 1) for a in (gain, finalists, cut, exact.models)
    )
    n_columns = nodes.z.shape[-2]
    direction = xp.zeros((len(best), n_columns), nodes.z.dtype)
    return Best(gain, candidate, direction, cut, models)
