"""Leaves, paths, shares and predictions of rows.

Few rows are routed on the host, where a call costs nothing; many go through compiled
programs in blocks, which several processors share.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from secret_jax.data.device import block_of
from secret_jax.data.encoding import Unencoded
from secret_jax.data.rows import Table
from secret_jax.runtime.devices import in_32_bits, rows_at_once
from secret_jax.runtime.parallel import ROW_BLOCK, in_blocks
from secret_jax.runtime.shapes import bucket, next_power_of_two, padded
from secret_jax.tree.packed import PackedTrees, leaf_ids, packed, sum_of_trees
from secret_jax.tree.soft import (
    SoftRouting,
    mixed,
    mixed_prediction,
    shares_of_rows,
    soft_routing,
)
from secret_jax.tree.structure import Tree, joined
from secret_jax.tree.walk import descend, leaves_of, values_at

_Made = TypeVar("_Made")

# Maximum number of pairs of a row and a tree for which compiling a program costs more
# than the work.
_FEW_PAIRS = 1 << 14
# Minimum block: padding costs less than a program of its own. Maximum number of values
# in a block: they stay in a processor's cache (4 MiB).
_SMALLEST_BLOCK, _BLOCK_NUMBERS = 1024, 1 << 20
# Minimum number of trees of a sum after padding, so that few programs are compiled.
_FEWEST_TREES = 16

# What was made of a tree when it was first used; trees never change.
_MADE: weakref.WeakKeyDictionary[Tree, dict[Callable, Any]] = (
    weakref.WeakKeyDictionary()
)


def _once(tree: Tree, make: Callable[[Tree], _Made]) -> _Made:
    made = _MADE.setdefault(tree, {})
    if make not in made:
        made[make] = make(tree)
    return made[make]


class TreeSum:
    """Weighted sum of hard trees of one schema, with cached arrays.

    Parameters
    ----------
    steps : ndarray of shape (n_trees,), float64
        Weight of each tree.
    """

    def __init__(self, trees: Sequence[Tree], steps: np.ndarray):
        self.trees, self.steps = list(trees), np.asarray(steps, np.float64)
        self._arrays: PackedTrees | None = None
        self._joined: Tree | None = None

    def values(
        self, table: Table | Unencoded, first: int = 0, last: int | None = None
    ) -> np.ndarray:
        """Sum the predictions of trees ``first`` up to, but without, ``last``.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs), float64
            In standardised units.
        """
        last = len(self.trees) if last is None else last
        if _shape(table)[0] * (last - first) <= _FEW_PAIRS:
            return self._on_host(_on_host(table), first, last)
        arrays, steps = self.packed, self.steps.astype(np.float32)
        steps = padded(steps, len(arrays.depth))
        bounds = np.int32(first), np.int32(last)
        return _computed(sum_of_trees, table, arrays, steps, *bounds).T

    @property
    def packed(self) -> PackedTrees:
        """Padded arrays of the trees."""
        if self._arrays is None:
            n_trees = len(self.trees)
            n_padded = bucket(n_trees, smallest=_FEWEST_TREES) if n_trees > 1 else 1
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


def _sum_of_one(tree: Tree) -> TreeSum:
    return TreeSum([tree], np.ones(1))


def packed_of(tree: Tree) -> PackedTrees:
    """Padded arrays of a hard tree, cached, for compiled functions."""
    return _once(tree, _sum_of_one).packed.of(0)


def apply(tree: Tree, table: Table) -> np.ndarray:
    """Find the leaf of every row.

    For a soft tree, the leaf at the end of the path with the larger share at every
    split, which is where the same tree with hard splits would send the row.

    Parameters
    ----------
    table : Table
        Rows encoded with ``tree.schema``.

    Returns
    -------
    ndarray of shape (n_rows,), int32
        Node ids.
    """
    if len(table.x) <= _FEW_PAIRS:
        return leaves_of(tree, table.on_host())
    return _computed(leaf_ids, table, _once(tree, _sum_of_one).packed)


def predict(tree: Tree, table: Table | Unencoded) -> np.ndarray:
    """Predict every row, in the units of the target.

    A soft tree mixes the predictions of its leaves by their shares of the row.

    Parameters
    ----------
    table : Table or Unencoded
        Rows for ``tree.schema``.

    Returns
    -------
    ndarray of shape (n_rows,), or (n_rows, n_outputs) of several outputs, float64
    """
    value = values(tree, table).astype(np.float64)  # where probabilities add up to one
    return tree.schema.restore_targets(tree.loss.prediction(value))


def said(tree: Tree, table: Table) -> np.ndarray:
    """Linear predictor of every row, before the inverse link."""
    return tree.schema.restore_targets(values(tree, table))


def values(tree: Tree, table: Table | Unencoded) -> np.ndarray:
    """Predict every row, in standardised units, shape (n_rows, n_outputs)."""
    if not tree.is_soft:
        return _once(tree, _sum_of_one).values(table)
    routing = _once(tree, soft_routing)
    if _shape(table)[0] > _FEW_PAIRS:
        return _computed(mixed_prediction, table, routing).T
    x, codes = _on_host(table)
    return mixed(routing, x.astype(np.float64), codes, np).T


def leaf_shares_of(tree: Tree, table: Table) -> np.ndarray:
    """Share of every leaf in the prediction of every row.

    Parameters
    ----------
    table : Table
        Rows encoded with ``tree.schema``.

    Returns
    -------
    ndarray of shape (n_rows, n_leaves), float64
        Rows sum to one; leaves in the order of their node ids. Of a hard tree one share
        of each row is 1.
    """
    if not tree.is_soft:
        return 1.0 * (apply(tree, table)[:, None] == np.flatnonzero(tree.is_leaf))
    x, codes = table.on_host()
    shares = shares_of_rows(_once(tree, soft_routing), x, codes, np)
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


def walk(tree: Tree, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Nodes on the path of every row, and the prediction of each node.

    Returns
    -------
    path : ndarray of shape (depth + 1, n_rows), int32
        See `paths_of`.
    prediction : ndarray of shape (depth + 1, n_outputs, n_rows), float64
        In standardised units, clipped as the tree clips.
    """
    path, table = paths_of(tree, table), table.on_host()

    def block(rows: slice) -> np.ndarray:
        part = table.take(rows)
        return np.stack([values_at(tree, part, node[rows]).T for node in path])

    return path, np.concatenate(list(in_blocks(block, len(table.x))), axis=-1)


def _computed(
    function: Callable[..., tuple[jax.Array]],
    table: Table | Unencoded,
    arrays: PackedTrees | SoftRouting,
    *more: Any,
) -> np.ndarray:
    """Apply a compiled function to padded blocks of rows, and concatenate.

    A row's result does not depend on the other rows of its block, nor on the block.
    """
    n_rows, n_columns = _shape(table)
    # Memory for the decisions at all splits, but on a processor a cache for few.
    width = arrays.threshold.shape[-1] + 2 * n_columns
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
            (found,) = function(arrays, x, codes, *more)
        return np.asarray(found)[..., :n_inside]

    return np.concatenate(list(in_blocks(run, n_rows, size)), axis=-1)


def _on_host(table: Table | Unencoded) -> Table:
    return table.encoded() if isinstance(table, Unencoded) else table.on_host()


def _shape(table: Table | Unencoded) -> tuple[int, int]:
    if isinstance(table, Unencoded):
        return len(table.columns.codes), table.schema.n_columns
    return table.x.shape
