"""What a row is asked at a split, and its walk down a tree, on the host."""

from typing import Any

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.parallel import ROW_BLOCK, in_blocks
from secret_jax.tree.packed import Comparisons, comparisons_of
from secret_jax.tree.structure import SplitKind, Tree, once

# Decisions of a block of rows at all splits: they stay in a cache.
_BLOCK_DECISIONS = 1 << 20


def goes_left(
    projection: AnyArray | float,
    threshold: AnyArray | float,
    discrete: AnyArray,
    code: AnyArray,
    listed: AnyArray,
    larger_left: AnyArray,
    xp: Any,
) -> Any:
    """Whether comparisons send rows to the left; shapes are broadcast.

    One of columns does up to its threshold; a ``discrete`` one where the category is
    ``listed``, or, if training never saw it (``code`` -1), where the larger child is.
    """
    known = xp.where(code >= 0, listed, larger_left)
    return xp.where(discrete, known, projection <= threshold)


def left_of(
    one: Any,
    larger_left: np.ndarray,
    table: Table,
    at: np.ndarray,
    row: np.ndarray | None = None,
) -> np.ndarray:
    """Whether rows go left, each by a comparison of its own, shape (n_rows,), bool.

    ``one``: a tree, or a `secret_jax.splits.interface.Comparison`; ``larger_left`` and
    ``at`` (n_rows,): the comparison of every row; ``row``: which ones of the table
    these are, by default all in turn.
    """
    row = np.arange(len(at)) if row is None else row
    # Rows along the directions of their splits, which for axes are single numbers.
    split, column = np.nonzero(one.direction)
    n = len(one.direction)
    is_axis, axis = np.zeros(n, bool), np.zeros(n, int)
    is_axis[split], axis[split] = one.direction[split, column] == 1.0, column
    is_axis &= np.bincount(split, minlength=n) == 1
    single = is_axis.take(at)
    if single.all():
        projection = table.x[row, axis.take(at)]
    else:
        projection = np.empty(len(at), table.x.dtype)
        some, sums = np.flatnonzero(single), np.flatnonzero(~single)
        projection[some] = table.x[row.take(some), axis.take(at.take(some))]
        direction = one.direction.take(at.take(sums), axis=0)
        x = table.x.take(row.take(sums), axis=0)
        projection[sums] = np.einsum("ij,ij->i", x, direction)
    is_discrete = one.kind == SplitKind.DISCRETE
    threshold = one.threshold.take(at)
    if not (table.codes.shape[1] and is_discrete.any()):
        return projection <= threshold
    discrete = is_discrete[at]
    code = table.codes[row, np.where(discrete, one.attribute[at], 0)]
    listed = one.goes_left[at, np.maximum(code, 0)]
    other = larger_left[at]
    return goes_left(projection, threshold, discrete, code, listed, other, np)


def descend(
    tree: Tree,
    table: Table,
    node: np.ndarray | None = None,
    n_steps: int | None = None,
) -> np.ndarray:
    """Move rows down from nodes, (n_rows,) or (n_rows, n_starts), by ``n_steps``.

    By default by all, to leaves. Gates count as hard splits; a row that has reached its
    leaf stays there.
    """
    node = np.zeros(len(table.x), np.int32) if node is None else node
    n_steps = tree.max_depth if n_steps is None else n_steps
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


def _walk_of(tree: Tree) -> tuple[Comparisons, np.ndarray, np.ndarray, list, list]:
    """Comparisons, their places and children of all nodes, and both as lists."""
    compared, place = comparisons_of(tree, by_column=False)
    place[tree.is_leaf] = 0  # a leaf leads to itself, whatever is decided
    child = np.stack([tree.right, tree.left], axis=1)
    child = np.where(child < 0, np.arange(tree.n_nodes)[:, None], child)
    return compared, place, child.astype(np.int32), place.tolist(), child.tolist()


def values_at(tree: Tree, table: Table, node: np.ndarray) -> np.ndarray:
    """Predict with a node per row, clipped, (n_rows, n_outputs), float64."""
    low, high = tree.clip_range()
    regressors = table.x[:, : tree.schema.n_regressors]
    coefficient = tree.coefficient.take(node, axis=0)
    value = np.einsum("ij,ikj->ik", regressors, coefficient[:, :, 1:])
    return np.clip(coefficient[:, :, 0] + value, low[node], high[node])
