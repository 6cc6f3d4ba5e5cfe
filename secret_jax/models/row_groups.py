"""Rows grouped by the nodes of a level."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import Loss
from secret_jax.runtime.shapes import slice_positions
from secret_jax.tree.structure import Tree
from secret_jax.tree.walk import descend


class RowGroups(NamedTuple):
    """Rows of several nodes, concatenated node by node."""

    node: np.ndarray  # (n_nodes,), int
    # start, stop (n_nodes,), int.
    start: np.ndarray
    stop: np.ndarray
    slot: np.ndarray  # (n_rows,), int: position of each row's node
    x: np.ndarray  # (n_rows, n_regressors), float64
    targets: np.ndarray  # (n_rows, n_outputs), float64
    weight: np.ndarray  # (n_rows,), float64

    @property
    def rows(self) -> list[slice]:
        """The rows of each node."""
        return list(map(slice, self.start, self.stop))

    @property
    def total(self) -> np.ndarray:
        """Weight of each node."""
        return np.add.reduceat(self.weight, self.start)

    def values(self, coefficient: np.ndarray) -> np.ndarray:
        """Raw predictions of the nodes' models for their rows, (n_rows, n_outputs)."""
        value = np.empty((len(self.slot), coefficient.shape[1]))
        for model, rows in zip(coefficient, self.rows, strict=True):
            value[rows] = model[:, 0] + self.x[rows] @ model[:, 1:].T
        return value

    def take(self, which: np.ndarray) -> tuple[RowGroups, np.ndarray]:
        """Select nodes; return also the positions of their rows."""
        start, stop = self.start[which], self.stop[which]
        row, length = slice_positions(start, stop), stop - start
        last = np.cumsum(length)
        groups = RowGroups(
            node=self.node[which],
            start=last - length,
            stop=last,
            slot=np.repeat(np.arange(len(which)), length),
            x=self.x[row],
            targets=self.targets[row],
            weight=self.weight[row],
        )
        return groups, row

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Weighted sum over the rows of each node."""
        weight = self.weight.reshape((-1,) + (1,) * (values.ndim - 1))
        return np.add.reduceat(weight * values, self.start)

    def mean_losses(self, loss: Loss, value: np.ndarray) -> np.ndarray:
        """Mean losses of raw predictions in each node, (n_nodes, n_outputs)."""
        return self.sums(loss.losses(self.targets, value)) / self.total[:, None]

    def with_centers(self, prediction: np.ndarray, weight: float) -> RowGroups:
        """Add a row of some weight per node: its mean row, and mean prediction."""
        total, further = self.total[:, None], np.arange(len(self.node))

        def joined(own: np.ndarray, more: np.ndarray) -> np.ndarray:
            return np.insert(own, self.stop, more, axis=0)

        return RowGroups(
            node=self.node,
            start=self.start + further,
            stop=self.stop + further + 1,
            slot=joined(self.slot, further),
            x=joined(self.x, self.sums(self.x) / total),
            targets=joined(self.targets, self.sums(prediction) / total),
            weight=joined(self.weight, np.full(len(further), weight)),
        )


def groups_of_levels(
    tree: Tree, rows: Rows, root: np.ndarray | int = 0
) -> Iterator[RowGroups]:
    """Group rows by the nodes of each level, from the node where each begins down."""
    n_regressors = tree.schema.n_regressors
    table, node = rows.table.on_host(), np.full(rows.n_rows, root)
    for level in range(int(tree.depth.max()) + 1):
        here = np.flatnonzero(tree.depth[node] == level)
        if not len(here):  # neither is there a row below
            return
        here = here[np.argsort(node[here], kind="stable")]
        occupied, start, slot = np.unique(
            node[here], return_index=True, return_inverse=True
        )
        yield RowGroups(
            node=occupied,
            start=start,
            stop=np.append(start, len(here))[1:],
            slot=slot,
            x=table.x[here, :n_regressors].astype(np.float64),
            targets=rows.targets[here],
            weight=rows.weight[here],
        )
        node = descend(tree, table, node, 1)
