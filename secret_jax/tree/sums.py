"""Weighted sums of hard trees: few rows, many rows on processors, accelerators."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeVar

import numpy as np

from secret_jax.data.encoding import Unencoded
from secret_jax.data.rows import Table
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.shapes import Scratch, bucket, padded
from secret_jax.tree.blocks import (
    are_few,
    by_rows,
    computed,
    made_of,
    on_host,
    shape_of,
)
from secret_jax.tree.equations import Forest, RowBlock, forest_of
from secret_jax.tree.packed import BYTE, PackedTrees, stacked, sum_of_trees
from secret_jax.tree.reshape import joined
from secret_jax.tree.structure import Tree
from secret_jax.tree.walk import descend, leaves_of, values_at

_Made = TypeVar("_Made")

# Minimum number of trees of a sum after padding, so that few programs are compiled.
_FEWEST_TREES = 16
# Maximum number of splits that are decided together.
_GROUP_BITS = 128


class TreeSum:
    """Weighted sum of hard trees of one schema, with cached arrays.

    ``steps`` (n_trees,), float64: weight of each tree.
    """

    def __init__(self, trees: Sequence[Tree], steps: np.ndarray):
        self.trees, self.steps = list(trees), np.asarray(steps, np.float64)
        alone = len(self.trees) == 1 and self.steps[0] == 1.0
        # What is made of a tree by itself stays with the tree.
        self._made = made_of(self.trees[0]) if alone else {}

    def __reduce__(self) -> tuple[Any, ...]:
        return TreeSum, (self.trees, self.steps)  # without what is made again

    def _once(self, make: Callable[[Sequence[Tree], np.ndarray], _Made]) -> _Made:
        if make not in self._made:
            self._made[make] = make(self.trees, self.steps)
        return self._made[make]

    @property
    def packed(self) -> PackedTrees:
        """Padded arrays of the trees."""
        return self._once(_packed)

    def values(
        self,
        table: Table | Unencoded,
        first: int = 0,
        last: int | None = None,
        finish: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> np.ndarray:
        """Sum the predictions of trees ``first`` up to, but without, ``last``.

        ``finish``: what becomes of the sums of some rows, of the same shape. Returns
        (n_rows, n_outputs), float64: in standardised units.
        """
        some = slice(first, last)
        if len(self.trees[some]) < len(self.trees):
            part = TreeSum(self.trees[some], self.steps[some])
            return part.values(table, finish=finish)
        n_trees = len(self.trees)
        if are_few(shape_of(table)[0], n_trees):
            found = self._on_host(on_host(table))
        elif on_accelerator():
            arrays, steps = self.packed, self.steps.astype(np.float32)
            steps, width = padded(steps, len(arrays.root)), arrays.node.shape[1]
            found = computed(
                sum_of_trees, table, width, arrays, steps, np.int32(n_trees)
            ).T
        else:
            return self._in_blocks(table, finish)
        found = found.astype(np.float64, copy=False)
        return found if finish is None else finish(found)

    def leaves(self, table: Table, scratch: Scratch | None = None) -> np.ndarray:
        """Find the leaf of each of many rows in the first tree, (n_rows,), int32."""
        tree, memory = self._once(_grouped).groups[0].trees, scratch or Scratch()

        def of_rows(table: Table) -> np.ndarray:
            rows = RowBlock(table, memory)
            return tree.node.take(
                tree.leaves(rows.columns, rows.codes.T, np, memory.array)[0]
            )

        return by_rows(of_rows, table, tree.order.size, (), np.int32)

    def _on_host(self, table: Table) -> np.ndarray:
        if len(self.trees) == 1:
            (tree,) = self.trees
            return self.steps[0] * values_at(tree, table, leaves_of(tree, table))
        forest = self._once(_joined)
        size = np.array([tree.n_nodes for tree in self.trees])
        n_rows, n_trees = len(table.x), len(self.trees)
        root = np.broadcast_to(np.cumsum(size) - size, (n_rows, n_trees))
        deepest = max(tree.max_depth for tree in self.trees)
        leaf = descend(forest, table, root, deepest)
        table = table.take(np.repeat(np.arange(n_rows), n_trees))
        value = values_at(forest, table, leaf.ravel())
        value = value.reshape(n_rows, n_trees, value.shape[1])
        return np.einsum("t,nto->no", self.steps, value)

    def _in_blocks(
        self,
        table: Table | Unencoded,
        finish: Callable[[np.ndarray], np.ndarray] | None,
    ) -> np.ndarray:
        forest, scratch = self._once(_grouped), Scratch()

        def of_rows(table: Table) -> np.ndarray:
            values = forest.values(RowBlock(table, scratch)).T.astype(np.float64)
            return values if finish is None else finish(values)

        n_bits = max(group.trees.order.size for group in forest.groups)
        shape = (self.trees[0].n_outputs,)
        return by_rows(of_rows, table, n_bits, shape, np.float64)


def _packed(trees: Sequence[Tree], steps: np.ndarray) -> PackedTrees:
    alone = len(trees) == 1
    return stacked(trees, 1 if alone else bucket(len(trees), smallest=_FEWEST_TREES))


def _joined(trees: Sequence[Tree], steps: np.ndarray) -> Tree:
    return joined(trees)


def _grouped(trees: Sequence[Tree], steps: np.ndarray) -> Forest:
    """Collect trees in groups of one size whose splits are decided together."""
    size = [-(-(tree.n_nodes // 2) // BYTE) * BYTE for tree in trees]
    by_size, groups = size.__getitem__, []
    for n_bits, alike in groupby(sorted(range(len(trees)), key=by_size), by_size):
        which, together = list(alike), max(_GROUP_BITS // max(n_bits, 1), 1)
        starts = range(0, len(which), together)
        groups += [which[start : start + together] for start in starts]
    some = [[trees[which] for which in group] for group in groups]
    return forest_of(some, [steps[group] for group in groups])
