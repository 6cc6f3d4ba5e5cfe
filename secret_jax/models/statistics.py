"""Sufficient statistics of nodes, for linear models of several outputs.

Statistics are taken once, at the leaves; an inner node's are the sums of its
children's. They are centred (mean and scatter, not raw moments), sums in float64. Rows
are sorted by node, and those of a node are products of matrices, one for each piece
that a cache holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from secret_jax.data.rows import Rows
from secret_jax.runtime.linalg import safe_divide
from secret_jax.runtime.moments import Moments, grouped
from secret_jax.runtime.scratch import Scratch
from secret_jax.runtime.shapes import next_power_of_two, slice_positions

# Rows of a leaf in a block: so many that calls of NumPy cost less than the work. Blocks
# stay in a cache.
_MANY = 512
_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 15, 1 << 17
# Share of a sum of squares that is left about the mean, below which the mean is
# subtracted before.
_CANCELLED = 1e-4
# Maximum number of rows of which products are made at once. In one thread: to share
# them out takes as long as it saves.
_PIECE = 4096
# Eigenvalues of dependent columns, over the largest one: of products of float64 numbers
# (of columns in float32) up to 1e-12, of float32 ones up to 1e-8.
_ROUNDING_64, ROUNDING_32 = 1e-10, 1e-6


class NodeStatistics(NamedTuple):
    """Sufficient statistics of the regressors and the outputs, per node."""

    weight: np.ndarray  # (n_nodes,), float64
    mean: np.ndarray  # (n_nodes, n_regressors + n_outputs), float64: the outputs last
    # (n_nodes, n_regressors + n_outputs, the same), float64: sums of products about the
    # mean.
    scatter: np.ndarray
    # lower, upper (n_nodes, n_outputs), float64: range of the outputs; inf and -inf
    # where there is no row.
    lower: np.ndarray
    upper: np.ndarray
    # (n_nodes,), float64: share of a scatter's largest eigenvalue below which the
    # others may be rounding.
    rounding: np.ndarray

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.lower.shape[1]

    @property
    def n_regressors(self) -> int:
        """Number of regressors."""
        return self.mean.shape[1] - self.n_outputs

    @property
    def moments(self) -> Moments:
        """Weight, mean and scatter of the nodes."""
        return Moments(self.weight, self.mean, self.scatter)

    def take(self, node: np.ndarray) -> NodeStatistics:
        """Select nodes."""
        return NodeStatistics(*(array[node] for array in self))

    def output(self, which: int) -> NodeStatistics:
        """Restrict the statistics to one output."""
        if self.n_outputs == 1:
            return self
        kept = np.append(np.arange(self.n_regressors), self.n_regressors + which)
        part = slice(which, which + 1)
        return NodeStatistics(
            self.weight,
            self.mean[:, kept],
            self.scatter[:, kept[:, None], kept],
            self.lower[:, part],
            self.upper[:, part],
            self.rounding,
        )


def empty_statistics(n_nodes: int, n_regressors: int, n_outputs: int) -> NodeStatistics:
    """Make empty statistics."""
    width = n_regressors + n_outputs
    return NodeStatistics(
        weight=np.zeros(n_nodes),
        mean=np.zeros((n_nodes, width)),
        scatter=np.zeros((n_nodes, width, width)),
        lower=np.full((n_nodes, n_outputs), np.inf),
        upper=np.full((n_nodes, n_outputs), -np.inf),
        rounding=np.full(n_nodes, _ROUNDING_64),
    )


def merge_into(
    statistics: NodeStatistics, node: Int[np.ndarray, " n_more"], more: NodeStatistics
) -> None:
    """Add statistics to those of some nodes, in place.

    ``node``: which nodes; one may come several times.
    """
    single, (weight, mean, scatter) = node, more.moments
    if len(np.unique(node)) < len(node):
        single, (weight, mean, scatter) = grouped(more.moments, node)
    own_weight, own_mean, own_scatter = (array[single] for array in statistics.moments)
    total = own_weight + weight
    share, offset = safe_divide(weight, total), mean - own_mean
    between = offset[:, :, None] * offset[:, None, :]
    between *= (own_weight * share)[:, None, None]
    statistics.weight[single] = total
    statistics.mean[single] = own_mean + share[:, None] * offset
    statistics.scatter[single] = own_scatter + scatter + between
    np.minimum.at(statistics.lower, node, more.lower)
    np.maximum.at(statistics.upper, node, more.upper)
    np.maximum.at(statistics.rounding, node, more.rounding)


def accumulate_to_root(
    statistics: NodeStatistics, parent: np.ndarray, depth: np.ndarray
) -> None:
    """Add the children's statistics to inner nodes, deepest level first, in place."""
    for level in range(depth.max(), 0, -1):
        child = np.flatnonzero(depth == level)
        merge_into(statistics, parent[child], statistics.take(child))
        inner = np.unique(parent[child])
        # Rounding must not make the scatter asymmetric.
        scatter = statistics.scatter[inner]
        statistics.scatter[inner] = 0.5 * (scatter + scatter.transpose(0, 2, 1))


def slice_statistics(
    x: Float[np.ndarray, "n_rows n_columns"],
    row: np.ndarray | None,
    targets: Float[np.ndarray, "n_places n_outputs"],
    weight: Float[np.ndarray, " n_places"],
    n_regressors: int,
    order: Int[np.ndarray, " n_places"],
    start: Int[np.ndarray, " n_slices"],
    stop: Int[np.ndarray, " n_slices"],
) -> NodeStatistics:
    """Compute statistics of the places ``order[start:stop]`` of each slice, in float64.

    ``x``: the regressors come first; ``row`` (n_places,), int, or None: row of every
    place; None: the places are the rows.
    """

    def regressors_of(place: np.ndarray, out: np.ndarray) -> None:
        # Whole rows are taken in a third of the time of some of their columns.
        own = x.take(place if row is None else row.take(place), axis=0)
        out[:, :n_regressors] = np.asarray(own)[:, :n_regressors]
        out[:, -1] = 1.0

    statistics = empty_statistics(len(start), n_regressors, targets.shape[1])
    some = np.flatnonzero(stop > start)
    width, slices = statistics.mean.shape[1], (start[some], stop[some])
    found = _of_slices(regressors_of, targets, weight, width, order, *slices, Scratch())
    for array, own in zip(statistics, found, strict=True):
        array[some] = own
    return statistics


def block_rows(n_groups: int) -> int:
    """Number of rows to give `block_statistics` at once: many in most groups."""
    return min(
        max(next_power_of_two(_MANY * n_groups), _SMALLEST_BLOCK), _LARGEST_BLOCK
    )


def block_statistics(
    rows: Rows,
    n_regressors: int,
    group: Int[np.ndarray, " n_rows"],
    n_groups: int,
    scratch: Scratch | None = None,
) -> tuple[np.ndarray, NodeStatistics]:
    """Compute statistics of the groups in a block of rows.

    ``group``: in [0, n_groups); ``scratch``: of calls for many blocks. Returns
    ``occupied`` (n_occupied,), int: the groups that have rows; ``statistics``: one
    entry for each of them: of float32 numbers, in float64.
    """
    scratch = scratch or Scratch()
    # Keys of one or two bytes are sorted by counting.
    key = group.astype(np.min_scalar_type(n_groups))
    order = np.argsort(key, kind="stable")
    count = np.bincount(key, minlength=n_groups)
    occupied = np.flatnonzero(count)
    stop = np.cumsum(count[occupied])
    # As wide as what they become: to copy whole rows takes half of the time.
    shape = rows.n_rows, n_regressors + rows.targets.shape[1] + 1
    narrow = scratch.array("narrow", shape, np.float32)
    narrow[:, :n_regressors] = np.asarray(rows.table.x)[:, :n_regressors]
    for column in range(n_regressors, shape[1]):
        narrow[:, column] = 1.0

    def regressors_of(place: np.ndarray, out: np.ndarray) -> None:
        own = scratch.array("taken", out.shape, np.float32)
        out[:] = narrow.take(place, axis=0, out=own, mode="clip")

    start, width = stop - count[occupied], shape[1] - 1
    return occupied, _of_slices(
        regressors_of, rows.targets, rows.weight, width, order, start, stop, scratch
    )


def _of_slices(
    regressors_of: Callable[[np.ndarray, np.ndarray], None],
    targets: np.ndarray,
    weight: np.ndarray,
    width: int,
    order: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    scratch: Scratch,
) -> NodeStatistics:
    """Statistics of slices that have rows.

    ``regressors_of``: writes the regressors of places, and a last 1, into rows of an
    array; ``width``: number of regressors and targets. Long slices are cut in pieces,
    and short ones are looked at together: a cache holds the rows, and calls are few.
    """
    length = stop - start
    if len(order) > length.sum() or (start[1:] != stop[:-1]).any():
        order = order[slice_positions(start, stop)]
    targets = targets.take(order, axis=0)
    factor = weight.take(order)[:, None] if (weight != 1.0).any() else None
    begin = np.cumsum(length) - length
    n_pieces = -(-length // _PIECE)
    first = np.cumsum(n_pieces) - n_pieces  # piece of each slice
    owner = np.repeat(np.arange(len(start)), n_pieces)
    starts = begin[owner] + _PIECE * (np.arange(len(owner)) - first[owner])
    starts = starts.tolist()
    stops = [*starts, len(order)][1:]
    products = np.empty((len(starts), width + 1, width + 1))

    def add(pieces: range, center: np.ndarray | None = None) -> None:
        """Products of [x, y, 1], less the centers of slices, of some pieces."""
        rows = slice(starts[pieces[0]], stops[pieces[-1]])
        shape = 2, rows.stop - rows.start, width + 1
        joint, other = scratch.array("joint", shape, np.float64)
        regressors_of(order[rows], joint)
        joint[:, width - targets.shape[1] : width] = targets[rows]
        if center is not None:
            of_row = np.repeat(owner[pieces], np.subtract(stops, starts)[pieces])
            joint[:, :width] -= center[of_row]
        # In two arrays, as BLAS takes longer for half of the products of one.
        np.multiply(joint, 1.0 if factor is None else factor[rows], out=other)
        for piece in pieces:
            own = slice(starts[piece] - rows.start, stops[piece] - rows.start)
            # Not by `numpy.matmul`, which lets no other thread run meanwhile.
            np.dot(other[own].T, joint[own], out=products[piece])

    several = list(_together(starts, stops))
    for pieces in several:
        add(pieces)
    total = np.add.reduceat(products, first)
    weights = length.astype(np.float64)
    if factor is not None:
        np.add.reduceat(factor[:, 0], begin, out=weights)
    mean = total[:, width, :width] / weights[:, None]
    square = mean[:, :, None] * mean[:, None, :]
    scatter = total[:, :width, :width] - weights[:, None, None] * square
    # Of columns far from zero the difference has lost digits.
    left, all_of_it = (np.einsum("nii->ni", array) for array in (scatter, total))
    cancelled = (left < _CANCELLED * all_of_it[:, :width]).any(axis=1)
    if cancelled.any():
        for pieces in several:
            if cancelled[owner[pieces]].any():
                add(pieces, mean)
        again = np.add.reduceat(products, first)[:, :width, :width]
        scatter[cancelled] = again[cancelled]
    lower = np.minimum.reduceat(targets, begin, axis=0)
    upper = np.maximum.reduceat(targets, begin, axis=0)
    rounding = np.full(len(length), _ROUNDING_64)
    return NodeStatistics(weights, mean, scatter, lower, upper, rounding)


def _together(starts: list[int], stops: list[int]) -> Iterator[range]:
    """Runs of neighbouring pieces that have no more than ``_PIECE`` rows together."""
    begin = 0
    for piece, stop in enumerate(stops):
        if stop - starts[begin] > _PIECE:
            yield range(begin, piece)
            begin = piece
    if stops:
        yield range(begin, len(stops))
