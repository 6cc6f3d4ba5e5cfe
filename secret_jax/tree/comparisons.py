"""What a row is asked at a split: comparisons, of which ordinary splits have one."""

from typing import Any

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.runtime.linalg import AnyArray
from secret_jax.tree.structure import SplitKind, Tree


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
    ``xp``: `numpy` or `jax.numpy`.
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

    ``one``: has the arrays of `secret_jax.splits.interface.Comparison`; ``at``
    (n_rows,), int: the comparison of every row; ``row`` (n_rows,), int: which ones of
    the table these are; None: all in turn.
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


def left_of_tree(
    tree: Tree, table: Table, at: np.ndarray, row: np.ndarray | None = None
) -> np.ndarray:
    """The same of a tree's comparisons."""
    return left_of(tree, tree.larger_left[tree.node_of], table, at, row)
