"""Leaves, paths, shares and predictions of rows."""

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.encoding import Unencoded
from secret_jax.data.rows import Table
from secret_jax.data.shards import (
    RowShards,
    Scaling,
    in_64_bits,
    scaling_of,
    standardised,
)
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import Scratch
from secret_jax.tree import sums
from secret_jax.tree.packed import PackedTrees, leaf_ids, programmed, values_of
from secret_jax.tree.soft import mixed, mixed_prediction, shares_of_rows, soft_routing
from secret_jax.tree.structure import Tree, once
from secret_jax.tree.sums import TreeSum, are_few, computed, on_host, shape_of
from secret_jax.tree.walk import leaves_of


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
    return TreeSum([tree]).leaves(table, scratch)


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
        else TreeSum([tree]).values(table, finish=finish)
    )
    return found[:, 0] if tree.n_outputs == 1 else found


def values(tree: Tree, table: Table | Unencoded) -> np.ndarray:
    """Predict every row, in standardised units, shape (n_rows, n_outputs)."""
    if not tree.is_soft:
        return TreeSum([tree]).values(table)
    routing = once(tree, soft_routing)
    if shape_of(table)[0] > sums.FEW_PAIRS:
        return computed(mixed_prediction, table, tree.n_leaves, routing).T.astype(
            np.float64
        )
    x, codes = on_host(table)
    return mixed(routing, x.astype(np.float64), codes, np).T


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


def predict_where_they_lie(tree: Tree, shards: RowShards) -> jax.Array:
    """Predict every row with a hard tree of numbers, in float32 on the rows' devices.

    Raises
    ------
    ValueError
        If a row holds a number that is not finite.
    """
    schema = tree.schema
    units = np.array([schema.target_centers, schema.target_scales])
    with in_64_bits():
        x = schema.in_order(shards.x)
        value, finite = _predicted(
            x, scaling_of(schema, shards), once(tree, programmed), units
        )
    if not bool(finite):
        raise ValueError(
            "X holds values that are no finite numbers; say output='host'."
        )
    value = value[: shards.n_rows]
    return value[:, 0] if tree.n_outputs == 1 else value


@program()
def _predicted(
    x: AnyArray, scaling: Scaling, packed: PackedTrees, units: AnyArray
) -> tuple[jax.Array, jax.Array]:
    """Predict every row, shape (n_rows, n_outputs); return also whether x is finite."""
    codes = jnp.zeros((len(x), 0), jnp.int32)
    value = values_of(packed, standardised(x, scaling), codes).T.astype(units.dtype)
    value = (units[0] + units[1] * value).astype(jnp.float32)
    return value, jnp.isfinite(x).all()
