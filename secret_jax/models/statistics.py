"""Sufficient statistics of nodes, for linear models of several outputs.

Statistics are taken once, at the leaves; an inner node's are the sums of its
children's. They are centred (mean and scatter, not raw moments). Of few rows they are
sums in float64; of many, a block's rows are sorted by leaf, and those of a leaf are one
product of matrices.
"""

from __future__ import annotations

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
# Maximum number of products of a slice that is summed together with others.
_FEW_PRODUCTS = 1 << 15
# Eigenvalues of dependent columns, over the largest one: of products of float64 numbers
# (of columns in float32) up to 1e-14, of float32 ones up to 1e-8.
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
    n = n_regressors
    statistics = empty_statistics(len(start), n, targets.shape[1])
    width = statistics.mean.shape[1]

    few = (stop - start) * width**2 <= _FEW_PRODUCTS
    most = max((stop - start)[~few].max(initial=0), (stop - start)[few].sum())
    # Memory of all slices: to get some for each would take as long as the work.
    joints, products = np.empty((2, most, width))

    def rows_of(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        joint = joints[: len(place)]
        # Whole rows are taken in a third of the time of some of their columns.
        own = x.take(place if row is None else row.take(place), axis=0)
        joint[:, :n] = np.asarray(own)[:, :n]
        joint[:, n:] = targets.take(place, axis=0)
        return joint, weight.take(place).astype(np.float64, copy=False)

    for index in np.flatnonzero(~few):
        joint, own = rows_of(order[start[index] : stop[index]])
        statistics.lower[index] = joint[:, n:].min(axis=0)
        statistics.upper[index] = joint[:, n:].max(axis=0)
        mean = own @ joint / own.sum()
        joint -= mean
        statistics.weight[index], statistics.mean[index] = own.sum(), mean
        # Not by `numpy.matmul`, which lets no other thread run for so few results.
        weighted = np.multiply(own[:, None], joint, out=products[: len(own)])
        np.dot(weighted.T, joint, out=statistics.scatter[index])
    # Of small slices all but the products at once: calls of NumPy for each would take
    # longer than the work.
    some = np.flatnonzero(few & (stop > start))
    if not len(some):
        return statistics
    length = (stop - start)[some]
    last = np.cumsum(length)
    first = last - length
    joint, own = rows_of(order[slice_positions(start[some], stop[some])])
    total = np.add.reduceat(own, first)
    mean = np.add.reduceat(own[:, None] * joint, first) / total[:, None]
    statistics.lower[some] = np.minimum.reduceat(joint[:, n:], first)
    statistics.upper[some] = np.maximum.reduceat(joint[:, n:], first)
    statistics.weight[some], statistics.mean[some] = total, mean
    joint -= np.repeat(mean, length, axis=0)
    weighted = np.multiply(own[:, None], joint, out=products[: len(own)])
    runs = zip(some.tolist(), first.tolist(), last.tolist(), strict=True)
    for index, begin, end in runs:
        part = slice(begin, end)
        np.dot(weighted[part].T, joint[part], out=statistics.scatter[index])
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
    # Keys of one or two bytes are sorted by counting.
    key = group.astype(np.min_scalar_type(n_groups))
    order = np.argsort(key, kind="stable")
    count = np.bincount(key, minlength=n_groups)
    occupied = np.flatnonzero(count)
    stop = np.cumsum(count[occupied])
    start = stop - count[occupied]
    targets = rows.targets.take(order, axis=0)
    weight = rows.weight.take(order) if (rows.weight != 1.0).any() else None
    n = n_regressors + targets.shape[1]
    scratch = scratch or Scratch()
    # As wide as what they become: to copy whole rows takes half of the time.
    narrow = scratch.array("narrow", (rows.n_rows, n + 1), np.float32)
    narrow[:, :n_regressors] = np.asarray(rows.table.x)[:, :n_regressors]
    for column in range(n_regressors, n + 1):
        narrow[:, column] = 1.0
    # In a cache: all groups use it.
    shape = count.max(initial=0), n + 1
    taken = scratch.array("taken", shape, np.float32)
    joint, weighted = scratch.array("joint", (2, *shape), float)
    products = np.empty((len(occupied), n + 1, n + 1))

    def product(index: int, center: np.ndarray | None = None) -> np.ndarray:
        """Weighted products of [x, y, 1], less a center, of the rows of a group."""
        part = slice(start[index], stop[index])
        few = slice(part.stop - part.start)
        own = joint[few]
        own[:] = narrow.take(order[part], axis=0, out=taken[few], mode="clip")
        own[:, n_regressors:n] = targets[part]
        if center is not None:
            own[:, :n] -= center
        # In two arrays, as BLAS takes longer for half of the products of one.
        factor = 1.0 if weight is None else weight[part, None]
        other = np.multiply(own, factor, out=weighted[few])
        return np.dot(other.T, own, out=products[index])

    for index in range(len(occupied)):
        product(index)
    found = empty_statistics(len(occupied), n_regressors, targets.shape[1])
    found.weight[:] = products[:, n, n]
    found.mean[:] = products[:, n, :n] / found.weight[:, None]
    square = found.mean[:, :, None] * found.mean[:, None, :]
    found.scatter[:] = products[:, :n, :n] - found.weight[:, None, None] * square
    # Of columns far from zero the difference has lost digits.
    left, all_of_it = (np.einsum("gii->gi", a) for a in (found.scatter, products))
    cancelled = (left < _CANCELLED * all_of_it[:, :n]).any(axis=1)
    for index in np.flatnonzero(cancelled).tolist():
        found.scatter[index] = product(index, found.mean[index])[:n, :n]
    np.minimum.reduceat(targets, start, axis=0, out=found.lower)
    np.maximum.reduceat(targets, start, axis=0, out=found.upper)
    return occupied, found
