"""Weighted sums of hard trees: few rows, many rows on processors, accelerators.

Few rows are walked down the trees. Many are decided at all comparisons at once, block
by block: in NumPy on processors, in programs on accelerators.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from secret_jax.data.encoding import Unencoded
from secret_jax.data.rows import Table
from secret_jax.data.shards import block_of
from secret_jax.runtime.devices import in_32_bits, on_accelerator, rows_at_once
from secret_jax.runtime.parallel import (
    N_WORKERS,
    ROW_BLOCK,
    in_blocks,
    one_thread_for_products,
    side_by_side,
)
from secret_jax.runtime.shapes import Scratch, bucket, next_power_of_two, padded
from secret_jax.tree.equations import Forest, RowBlock, forest_of
from secret_jax.tree.packed import stacked, sum_of_trees
from secret_jax.tree.reshape import joined
from secret_jax.tree.structure import Tree, once
from secret_jax.tree.walk import descend, leaves_of, values_at

# Maximum number of rows, and of pairs of a row and a tree, that are walked, as calls
# cost more then than work (measured on processors, of trees of 24 and 150 leaves).
FEW_ROWS, FEW_PAIRS = 1 << 10, 1 << 12
# Minimum block: padding costs less than a program of its own. Maximum number of values
# in a block of a program: they stay in a processor's cache (4 MiB).
_SMALLEST_BLOCK, _BLOCK_NUMBERS = 1024, 1 << 20
# The same for NumPy, in bytes of a block, and the minimum and maximum number of rows:
# threads wait for each other between calls, which therefore take many rows.
_HOST_BYTES, _ROWS_PER_THREAD, _HOST_ROWS = 1 << 24, 1 << 14, 1 << 14
# Minimum number of trees of a sum after padding, so that few programs are compiled.
_FEWEST_TREES = 16


class TreeSum:
    """Weighted sum of hard trees of one schema.

    ``steps`` (n_trees,), float64: weight of each tree, by default one.
    """

    def __init__(self, trees: Sequence[Tree], steps: np.ndarray | None = None):
        self.trees = list(trees)
        steps = np.ones(len(self.trees)) if steps is None else steps
        self.steps = np.asarray(steps, np.float64)
        # What is made of a tree by itself stays with the tree.
        alone = len(self.trees) == 1 and self.steps[0] == 1.0
        self._tree = self.trees[0] if alone else None

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
        if first or last is not None:
            some = TreeSum(self.trees[first:last], self.steps[first:last])
            return some.values(table, finish=finish)
        trees, few = self.trees, are_few(shape_of(table)[0], len(self.trees))
        if not few and not on_accelerator():
            forest, scratch = self._forest, Scratch()

            def of_rows(table: Table) -> np.ndarray:
                values = forest.values(RowBlock(table, scratch)).T.astype(np.float64)
                return values if finish is None else finish(values)

            n_bits = max(group.trees.order.size for group in forest.groups)
            return by_rows(of_rows, table, n_bits, (trees[0].n_outputs,), np.float64)
        if few:
            found = self._of_few(on_host(table))
        else:
            n_trees, alone = np.int32(len(trees)), len(trees) == 1
            most = 1 if alone else bucket(len(trees), smallest=_FEWEST_TREES)
            arrays = once(self._tree or self, stacked, trees, most)
            steps = padded(self.steps.astype(np.float32), len(arrays.root))
            width = arrays.node.shape[1]
            found = computed(sum_of_trees, table, width, arrays, steps, n_trees).T
        found = found.astype(np.float64, copy=False)
        return found if finish is None else finish(found)

    def leaves(self, table: Table, scratch: Scratch | None = None) -> np.ndarray:
        """Find the leaf of each of many rows in the first tree, (n_rows,), int32."""
        tree, memory = self._forest.groups[0].trees, scratch or Scratch()

        def of_rows(table: Table) -> np.ndarray:
            return tree.node.take(RowBlock(table, memory).leaves(tree)[0])

        return by_rows(of_rows, table, tree.order.size, (), np.int32)

    @property
    def _forest(self) -> Forest:
        return once(self._tree or self, forest_of, self.trees, self.steps)

    def _of_few(self, table: Table) -> np.ndarray:
        n_rows, n_trees = len(table.x), len(self.trees)
        if n_trees == 1:
            (tree,) = self.trees
            return self.steps[0] * values_at(tree, table, leaves_of(tree, table))
        forest = once(self, joined, self.trees)
        size = np.array([tree.n_nodes for tree in self.trees])
        root = np.broadcast_to(np.cumsum(size) - size, (n_rows, n_trees))
        deepest = max(tree.max_depth for tree in self.trees)
        leaf = descend(forest, table, root, deepest)
        table = table.take(np.repeat(np.arange(n_rows), n_trees))
        value = values_at(forest, table, leaf.ravel())
        value = value.reshape(n_rows, n_trees, value.shape[1])
        return np.einsum("t,nto->no", self.steps, value)


def are_few(n_rows: int, n_trees: int = 1) -> bool:
    """Whether rows are walked down trees, not decided at all comparisons at once."""
    return n_rows <= FEW_ROWS and n_rows * n_trees <= FEW_PAIRS


def by_rows(
    function: Callable[[Table], np.ndarray],
    table: Table | Unencoded,
    n_bits: int,
    shape: tuple[int, ...],
    dtype: type,
) -> np.ndarray:
    """Apply a function to blocks of rows, in threads, and put its results together."""
    n_rows, n_columns = shape_of(table)
    found = np.empty((n_rows, *shape), dtype)
    block = table.block if isinstance(table, Unencoded) else table.on_host().take
    row_bytes = max(2 * n_bits + 20 * n_columns, 1)
    most = max(_HOST_BYTES // row_bytes, _SMALLEST_BLOCK)
    size = min(most, _HOST_ROWS, max(-(-n_rows // N_WORKERS), _ROWS_PER_THREAD))
    starts = iter(range(0, n_rows, size))  # of which every thread takes the next one

    def fill(_: int) -> None:
        for start in starts:
            rows = slice(start, min(start + size, n_rows))
            found[rows] = function(block(rows))

    n_threads = min(-(-n_rows // size), N_WORKERS)
    with one_thread_for_products():
        if n_threads == 1:
            fill(0)
        else:
            side_by_side(fill, range(n_threads))
    return found


def computed(
    function: Callable[..., tuple[jax.Array]],
    table: Table | Unencoded,
    n_leaves: int,
    *arrays: Any,
) -> np.ndarray:
    """Apply a compiled function to padded blocks of rows, and concatenate.

    ``n_leaves``: of a tree. A row's result does not depend on the other rows of its
    block, nor on the block.
    """
    n_rows, n_columns = shape_of(table)
    # Memory for the decisions at all splits, but on a processor a cache for few.
    width = n_leaves + 2 * n_columns
    usual = max(
        _SMALLEST_BLOCK, min(ROW_BLOCK, next_power_of_two(_BLOCK_NUMBERS // width))
    )
    size = min(bucket(n_rows, smallest=_SMALLEST_BLOCK), rows_at_once(4 * width, usual))
    with in_32_bits():
        arrays = jax.device_put(arrays)

    def run(rows: slice) -> np.ndarray:
        n_inside = rows.stop - rows.start
        with in_32_bits():
            if isinstance(table, Unencoded):
                block, rows = table.block(rows), slice(0, n_inside)
            else:
                block = table
            x, codes = (block_of(array, rows, size) for array in block)
            (found,) = function(x, codes, *arrays)
        return np.asarray(found)[..., :n_inside]

    return np.concatenate(list(in_blocks(run, n_rows, size)), axis=-1)


def on_host(table: Table | Unencoded) -> Table:
    """Rows, encoded, in the memory of the host."""
    return table.encoded() if isinstance(table, Unencoded) else table.on_host()


def shape_of(table: Table | Unencoded) -> tuple[int, int]:
    """Numbers of rows and of encoded columns."""
    if isinstance(table, Unencoded):
        return len(table.columns.codes), table.schema.n_columns
    return table.x.shape
