"""Leaves, paths, shares and predictions of rows, of trees and of sums of trees.

Few rows are walked down the trees. Many are decided at all comparisons at once, block
by block: in NumPy on processors, in programs on accelerators.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.encoding import Lying, Unencoded
from secret_jax.data.row_programs import block_of, encoded_block
from secret_jax.data.rows import Table
from secret_jax.data.shards import scaling_of
from secret_jax.losses.interface import Loss
from secret_jax.runtime.devices import in_32_bits, on_accelerator, rows_at_once
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.packing import Packed
from secret_jax.runtime.parallel import (
    N_WORKERS,
    ROW_BLOCK,
    in_blocks,
    one_thread_for_products,
    side_by_side,
)
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import Scratch, bucket, next_power_of_two
from secret_jax.tree.equations import RowBlock, forest_of
from secret_jax.tree.functions import (
    Model,
    WeightedTrees,
    predicted,
    raw_values,
    weighted_trees,
)
from secret_jax.tree.packed import leaf_ids, programmed
from secret_jax.tree.reshape import joined
from secret_jax.tree.soft import mixed, shares_of_rows, soft_routing
from secret_jax.tree.structure import Tree, once
from secret_jax.tree.walk import descend, values_at

# Maximum number of rows, and of pairs of a row and a tree, that are walked, as calls
# cost more then than work (measured on processors, of trees of 24 and 150 leaves).
FEW_ROWS, FEW_PAIRS = 1 << 10, 1 << 12
# Minimum block: padding costs less than a program of its own. Maximum number of values
# in a block of a program: they stay in a processor's cache (4 MiB).
_SMALLEST_BLOCK, _BLOCK_NUMBERS = 1024, 1 << 20
# The same for NumPy, in bytes of a block, and the maximum number of rows: threads wait
# for each other between calls, which therefore take many rows.
_HOST_BYTES, _HOST_ROWS = 1 << 24, 1 << 14
# Minimum number of trees of a sum after padding, so that few programs are compiled.
_FEWEST_TREES = 16


def apply(tree: Tree, table: Table, scratch: Scratch | None = None) -> np.ndarray:
    """Find the leaf of every row, (n_rows,), int32: node ids.

    For a soft tree, the leaf at the end of the path with the larger share at every
    split, which is where the same tree with hard splits would send the row.

    ``scratch``: of calls for many blocks.
    """
    if len(table.codes) <= min(FEW_ROWS, FEW_PAIRS):
        return descend(tree, table.on_host())
    if isinstance(table.x, jax.Array):  # rows that lie on a device
        found = _computed(leaf_ids, table, tree.n_leaves, once(tree, programmed))
        return np.asarray(found)
    forest, memory = once(tree, forest_of, [tree], np.ones(1)), scratch or Scratch()
    packed = forest.groups[0].trees

    def of_rows(table: Table) -> np.ndarray:
        return packed.node.take(RowBlock(table, memory).leaves(packed)[0])

    return _by_rows(of_rows, table, packed.order.size, (), np.int32)


def predict(tree: Tree, table: Table | Unencoded | Lying) -> AnyArray:
    """Predict in the units of the target, (n_rows,) or (n_rows, n_outputs), float64.

    Of rows that lie on devices predictions do as well, float32.

    A soft tree mixes the predictions of its leaves by their shares of the row.
    """

    def finish(value: np.ndarray) -> np.ndarray:
        return tree.schema.restore_outputs(tree.loss.prediction(value))

    if isinstance(table, Lying) and tree.loss.link is None:  # it knows NumPy alone
        table = table.encoded()
    if isinstance(table, Lying):
        model = once(tree, soft_routing) if tree.is_soft else TreeSum([tree]).model()
        return predict_where_they_lie(model, tree.loss, table)
    if tree.is_soft:
        found = finish(values(tree, table))
    else:
        found = TreeSum([tree]).values(table, finish=finish)
    return found[:, 0] if tree.n_outputs == 1 else found


def values(tree: Tree, table: Table | Unencoded) -> np.ndarray:
    """Predict every row, in standardised units, shape (n_rows, n_outputs)."""
    if not tree.is_soft:
        return TreeSum([tree]).values(table)
    routing = once(tree, soft_routing)
    if _shape_of(table)[0] > FEW_PAIRS:
        found = _computed(predicted, table, tree.n_leaves, routing)
        return np.asarray(found).T.astype(np.float64)
    x, codes = on_host(table)
    return mixed(routing, x.astype(np.float64), codes, np).T


def model_of(trees: Sequence[Tree], weight: np.ndarray) -> Model:
    """Make what programs run of a tree, or of a weighted sum, to be differentiated."""
    if trees[0].is_soft:
        return soft_routing(trees[0])
    n_trees = len(trees)
    return weighted_trees(trees, weight, n_trees)._replace(n_trees=n_trees)


def leaf_shares_of(tree: Tree, table: Table) -> np.ndarray:
    """Share of every leaf in the prediction of every row, (n_rows, n_leaves), float64.

    Rows sum to one; of a hard tree one share of each row is 1.
    """
    if not tree.is_soft:
        return 1.0 * (apply(tree, table)[:, None] == np.flatnonzero(tree.is_leaf))
    x, codes = table.on_host()
    shares = shares_of_rows(once(tree, soft_routing), x, codes, np)
    return shares[:, : tree.n_leaves].astype(np.float64)


def paths_of(tree: Tree, table: Table) -> np.ndarray:
    """Nodes on the path of every row, shape (depth + 1, n_rows), int32.

    From the root down; below its leaf a row repeats the leaf. For a soft tree, the path
    with the larger share at every split.
    """
    path = np.tile(np.arange(tree.n_nodes, dtype=np.int32), (tree.max_depth + 1, 1))
    for level in range(tree.max_depth, 0, -1):
        deeper = tree.depth[path[level]] >= level
        path[level - 1] = np.where(deeper, tree.parent[path[level]], path[level])
    return path[:, apply(tree, table)]


def predict_where_they_lie(model: Model, loss: Loss, rows: Lying) -> jax.Array:
    """Predict in the units of the target, as `predict`, on the rows' devices.

    Rows of a single device go through it in blocks.
    """
    schema, shards = rows
    scaling = scaling_of(schema, shards)
    units = np.array([schema.target_centers, schema.target_scales], np.float32)
    (_, part), *others = shards.parts
    with in_32_bits():
        packed = Packed.of(model)
        packed = packed if others else jax.device_put(packed, part.sharding)

    def of_block(x: jax.Array, _: slice) -> jax.Array:
        x = encoded_block(schema.in_order(x), scaling)
        with in_32_bits():
            return _predicted(x, packed, units, loss=loss)

    if others:
        found = of_block(shards.x, slice(None))[:, : shards.n_rows]
    else:
        is_sum = isinstance(model, WeightedTrees)
        n_leaves = model.trees.node.shape[1] if is_sum else len(model.low)
        width = n_leaves + 4 * schema.n_columns
        blocks = list(shards.over_blocks(of_block, 4 * width, _usual(width)))
        found = _in_one(blocks, n_rows=shards.n_rows)
    return found[0] if len(found) == 1 else found.T


@program(static_argnames=("loss",))
def _predicted(
    x: AnyArray, packed: Packed, units: AnyArray, *, loss: Loss
) -> jax.Array:
    """Predict every row, shape (n_outputs, n_rows), float32."""
    codes = jnp.zeros((len(x), 0), jnp.int32)
    value = loss.prediction(raw_values(packed.apart(), x, codes).T)
    return (units[0] + units[1] * value).T


class TreeSum:
    """Sum of hard trees of one schema, with weights ``steps`` (n_trees,), or of one."""

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
        """Sum predictions of trees ``first`` up to ``last``, (n_rows, n_outputs).

        In standardised units; ``finish``: what becomes of the sums of some rows.
        """
        if first or last is not None:
            some = TreeSum(self.trees[first:last], self.steps[first:last])
            return some.values(table, finish=finish)
        trees, n_rows = self.trees, _shape_of(table)[0]
        if n_rows <= min(FEW_ROWS, FEW_PAIRS // len(trees)):
            found = self._of_few(on_host(table))
        elif on_accelerator():
            found = np.asarray(self.where_they_lie(table)).T
        else:
            forest = once(self._tree or self, forest_of, trees, self.steps)
            scratch = Scratch()

            def of_rows(table: Table) -> np.ndarray:
                values = forest.values(RowBlock(table, scratch)).T.astype(np.float64)
                return values if finish is None else finish(values)

            n_bits = max(group.trees.order.size for group in forest.groups)
            return _by_rows(of_rows, table, n_bits, (trees[0].n_outputs,), np.float64)
        found = found.astype(np.float64, copy=False)
        return found if finish is None else finish(found)

    def where_they_lie(self, table: Table | Unencoded) -> AnyArray:
        """`values` in float32, (n_outputs, n_rows).

        Of a table that trees grow from on a device they stay there.
        """
        model = self.model()
        return _computed(predicted, table, model.trees.node.shape[1], model)

    def model(self) -> WeightedTrees:
        """What programs run of the sum."""
        n_trees = len(self.trees)
        most = 1 if n_trees == 1 else bucket(n_trees, smallest=_FEWEST_TREES)
        arguments = self.trees, self.steps, most
        return once(self._tree or self, weighted_trees, *arguments)

    def _of_few(self, table: Table) -> np.ndarray:
        n_rows, n_trees = len(table.x), len(self.trees)
        if n_trees == 1:
            (tree,) = self.trees
            return self.steps[0] * values_at(tree, table, descend(tree, table))
        forest = once(self, joined, self.trees)
        size = np.array([tree.n_nodes for tree in self.trees])
        root = np.broadcast_to(np.cumsum(size) - size, (n_rows, n_trees))
        leaf = descend(forest, table, root)
        table = table.take(np.repeat(np.arange(n_rows), n_trees))
        value = values_at(forest, table, leaf.ravel())
        value = value.reshape(n_rows, n_trees, value.shape[1])
        return np.einsum("t,nto->no", self.steps, value)


def _by_rows(
    function: Callable[[Table], np.ndarray],
    table: Table | Unencoded,
    n_bits: int,
    shape: tuple[int, ...],
    dtype: type,
) -> np.ndarray:
    """Apply a function to blocks of rows, in threads, and put its results together."""
    n_rows, n_columns = _shape_of(table)
    found = np.empty((n_rows, *shape), dtype)
    block = table.block if isinstance(table, Unencoded) else table.on_host().take
    row_bytes = max(2 * n_bits + 20 * n_columns, 1)
    size = min(max(_HOST_BYTES // row_bytes, _SMALLEST_BLOCK), _HOST_ROWS)
    starts = iter(range(0, n_rows, size))  # of which every thread takes the next one

    def fill(_: int) -> None:
        for start in starts:
            rows = slice(start, min(start + size, n_rows))
            found[rows] = function(block(rows))

    with one_thread_for_products():
        side_by_side(fill, range(min(-(-n_rows // size), N_WORKERS)))
    return found


def _computed(
    function: Callable[..., tuple[jax.Array]],
    table: Table | Unencoded,
    n_leaves: int,
    *arrays: Any,
) -> AnyArray:
    """Apply a compiled function to padded blocks of rows, and concatenate.

    What is found of a table that trees grow from on a device stays there.
    """
    n_rows, n_columns = _shape_of(table)
    # Memory for the decisions at all splits, but on a processor a cache for few.
    width = n_leaves + 2 * n_columns
    grows = isinstance(table, Table) and isinstance(table.codes, jax.Array)
    size = n_rows if grows else bucket(n_rows, smallest=_SMALLEST_BLOCK)
    size = min(size, rows_at_once(4 * width, _usual(width)))
    with in_32_bits():
        packed = jax.device_put(Packed.of(arrays))

    def run(rows: slice) -> AnyArray:
        n_inside = rows.stop - rows.start
        with in_32_bits():
            if isinstance(table, Unencoded):
                block, rows = table.block(rows), slice(0, n_inside)
            else:
                block = table
            x, codes = (block_of(array, rows, size) for array in block)
            (found,) = function(x, codes, packed)
        return found if grows else np.asarray(found)[..., :n_inside]

    blocks = list(in_blocks(run, n_rows, size))
    if not grows:
        return np.concatenate(blocks, axis=-1)
    return blocks[0] if len(blocks) == 1 else _in_one(blocks, n_rows=n_rows)


def _usual(width: int) -> int:
    """Rows of so many values that stay in a processor's cache, a power of two."""
    n_rows = next_power_of_two(_BLOCK_NUMBERS // width)
    return max(_SMALLEST_BLOCK, min(ROW_BLOCK, n_rows))


@program(static_argnames=("n_rows",))
def _in_one(blocks: Sequence[jax.Array], *, n_rows: int) -> jax.Array:
    """Blocks of rows, the last axis, without the padding of the last one."""
    return jnp.concatenate(blocks, axis=-1)[..., :n_rows]


def on_host(table: Table | Unencoded) -> Table:
    """Rows, encoded, in the memory of the host."""
    return table.encoded() if isinstance(table, Unencoded) else table.on_host()


def _shape_of(table: Table | Unencoded) -> tuple[int, int]:
    """Numbers of rows and of encoded columns."""
    if isinstance(table, Unencoded):
        return len(table.columns.codes), table.schema.n_columns
    return len(table.codes), table.x.shape[1]  # on a device others may come after them
