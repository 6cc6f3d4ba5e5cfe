"""Rows that are given to see how well a tree predicts them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.inspect.tree_view import TreeView
from secret_jax.tree.routing import apply


class Rows(NamedTuple):
    """Rows with their targets, predictions (or probabilities) and leaves.

    ``columns`` are as they were given; targets that are classes are positions, -1 of
    one that training has not seen.
    """

    table: Table
    columns: list[np.ndarray]
    actual: np.ndarray
    predicted: np.ndarray
    leaf: np.ndarray

    @classmethod
    def of(cls, view: TreeView, X: Any, y: Any) -> Rows:
        """Send rows through a tree."""
        schema = view.tree.schema
        table, columns = encode(schema, X).on_host(), schema.columns_of(X)
        actual = view.targets(X, y)
        return cls(table, columns, actual, view.said(table), apply(view.tree, table))

    def take(self, rows: np.ndarray) -> Rows:
        columns = [np.asarray(column)[rows] for column in self.columns]
        rest = (self.actual[rows], self.predicted[rows], self.leaf[rows])
        return Rows(self.table.take(rows), columns, *rest)
