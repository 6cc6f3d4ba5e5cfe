"""Statistics and errors of nodes by programs that read rows once, in large blocks.

Sums over the rows of each leaf are products of matrices: of float32 numbers about what
the tree knows of the leaf, which hold six digits in a run of rows; runs add up in
float64.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.row_programs import block_of, in_64_bits
from secret_jax.data.rows import Rows, all_one, are_ones
from secret_jax.models.statistics import ROUNDING_32, NodeStatistics, centred
from secret_jax.runtime.devices import rows_at_once
from secret_jax.runtime.linalg import AnyArray, matmul
from secret_jax.runtime.parallel import ROW_BLOCK
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import next_power_of_two
from secret_jax.tree.packed import PackedTrees, programmed
from secret_jax.tree.structure import Tree, once

# Rows whose float32 products are added up before float64 goes on.
_RUN = 512
# Fewest leaves after padding, and levels to a multiple of which trees are padded: one
# program serves most trees.
_LEAVES, _LEVELS = 128, 16
# Stands for what float32 does not hold: infinity would be no number in other leaves.
_HUGE = 1e30


class _Block(NamedTuple):
    """Rows of one program."""

    x: AnyArray  # (n_rows, n_columns), float32
    codes: AnyArray  # (n_rows, n_discrete), int32
    targets: AnyArray  # (n_rows, n_outputs), float32
    weight: AnyArray  # (n_rows,), float32, or a single one of all rows
    n_inside: AnyArray  # the others are padding

    @property
    def weights(self) -> AnyArray:
        number = jnp.arange(len(self.x), dtype=jnp.int32)
        return jnp.where(number < self.n_inside, self.weight, 0)

    def sums(self, leaf: AnyArray, n_leaves: int, values: AnyArray) -> jax.Array:
        """Sum values (n_rows, n) over the rows of every leaf, (n_leaves, n)."""
        member = leaf[:, None] == jnp.arange(n_leaves, dtype=leaf.dtype)
        member = member.astype(jnp.float32).reshape(-1, _RUN, n_leaves)
        values = jnp.clip(values, -_HUGE, _HUGE).reshape(-1, _RUN, values.shape[1])
        found = matmul(member.transpose(0, 2, 1), values)
        return found.astype(jnp.float64).sum(axis=0)


def resident_statistics(tree: Tree, rows: Rows) -> tuple[np.ndarray, NodeStatistics]:
    """Compute statistics of the leaves; rows of weight zero, at the end, are padding.

    Returns the leaves that have rows, and theirs.
    """
    node, shift, there = once(tree, _leaves_of)
    side, other = np.tril_indices(shift.shape[1] + 1)
    n_numbers = len(node) + len(side)
    total, lower, upper = _over_blocks(_leaf_sums, rows, n_numbers, *there)
    sums = np.zeros((len(node), shift.shape[1] + 1, shift.shape[1] + 1))
    sums[:, side, other] = sums[:, other, side] = total.sum(axis=0)
    some = np.flatnonzero(sums[:, -1, -1] > 0)
    weight, mean, scatter = centred(sums[some], shift[some])
    lower, upper = lower.min(axis=0)[some], upper.max(axis=0)[some]
    rounding = np.full(len(some), ROUNDING_32)
    return node[some], NodeStatistics(weight, mean, scatter, lower, upper, rounding)


def resident_errors(tree: Tree, rows: Rows, output_weight: np.ndarray) -> np.ndarray:
    """Total squared error of every node's model on the rows that reach it, (n_nodes,).

    ``output_weight`` (n_outputs,): what an output counts.
    """
    node, shift, there = once(tree, _leaves_of)
    path, n = _paths(tree)[node], tree.schema.n_regressors
    center, mean = shift[:, :n], shift[:, None, n:]
    model = tree.coefficient[path]  # leaves, levels, outputs, 1 + regressors
    constant = model[..., 0] + np.einsum("ldoi,li->ldo", model[..., 1:], center) - mean
    low, high = (end[path] - mean for end in tree.clip_range())
    tables = model[..., 1:], constant, low, high, np.sqrt(output_weight)
    known = *there, *(array.astype(np.float32) for array in tables)
    n_numbers = len(node) + path.shape[1] * (2 + tree.n_outputs * (n + 2))
    (lost,) = _over_blocks(_path_losses, rows, n_numbers, *known)
    error = np.zeros(tree.n_nodes)
    np.add.at(error, path[path >= 0], lost.sum(axis=0)[path >= 0])
    return error


def _leaves_of(tree: Tree) -> tuple[np.ndarray, np.ndarray, Any]:
    """Nodes of the leaves; what they are measured from; what programs take of both."""
    packed = programmed(tree, _LEAVES)
    means = np.concatenate([tree.center, tree.mean], axis=1)[packed.node]
    shift = np.nan_to_num(means).astype(np.float32)
    with in_64_bits():
        there = jax.device_put((packed, shift))
    return packed.node, shift.astype(np.float64), there


def _paths(tree: Tree) -> np.ndarray:
    """Nodes from every node up to its root, (n_nodes, n_levels), then -1."""
    n_levels = -(-(tree.max_depth + 1) // _LEVELS) * _LEVELS
    path = np.full((tree.n_nodes, n_levels), -1)
    path[:, 0] = np.arange(tree.n_nodes)
    for level in range(1, n_levels):
        below = path[:, level - 1]
        path[:, level] = np.where(below >= 0, tree.parent[below], -1)
    return path


def _over_blocks(
    function: Callable[..., tuple[jax.Array, ...]],
    rows: Rows,
    n_numbers: int,
    *known: Any,
) -> list[np.ndarray]:
    """Call a program on large blocks of rows, and stack what it finds in each.

    ``n_numbers``: that it holds of a row.
    """
    size = rows_at_once(4 * (n_numbers + 3 * rows.table.x.shape[1]), ROW_BLOCK)
    size = min(next_power_of_two(max(rows.n_rows, _RUN)), size)
    n_rows = rows.n_rows
    if not all_one(rows.weight):
        n_rows = np.count_nonzero(rows.weight)
    alike = are_ones(rows.weight[:n_rows])
    n_rows = n_rows if alike else rows.n_rows
    targets = rows.targets.astype(np.float32)
    weight = np.ones(1, np.float32) if alike else rows.weight.astype(np.float32)
    with in_64_bits():
        known, found = jax.device_put(known), []
        for start in range(0, max(n_rows, 1), size):
            part = slice(start, min(start + size, n_rows))
            own = weight if alike else block_of(weight[:, None], part, size)[:, 0]
            of_rows = (block_of(array, part, size) for array in (*rows.table, targets))
            block = _Block._make([*of_rows, own, np.int32(part.stop - start)])
            found.append(function(block, *known))
    return [np.stack(list(map(np.asarray, each))) for each in zip(*found, strict=True)]


@program()
def _leaf_sums(
    block: _Block, packed: PackedTrees, shift: AnyArray
) -> tuple[jax.Array, ...]:
    """Sums of products of [x, y, 1] about the leaf's shift, and ranges of targets.

    Products are those of a lower triangle.
    """
    x, codes, targets, *_ = block
    (n_leaves, width), weight = shift.shape, block.weights
    (leaf,) = packed.leaves(x.T, codes.T, jnp)
    n_regressors = width - targets.shape[1]
    joint = jnp.concatenate([x[:, :n_regressors], targets], axis=1) - shift[leaf]
    joint = jnp.concatenate([joint, jnp.ones_like(joint[:, :1])], axis=1)
    side, other = np.tril_indices(1 + width)
    products = (weight[:, None] * joint)[:, side] * joint[:, other]
    member = leaf[:, None] == jnp.arange(n_leaves, dtype=leaf.dtype)
    inside = (member & (weight > 0)[:, None])[:, :, None]
    lower = jnp.where(inside, targets[:, None], jnp.inf).min(axis=0)
    upper = jnp.where(inside, targets[:, None], -jnp.inf).max(axis=0)
    return block.sums(leaf, n_leaves, products), lower, upper


@program()
def _path_losses(
    block: _Block,
    packed: PackedTrees,
    shift: AnyArray,
    slopes: AnyArray,
    constant: AnyArray,
    low: AnyArray,
    high: AnyArray,
    factor: AnyArray,
) -> tuple[jax.Array]:
    """Squared errors of the models above each leaf's rows, (n_leaves, n_levels)."""
    x, codes, targets, *_ = block
    (leaf,) = packed.leaves(x.T, codes.T, jnp)
    n = slopes.shape[-1]
    joint = jnp.concatenate([x[:, :n], targets], axis=1) - shift[leaf]
    about, wanted = joint[:, None, None, :n], joint[:, None, n:]
    value = jnp.sum(slopes[leaf] * about, axis=-1) + constant[leaf]
    value = jnp.clip(value, low[leaf], high[leaf])
    losses = jnp.sum((factor * (wanted - value)) ** 2, axis=-1)
    return (block.sums(leaf, len(slopes), block.weights[:, None] * losses),)
