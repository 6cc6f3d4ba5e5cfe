"""Walk rows down a tree, and predict with its nodes, on the host."""

from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.runtime.parallel import ROW_BLOCK, in_blocks
from secret_jax.tree.blocks import once
from secret_jax.tree.comparisons import Comparisons, comparisons_of, goes_left
from secret_jax.tree.structure import SplitKind, Tree

# Decisions of a block of rows at all splits: they stay in a cache.
_BLOCK_DECISIONS = 1 << 20


def descend(tree: Tree, table: Table, node: np.ndarray, n_steps: int) -> np.ndarray:
    """Move rows some steps down, each from given nodes.

    ``tree``: its gates count as hard splits; ``node`` (n_rows,) or (n_rows, n_starts),
    int. Returns of the shape of ``node``, int: a row that has reached its leaf stays
    there.
    """
    splits = once(tree, _splits_of)
    if not len(splits.compared.node) or not n_steps:
        return np.array(node)

    if node.size == 1:  # calls of NumPy would take longer than the walk
        left, at = _decisions(splits, table)[0].tolist(), node.item()
        for _ in range(n_steps):
            at = splits.children[at][left[splits.numbers[at]]]
        return np.full(node.shape, at, np.int32)

    def block(rows: slice) -> np.ndarray:
        left, at = _decisions(splits, table.take(rows)), node[rows]
        row = np.arange(len(at)).reshape(-1, *[1] * (at.ndim - 1))
        for _ in range(n_steps):
            at = splits.child[at, left[row, splits.number[at]]]
        return at

    size = min(max(_BLOCK_DECISIONS // len(splits.compared.node), 1), ROW_BLOCK)
    if len(node) <= size:
        return block(slice(None))
    return np.concatenate(list(in_blocks(block, len(node), size)))


def leaves_of(tree: Tree, table: Table) -> np.ndarray:
    """Find the leaf of every row, shape (n_rows,), int32."""
    return descend(tree, table, np.zeros(len(table.x), np.int32), tree.max_depth)


def leaves_by_steps(tree: Tree, table: Table) -> np.ndarray:
    """Find the leaf of every row, shape (n_rows,), one decision of each at a time.

    For a tree of many splits that is asked once: `leaves_of` makes decisions at all.
    """
    found = np.zeros(len(table.x), np.int32)
    row = np.arange(len(found))
    while len(row):
        row = row[tree.left[found[row]] >= 0]
        at = found[row]
        # All conditions of a conjunction hold; elsewhere they send all to the left.
        every = [left_of_splits(part, table, at, row) for part in tree.comparisons]
        left = np.logical_and.reduce(every)
        found[row] = np.where(left, tree.left[at], tree.right[at])
    return found


class _Splits(NamedTuple):
    """Comparisons of a tree for decisions at all of them; the splits come first."""

    compared: Comparisons
    number: np.ndarray  # (n_nodes,), int: the split of every node, anyone of a leaf
    # (n_nodes, 2), int32: right and left child; of a leaf the leaf itself.
    child: np.ndarray
    direction: np.ndarray  # (n_columns, n_comparisons), float32
    listed: np.ndarray  # comparisons of discrete attributes
    # numbers, children: ``number`` and ``child``, for the walk of a single row.
    numbers: list[int]
    children: list[list[int]]


def _splits_of(tree: Tree) -> _Splits:
    inner = ~tree.is_leaf
    compared = comparisons_of(tree, np.flatnonzero(inner))
    child = np.stack([tree.right, tree.left], axis=1)
    child = np.where(child < 0, np.arange(tree.n_nodes)[:, None], child)
    number = np.maximum(np.cumsum(inner) - 1, 0)
    return _Splits(
        compared=compared,
        number=number,
        child=child.astype(np.int32),
        direction=np.ascontiguousarray(compared.direction.T),
        listed=compared.discrete,
        numbers=number.tolist(),
        children=child.tolist(),
    )


def _decisions(splits: _Splits, table: Table) -> np.ndarray:
    """Whether rows go left at all splits, shape (n_rows, n_comparisons), int8."""
    compared, listed = splits.compared, splits.listed
    with np.errstate(over="ignore", invalid="ignore"):
        left = table.x @ splits.direction <= compared.threshold
    if len(listed):
        code = table.codes[:, compared.attribute[listed]]
        known = compared.goes_left[listed, np.maximum(code, 0)]
        left[:, listed] = np.where(code >= 0, known, compared.larger_left[listed])
    for conjunction, conditions in compared.conditions:
        left[:, conjunction] = left[:, conditions].all(axis=1)
    return left.view(np.int8)


def left_of_splits(
    splits: Any, table: Table, at: np.ndarray, row: np.ndarray | None = None
) -> np.ndarray:
    """Whether rows go left, each at a split of its own.

    ``at`` (n_rows,), int: the split of every row; ``row`` (n_rows,), int: which ones of
    the table these are; None: all in turn. Returns (n_rows,), bool.
    """
    row = np.arange(len(at)) if row is None else row
    projection = _projections(splits.direction, table.x, at, row)
    is_discrete = splits.kind == SplitKind.DISCRETE
    if not (table.codes.shape[1] and is_discrete.any()):
        return projection <= splits.threshold.take(at)
    discrete = is_discrete[at]
    attribute = np.where(discrete, splits.attribute[at], 0)
    code = table.codes[row, attribute]
    listed = splits.goes_left[at, np.maximum(code, 0)]
    threshold, larger_left = splits.threshold[at], splits.larger_left[at]
    return goes_left(projection, threshold, discrete, code, listed, larger_left, np)


def _projections(
    direction: np.ndarray, x: np.ndarray, at: np.ndarray, row: np.ndarray
) -> np.ndarray:
    """Rows along the directions of their splits, which for axes are single numbers."""
    split, column = np.nonzero(direction)
    is_axis, axis = np.zeros(len(direction), bool), np.zeros(len(direction), int)
    is_axis[split], axis[split] = direction[split, column] == 1.0, column
    is_axis &= np.bincount(split, minlength=len(direction)) == 1
    single = is_axis.take(at)
    if single.all():
        return x[row, axis.take(at)]
    found = np.empty(len(at), x.dtype)
    some, sums = np.flatnonzero(single), np.flatnonzero(~single)
    found[some] = x[row.take(some), axis.take(at.take(some))]
    directions = direction.take(at.take(sums), axis=0)
    found[sums] = np.einsum("ij,ij->i", x.take(row.take(sums), axis=0), directions)
    return found


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
