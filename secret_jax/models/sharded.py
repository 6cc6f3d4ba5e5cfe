"""Leaf statistics and predictions of rows in shards on several devices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.device import Scaling, in_64_bits, standardised
from secret_jax.data.schema import TableSchema
from secret_jax.data.sharded import RUN, ShardedRows, over_tiles
from secret_jax.data.shards import RowShards
from secret_jax.models.statistics import ROUNDING_32, NodeStatistics
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

    They are sums of products about the means of the sample, which float32 holds to six
    digits in a tile; tiles and shards are added up in float64.
    """
    schema, shards = tree.schema, source.shards
    leaves = np.flatnonzero(tree.is_leaf)
    number = np.cumsum(tree.is_leaf) - 1
    shift = np.concatenate([tree.center, tree.mean], axis=1)[leaves]
    shift = np.nan_to_num(shift).astype(np.float32)
    packed = packed_of(tree)
    with in_64_bits():
        found = _leaf_sums(
            shards.x,
            shards.beside(schema.scale_targets(source.targets).astype(np.float32)),
            shards.beside(source.weight.astype(np.float32)),
            _scaling(schema, shards),
            packed,
            number[packed.node].astype(np.int32),
            padded(shift, next_power_of_two(len(leaves)), 0),
            n_shards=shards.mesh.size,
        )
    sums, low, high = map(np.asarray, found)
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
        lower=low.min(axis=0)[occupied].astype(np.float64),
        upper=high.max(axis=0)[occupied].astype(np.float64),
        rounding=np.full(len(occupied), ROUNDING_32),
    )


def _scaling(schema: TableSchema, shards: RowShards) -> Scaling:
    """Scaling of columns that lie without the centers of the shards."""
    center = schema.center - schema.in_order(shards.center[None])[0]
    return center, schema.scale, *schema.saturation


@program(static_argnames=("n_shards",))
def _leaf_sums(
    x: AnyArray,
    targets: AnyArray,
    weight: AnyArray,
    scaling: Scaling,
    packed: Any,
    number: AnyArray,
    shift: AnyArray,
    *,
    n_shards: int,
) -> tuple[jax.Array, ...]:
    """Sums of products of [1, x, y] about the leaf's shift, and ranges of targets."""
    n_leaves, width = shift.shape
    n_outputs = targets.shape[1]

    def of_tile(raw: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
        z = standardised(raw, scaling)
        codes = jnp.zeros((len(z), 0), jnp.int32)
        leaf = number[leaf_of(packed, z, codes)]
        member = leaf[:, None] == jnp.arange(n_leaves, dtype=leaf.dtype)
        joint = jnp.concatenate([z[:, : width - n_outputs], y], axis=1) - shift[leaf]
        joint = jnp.concatenate([jnp.ones((len(z), 1), jnp.float32), joint], axis=1)
        products = joint[:, :, None] * joint[:, None, :] * w[:, None, None]
        run = min(RUN, len(z))
        member_of_run = member.astype(jnp.float32).reshape(-1, run, n_leaves)
        sums = matmul(
            member_of_run.transpose(0, 2, 1),
            products.reshape(-1, run, (1 + width) ** 2),
        )
        sums = sums.astype(jnp.float64).sum(axis=0)
        inside = (member & (w > 0)[:, None])[:, :, None]
        low = jnp.where(inside, y[:, None], jnp.inf).min(axis=0)
        high = jnp.where(inside, y[:, None], -jnp.inf).max(axis=0)
        return sums.reshape(n_leaves, 1 + width, 1 + width), low, high

    def step(state: Any, new: Any, raw: Any, y: Any, w: Any) -> Any:
        total, low, high = state
        w = jnp.where(new, w, jnp.zeros_like(w))
        sums, lowest, highest = jax.vmap(of_tile)(raw, y, w)
        return total + sums, jnp.minimum(low, lowest), jnp.maximum(high, highest)

    shape = n_shards, n_leaves, 1 + width, 1 + width
    edge = jnp.full((n_shards, n_leaves, n_outputs), jnp.inf, jnp.float32)
    state = jnp.zeros(shape, jnp.float64), edge, -edge
    return over_tiles(step, state, (x, targets, weight), n_shards)


@program()
def _predicted(
    x: AnyArray, scaling: Scaling, packed: Any
) -> tuple[jax.Array, jax.Array]:
    """Predict every row in standardised units; return also whether x is finite."""
    codes = jnp.zeros((len(x), 0), jnp.int32)
    value = value_of(packed, standardised(x, scaling), codes)
    return value.T, jnp.isfinite(x).all()


@program()
def _restored(value: AnyArray, center: AnyArray, scale: AnyArray) -> jax.Array:
    """Convert predictions to original units, shape (n_rows, n_outputs)."""
    return value * scale + center


def predict_where_they_lie(tree: Tree, shards: RowShards) -> jax.Array:
    """Predict like `predict_shards`, in float32 on the rows' devices."""
    value = _value(tree, shards)
    if value is None:
        raise ValueError(
            "X holds values that are no finite numbers; say output='host'."
        )
    center, scale = (
        np.asarray(values, np.float32)
        for values in (tree.schema.target_centers, tree.schema.target_scales)
    )
    restored = _restored(value, center, scale)[: shards.n_rows]
    return restored[:, 0] if tree.n_outputs == 1 else restored


def predict_shards(tree: Tree, shards: RowShards) -> np.ndarray | None:
    """Predict every row of shards with a hard tree of numbers."""
    value = _value(tree, shards)
    if value is None:
        return None
    return tree.schema.restore_targets(np.asarray(value)[: shards.n_rows])


def _value(tree: Tree, shards: RowShards) -> jax.Array | None:
    scaling = _scaling(tree.schema, shards)
    with in_64_bits():
        x = tree.schema.in_order(shards.x)
        value, finite = _predicted(x, scaling, packed_of(tree))
    return value if bool(finite) else None
