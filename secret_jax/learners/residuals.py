"""Residuals of nodes' models, and models of both sides of thresholds.

Residual sums of squares of a side only grow with its rows. So no threshold between two
places leaves less than the left side of the first one and the right side of the second
one together: where that is more than the least one found, none needs a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.data.ragged import RaggedRows
from secret_jax.learners.thresholds import (
    PURE,
    ROUNDING,
    Ranked,
    Thresholds,
    best_in,
    moments,
    ranked,
    running,
    tried_cuts,
)
from secret_jax.splits.axis import leading_component
from secret_jax.splits.interface import Level

# Minimum number of rows per coefficient of a side's linear model: with fewer it would
# follow their noise.
_ROWS_PER_COEFFICIENT = 2.0
# Rows between two places that are looked at, first in whole nodes, then in what may
# hold the best threshold.
_STEPS = (64, 16, 4, 1)
# Sums that are worked on at once: with fewer, calls of NumPy take most of the time.
_AT_ONCE = 1 << 19
# Times as many are held of whole nodes.
_HELD = 8
# Bounds that are closer than this share of the squares are equal but for rounding.
_SLACK = 1e-5
# Weight of no rows, by which zero may be divided.
_NOTHING = 1e-30


class Residuals(NamedTuple):
    """Residuals of the models of the nodes of a level."""

    # (rows,): of one output, or first principal component of several; centred.
    leading: np.ndarray
    residual: np.ndarray  # (n_outputs, rows): centred
    z: np.ndarray  # (n_columns, rows), standardised in their nodes; constants are zero
    # center, scale (n_nodes, n_columns): by which they were.
    units: tuple[np.ndarray, np.ndarray]
    models: SideModels  # of parts of the nodes
    least: np.ndarray  # (n_nodes,): least weight of a side
    offset: np.ndarray  # (n_nodes, n_outputs): mean residual, before it was centred
    pure: np.ndarray  # (n_nodes,), bool: whether only rounding is left


def residuals(
    level: Level, *, linear: bool, ridge: float, most: int | None = None
) -> Residuals:
    """Residuals of the nodes' models, and rows for models of their parts.

    ``linear``: whether parts get linear models, or constants; ``ridge``: penalty of
    their models, in units of the regressors' variances; ``most``: principal components
    that they see.
    """
    rows, n = level.rows, level.n_regressors
    x = level.x.astype(np.float64)
    slopes = level.model[:, :, 1:].astype(np.float64)
    fitted = rows.spread(level.model[:, :, 0]) + rows.transformed(slopes, x[:n])
    raw = level.targets - fitted
    residual, spread = moments(level, raw)
    z, deviation = moments(level, x)
    varies = deviation > PURE
    scale = np.where(varies, deviation, 1.0)
    z = np.where(rows.spread(varies), z / rows.spread(scale), 0.0)
    n_model = n if linear else 0
    back, penalty = components(level, z[:n_model], ridge)
    if most is not None:
        back, penalty = back[:, -most:], penalty[:, -most:]
    ones = np.ones((1, x.shape[1]))
    design = [ones, rows.transformed(back, z[:n_model]), residual]
    penalty = np.concatenate([np.zeros((level.n_nodes, 1)), penalty], axis=1)
    n_slopes = varies[:, :n_model].sum(axis=1)
    enough = np.where(n_slopes > 0, _ROWS_PER_COEFFICIENT * (1.0 + n_slopes), 0.0)
    total = rows.sums(level.weight.astype(np.float64))[:, None]
    return Residuals(
        leading=leading_component(residual, level),
        residual=residual,
        z=z,
        units=(rows.sums(level.weight * x) / total, scale),
        models=SideModels(level, np.concatenate(design), penalty),
        least=np.maximum(level.min_weight, enough),
        offset=rows.sums(level.weight * raw) / total,
        pure=spread.max(axis=1) <= PURE,
    )


def components(
    level: Level, z: Float[np.ndarray, "n rows"], ridge: float
) -> tuple[Float[np.ndarray, "n_nodes n n"], Float[np.ndarray, "n_nodes n"]]:
    """Principal components of about unit variance, and a ridge in their units.

    ``z``: columns of mean zero; ``ridge``: in units of their variances. Returns the
    matrix that makes components of the columns.
    """
    rows = level.rows
    total = rows.sums(level.weight.astype(np.float64))[:, None, None]
    value, vector = np.linalg.eigh(rows.products(level.weight * z, z) / total)
    ridged = np.maximum(value, 0.0) + ridge
    back = np.swapaxes(vector / np.sqrt(ridged)[:, None], 1, 2)
    return np.ascontiguousarray(back), ridge / ridged


def best_thresholds(
    level: Level,
    left: Residuals,
    projection: Float[np.ndarray, "n rows"],
    allowed: Bool[np.ndarray, "n_nodes n"],
    thresholds: Thresholds,
) -> tuple[Float[np.ndarray, "n_nodes n"], Float[np.ndarray, "n_nodes n"]]:
    """Gain and threshold of each projection that a node is allowed.

    See `SideModels.best`: the best gain of a node is right, others may be too small.
    """
    gain, threshold = np.full((2, *allowed.shape), -np.inf)
    some = np.flatnonzero(allowed.any(axis=0))
    order = ranked(level, projection[some], left.least)
    tried = tried_cuts(level, order, thresholds, left.least)
    tried &= np.repeat(allowed[:, some], level.rows.length, axis=0).T
    gain[:, some], threshold[:, some] = left.models.best(order, tried)
    return gain, threshold


class _Spans(NamedTuple):
    """Neighbouring rows of nodes, in the order of some projection."""

    start: np.ndarray  # (m,), int: among the rows in all orders, one after the other
    length: np.ndarray  # (m,), int
    node: np.ndarray  # (m,), int
    before: np.ndarray  # (n_sums, m): sums over the rows of the node before them
    left: np.ndarray  # (m,): sum of squares that a model of those leaves
    bound: np.ndarray  # (m,): most that a threshold among the rows saves

    def take(self, some: np.ndarray) -> _Spans:
        """Some of them, by position or by a mask."""
        return _Spans(*(array[..., some] for array in self))


@dataclass(frozen=True)
class SideModels:
    """Ridge models of parts of the nodes of a level.

    Sums over rows are those of products of columns: those of the models with each
    other, row by row of the upper triangle, each with the residuals after it; then the
    squares of all residuals.
    """

    level: Level
    # (n_columns + n_outputs, rows): ones, regressors, then residuals.
    design: np.ndarray
    penalty: np.ndarray  # (n_nodes, n_columns): of the models, for a unit of weight

    @cached_property
    def total(self) -> Float[np.ndarray, "n_sums n_nodes"]:
        """Sums over the nodes."""
        found = self.level.rows.products(self.weighted, self.design)
        return self._packed(found)

    @cached_property
    def by_row(self) -> Float[np.ndarray, "rows+1 n_design"]:
        """The design times the root of the weight, row by row; then a row of zeros."""
        found = np.zeros((self.design.shape[1] + 1, len(self.design)))
        np.multiply(self.design.T, np.sqrt(self.level.weight)[:, None], out=found[:-1])
        return found

    @cached_property
    def _upper(self) -> Int[np.ndarray, " n_sums-1"]:
        """Where the sums but the last are in a square of products."""
        shape = self.penalty.shape[1], len(self.design)
        return np.flatnonzero(np.triu(np.ones(shape)))

    @cached_property
    def weighted(self) -> Float[np.ndarray, "n_design rows"]:
        """The design times the weight."""
        return self.level.weight * self.design

    def saved(
        self, left: Bool[np.ndarray, "k rows"], least: Float[np.ndarray, " n_nodes"]
    ) -> Float[np.ndarray, "n_nodes k"]:
        """What models of both sides of some splits of every node save.

        Minus infinity where a side has less than the ``least`` weight, or none.
        """

        def of_left(rows: RaggedRows, _, arrays) -> tuple[np.ndarray, ...]:
            weighted, design, left = arrays
            flat = (left[:, None] * weighted).reshape(-1, left.shape[1])
            return (rows.products(flat, design),)

        arrays = self.weighted, self.design, left
        (found,) = self.level.rows.total(of_left, (), arrays)
        found = self._packed(found.reshape(-1, *self.design.shape[:1] * 2))
        node = np.repeat(np.arange(self.level.n_nodes), len(left))
        return self.gains(found, node, least[node]).reshape(-1, len(left))

    def gains(
        self,
        sums: Float[np.ndarray, "n_sums m"],
        node: Int[np.ndarray, " m"],
        least: Float[np.ndarray, " m"],
    ) -> Float[np.ndarray, " m"]:
        """What models of sides of nodes, and of the rest of these, save.

        Minus infinity where one of both has less than the ``least`` weight, or none.
        """
        total = self.total.take(node, axis=1)
        sides = np.stack([sums, total - sums], axis=1)
        penalty = self.penalty[node].T[:, None]
        gain = explained(sides[:-1], penalty).sum(axis=0)
        weight = sides[0].min(axis=0)
        enough = (weight >= least * (1 - ROUNDING)) & (weight > ROUNDING * total[0])
        return np.where(enough, gain, -np.inf)

    def best(
        self, order: Ranked, tried: Bool[np.ndarray, "n rows"]
    ) -> tuple[Float[np.ndarray, "n_nodes n"], Float[np.ndarray, "n_nodes n"]]:
        """The threshold along some projections whose sides' models save most.

        ``tried``: after which rows, in their order. Returns the drop of the penalised
        residual sum of squares, minus infinity where nothing is tried, and the largest
        value on the left. Of projections along which less is saved than along another
        one of the node, it need not be the most.
        """
        rows, n_rows = self.level.rows, tried.shape[1]
        search = _Search(self, order.order.ravel(), tried.ravel())
        which, node = np.nonzero(np.logical_or.reduceat(tried, rows.first, axis=1))
        search.narrow(
            _Spans(
                start=which * n_rows + rows.first[node],
                length=rows.length[node],
                node=node,
                before=np.zeros((len(search.total), len(node))),
                left=np.zeros(len(node)),
                bound=np.full(len(node), np.inf),
            ),
            _STEPS,
        )
        gain, place = best_in(rows, search.gain.reshape(tried.shape))
        return gain, np.take_along_axis(order.value.T, place, axis=0)

    def of_rows(self) -> Float[np.ndarray, "n_sums rows"]:
        """What sums add up, of every row."""
        return self.of_parts(np.arange(len(self.level.weight))[:, None])

    def of_parts(
        self, place: Int[np.ndarray, "m size"]
    ) -> Float[np.ndarray, "n_sums m"]:
        """Sums over lists of as many rows; the number of all rows stands for none."""
        if place.shape[1] > 1:
            rows = self.by_row.take(place, axis=0)
            return self._packed(np.matmul(rows.swapaxes(1, 2), rows))
        n = self.penalty.shape[1]
        rows = np.ascontiguousarray(self.by_row.take(place[:, 0], axis=0).T)
        squares = np.sum(rows[n:] ** 2, axis=0)
        return np.concatenate([*(rows[i] * rows[i:] for i in range(n)), squares[None]])

    def _packed(self, gram: np.ndarray) -> np.ndarray:
        n, last = self.penalty.shape[1], len(self._upper)
        found = np.empty((last + 1, len(gram)))
        found[:last] = gram.reshape(len(gram), -1).take(self._upper, axis=1).T
        np.einsum("mii->m", gram[:, n:, n:], out=found[last])
        return found


class _Search:
    """What is found so far."""

    def __init__(self, models: SideModels, order: np.ndarray, tried: np.ndarray):
        self.models, self.tried = models, tried
        self.order = np.append(order, models.design.shape[1])
        self.n_before = np.concatenate([[0], np.cumsum(tried)])
        self.total = models.total
        self.gain = np.full(len(order), -np.inf)
        self.most = np.full(models.level.n_nodes, -np.inf)

    def narrow(self, spans: _Spans, steps: Sequence[int]) -> None:
        """Look for thresholds among spans of rows, so many rows apart."""
        step, *finer = steps
        blocks = self._blocks(spans, step)
        # Look at whole nodes first: what is found there rules most of the rest out.
        n = _HELD if step == _STEPS[0] else 1
        while found := [self._looked_at(some, step) for some in islice(blocks, n)]:
            if finer:
                each = zip(*found, strict=True)
                parts = _Spans(*(np.concatenate(one, axis=-1) for one in each))
                self.narrow(parts.take(_promising_first(parts)), finer)

    def _blocks(self, spans: _Spans, step: int) -> Iterator[_Spans]:
        """Some spans at a time, without those that can hold nothing better."""
        n_parts = np.cumsum(-(-spans.length // step))
        most = max(_AT_ONCE // len(self.total), 64)
        cuts = np.flatnonzero(np.diff(n_parts // most)) + 1
        for some in np.split(np.arange(len(n_parts)), cuts):
            some = some[self._may_hold(spans.bound[some], spans.node[some])]
            if len(some):
                yield spans.take(some)

    def _may_hold(self, bound: np.ndarray, node: np.ndarray) -> np.ndarray:
        return bound >= self.most[node] - _SLACK * self.total[-1, node]

    def _looked_at(self, spans: _Spans, step: int) -> _Spans:
        """Try thresholds after every so many rows; return what may hold better ones."""
        number = -(-spans.length // step)
        first = np.cumsum(number) - number
        span = np.repeat(np.arange(len(number)), number)
        start = spans.start[span] + step * (np.arange(len(span)) - first[span])
        stop = np.minimum(start + step, (spans.start + spans.length)[span])
        node = spans.node[span]
        place = start[:, None] + np.arange(step)
        place = np.where(place < stop[:, None], place, len(self.order) - 1)
        sums = self.models.of_parts(self.order[place])
        sums = running(RaggedRows(number), sums)
        sums += spans.before[:, span]
        total = self.total.take(node, axis=1)
        sides = np.stack([sums, total - sums], axis=1)
        # Of no rows, what is left of their sums would be rounding.
        sides[:, 1, sums[0] >= total[0] * (1 - ROUNDING)] = 0.0
        penalty = self.models.penalty[node].T[:, None]
        left, right = sides[-1] - explained(sides[:-1], penalty)
        at = stop - 1
        gain = np.where(self.tried[at], total[-1] - left - right, -np.inf)
        self.gain[at] = gain
        np.maximum.at(self.most, node, gain)
        before, left_before = np.roll(sums, 1, axis=1), np.roll(left, 1)
        before[:, first], left_before[first] = spans.before, spans.left
        bound = total[-1] - left_before - right
        parts = _Spans(start, stop - start, node, before, left_before, bound)
        more = self.n_before[at] > self.n_before[start]
        return parts.take(more & self._may_hold(bound, node))


def _promising_first(spans: _Spans) -> np.ndarray:
    """Order of spans: the one of each node that may save most, then the second ones."""
    order = np.lexsort((-spans.bound, spans.node))
    node = spans.node[order]
    nth = np.arange(len(node)) - np.searchsorted(node, node)
    return order[np.argsort(nth, kind="stable")]


def explained(
    sums: Float[np.ndarray, "n_sums ..."], penalty: Float[np.ndarray, "n ..."]
) -> Float[np.ndarray, " *m"]:
    """Sums of squares that ridge models explain, from sums of products.

    For each of many problems and outputs b' (A + w P)^-1 b, by Gaussian elimination of
    upper triangles, row by row; w is the weight, the first of the sums.
    """
    n = len(penalty)
    width = (len(sums) - n * (n + 1) // 2) // n + n
    ends = np.cumsum(width - np.arange(n))
    rows = np.split(sums.astype(np.float32, order="C"), ends[:-1])
    weight = rows[0][0].copy()
    room = np.empty_like(rows[0])
    found = np.zeros_like(weight)
    for i, row in enumerate(rows):
        row[0] += weight * penalty[i]
        pivot = np.maximum(row[0], ROUNDING * weight + _NOTHING)
        found += np.sum(row[n - i :] ** 2, axis=0) / pivot
        factors = row[1 : n - i] / pivot
        for k, factor in enumerate(factors, start=1):
            rows[i + k] -= np.multiply(row[k:], factor, out=room[: len(row) - k])
    return found.astype(np.float64)
