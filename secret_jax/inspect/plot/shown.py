"""What a slice predicts, which rows are drawn on it, and where it is far from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.plot.held import Rows, drawn_range
from secret_jax.inspect.plot.slices import varied
from secret_jax.inspect.plot.style import evenly_spaced
from secret_jax.inspect.plot.support import far_from_rows
from secret_jax.inspect.printing import counted_rows
from secret_jax.inspect.tree_view import TreeView
from secret_jax.tree.routing import apply

_MOST_POINTS = 800
_MOST_AVERAGED = 200


class Slice:
    """A slice through a tree: what varies, what is held, and how far it is drawn."""

    def __init__(
        self,
        view: TreeView,
        base: Table,
        positions: list[int],
        rows: Rows | None,
        held_columns: set[int] | None,
    ):
        tree = view.tree
        self.view, self.tree, self.base = view, tree, base
        self.positions, self.rows = positions, rows
        self.box = np.array([drawn_range(tree, p, rows) for p in positions])
        self.center = tree.schema.center[positions]
        self.scale = tree.schema.scale[positions]
        self.averaged: Table | None = None
        if rows is not None and held_columns is not None:
            self.averaged = self._with_held(rows.table, held_columns)

    @property
    def n_averaged(self) -> int:
        return 0 if self.averaged is None else len(self.averaged.x)

    def _with_held(self, table: Table, held_columns: set[int]) -> Table:
        """Some rows, in which the columns of ``at`` have its values."""
        schema = self.tree.schema
        chosen = table.take(evenly_spaced(len(table.x), _MOST_AVERAGED))
        x, codes = chosen.x.copy(), chosen.codes.copy()
        for position, column in enumerate(schema.input_columns):
            if column in held_columns:
                x[:, position] = self.base.x[0, position]
        for attribute, column in enumerate(schema.discrete):
            if column in held_columns:
                codes[:, attribute] = self.base.codes[0, attribute]
        return Table(x, codes)

    def predict(self, values: np.ndarray) -> np.ndarray:
        """The prediction, or its mean over rows, where the columns have some values.

        ``values`` are in encoded units, shape (n_places, n_positions). Of classes there
        is a column of probabilities for each.
        """
        if self.averaged is None:
            return self.view.said(varied(self.base, self.positions, values))
        total: Any = 0.0
        for row in range(self.n_averaged):
            one = self.averaged.take(slice(row, row + 1))
            total = total + self.view.said(self.varied_known(one, values))
        return total / self.n_averaged

    def varied_known(self, row: Table, values: np.ndarray) -> Table:
        """Copies of a row with values in the place of what it holds, or lacks."""
        table = varied(row, self.positions, values)
        for position, indicator in self.tree.schema.missing_columns:
            if position in self.positions:
                table.x[:, indicator] = 0.0
        return table

    def far(self, values: np.ndarray) -> np.ndarray:
        """Places without rows near them, shape (n_places,), bool."""
        if self.rows is None or self.averaged is not None:
            return np.zeros(len(values), bool)
        places = varied(self.base, self.positions, values)
        return far_from_rows(self.tree, self.rows.table, places)

    def elsewhere(self) -> np.ndarray:
        """Rows whose leaf is not the one that the slice has at their place, bool.

        Their other columns differ from what these are held at. None of a soft tree,
        whose leaves mix, nor where predictions are averaged.
        """
        assert self.rows is not None
        table = self.rows.table
        if self.tree.is_soft or self.averaged is not None:
            return np.zeros(len(table.x), bool)
        values = table.x[:, self.positions]
        there = apply(self.tree, varied(self.base, self.positions, values))
        return apply(self.tree, table) != there

    def known(self) -> np.ndarray:
        """Which of the rows have a value in every varied column, one column each."""
        assert self.rows is not None
        schema = self.tree.schema
        return np.stack([self.rows.known(schema, p) for p in self.positions], axis=1)

    def missing_words(self, position: int) -> str:
        if self.rows is None:
            return ""
        missing = int((~self.rows.known(self.tree.schema, position)).sum())
        return f" (triangles: missing, {counted_rows(missing)})" if missing else ""

    def points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows that are drawn, their places, and which of them lack a value.

        What is missing stands at the lower end.
        """
        assert self.rows is not None
        drawn = evenly_spaced(len(self.rows.target), _MOST_POINTS)
        at = self.rows.table.x[drawn][:, self.positions].astype(np.float64)
        known = self.known()[drawn]
        at = np.where(known, at, self.box[:, 0])
        lacks = np.asarray(~known.all(axis=1))
        return drawn, self.center + self.scale * at, lacks
