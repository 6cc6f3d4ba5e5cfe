"""Weighted sums of hard trees: few rows, many rows on processors, accelerators."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from secret_jax.data.encoding import Unencoded
from secret_jax.data.rows import Table
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.shapes import bucket, padded
from secret_jax.tree import blocks
from secret_jax.tree.blocks import by_rows, computed, on_host, once, shape_of
from secret_jax.tree.decisions import BYTE, RowBlock, Scratch
from secret_jax.tree.equations import Forest, forest_of
from secret_jax.tree.packed import PackedTrees, packed, sum_of_trees
from secret_jax.tree.reshape import joined
from secret_jax.tree.structure import Tree
from secret_jax.tree.walk import descend, leaves_of, values_at

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
        self._arrays: PackedTrees | None = None
        self._joined: Tree | None = None
        self._forest: Forest | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return TreeSum, (self.trees, self.steps)  # without what is made again

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
        last = len(self.trees) if last is None else last
        if shape_of(table)[0] * (last - first) <= blocks.FEW_PAIRS:
            found = self._on_host(on_host(table), first, last)
        elif on_accelerator():
            arrays, steps = self.packed, self.steps.astype(np.float32)
            steps = padded(steps, len(arrays.depth))
            bounds = np.int32(first), np.int32(last)
            found = computed(sum_of_trees, table, arrays, steps, *bounds).T
        else:
            return self._in_blocks(table, first, last, finish)
        found = found.astype(np.float64, copy=False)
        return found if finish is None else finish(found)

    @property
    def packed(self) -> PackedTrees:
        """Padded arrays of the trees."""
        if len(self.trees) == 1:
            return once(self.trees[0], _packed_alone)
        if self._arrays is None:
            n_padded = bucket(len(self.trees), smallest=_FEWEST_TREES)
            self._arrays = packed(self.trees, n_padded)
        return self._arrays

    def _on_host(self, table: Table, first: int, last: int) -> np.ndarray:
        some = self.trees[first:last]
        if len(some) == 1:
            node = leaves_of(some[0], table)
            return self.steps[first] * values_at(some[0], table, node)
        if last - first < len(self.trees):
            forest = joined(some)
        else:
            forest = self._joined = self._joined or joined(some)
        size = np.array([tree.n_nodes for tree in some])
        n_rows, n_trees = len(table.x), len(some)
        root = np.broadcast_to(np.cumsum(size) - size, (n_rows, n_trees))
        leaf = descend(forest, table, root, max(tree.max_depth for tree in some))
        if n_trees > 1:
            table = table.take(np.repeat(np.arange(n_rows), n_trees))
        value = values_at(forest, table, leaf.ravel())
        value = value.reshape(n_rows, n_trees, value.shape[1])
        return np.einsum("t,nto->no", self.steps[first:last], value)

    def _in_blocks(
        self,
        table: Table | Unencoded,
        first: int,
        last: int,
        finish: Callable[[np.ndarray], np.ndarray] | None,
    ) -> np.ndarray:
        if last - first == 1 and self.steps[first] == 1.0:
            forest = once(self.trees[first], _forest_of_one)
        elif last - first < len(self.trees):
            forest = _grouped(self.trees[first:last], self.steps[first:last])
        else:
            forest = self._forest = self._forest or _grouped(self.trees, self.steps)
        scratch = Scratch()

        def of_rows(table: Table) -> np.ndarray:
            values = forest.values(RowBlock(table, scratch)).T.astype(np.float64)
            return values if finish is None else finish(values)

        n_bits = max(
            trees.lookup.decisions.direction.shape[1] for trees in forest.groups
        )
        shape = (self.trees[0].n_outputs,)
        return by_rows(of_rows, table, n_bits, shape, np.float64)


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


def _forest_of_one(tree: Tree) -> Forest:
    return forest_of([[tree]], [np.ones(1)])


def _packed_alone(tree: Tree) -> PackedTrees:
    return packed([tree], 1)


def leaves_by_tables(tree: Tree, table: Table) -> np.ndarray:
    """Find the leaf of each of many rows, shape (n_rows,), int32."""
    lookup = once(tree, _forest_of_one).groups[0].lookup
    node, scratch = lookup.node.astype(np.int32), Scratch()

    def of_rows(table: Table) -> np.ndarray:
        return node.take(lookup.states(RowBlock(table, scratch))[0])

    return by_rows(of_rows, table, lookup.decisions.direction.shape[1], (), np.int32)
