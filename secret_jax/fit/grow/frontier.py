"""Frontier: nodes of many trees at one depth, with their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows, Table
from secret_jax.data.schema import TableSchema
from secret_jax.runtime.hashing import mix
from secret_jax.runtime.parallel import in_blocks
from secret_jax.runtime.shapes import slice_positions

# Sums of weights in float64 may miss a least weight by this share of it.
ROUNDING = 1e-6
# Sums of float32 weights of a node are exact to this share of its weight.
_ROUNDING_32 = 1e-5


@dataclass(frozen=True, eq=False, kw_only=True)
class Root:
    """Root of a tree. Trees share a table, and nothing else."""

    # (n_rows,), int: rows of the table that train the tree, in shuffled order.
    rows: np.ndarray
    min_split_weight: float  # a node with less weight is not split
    min_leaf_weight: float  # least weight of a leaf
    oblique: bool = True  # whether it may split obliquely
    key: int = 0  # its randomness: trees of one key get the same random numbers
    # (n_rows,): in place of those that came with the table.
    weight: np.ndarray | None = None
    # (n_rows, n_outputs): likewise, in standardised units.
    targets: np.ndarray | None = None
    # (n_columns + n_discrete,), bool: encoded columns and discrete attributes that it
    # may split on; by default all.
    allowed: np.ndarray | None = None
    # max_leaf_nodes, max_depth: in place of those of all trees.
    max_leaf_nodes: int | None = None
    max_depth: int | None = None
    measured: bool = False  # whether somebody asks for the statistics of its nodes

    @cached_property
    def where(self) -> np.ndarray | slice:
        """Its rows, as a slice if they are neighbours, which to take costs nothing."""
        if not len(self.rows):
            return slice(0, 0)
        first, n_rows = int(self.rows[0]), len(self.rows)

        def neighbours(part: slice) -> bool:
            wanted = np.arange(first + part.start, first + part.stop)
            return bool((self.rows[part] == wanted).all())

        apart = self.rows[-1] - first != n_rows - 1
        if apart or not all(in_blocks(neighbours, n_rows)):
            return self.rows
        return slice(first, first + n_rows)

    def lesson(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Its targets and weights, or those of its rows in a table."""
        targets = rows.targets[self.where] if self.targets is None else self.targets
        return targets, rows.weight[self.where] if self.weight is None else self.weight


class Places(NamedTuple):
    """Rows of all roots, concatenated root by root."""

    table: Table
    row: np.ndarray  # (n_places,), int: row of the table
    # (n_roots,), int: first row of each root; None: not all have neighbouring rows.
    begin: np.ndarray | None
    targets: np.ndarray  # (n_places, n_outputs); growth looks at float32
    # (n_places,), float64: models count with all its digits, searches in float32.
    weight: np.ndarray

    @classmethod
    def of(cls, rows: Rows, roots: Sequence[Root]) -> Places:
        """Collect the rows of roots over a table."""
        each = ((root.rows, *root.lesson(rows)) for root in roots)
        row, targets, weight = map(_joined, zip(*each, strict=True))
        where = [root.where for root in roots]
        begin = [part.start for part in where if isinstance(part, slice)]
        return cls(
            rows.table,
            row,
            np.array(begin) if len(begin) == len(roots) else None,
            targets,
            weight.astype(np.float64, copy=False),
        )


class Frontier(NamedTuple):
    """Nodes of one depth, each with a slice of the order of the rows."""

    node: np.ndarray  # (n_nodes,), int: ids that count through all trees
    tree: np.ndarray  # (n_nodes,), int: position of the root
    # start, stop (n_nodes,), int: its rows, in the order.
    start: np.ndarray
    stop: np.ndarray
    weight: np.ndarray  # (n_nodes,), float64
    # (n_nodes,), uint64: a node's randomness, whatever else is in its batch.
    key: np.ndarray
    # (n_nodes, n_outputs, 1 + n_regressors), float64: models of the nodes, where the
    # finder asks for them; before they are fitted, those of their parents, and zero at
    # the roots.
    model: np.ndarray
    # (n_nodes,), float64: degrees of freedom that the models spent on the rows that are
    # searched.
    degrees: np.ndarray
    # min_split_weight, min_leaf_weight (n_nodes,), float64; the second less `ROUNDING`.
    min_split_weight: np.ndarray
    min_leaf_weight: np.ndarray
    lightest: np.ndarray  # (n_nodes,), float64: least weight above 0 of a root's rows
    oblique: np.ndarray  # (n_nodes,), bool
    allowed: np.ndarray  # (n_nodes, n_columns + n_discrete), bool

    @classmethod
    def of(cls, roots: Sequence[Root], places: Places, schema: TableSchema) -> Frontier:
        """Make the level of the roots."""
        n_trees = len(roots)
        length = np.array([len(root.rows) for root in roots])
        stop = np.cumsum(length)
        parts = np.split(places.weight, stop[:-1])
        everything = np.ones(schema.n_columns + len(schema.discrete), bool)
        n_outputs = places.targets.shape[1]
        return cls(
            node=np.arange(n_trees),
            tree=np.arange(n_trees),
            start=stop - length,
            stop=stop,
            weight=np.array([part.sum(dtype=np.float64) for part in parts]),
            key=mix(np.array([root.key for root in roots], np.uint64)),
            model=np.zeros((n_trees, n_outputs, 1 + schema.n_regressors)),
            degrees=np.zeros(n_trees),
            min_split_weight=np.array([root.min_split_weight for root in roots]),
            min_leaf_weight=(1 - ROUNDING)
            * np.array([root.min_leaf_weight for root in roots]),
            lightest=np.array([_least_above_zero(part) for part in parts]),
            oblique=np.array([root.oblique for root in roots]),
            allowed=np.array(
                [everything if root.allowed is None else root.allowed for root in roots]
            ),
        )

    @property
    def searched_leaf_weight(self) -> np.ndarray:
        """Least weight of a side by sums in float32, (n_nodes,), float64.

        Rounding may not refuse a side of just the least weight, nor may a side pass
        that lacks a row: growth, which sums in float64, would leave the node unsplit.
        """
        tolerance = np.minimum(_ROUNDING_32 * self.weight, 0.5 * self.lightest)
        return np.maximum(self.min_leaf_weight - tolerance, 0.5 * self.min_leaf_weight)

    def take(self, index: np.ndarray) -> Frontier:
        """Select nodes by position or by a mask."""
        if index.dtype == bool:
            if index.all():
                return self
            index = index.nonzero()[0]
        return Frontier(*(array.take(index, axis=0) for array in self))

    def children(
        self, node: np.ndarray, middle: np.ndarray, weight: np.ndarray
    ) -> Frontier:
        """Both children of every node.

        ``node``, ``weight`` (2 * n_nodes,): ids and weights, left and right in turn;
        ``middle`` (n_nodes,): where the rows of the right child begin.
        """
        twice = Frontier(*(array.repeat(2, axis=0) for array in self))
        twice.start[1::2] = twice.stop[::2] = middle
        twice.key[1::2] ^= np.uint64(1)
        return twice._replace(node=node, weight=weight, key=mix(twice.key))


def _least_above_zero(weight: np.ndarray) -> float:
    least = weight.min(initial=np.inf)
    return least if least > 0 else weight[weight > 0].min(initial=np.inf)


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def partition(
    order: np.ndarray, starts: np.ndarray, stops: np.ndarray, go_left: np.ndarray
) -> np.ndarray:
    """Partition the rows of several nodes stably in two, in place.

    ``order`` (n_rows,): changed in place; ``starts``, ``stops`` (n_nodes,): slices of
    the nodes in it; ``go_left``: of their rows, one slice after the other. Returns
    where the right child of each node begins, (n_nodes,).
    """
    position = slice_positions(starts, stops)
    # Keys of two bytes are sorted by counting.
    narrow = np.uint16 if len(starts) < 1 << 15 else np.int64
    left = 2 * np.arange(len(starts))
    side = np.repeat(left.astype(narrow), stops - starts)
    side += ~go_left
    ranked = np.argsort(side, kind="stable")
    order[position] = order.take(position.take(ranked))
    return starts + np.bincount(side, minlength=2 * len(starts))[::2]
