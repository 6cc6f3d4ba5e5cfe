"""Leaves, paths, shares and predictions of rows."""

import jax
import numpy as np

from secret_jax.data.encoding import Unencoded
from secret_jax.data.rows import Table
from secret_jax.runtime.shapes import Scratch
from secret_jax.tree import blocks
from secret_jax.tree.blocks import are_few, computed, on_host, once, shape_of
from secret_jax.tree.packed import leaf_ids, programmed
from secret_jax.tree.soft import mixed, mixed_prediction, shares_of_rows, soft_routing
from secret_jax.tree.structure import Tree
from secret_jax.tree.sums import TreeSum
from secret_jax.tree.walk import leaves_of

_ONE = np.ones(1)


def apply(tree: Tree, table: Table, scratch: Scratch | None = None) -> np.ndarray:
    """Find the leaf of every row.

    For a soft tree, the leaf at the end of the path with the larger share at every
    split, which is where the same tree with hard splits would send the row.

    ``table``: rows encoded with ``tree.schema``; ``scratch``: of calls for many blocks.
    Returns (n_rows,), int32: node ids.
    """
    if are_few(len(table.x)):
        return leaves_of(tree, table.on_host())
    if isinstance(table.x, jax.Array):  # rows that lie on a device
        return computed(leaf_ids, table, tree.n_leaves, once(tree, programmed))
    return _alone(tree).leaves(table, scratch)


def predict(tree: Tree, table: Table | Unencoded) -> np.ndarray:
    """Predict every row, in the units of the target.

    A soft tree mixes the predictions of its leaves by their shares of the row.

    ``table``: rows for ``tree.schema``. Returns (n_rows,), or (n_rows, n_outputs) of
    several outputs, float64.
    """

    def finish(value: np.ndarray) -> np.ndarray:
        return tree.schema.restore_outputs(tree.loss.prediction(value))

    found = (
        finish(values(tree, table))
        if tree.is_soft
        else _alone(tree).values(table, finish=finish)
    )
    return found[:, 0] if tree.n_outputs == 1 else found


def values(tree: Tree, table: Table | Unencoded) -> np.ndarray:
    """Predict every row, in standardised units, shape (n_rows, n_outputs)."""
    if not tree.is_soft:
        return _alone(tree).values(table)
    routing = once(tree, soft_routing)
    if shape_of(table)[0] > blocks.FEW_PAIRS:
        return computed(mixed_prediction, table, tree.n_leaves, routing).T.astype(
            np.float64
        )
    x, codes = on_host(table)
    return mixed(routing, x.astype(np.float64), codes, np).T


def _alone(tree: Tree) -> TreeSum:
    return TreeSum([tree], _ONE)


def leaf_shares_of(tree: Tree, table: Table) -> np.ndarray:
    """Share of every leaf in the prediction of every row.

    ``table``: rows encoded with ``tree.schema``. Returns (n_rows, n_leaves), float64:
    rows sum to one; leaves in the order of their node ids. Of a hard tree one share of
    each row is 1.
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
