"""Residuals of nodes' models, and models of both sides of thresholds.

Residual sums of squares of a side only grow with its rows. So no threshold between two
places leaves less than the left side of the first one and the right side of the second
one together: where that is more than the least one found, none needs a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array

from secret_jax.data.ragged import RaggedRows
from secret_jax.learners.thresholds import (
    PURE,
    ROUNDING,
    Ranked,
    Thresholds,
    best_in,
    moments,
    ranked,
    tried_cuts,
)
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant, LeastSquares
from secret_jax.runtime.shapes import Scratch, slice_positions
from secret_jax.runtime.values import POSITIVE
from secret_jax.splits.axis import Projections, leading_component
from secret_jax.splits.interface import Level, SplitFinder

# Minimum number of rows per coefficient of a side's linear model: with fewer it would
# follow their noise.
_ROWS_PER_COEFFICIENT = 2.0
# Cuts between two that are tried, first among all, then among what may hold the best.
# Of fewer than so many times as many all are tried at once.
_STEPS, _FEW = (64, 16, 4, 1), 4
# Sums, and rows of spans, that are worked on at once: they stay in a cache.
_AT_ONCE = 1 << 18
# Products of rows that are held at once: reading them takes most time. Of a single node
# they may be more; of an even larger one they are made when they are added up.
_HELD, _MOST_HELD = 1 << 22, 1 << 25
# Most rows whose products are made, and added up in float32, at once.
_SLICE = 1 << 12
# Bounds that are closer than this share of the squares are equal but for rounding.
_SLACK = 1e-5
# Weight of no rows, by which zero may be divided.
_NOTHING = 1e-30
_kept = Scratch()


def _room(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Memory that is used again, as new pages cost as much as products, if not much."""
    memory = _kept if math.prod(shape) <= _HELD else Scratch()
    return memory.array(name, shape, dtype)


@dataclass(frozen=True, kw_only=True)
class ResidualSplits(SplitFinder):
    """Base of the finders that look at what the model of a node leaves."""

    ridge: Annotated[float, POSITIVE] = 1e-4

    model: ClassVar[str] = "linear"

    @property
    def node_model(self) -> LeafModel:
        """Model whose residuals are analysed."""
        return LeastSquares() if self.model == "linear" else Constant()

    def n_random(self, n_columns: int) -> int:
        """The last one is the start of sampled values."""
        return 1

    def residuals(self, level: Level) -> Residuals:
        """What the models leave, and rows for models of parts like them."""
        rows, n = level.rows, level.n_regressors
        x = level.x.astype(np.float64)
        slopes = level.model[:, :, 1:].astype(np.float64)
        fitted = rows.spread(level.model[:, :, 0]) + rows.transformed(slopes, x[:n])
        residual, spread = moments(level, level.targets - fitted)
        z, deviation = moments(level, x)
        varies = deviation > PURE
        scale = np.where(varies, deviation, 1.0)
        z = np.where(rows.spread(varies), z / rows.spread(scale), 0.0)
        n_model = n if self.model == "linear" else 0
        back, penalty = components(level, z[:n_model], self.ridge)
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
            least=np.maximum(level.min_weight, enough * (1 - ROUNDING)),
            pure=spread.max(axis=1) <= PURE,
        )


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
    pure: np.ndarray  # (n_nodes,), bool: whether only rounding is left


def components(
    level: Level, z: Float[np.ndarray, "n rows"], ridge: float
) -> tuple[Float[np.ndarray, "n_nodes n n"], Float[np.ndarray, "n_nodes n"]]:
    """What makes principal components of unit variance, and a ridge in their units."""
    rows = level.rows
    total = rows.sums(level.weight.astype(np.float64))[:, None, None]
    value, vector = np.linalg.eigh(rows.products(level.weight * z, z) / total)
    ridged = np.maximum(value, 0.0) + ridge
    back = np.swapaxes(vector / np.sqrt(ridged)[:, None], 1, 2)
    return np.ascontiguousarray(back), ridge / ridged


def best_thresholds(
    level: Level, left: Residuals, axis: Projections, thresholds: Thresholds
) -> tuple[Float[np.ndarray, "n_nodes n"], Float[np.ndarray, "n_nodes n"]]:
    """Gain and threshold of each projection that a node is allowed.

    See `SideModels.best`: the best gain of a node is right, others may be too small.
    """
    gain, threshold = np.full((2, *axis.allowed.shape), -np.inf)
    some = np.flatnonzero(axis.allowed.any(axis=0))
    order = ranked(level, axis.projection[some], left.least)
    tried = tried_cuts(level, order, thresholds, left.least)
    tried &= np.repeat(axis.allowed[:, some], level.rows.length, axis=0).T
    gain[:, some], threshold[:, some] = left.models.best(order, tried)
    if thresholds not in ("all", 1) and len(some):
        best = gain.argmax(axis=1)
        node = np.arange(level.n_nodes)
        own = np.searchsorted(some, best)[:, None]
        order = Ranked(*(level.rows.chosen(own, array) for array in order))
        tried = level.rows.chosen(own, tried)
        found = gain[node, best, None], threshold[node, best, None]
        found = left.models.best_near(order, tried, *found)
        gain[node, best], threshold[node, best] = (each[:, 0] for each in found)
    return gain, threshold


class _Spans(NamedTuple):
    """Neighbouring cuts of nodes along some projection."""

    start: np.ndarray  # (m,), int: the first of the cuts
    length: np.ndarray  # (m,), int: number of cuts
    row: np.ndarray  # (m,), int: the first row after the cut before
    node: np.ndarray  # (m,), int
    before: np.ndarray  # (m, n_sums): sums over the rows of the node before that
    left: np.ndarray  # (m,): sum of squares that a model of those leaves
    bound: np.ndarray  # (m,): most that one of the cuts saves

    def take(self, some: np.ndarray | slice) -> _Spans:
        """Some of them, by position or by a mask."""
        return _Spans(*(array[some] for array in self))


@dataclass(frozen=True)
class SideModels:
    """Ridge models of parts of the nodes of a level, from sums over their rows.

    Sums are those of products of the models' columns, row by row of the upper triangle,
    each with the residuals after it; then the squares of the residuals.
    """

    level: Level
    # (n_columns + n_outputs, rows): ones, regressors, then residuals.
    design: np.ndarray
    penalty: np.ndarray  # (n_nodes, n_columns): of the models, for a unit of weight

    @cached_property
    def total(self) -> Float[np.ndarray, "n_nodes n_sums"]:
        """Sums over the nodes."""
        return self._sums(np.ones((1, len(self.level.weight)), bool))

    @cached_property
    def square(self) -> Float[np.ndarray, " n_nodes"]:
        """Sums of the squares of all residuals."""
        return self.total[:, self.penalty.shape[1] - len(self.design) :].sum(axis=1)

    def _sums(self, left: Bool[np.ndarray, "k rows"]) -> np.ndarray:
        """Sums over one side of some splits of every node, (n_nodes * k, n_sums)."""

        def of_left(rows: RaggedRows, _, arrays) -> tuple[np.ndarray, ...]:
            weight, design, left = arrays
            flat = (weight * left)[:, None] * design
            return (rows.products(flat.reshape(-1, len(weight)), design),)

        arrays = self.level.weight, self.design, left
        (found,) = self.level.rows.total(of_left, (), arrays)
        return found.reshape(-1, *2 * self.design.shape[:1])[:, *self._pairs]

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Columns whose products are summed up."""
        n, n_design = self.penalty.shape[1], len(self.design)
        (one, other), squares = np.triu_indices(n, m=n_design), np.arange(n, n_design)
        return np.append(one, squares), np.append(other, squares)

    def products(
        self, design: Float[np.ndarray, "m n_design"], weight: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m n_sums"]:
        """What sums add up, of some rows."""
        one, other = self._pairs
        found = (design * weight[:, None]).take(one, axis=1, mode="clip")
        found *= design.take(other, axis=1, mode="clip")
        return found

    def saved(
        self, left: Bool[np.ndarray, "k rows"], least: Float[np.ndarray, " n_nodes"]
    ) -> Float[np.ndarray, "n_nodes k"]:
        """What models of both sides of splits save; -inf where a side is too light."""
        node = np.repeat(np.arange(self.level.n_nodes), len(left))
        sums, total = self._sums(left), self.total[node, 0]
        weight = np.minimum(sums[:, 0], total - sums[:, 0])
        enough = (weight >= least[node]) & (weight > ROUNDING * total)
        one, other = self.left_over(sums, node)
        gain = np.where(enough, self.square[node] - one - other, -np.inf)
        return gain.reshape(-1, len(left))

    def left_over(
        self, sums: Float[np.ndarray, "m n_sums"], node: Int[np.ndarray, " m"]
    ) -> Float[np.ndarray, "2 m"]:
        """Sums of squares that models of sides of nodes, and of the rest, leave."""
        rest = _room("rest", sums.shape, np.float64)
        self.total.take(node, axis=0, out=rest, mode="clip")
        nothing = sums[:, 0] >= rest[:, 0] * (1 - ROUNDING)
        rest -= sums
        rest[nothing] = 0.0  # in place of what rounding makes of no rows
        n = sums.shape[1] - len(self.design) + self.penalty.shape[1]
        squares = np.stack([side[:, n:].sum(axis=1) for side in (sums, rest)])
        sides = _room("sides", (n, *squares.shape), np.float32)
        sides[:, 0], sides[:, 1] = sums.T[:n], rest.T[:n]
        return squares - explained(sides, self.penalty[node].T[:, None])

    def best(
        self, order: Ranked, tried: Bool[np.ndarray, "n rows"]
    ) -> tuple[Float[np.ndarray, "n_nodes n"], Float[np.ndarray, "n_nodes n"]]:
        """The threshold along some projections whose sides' models save most.

        ``tried``: after which rows, in their order. Returns what they save, minus
        infinity where nothing is tried, and the largest value on the left. Of
        projections other than the best one of a node it need not be the most.
        """
        rows, gain = self.level.rows, np.full(tried.shape, -np.inf)
        ends, most = rows.first + rows.length, max(_HELD // self.total.shape[1], 1)
        parts = np.flatnonzero(np.diff(ends // most)) + 1
        for nodes in np.split(np.arange(rows.n_nodes), parts):
            some = slice(rows.first[nodes[0]], ends[nodes[-1]])
            search = _Search(self, some, order.order[:, some], tried[:, some])
            gain[:, some] = search.run().reshape(gain[:, some].shape)
        return best_in(rows, gain, order.value)

    def best_near(
        self,
        order: Ranked,
        tried: Bool[np.ndarray, "1 rows"],
        gain: Float[np.ndarray, "n_nodes 1"],
        threshold: Float[np.ndarray, "n_nodes 1"],
    ) -> tuple[Float[np.ndarray, "n_nodes 1"], Float[np.ndarray, "n_nodes 1"]]:
        """The best threshold among all between the neighbours of the best one tried.

        ``gain``, ``threshold``: what `best` returns of these.
        """
        rows = self.level.rows
        before = np.cumsum(tried, axis=1) - tried  # how many were tried
        is_best = tried & (order.value == rows.spread(threshold))
        place = rows.sums(np.where(is_best, before, 0).astype(np.float64))
        after = before - rows.spread(place)
        near = order.cut & (after >= 0) & (after <= 1)
        near &= rows.spread(np.isfinite(gain)) & ~tried
        found, cut = self.best(order, near)
        better = found > gain
        return np.where(better, found, gain), np.where(better, cut, threshold)


class _Search:
    """Cuts of neighbouring nodes, and what is found of them so far."""

    def __init__(
        self, models: SideModels, rows: slice, order: np.ndarray, tried: np.ndarray
    ):
        self.models, n_sums = models, models.total.shape[1]
        self.design = models.design[:, rows].T.astype(np.float32, order="C")
        self.weight = models.level.weight[rows]
        self.n_at_once = max(min(_SLICE, _HELD // n_sums), 1)
        self.held, shape = None, (len(self.design), n_sums)
        if math.prod(shape) <= _MOST_HELD:
            self.held = _room("held", shape, np.float32)
            for start in range(0, len(self.design), self.n_at_once):
                part = slice(start, start + self.n_at_once)
                self.held[part] = models.products(self.design[part], self.weight[part])
        self.order = (order - rows.start).ravel()
        self.cut, n_rows = np.flatnonzero(tried), tried.shape[1]
        self.gain = np.full(tried.size, -np.inf)
        self.most = np.full(models.level.n_nodes, -np.inf)
        # All cuts of each node along each projection.
        of = models.level.rows
        projection, row = np.divmod(self.cut, n_rows)
        node = of.slot[rows][row]
        start = np.flatnonzero(np.diff(projection * of.n_nodes + node, prepend=-1))
        node, n = node[start], len(start)
        self.spans = _Spans(
            start=start,
            length=np.diff(start, append=len(row)),
            row=projection[start] * n_rows + of.first[node] - rows.start,
            node=node,
            before=np.zeros((n, n_sums)),
            left=np.zeros(n),
            bound=np.full(n, np.inf),
        )

    def run(self) -> Float[np.ndarray, " rows"]:
        """What cuts save that may be the best of their nodes, else minus infinity."""
        most = self.spans.length.max(initial=0)
        n_sums = self.models.total.shape[1]
        waiting = [(self.spans, [n for n in _STEPS if n * _FEW < most or n == 1])]
        while waiting:
            spans, (step, *finer) = waiting.pop()
            spans = spans.take(self._may_hold(spans.bound, spans.node))
            if not len(spans.node):
                continue
            rows = self.cut[spans.start + spans.length - 1] + 1 - spans.row
            size = np.maximum(-(-spans.length // step) * n_sums, rows)
            n = 1 + np.searchsorted(np.cumsum(size), _AT_ONCE)
            if n < len(spans.node):
                waiting.append((spans.take(slice(n, None)), [step, *finer]))
            parts = self._looked_at(spans.take(slice(n)), step)
            if finer:  # first of each node what may save most, then the second ones
                order = np.lexsort((-parts.bound, parts.node))
                node = parts.node[order]
                nth = np.arange(len(node)) - np.searchsorted(node, node)
                order = order[np.argsort(nth, kind="stable")]
                waiting.append((parts.take(order), finer))
        return self.gain

    def added(
        self, rows: Int[np.ndarray, " k"], ends: Int[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m n_sums"]:
        """Sums over the rows up to each end from the one before, many in float64."""
        sums = np.zeros((len(ends), self.models.total.shape[1]))
        few = self.held is not None and np.diff(ends, prepend=0).max() <= _SLICE
        n_at_once = len(rows) if few else self.n_at_once
        for start in range(0, len(rows), n_at_once):
            own, table = rows[start : start + n_at_once], self.held
            stop = start + len(own)
            if table is None:
                table = self.models.products(self.design[own], self.weight[own])
                own = np.arange(len(own))
            first, last = np.searchsorted(ends, [start + 1, stop])
            some = slice(first, last + 1)
            edges = np.append(0, np.minimum(ends[some], stop) - start)
            values = np.ones(len(own), np.float32), own, edges
            shape = len(edges) - 1, len(table)
            sums[some] += csr_array(values, shape=shape) @ table
        return sums

    def _may_hold(self, bound: np.ndarray, node: np.ndarray) -> np.ndarray:
        return bound >= self.most[node] - _SLACK * self.models.square[node]

    def _looked_at(self, spans: _Spans, step: int) -> _Spans:
        """Try every so manyth of the cuts; return those between that may be better."""
        number = -(-spans.length // step)
        first = np.cumsum(number) - number
        span = np.repeat(np.arange(len(number)), number)
        start = spans.start[span] + step * (np.arange(len(span)) - first[span])
        last = np.minimum(start + step, (spans.start + spans.length)[span]) - 1
        node, stop = spans.node[span], self.cut[last] + 1
        row = np.roll(stop, 1)
        row[first] = spans.row
        rows = self.order[slice_positions(spans.row, stop[first + number - 1])]
        sums = self.added(rows, np.cumsum(stop - row))
        # One cumulative sum for all spans: each begins with what is before it.
        behind = np.add.reduceat(sums, first, axis=0) + spans.before
        sums[first] += spans.before
        sums[first[1:]] -= behind[:-1]
        np.cumsum(sums, axis=0, out=sums)
        left, right = self.models.left_over(sums, node)
        whole = self.models.square[node]
        self.gain[stop - 1] = gain = whole - left - right
        np.maximum.at(self.most, node, gain)
        left = np.roll(left, 1)
        left[first] = spans.left
        bound = whole - left - right
        more = np.flatnonzero((last > start) & self._may_hold(bound, node))
        is_first = (row[more] == spans.row[span[more]])[:, None]
        before = np.where(is_first, spans.before[span[more]], sums[more - 1])
        length, left, bound = (last - start)[more], left[more], bound[more]
        return _Spans(start[more], length, row[more], node[more], before, left, bound)


def explained(
    sums: Float[np.ndarray, "n_sums ..."], penalty: Float[np.ndarray, "n ..."]
) -> Float[np.ndarray, " *m"]:
    """Sums of squares that ridge models explain, b' (A + w P)^-1 b of all outputs.

    By Gaussian elimination of upper triangles, row by row, in place where they are of
    float32; w is the weight, the first of the sums.
    """
    n = len(penalty)
    width = (len(sums) - n * (n + 1) // 2) // n + n
    ends = np.cumsum(width - np.arange(n))
    rows = np.split(sums.astype(np.float32, order="C", copy=False), ends[:-1])
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
