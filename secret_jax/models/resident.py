"""Leaf statistics of a block of rows, taken on the device where the rows lie."""

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.shards import block_of, in_64_bits
from secret_jax.models.statistics import ROUNDING_32, NodeStatistics
from secret_jax.runtime.linalg import AnyArray, matmul
from secret_jax.runtime.programs import program
from secret_jax.tree.blocks import once
from secret_jax.tree.packed import PackedTrees, programmed
from secret_jax.tree.structure import Tree

# Rows whose float32 products are added up before float64 goes on.
_RUN = 512


def resident_statistics(tree: Tree, rows: Rows) -> tuple[np.ndarray, NodeStatistics]:
    """Compute statistics of the leaves from numeric rows on a device.

    Those of weight zero are padding. Products are of float32 numbers about the means
    that the tree knows, which hold six digits in a run of rows; runs are added up in
    float64.
    """
    packed = once(tree, programmed)
    node = np.asarray(packed.node)
    shift = np.concatenate([tree.center, tree.mean], axis=1)[node]
    shift = np.nan_to_num(shift).astype(np.float32)
    known = np.column_stack([rows.targets, rows.weight]).astype(np.float32)
    every, size = slice(rows.n_rows), -(-rows.n_rows // _RUN) * _RUN
    x, known = (block_of(array, every, size) for array in (rows.table.x, known))
    with in_64_bits():
        found = _leaf_sums(x, known[:, :-1], known[:, -1], packed, shift)
    sums, lower, upper = (np.asarray(array, np.float64) for array in found)
    occupied = np.flatnonzero(sums[:, 0, 0] > 0)
    sums, shift = sums[occupied], shift[occupied].astype(np.float64)
    total, offset = sums[:, 0, 0], sums[:, 0, 1:] / sums[:, :1, 0]
    between = total[:, None, None] * offset[:, :, None] * offset[:, None, :]
    scatter = sums[:, 1:, 1:] - between
    return node[occupied], NodeStatistics(
        weight=total,
        mean=shift + offset,
        scatter=0.5 * (scatter + scatter.transpose(0, 2, 1)),
        lower=lower[occupied],
        upper=upper[occupied],
        rounding=np.full(len(occupied), ROUNDING_32),
    )


@program()
def _leaf_sums(
    x: AnyArray,
    targets: AnyArray,
    weight: AnyArray,
    packed: PackedTrees,
    shift: AnyArray,
) -> tuple[jax.Array, ...]:
    """Sums of products of [1, x, y] about the leaf's shift, and ranges of targets."""
    (n_leaves, width), n_outputs = shift.shape, targets.shape[1]
    (leaf,) = packed.leaves(x.T, jnp.zeros((0, len(x)), jnp.int32), jnp)
    member = leaf[:, None] == jnp.arange(n_leaves, dtype=leaf.dtype)
    joint = jnp.concatenate([x[:, : width - n_outputs], targets], axis=1) - shift[leaf]
    joint = jnp.concatenate([jnp.ones_like(joint[:, :1]), joint], axis=1)
    products = joint[:, :, None] * (weight[:, None] * joint)[:, None, :]
    sums = matmul(
        member.astype(jnp.float32).reshape(-1, _RUN, n_leaves).transpose(0, 2, 1),
        products.reshape(-1, _RUN, (1 + width) ** 2),
    )
    sums = sums.astype(jnp.float64).sum(axis=0)
    inside = (member & (weight > 0)[:, None])[:, :, None]
    lower = jnp.where(inside, targets[:, None], jnp.inf).min(axis=0)
    upper = jnp.where(inside, targets[:, None], -jnp.inf).max(axis=0)
    return sums.reshape(n_leaves, 1 + width, 1 + width), lower, upper
