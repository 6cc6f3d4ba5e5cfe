"""Rows that the tree did not learn from, and tables of errors on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.inspect.tree_view import TreeView
from secret_jax.prune.path import of_size
from secret_jax.tree.routing import apply


class HeldOut(NamedTuple):
    """Rows with their targets and predictions.

    Attributes
    ----------
    columns : list of ndarray of shape (n_rows,)
        As they were given.
    actual : ndarray of shape (n_rows,)
        Numbers; or positions of classes, -1 of one that training has not seen.
    predicted : ndarray of shape (n_rows,), or (n_rows, n_classes) of probabilities
    leaf : ndarray of shape (n_rows,), int32
    """

    table: Table
    columns: list[np.ndarray]
    actual: np.ndarray
    predicted: np.ndarray
    leaf: np.ndarray

    @classmethod
    def of(cls, view: TreeView, X: Any, y: Any) -> HeldOut:
        """Send rows through a tree."""
        schema = view.tree.schema
        table, columns = encode(schema, X).on_host(), schema.columns_of(X)
        actual = view.targets(table, X, y)
        return cls(table, columns, actual, view.said(table), apply(view.tree, table))

    def take(self, rows: np.ndarray) -> HeldOut:
        """Some of the rows."""
        columns = [np.asarray(column)[rows] for column in self.columns]
        rest = (self.actual[rows], self.predicted[rows], self.leaf[rows])
        return HeldOut(self.table.take(rows), columns, *rest)


class Figure(NamedTuple):
    """A figure of quality and its standard error, in words."""

    value: str
    uncertainty: str = ""


class ErrorLine(NamedTuple):
    """How well something predicts the rows.

    Attributes
    ----------
    leaves, numbers : int or None
        What there is to read.
    figures : list of Figure
        In the order of the headings of the table.
    bar : float
        Length of the error as a bar.
    """

    name: str
    leaves: int | None
    numbers: int | None
    figures: list[Figure]
    bar: float


def lines_by_size(
    view: TreeView,
    rows: HeldOut,
    figures_of: Callable[[np.ndarray, np.ndarray], tuple[list[Figure], float]],
    root: str,
) -> list[ErrorLine]:
    """Measure the tree cut down to 1, 2, 4, 8 ... leaves, and the whole tree.

    The subtrees are those of the weakest-link path (`secret_jax.prune.path`), so what
    leads from one line to the next is the part of the tree that pays least. Their
    leaves predict with the models that the inner nodes have.

    Parameters
    ----------
    figures_of : callable
        From predictions and targets to their figures, and the length of a bar.
    root : str
        Name of the tree of one leaf.
    """
    tree = view.tree
    sizes = [2**k for k in range(tree.n_leaves.bit_length()) if 2**k < tree.n_leaves]
    subtrees = {cut.n_leaves: cut for cut in (of_size(tree, n) for n in sizes)}
    subtrees[tree.n_leaves] = tree
    lines = []
    for n_leaves, cut in sorted(subtrees.items()):
        name = "the whole tree" if cut is tree else f"a tree of {n_leaves} leaves"
        name = root if n_leaves == 1 else name
        seen = view.of(cut)
        figures, bar = figures_of(seen.said(rows.table), rows.actual)
        lines.append(ErrorLine(name, n_leaves, seen.n_numbers(), figures, bar))
    return lines


def compared_lines(
    scores: Mapping[str, Mapping[str, Any]] | None,
    figures_of: Callable[[Mapping[str, Any]], tuple[list[Figure], float]],
) -> list[ErrorLine]:
    """Write lines of other methods, from what is known of each name."""
    return [
        ErrorLine(name, score.get("leaves"), None, *figures_of(score))
        for name, score in (scores or {}).items()
    ]
