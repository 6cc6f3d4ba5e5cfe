"""Sufficient statistics of nodes, for linear models of several outputs.

Statistics are taken once, at the leaves, block of rows by block of rows; an inner
node's are the sums of its children's. They are centred (mean and scatter, not raw
moments). The rows of a block are sorted by node, and those of a node are products of
matrices of float64, one for each piece that a cache holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from secret_jax.data.rows import Rows
from secret_jax.runtime.linalg import Moments, added_up, safe_divide
from secret_jax.runtime.shapes import Scratch, slice_positions
from secret_jax.tree.reshape import nodes_kept
from secret_jax.tree.structure import Tree

# Rows to give `group_statistics` at once: so many that calls of NumPy cost less than
# the work, also of a thousand groups.
BLOCK_ROWS = 1 << 16
# Rows of which products are made at once, in one thread: to share them out takes as
# long as it saves.
_STRETCH = 4096
# Eigenvalues of dependent columns, over the largest one: of products of float64 numbers
# (of columns in float32) up to 1e-12, of float32 ones up to 1e-8.
_ROUNDING_64, ROUNDING_32 = 1e-10, 1e-6


class NodeStatistics(NamedTuple):
    """Sufficient statistics of the regressors and the outputs, per node.

    Attributes
    ----------
    weight : ndarray of shape (n_nodes,), float64
        Sum of the weights of the rows.
    mean : ndarray of shape (n_nodes, n_regressors + n_outputs), float64
        The outputs last.
    scatter : ndarray of shape (n_nodes, n_regressors + n_outputs, the same), float64
        Weighted sums of products about the mean: not divided by the weight.
    lower, upper : ndarray of shape (n_nodes, n_outputs), float64
        Range of the outputs; inf and -inf where there is no row.
    rounding : ndarray of shape (n_nodes,), float64
        Share of a scatter's largest eigenvalue below which the others may be rounding.
    """

    weight: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    rounding: np.ndarray

    @property
    def n_outputs(self) -> int:
        return self.lower.shape[1]

    @property
    def n_regressors(self) -> int:
        return self.mean.shape[1] - self.n_outputs

    def take(self, node: np.ndarray) -> NodeStatistics:
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


class TreeStatistics(NamedTuple):
    """Statistics of the nodes of a tree, of the rows that grew it."""

    tree: Tree
    statistics: NodeStatistics

    def of(self, subtree: Tree) -> NodeStatistics | None:
        """Those of a tree that was cut from it; None if it splits otherwise."""
        node = nodes_kept(self.tree, subtree)
        return None if node is None else self.statistics.take(node)


def empty_statistics(n_nodes: int, n_regressors: int, n_outputs: int) -> NodeStatistics:
    """Make statistics of no rows."""
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
    """Add statistics to those of some nodes, in place; one may come several times."""
    order = np.argsort(node, kind="stable")
    single, first = np.unique(node[order], return_index=True)
    weight, mean, scatter = added_up(Moments(*(a[order] for a in more[:3])), first)
    own_weight, own_mean, own_scatter = (array[single] for array in statistics[:3])
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


def mean_squared_errors(
    statistics: NodeStatistics, coefficient: Float[np.ndarray, "n_nodes n_outputs _"]
) -> Float[np.ndarray, "n_nodes n_outputs"]:
    """Mean squared errors of the nodes' models on the rows of any statistics."""
    errors = np.empty(coefficient.shape[:2])
    for output in range(coefficient.shape[1]):
        _, mean, scatter, *_ = statistics.output(output)
        model = coefficient[:, output]
        # The residual as a sum of the regressors and the output.
        residual = np.concatenate([-model[:, 1:], np.ones((len(model), 1))], axis=1)
        bias = np.einsum("ni,ni->n", residual, mean) - model[:, 0]
        spread = np.einsum("ni,nij,nj->n", residual, scatter, residual)
        errors[:, output] = np.maximum(spread, 0.0) + statistics.weight * bias**2
    return errors / np.where(statistics.weight > 0, statistics.weight, 1.0)[:, None]


def group_statistics(
    rows: Rows,
    n_regressors: int,
    group: Int[np.ndarray, " n_rows"],
    n_groups: int,
    scratch: Scratch | None = None,
) -> tuple[np.ndarray, NodeStatistics]:
    """Compute statistics of groups of rows; return those that have rows, and theirs."""
    scratch = scratch or Scratch()
    # Keys of one or two bytes are sorted by counting.
    key = group.astype(np.min_scalar_type(n_groups))
    order = np.argsort(key, kind="stable")
    count = np.bincount(key, minlength=n_groups)
    occupied, stop = np.flatnonzero(count), np.cumsum(count)
    # As wide as what they become: to copy whole rows takes half of the time.
    shape = rows.n_rows, n_regressors + rows.targets.shape[1] + 1
    x = scratch.array("narrow", shape, np.float32)
    x[:, :n_regressors] = rows.table.on_host().x[:, :n_regressors]
    x[:, n_regressors:] = 1.0
    edges = (stop - count)[occupied], stop[occupied]
    return occupied, slice_statistics(
        x, None, rows.targets, rows.weight, n_regressors, order, *edges, scratch
    )


def slice_statistics(
    x: Float[np.ndarray, "n_rows n_columns"],
    row: np.ndarray | None,
    targets: Float[np.ndarray, "n_places n_outputs"],
    weight: Float[np.ndarray, " n_places"],
    n_regressors: int,
    order: Int[np.ndarray, " n_places"],
    start: Int[np.ndarray, " n_slices"],
    stop: Int[np.ndarray, " n_slices"],
    scratch: Scratch | None = None,
) -> NodeStatistics:
    """Compute statistics of the places ``order[start:stop]`` of each slice, in float64.

    ``x``: the regressors come first; ``row``: that of every place, if they are others.
    A slice is measured from its first row, so that no large numbers cancel.
    """
    some, n_slices = np.flatnonzero(stop > start), len(start)
    start, stop, scratch = start[some], stop[some], scratch or Scratch()
    length, place = stop - start, order
    if len(order) > length.sum() or (start[1:] != stop[:-1]).any():
        place = order[slice_positions(start, stop)]
    index = place if row is None else row.take(place)
    targets, weight = targets.take(place, axis=0), weight.take(place)
    n_rows, width = len(index), n_regressors + targets.shape[1]
    begin = np.cumsum(length) - length
    slot = np.repeat(np.arange(len(length)), length)
    pivot = np.zeros((len(length), width + 1))
    pivot[:, :n_regressors] = x[index[begin], :n_regressors]
    pivot[:, n_regressors:width] = targets[begin]
    # A slice is cut where a stretch of rows ends that a cache holds.
    cuts = begin
    if n_rows > _STRETCH:
        cuts = np.union1d(begin, np.arange(0, n_rows, _STRETCH))
    products = np.empty((len(cuts), width + 1, width + 1))
    n_copied = min(width + 1, x.shape[1])  # others are overwritten
    factor = None if (weight == 1.0).all() else weight[:, None]
    for top in range(0, n_rows, _STRETCH):
        rows = slice(top, min(top + _STRETCH, n_rows))
        n_taken = rows.stop - top
        taken = scratch.array("taken", (n_taken, x.shape[1]), x.dtype)
        x.take(index[rows], axis=0, out=taken, mode="clip")
        # In two arrays, as BLAS takes longer for half of the products of one.
        joint, other = scratch.array("joint", (2, n_taken, width + 1), np.float64)
        joint[:, :n_copied] = taken[:, :n_copied]
        joint[:, n_regressors:width] = targets[rows]
        joint[:, width] = 1.0
        joint -= pivot.take(slot[rows], axis=0)
        np.multiply(joint, 1.0 if factor is None else factor[rows], out=other)
        first, last = np.searchsorted(cuts, [top, rows.stop])
        edges = [*(cuts[first:last] - top).tolist(), n_taken]
        for piece, part in enumerate(map(slice, edges[:-1], edges[1:]), first):
            # Not by `numpy.matmul`, which lets no other thread run meanwhile.
            np.dot(other[part].T, joint[part], out=products[piece])
    total = np.add.reduceat(products, np.searchsorted(cuts, begin))
    found = NodeStatistics(
        *centred(total, pivot[:, :width]),
        lower=np.minimum.reduceat(targets, begin, axis=0).astype(np.float64),
        upper=np.maximum.reduceat(targets, begin, axis=0).astype(np.float64),
        rounding=np.full(len(length), _ROUNDING_64),
    )
    if len(some) == n_slices:
        return found
    statistics = empty_statistics(n_slices, n_regressors, targets.shape[1])
    for every, own in zip(statistics, found, strict=True):
        every[some] = own
    return statistics


def centred(
    products: np.ndarray, pivot: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute weight, mean and scatter, given sums of products of [z - pivot, 1]."""
    weight, first = products[:, -1, -1], products[:, -1, :-1]
    offset = safe_divide(first, weight[:, None])
    between = weight[:, None, None] * offset[:, :, None] * offset[:, None, :]
    return weight, pivot + offset, products[:, :-1, :-1] - between
