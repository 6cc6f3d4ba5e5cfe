"""Leaf statistics and predictions of rows in shards on several devices.

Each device encodes, routes and adds up its own rows, a tile at a time; one `psum` per
fit brings the sums together. They are sums of products about the leaf's mean in the
sample, which float32 holds to six digits, with their rounding errors beside them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from secret_jax.data.device import FAR
from secret_jax.data.sharded import (
    ShardedRows,
    multiplied,
    n_tiles,
    plus,
    tile_size,
    tiles,
)
from secret_jax.data.shards import RowShards
from secret_jax.models.statistics import ROUNDING_32, NodeStatistics
from secret_jax.runtime.devices import in_32_bits
from secret_jax.runtime.linalg import AnyArray, matmul
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import next_power_of_two, padded
from secret_jax.tree.packed import leaf_of, value_of
from secret_jax.tree.routing import packed_of
from secret_jax.tree.structure import Tree


def sharded_statistics(
    tree: Tree, source: ShardedRows
) -> tuple[np.ndarray, NodeStatistics]:
    """Compute statistics of the leaves in one pass over the shards.

    Parameters
    ----------
    tree : Tree
        Its models are those of a sample: sums are taken about its means.

    Returns
    -------
    node : ndarray of shape (n_occupied,), int
    statistics : NodeStatistics
        One entry for each of them.
    """
    schema, shards = tree.schema, source.shards
    leaves = np.flatnonzero(tree.is_leaf)
    n_leaves = next_power_of_two(len(leaves))
    number = np.cumsum(tree.is_leaf) - 1
    shift = np.concatenate([tree.center, tree.mean], axis=1)[leaves]
    shift = np.nan_to_num(shift).astype(np.float32)
    targets = schema.scale_targets(source.targets).astype(np.float32)
    packed = packed_of(tree)
    with in_32_bits():
        found = _sums(
            shards.x,
            shards.beside(targets),
            shards.beside(source.weight.astype(np.float32)),
            _scaling(tree, shards),
            packed,
            number[packed.node].astype(np.int32),
            padded(shift, n_leaves, 0),
            np.int32(shards.n_rows),
            mesh=shards.mesh,
        )
        sums, low, high = (np.asarray(array, np.float64) for array in found)
    sums = sums.sum(axis=0)[: len(leaves)]
    occupied = np.flatnonzero(sums[:, 0, 0] > 0)
    sums, shift = sums[occupied], shift[occupied].astype(np.float64)
    weight, offset = sums[:, 0, 0], sums[:, 0, 1:] / sums[:, :1, 0]
    between = weight[:, None, None] * offset[:, :, None] * offset[:, None, :]
    scatter = sums[:, 1:, 1:] - between
    return leaves[occupied], NodeStatistics(
        weight=weight,
        mean=shift + offset,
        scatter=0.5 * (scatter + scatter.transpose(0, 2, 1)),
        lower=low[occupied],
        upper=high[occupied],
        rounding=np.full(len(occupied), ROUNDING_32),
    )


def _scaling(tree: Tree, shards: RowShards) -> tuple[np.ndarray, ...]:
    """Centers relative to the shards, and inverse scales of the columns.

    Each in two parts, float32.
    """
    parts = []
    for whole in (tree.schema.center - shards.center, 1.0 / tree.schema.scale):
        coarse = whole.astype(np.float32)
        parts += [coarse, (whole - coarse).astype(np.float32)]
    return tuple(parts)


def _encoded(x: Any, scaling: Any) -> Any:
    """Standardise columns with the accuracy of float64 rounded to float32.

    Else a few of many rows would go to the other side of a split.
    """
    center, center_rest, inverse, inverse_rest = scaling
    value = x.astype(jnp.float32)
    offset, rest = plus((value, jnp.zeros_like(value)), -center)
    rest = rest - center_rest
    product, error = multiplied(offset, jnp.broadcast_to(inverse, offset.shape))
    encoded = product + (error + (offset * inverse_rest + rest * inverse))
    return jnp.clip(encoded, -FAR, FAR)


@program(static_argnames=("mesh",))
def _sums(
    x: AnyArray,
    targets: AnyArray,
    weight: AnyArray,
    scaling: tuple[AnyArray, ...],
    packed: Any,
    number: AnyArray,
    shift: AnyArray,
    n_rows: AnyArray,
    *,
    mesh: Mesh,
) -> tuple[jax.Array, ...]:
    """Sums of products of [1, x, y] about the leaf's shift, and ranges of targets.

    Returns
    -------
    sums : Array of shape (2, n_leaves, 1 + n_regressors + n_outputs, the same)
        The sums, and their rounding errors.
    low, high : Array of shape (n_leaves, n_outputs)
    """
    axis = mesh.axis_names[0]
    spec, whole = PartitionSpec(axis), PartitionSpec()

    def on_shard(x: Any, targets: Any, weight: Any, given: Any) -> Any:
        scaling, packed, number, shift, n_rows = given
        n_local = len(x)
        n_leaves, width = shift.shape
        size = tile_size(n_local, mesh, (1 + width) ** 2)
        tile = tiles(n_local, n_rows, jax.lax.axis_index(axis), size)
        n_regressors = width - targets.shape[1]

        def add(index: Any, state: Any) -> Any:
            total, low, high = state
            begin, inside = tile(index)
            raw, y, w = (
                jax.lax.dynamic_slice_in_dim(array, begin, size)
                for array in (x, targets, weight)
            )
            z = _encoded(raw, scaling)
            codes = jnp.zeros((size, 0), jnp.int32)
            leaf = number[leaf_of(packed, z, codes)]
            member = (leaf[:, None] == jnp.arange(n_leaves)) & inside[:, None]
            joint = jnp.concatenate([z[:, :n_regressors], y], axis=1) - shift[leaf]
            ones = jnp.ones((size, 1))
            joint = jnp.concatenate([ones, jnp.where(inside[:, None], joint, 0.0)], 1)
            products = joint[:, :, None] * joint[:, None, :] * w[:, None, None]
            sums = matmul(member.T.astype(jnp.float32), products.reshape(size, -1))
            its = member[:, :, None]
            low = jnp.minimum(low, jnp.where(its, y[:, None], jnp.inf).min(axis=0))
            high = jnp.maximum(high, jnp.where(its, y[:, None], -jnp.inf).max(axis=0))
            return plus(total, sums), low, high

        nothing = jnp.zeros((n_leaves, (1 + width) ** 2))
        edge = jnp.zeros((n_leaves, targets.shape[1]))
        state = (nothing, nothing), edge + jnp.inf, edge - jnp.inf
        total, low, high = jax.lax.fori_loop(0, n_tiles(n_local, size), add, state)
        # Sums of the shards differ in size: their rounding is kept by a second psum.
        sums = jax.lax.psum(jnp.stack(total), axis)
        return (
            sums.reshape(2, n_leaves, 1 + width, 1 + width),
            jax.lax.pmin(low, axis),
            jax.lax.pmax(high, axis),
        )

    given = scaling, packed, number, shift, n_rows
    return jax.shard_map(
        on_shard,
        mesh=mesh,
        in_specs=(spec, spec, spec, whole),
        out_specs=whole,
        check_vma=False,
    )(x, targets, weight, given)


@program(static_argnames=("mesh",))
def _predicted(
    x: AnyArray,
    scaling: tuple[AnyArray, ...],
    packed: Any,
    *,
    mesh: Mesh,
) -> tuple[jax.Array, jax.Array]:
    """Predict every row on its device; return also whether shards are finite.

    Shapes (n_rows, n_outputs) and (n_shards,).
    """
    spec, whole = PartitionSpec(mesh.axis_names[0]), PartitionSpec()

    def on_shard(x: Any, given: Any) -> Any:
        scaling, packed = given
        z = _encoded(x, scaling)
        codes = jnp.zeros((len(x), 0), jnp.int32)
        finite = jnp.isfinite(x).all()[None]
        return value_of(packed, z, codes).T, finite

    given = scaling, packed
    return jax.shard_map(
        on_shard, mesh=mesh, in_specs=(spec, whole), out_specs=spec, check_vma=False
    )(x, given)


@program()
def _restored(value: AnyArray, center: AnyArray, scale: AnyArray) -> jax.Array:
    """Convert predictions to original units, shape (n_rows, n_outputs)."""
    return value * scale + center


def predict_where_they_lie(tree: Tree, shards: RowShards) -> jax.Array:
    """Predict like `predict_shards`, in float32 on the rows' devices.

    Raises
    ------
    ValueError
        If there is a value that is no finite number.
    """
    with in_32_bits():
        found, finite = _predicted_by(tree, shards)
        if not np.asarray(finite).all():
            raise ValueError(
                "X holds values that are no finite numbers; say output='host'."
            )
        center, scale = (
            np.asarray(values, np.float32)
            for values in (tree.schema.target_centers, tree.schema.target_scales)
        )
        own = _restored(found, center, scale)[: shards.n_rows]
        return own[:, 0] if tree.n_outputs == 1 else own


def predict_shards(tree: Tree, shards: RowShards) -> np.ndarray | None:
    """Predict every row of shards, in the units of the target.

    Parameters
    ----------
    tree : Tree
        Hard, and of numbers only.

    Returns
    -------
    ndarray of shape (n_rows,), or (n_rows, n_outputs) of several outputs, float64
    None
        If there is a value that is no finite number: the host knows what to do.
    """
    with in_32_bits():
        found, finite = _predicted_by(tree, shards)
    if not np.asarray(finite).all():
        return None
    return tree.schema.restore_targets(np.asarray(found)[: shards.n_rows])


def _predicted_by(tree: Tree, shards: RowShards) -> tuple[jax.Array, jax.Array]:
    return _predicted(
        shards.x,
        _scaling(tree, shards),
        packed_of(tree),
        mesh=shards.mesh,
    )
