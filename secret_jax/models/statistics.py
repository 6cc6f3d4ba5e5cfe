"""Sufficient statistics of nodes, for linear models of several outputs.

Statistics are taken once, at the leaves; an inner node's are the sums of its
children's. They are centred (mean and scatter, not raw moments). Of few rows they are
sums in float64; of many, the rows of a leaf are made contiguous within a block, and a
few hundred of them are one product of float32 matrices about a number near their mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from secret_jax.data.rows import Rows
from secret_jax.runtime.moments import Moments, grouped
from secret_jax.runtime.shapes import next_power_of_two
from secret_jax.runtime.slices import slice_positions

# Rows of a run: float32 sums of so few products keep their digits.
_RUN = 512
# Blocks in which most leaves have many rows, and that stay in a cache.
_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 15, 1 << 17
# Maximum number of products of a slice that is summed together with others.
_FEW_PRODUCTS = 1 << 15
# Eigenvalues of dependent columns, over the largest one: of products of float64 numbers
# (of columns in float32) up to 1e-14, of float32 ones up to 1e-8.
_ROUNDING_64, ROUNDING_32 = 1e-10, 1e-6


class NodeStatistics(NamedTuple):
    """Sufficient statistics of the regressors and the outputs, per node.

    Attributes
    ----------
    weight : ndarray of shape (n_nodes,), float64
    mean : ndarray of shape (n_nodes, n_regressors + n_outputs), float64
        The outputs last.
    scatter : ndarray of shape (n_nodes, n_regressors + n_outputs, the same), float64
        Sums of products about the mean.
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


def no_statistics(n_nodes: int, n_regressors: int, n_outputs: int) -> NodeStatistics:
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


def add(
    statistics: NodeStatistics, node: Int[np.ndarray, " n_more"], more: NodeStatistics
) -> None:
    """Add statistics to those of some nodes, in place.

    Parameters
    ----------
    node : ndarray of shape (n_more,), int
        Which nodes; one may come several times.
    """
    touched = np.unique(node)
    parts = Moments(
        *(
            np.concatenate([own[touched], other])
            for own, other in zip(statistics.moments, more.moments, strict=True)
        )
    )
    _, total = grouped(parts, np.append(touched, node))
    for own, new in zip(statistics.moments, total, strict=True):
        own[touched] = new
    np.minimum.at(statistics.lower, node, more.lower)
    np.maximum.at(statistics.upper, node, more.upper)
    np.maximum.at(statistics.rounding, node, more.rounding)


def sum_upwards(
    statistics: NodeStatistics, parent: np.ndarray, depth: np.ndarray
) -> None:
    """Add the children's statistics to inner nodes, deepest level first, in place."""
    for level in range(depth.max(), 0, -1):
        child = np.flatnonzero(depth == level)
        add(statistics, parent[child], statistics.take(child))
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
    """Compute statistics of the places ``order[start:stop]`` of each slice.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_columns)
        The regressors come first.
    row : ndarray of shape (n_places,), int, or None
        Row of every place; None: the places are the rows.
    targets : ndarray of shape (n_places, n_outputs)
    weight : ndarray of shape (n_places,)
    order : ndarray of shape (n_places,), int
    start, stop : ndarray of shape (n_slices,), int

    Returns
    -------
    NodeStatistics
        Sums in float64, on the host.
    """
    n_outputs = targets.shape[1]
    statistics = no_statistics(len(start), n_regressors, n_outputs)
    width = n_regressors + n_outputs
    small = (stop - start) * width**2 <= _FEW_PRODUCTS
    _small_slices(statistics, small, x, row, targets, weight, order, start, stop)
    for index in np.flatnonzero(~small):
        place = order[start[index] : stop[index]]
        joint = np.empty((len(place), width))
        joint[:, :n_regressors] = x[place if row is None else row[place], :n_regressors]
        joint[:, n_regressors:] = targets[place]
        statistics.lower[index] = joint[:, n_regressors:].min(axis=0)
        statistics.upper[index] = joint[:, n_regressors:].max(axis=0)
        own_weight = weight[place].astype(np.float64)
        total = own_weight.sum()
        mean = own_weight @ joint / total
        joint -= mean
        statistics.weight[index] = total
        statistics.mean[index] = mean
        statistics.scatter[index] = (own_weight[:, None] * joint).T @ joint
    return statistics


def _small_slices(
    statistics: NodeStatistics,
    small: np.ndarray,
    x: np.ndarray,
    row: np.ndarray | None,
    targets: np.ndarray,
    weight: np.ndarray,
    order: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
) -> None:
    """Compute `slice_statistics` of all small slices at once, in place.

    For each slice alone several calls of NumPy would take longer than the work; a
    single one, for the products, does not.
    """
    occupied = np.flatnonzero(small & (stop > start))
    if not len(occupied):
        return
    n = statistics.n_regressors
    length = (stop - start)[occupied]
    first = np.cumsum(length) - length
    place = order[slice_positions(start[occupied], stop[occupied])]
    joint = np.empty((len(place), n + statistics.n_outputs))
    joint[:, :n] = x[place if row is None else row[place], :n]
    joint[:, n:] = targets[place]
    own = weight[place].astype(np.float64)
    total = np.add.reduceat(own, first)
    mean = np.add.reduceat(own[:, None] * joint, first) / total[:, None]
    statistics.lower[occupied] = np.minimum.reduceat(joint[:, n:], first)
    statistics.upper[occupied] = np.maximum.reduceat(joint[:, n:], first)
    joint -= np.repeat(mean, length, axis=0)
    weighted = own[:, None] * joint
    runs = zip(
        occupied.tolist(), first.tolist(), (first + length).tolist(), strict=True
    )
    for index, begin, end in runs:
        np.matmul(
            weighted[begin:end].T, joint[begin:end], out=statistics.scatter[index]
        )
    statistics.weight[occupied], statistics.mean[occupied] = total, mean


def block_rows(n_groups: int) -> int:
    """Number of rows to give `block_statistics` at once: many in most groups."""
    return min(max(next_power_of_two(_RUN * n_groups), _SMALLEST_BLOCK), _LARGEST_BLOCK)


def block_statistics(
    rows: Rows,
    n_regressors: int,
    group: Int[np.ndarray, " n_rows"],
    n_groups: int,
) -> tuple[np.ndarray, NodeStatistics]:
    """Compute statistics of the groups in a block of rows.

    Parameters
    ----------
    group : ndarray of shape (n_rows,), int
        In [0, n_groups).

    Returns
    -------
    occupied : ndarray of shape (n_occupied,), int
        The groups that have rows.
    statistics : NodeStatistics
        One entry for each of them; products of float32 numbers, sums of their runs in
        float64.
    """
    # Keys of two bytes are sorted by counting.
    key = group.astype(np.uint16 if n_groups <= 1 << 16 else np.int64)
    order = np.argsort(key, kind="stable")
    count = np.bincount(key, minlength=n_groups)
    occupied = np.flatnonzero(count)
    stop = np.cumsum(count[occupied])
    start = stop - count[occupied]
    joint = np.empty((rows.n_rows, 1 + n_regressors + rows.targets.shape[1]), "f4")
    joint[:, 0] = 1.0
    joint[:, 1 : 1 + n_regressors] = rows.table.x[:, :n_regressors]
    joint[:, 1 + n_regressors :] = rows.targets
    joint, targets = joint.take(order, axis=0), rows.targets[order]
    root = None
    if (rows.weight != 1.0).any():
        root = np.sqrt(rows.weight[order]).astype(np.float32)[:, None]
    width = joint.shape[1]
    shift = np.zeros((len(occupied), width))
    sums = np.zeros((len(occupied), width, width))
    for index, (begin, end) in enumerate(
        zip(start.tolist(), stop.tolist(), strict=True)
    ):
        # About a number near the mean, so that no large numbers cancel.
        own = joint[begin:end]
        near = own[:, 0] @ own / np.float32(end - begin)
        near[0] = 0.0
        own -= near
        shift[index] = near
        if root is not None:
            own *= root[begin:end]
        for first in range(0, end - begin, _RUN):
            run = own[first : first + _RUN]
            sums[index] += run.T @ run
    weight, offset = sums[:, 0, 0], sums[:, 0, 1:] / sums[:, 0, :1]
    between = weight[:, None, None] * offset[:, :, None] * offset[:, None, :]
    return occupied, NodeStatistics(
        weight=weight,
        mean=shift[:, 1:] + offset,
        scatter=sums[:, 1:, 1:] - between,
        lower=np.minimum.reduceat(targets, start, axis=0),
        upper=np.maximum.reduceat(targets, start, axis=0),
        rounding=np.full(len(occupied), ROUNDING_32),
    )
