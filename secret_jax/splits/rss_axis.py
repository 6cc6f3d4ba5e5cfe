"""Splits on one attribute: thresholds, sides of missing values, orders of categories.

All attributes of all nodes of a level are screened at once, and with them the
directions that are proposed for oblique splits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secret_jax.runtime.arrays import largest, taken
from secret_jax.runtime.eigenvectors import leading_eigenvectors
from secret_jax.runtime.linalg import AnyArray, matmul, matvec, safe_divide
from secret_jax.splits.axis import CATEGORY_PRIOR, gain_of_order
from secret_jax.splits.interface import Level
from secret_jax.splits.rss_nodes import Nodes
from secret_jax.splits.rss_scores import (
    best_cuts,
    cuts_of,
    exact_sides,
    gains_of_cuts,
)

# A direction that gains a smaller share more than the best so far does so by rounding.
LEAST_RISE = 1e-4


class Attributes(NamedTuple):
    """Every attribute at its best cut.

    Candidates are columns with missing values, if any, on the right, columns with
    missing values on the left, discrete attributes, and directions.
    """

    # values (n_cut + n_directions, rows), codes (n_discrete, rows): row arrays; missing
    # values are infinite.
    values: AnyArray
    codes: AnyArray
    column: np.ndarray  # (n_cut,), int: columns that are cut
    gaps: np.ndarray  # (n_gaps,), int: which of the values may be missing
    indicator: np.ndarray  # (n_gaps,), int: column that says where
    gain: AnyArray  # (n_nodes, n_candidates): by first moments
    cut: AnyArray  # the same shape: in standardised units, or last rank on the left
    chance: AnyArray  # the same shape: see `gain_of_order`
    rank: AnyArray | None  # (n_nodes, n_discrete, n_categories)
    direction: AnyArray | None  # (n_nodes, n_directions, n_columns)

    @property
    def n_cut(self) -> int:
        """Number of columns."""
        return len(self.column)

    @property
    def n_ordered(self) -> int:
        """Number of candidates that are no discrete attributes."""
        return self.n_cut + len(self.gaps)

    @property
    def n_attributes(self) -> int:
        """Number of candidates that are no directions."""
        return self.n_ordered + self.codes.shape[-2]

    def value_of(self, candidate: AnyArray, xp: Any) -> AnyArray:
        """Which of the values a candidate cuts; of a discrete one any."""
        which = np.zeros(self.gain.shape[1], int)
        which[: self.n_cut] = np.arange(self.n_cut)
        which[self.n_cut : self.n_ordered] = self.gaps
        n_directions = self.gain.shape[1] - self.n_attributes
        which[self.n_attributes :] = self.n_cut + np.arange(n_directions)
        return xp.asarray(which)[candidate]

    def left(self, rows: Any, candidate: AnyArray, cut: AnyArray) -> AnyArray:
        """Whether rows are left of cuts, (k, rows), of (n_nodes, k) candidates."""
        xp, left = rows.xp, None
        if self.values.shape[-2]:
            value = rows.chosen(self.value_of(candidate, xp), self.values)
            left = value <= rows.spread(cut)
            if len(self.gaps):
                missing_left = rows.spread(candidate >= self.n_cut)
                left = left | (xp.isinf(value) & missing_left)
        if not self.codes.shape[-2]:
            return left
        n_discrete = self.codes.shape[-2]
        own = xp.clip(candidate - self.n_ordered, 0, n_discrete - 1)
        goes_left = taken(self.rank, own, 1) <= cut[..., None]
        listed = rows.looked_up(goes_left, rows.chosen(own, self.codes))
        if left is None:
            return listed
        return xp.where(rows.spread(candidate == self.n_ordered + own), listed, left)


def attributes_of(
    level: Level, nodes: Nodes, direction: AnyArray | None, n_thresholds: int
) -> Attributes:
    """Find the best cut of every attribute of every node.

    ``direction`` (n_nodes, n_directions, n_columns): further candidates, along which
    the standardised columns have unit variance.
    """
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
    slope = nodes.cross[:, column]
    if direction is not None:
        along = nodes.rows.transformed(direction, nodes.z)
        values = xp.concatenate([values, along], axis=-2)
        slope = xp.concatenate([slope, matmul(direction, nodes.cross)], axis=1)
    found = _columns(level, nodes, values, slope, column, gaps, n_thresholds)
    place, stop = np.concatenate([column, column[gaps]]), len(column) + len(gaps)
    parts = [tuple(array[:, :stop] for array in found)]
    rank = None
    if level.codes.shape[-2]:
        gain, cut, chance, rank = _categories(level, nodes)
        parts.append((gain, cut, chance))
        place = np.concatenate([place, n_columns + np.arange(level.codes.shape[-2])])
    allowed = level.allowed[:, place]
    if direction is not None:
        parts.append(tuple(array[:, stop:] for array in found))
        shape = level.n_nodes, direction.shape[1]
        also = xp.broadcast_to(level.oblique[:, None], shape)
        allowed = xp.concatenate([allowed, also], axis=1)
    gain, cut, chance = (xp.concatenate(a, axis=1) for a in zip(*parts, strict=True))
    gain = xp.where(allowed, gain, -xp.inf)
    return Attributes(
        *(values, level.codes, column, gaps, indicator),
        *(gain, cut, chance, rank, direction),
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
    """Gains, cuts and what is chance of columns and directions.

    Between them are columns with their missing values on the left.
    """
    rows, xp, weight = level.rows, level.rows.xp, level.weight
    if len(gaps):
        weight = xp.where(xp.isinf(values), 0.0, level.weight[..., None, :])
    # Where nodes may be split on few columns, these are all that is looked at.
    looked = None
    if xp is np and not len(gaps):
        open_to = np.asarray(level.allowed)[:, column]
        number = max(int(open_to.sum(axis=1).max()), 1)
        if number < len(column):
            looked = np.argsort(~open_to, axis=1, kind="stable")[:, :number]
    if looked is not None:
        directions = len(column) + np.arange(len(values) - len(column))
        directions = np.broadcast_to(directions, (len(looked), len(directions)))
        looked = np.concatenate([looked, directions], axis=1)
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
        n = len(column)
        both = left[:, :n], left[:, gaps] + missing[..., None], left[:, n:]
        left = xp.concatenate(both, axis=1)
        both = own[:, :n], own[:, gaps] + filled[..., None], own[:, n:]
        own = xp.concatenate(both, axis=1)
        twice = np.insert(np.arange(values.shape[-2]), n, gaps)
        slope, cuts = slope[:, twice], cuts[:, twice]
    gain, cut = best_cuts(gains_of_cuts(nodes, left, own, slope), cuts)
    if looked is not None:
        shape = len(gain), len(column) + len(directions[0])
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
    basis = nodes.weighted[..., first : first + n_model, :]
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
    mean = xp.where(weight > 0, total / (weight + CATEGORY_PRIOR), xp.inf)
    order = xp.argsort(mean, axis=2, stable=True)
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
    gain = gains_of_cuts(nodes, left, own, slope)
    last = xp.broadcast_to(np.arange(n - 1, dtype=np.float32), gain.shape)
    gain, cut = best_cuts(gain, last)
    chance = gain_of_order(weight, square[:, None])
    rank = xp.argsort(order, axis=2, stable=True).astype(cut.dtype)
    return gain - chance, cut, chance, rank


class Best(NamedTuple):
    """The best split of each node so far."""

    gain: AnyArray  # (n_nodes,)
    candidate: AnyArray  # (n_nodes,): of `Attributes`; -1 for a direction
    direction: AnyArray  # (n_nodes, n_columns): in standardised columns
    cut: AnyArray  # (n_nodes,)
    # (n_nodes, 2, 1 + n_model, n_outputs): of the sides, for oblique splits.
    models: AnyArray | None


def best_attribute(
    attributes: Attributes, nodes: Nodes, n_finalists: int, ridge: float, *, alone: bool
) -> Best:
    """Score directions and the most promising attributes exactly; take the best.

    ``alone``: whether no oblique split competes: then a single finalist needs no score.
    """
    rows, xp, n = nodes.rows, nodes.rows.xp, attributes.n_attributes
    n_finalists = min(n_finalists, n)
    finalists = largest(attributes.gain[:, :n], n_finalists)
    known = np.ones(n_finalists, np.float32)
    if attributes.direction is not None:
        n_directions = attributes.direction.shape[1]
        shape = len(finalists), n_directions
        others = xp.broadcast_to(n + np.arange(n_directions), shape)
        finalists = xp.concatenate([finalists, others.astype(finalists.dtype)], axis=1)
        known = np.append(known, [np.float32(1 - LEAST_RISE)] * n_directions)
    screened, cut, chance = (
        taken(a, finalists, 1)
        for a in (attributes.gain, attributes.cut, attributes.chance)
    )
    direction = xp.zeros((len(finalists), nodes.z.shape[-2]), nodes.z.dtype)
    if alone and n_finalists == 1:
        return Best(screened[:, 0], finalists[:, 0], direction, cut[:, 0], None)
    exact = exact_sides(nodes, attributes.left(rows, finalists, cut), ridge)
    # What was ruled out before, such as an attribute that is not allowed, stays out.
    gain = xp.where(xp.isfinite(screened), exact.gain - chance, -xp.inf)
    best = xp.argmax(gain * known, axis=1)
    gain, candidate, cut, models = (
        taken(a, best, 1) for a in (gain, finalists, cut, exact.models)
    )
    if attributes.direction is not None:
        own = taken(attributes.direction, xp.maximum(candidate - n, 0), 1)
        direction = xp.where((candidate >= n)[:, None], own, direction)
        candidate = xp.where(candidate >= n, -1, candidate)
    return Best(gain, candidate, direction, cut, models)
