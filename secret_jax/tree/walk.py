"""Walk rows down a tree, and predict with its nodes, on the host."""

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.runtime.parallel import ROW_BLOCK, in_blocks
from secret_jax.tree.packed import Comparisons, comparisons_of
from secret_jax.tree.structure import Tree, once

# Decisions of a block of rows at all splits: they stay in a cache.
_BLOCK_DECISIONS = 1 << 20


def descend(tree: Tree, table: Table, node: np.ndarray, n_steps: int) -> np.ndarray:
    """Move rows some steps down, each from given nodes.

    ``tree``: its gates count as hard splits; ``node`` (n_rows,) or (n_rows, n_starts),
    int. Returns of the shape of ``node``, int: a row that has reached its leaf stays
    there.
    """
    compared, places, children, place_of, children_of = once(tree, _walk_of)
    if not compared.also.shape[1] or not n_steps:
        return np.array(node)

    def decided(table: Table) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return compared.left(table.x.T, table.codes.T).view(np.int8)

    if node.size == 1:  # calls of NumPy would take longer than the walk
        left, at = decided(table)[:, 0].tolist(), node.item()
        for _ in range(n_steps):
            at = children_of[at][left[place_of[at]]]
        return np.full(node.shape, at, np.int32)

    def block(rows: slice) -> np.ndarray:
        left, at = decided(table.take(rows)), node[rows]
        row = np.arange(len(at)).reshape(-1, *[1] * (at.ndim - 1))
        for _ in range(n_steps):
            at = children[at, left[places[at], row]]
        return at

    size = min(max(_BLOCK_DECISIONS // len(tree.kind), 1), ROW_BLOCK)
    if len(node) <= size:
        return block(slice(None))
    return np.concatenate(list(in_blocks(block, len(node), size)))


def leaves_of(tree: Tree, table: Table) -> np.ndarray:
    """Find the leaf of every row, shape (n_rows,), int32."""
    return descend(tree, table, np.zeros(len(table.x), np.int32), tree.max_depth)


def _walk_of(
    tree: Tree,
) -> tuple[Comparisons, np.ndarray, np.ndarray, list[int], list[list[int]]]:
    """Comparisons of a tree, and what follows them, also for the walk of a single row.

    The place of every node's decision, (n_nodes,), int, any of a leaf; and its right
    and left child, (n_nodes, 2), int32, of a leaf the leaf itself; and both as lists.
    """
    compared, place = comparisons_of(tree, by_column=False)
    place[tree.is_leaf] = 0
    child = np.stack([tree.right, tree.left], axis=1)
    child = np.where(child < 0, np.arange(tree.n_nodes)[:, None], child)
    return compared, place, child.astype(np.int32), place.tolist(), child.tolist()


def values_at(tree: Tree, table: Table, node: np.ndarray) -> np.ndarray:
    """Predict with a given node per row, clipped.

    ``node`` (n_rows,), int. Returns (n_rows, n_outputs), float64: in standardised
    units.
    """
    low, high = tree.clip_range()
    regressors = table.x[:, : tree.schema.n_regressors]
    coefficient = tree.coefficient.take(node, axis=0)
    value = np.einsum("ij,ikj->ik", regressors, coefficient[:, :, 1:])
    return np.clip(coefficient[:, :, 0] + value, low[node], high[node])
