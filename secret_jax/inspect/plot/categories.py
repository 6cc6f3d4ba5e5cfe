"""Predictions over a column of categories, or over one and another column."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.data.schema import Role
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.plot.classes import BESIDE, draw_legend
from secret_jax.inspect.plot.held import Rows, drawn_range
from secret_jax.inspect.plot.layout import with_short_names
from secret_jax.inspect.plot.paint import Paint
from secret_jax.inspect.plot.style import (
    FONT_SIZE,
    MIDDLE_COLOR,
    evenly_spaced,
    open_frame,
    round_marks,
)
from secret_jax.inspect.tree_view import TreeView

_MOST_CATEGORIES = 24
_ALONG = 200  # places of a column of numbers
_MOST_POINTS, _MOST_AVERAGED = 800, 200
_LONGEST = 16  # characters of a category
_ROOM = 40  # characters that stand beside each other below a picture
_HALF = 0.3  # of a category's width: how far rows are scattered over it


class Side:
    """One axis: places in the units of the column, and what stands there."""

    def __init__(self, view: TreeView, column: int, rows: Rows | None):
        schema = view.tree.schema
        self.column, self.name = column, schema.names[column]
        self.is_discrete = schema.roles[column] is Role.DISCRETE
        self.n_categories, self._rows = 0, rows
        if self.is_discrete:
            every = list(schema.categories[schema.discrete.index(column)])
            values = [] if rows is None else rows.columns[column].tolist()
            count = {one: values.count(one) for one in every}
            self.n_categories = len(every)
            most = sorted(every, key=lambda one: -count[one])[:_MOST_CATEGORIES]
            self.values = [one for one in every if one in most]
            self.ends = -0.5, len(self.values) - 0.5
            return
        position = schema.input_columns.index(column)
        center, scale = float(schema.center[position]), float(schema.scale[position])
        low, high = drawn_range(view.tree, position, rows)
        self.ends = center + scale * low, center + scale * high
        middle = (np.arange(_ALONG) + 0.5) / _ALONG
        self.values = (self.ends[0] + middle * (self.ends[1] - self.ends[0])).tolist()

    def places(self, chosen: np.ndarray, seed: int) -> np.ndarray:
        """Where rows stand; NaN where they have no value, or one that is not shown."""
        assert self._rows is not None
        own = self._rows.columns[self.column][chosen]
        if not self.is_discrete:
            return own.astype(np.float64)
        place = {value: i for i, value in enumerate(self.values)}
        at = np.array([place.get(value, np.nan) for value in own.tolist()], float)
        scatter = np.random.default_rng(seed).uniform(-_HALF, _HALF, len(at))
        return at + scatter

    def label(self, axis: Any, at: str) -> None:
        """Write the categories beside an axis of the picture."""
        if not self.is_discrete:
            round_marks(axis, 7)
            return
        words = ["missing" if one is None else str(one) for one in self.values]
        words = [w if len(w) <= _LONGEST else w[: _LONGEST - 1] + "…" for w in words]
        turned = at == "x" and sum(map(len, words)) > _ROOM
        angle: dict[str, Any] = {"rotation": 40, "ha": "right"} if turned else {}
        axis.set_ticks(range(len(words)), words, parse_math=False, **angle)

    @property
    def note(self) -> str:
        """What is not shown."""
        if self.n_categories <= _MOST_CATEGORIES:
            return ""
        return f"{_MOST_CATEGORIES} of {self.n_categories} categories"


class CategoryGrid:
    """Predictions for all pairs of places of one or two sides."""

    def __init__(
        self,
        view: TreeView,
        row: np.ndarray,
        columns: list[int],
        rows: Rows | None,
        held_columns: set[int] | None,
    ):
        self.view, self.rows = view, rows
        self.sides = [Side(view, column, rows) for column in columns]
        cells = list(itertools.product(*(side.values for side in self.sides)))
        every = np.repeat(row, len(cells), axis=0)
        for i, column in enumerate(columns):
            every[:, column] = [cell[i] for cell in cells]
        table = encode(view.tree.schema, every).on_host()
        self.n_averaged = 0
        if rows is None or held_columns is None:
            value = view.said(table)
        else:
            value = self._averaged(table, rows, held_columns | set(columns))
        shape = [len(side.values) for side in self.sides]
        self.value = value.reshape(*shape, *value.shape[1:])

    def _averaged(self, cells: Table, rows: Rows, held: set[int]) -> np.ndarray:
        """Means over rows that have the cells' values in the held columns."""
        schema = self.view.tree.schema
        x = np.array([column in held for column in schema.input_columns], bool)
        codes = np.array([column in held for column in schema.discrete], bool)
        chosen = rows.table.take(evenly_spaced(len(rows.table.x), _MOST_AVERAGED))
        self.n_averaged = len(chosen.x)
        total: Any = 0.0
        for one, own in zip(chosen.x, chosen.codes, strict=True):
            changed = Table(
                np.where(x, cells.x, one), np.where(codes, cells.codes, own)
            )
            total = total + self.view.said(changed)
        return total / self.n_averaged


def draw_categories(axes: Any, grid: CategoryGrid) -> list[str]:
    """Draw the predictions; what is to be said of the picture."""
    if len(grid.sides) == 1:
        _draw_row(axes, grid)
    else:
        _draw_cells(axes, grid)
    for side, axis, at in zip(grid.sides, (axes.xaxis, axes.yaxis), "xy", strict=False):
        side.label(axis, at)
        axis.set_label_text(side.name, fontsize=FONT_SIZE, parse_math=False)
    notes = [f"{side.name}: {side.note}" for side in grid.sides if side.note]
    which = "the first" if grid.rows is None else "the most frequent"
    return [f"{which} {', '.join(notes)}"] if notes else []


def _draw_row(axes: Any, grid: CategoryGrid) -> None:
    """A bar of probabilities for each category, or a mark of the number."""
    (side,), view = grid.sides, grid.view
    place = np.arange(len(side.values))
    if isinstance(view, ClassView):
        short = with_short_names(view)
        below = np.zeros(len(place))
        for share, color in zip(grid.value.T, view.colors, strict=True):
            axes.bar(place, share, 0.7, bottom=below, color=color)
            below = below + share
        axes.set_ylim(0, 1)
        axes.set_ylabel("probability", fontsize=FONT_SIZE)
        draw_legend(axes, short.colors, list(short.names), **BESIDE)
    else:
        if grid.rows is not None:
            chosen = evenly_spaced(len(grid.rows.target), _MOST_POINTS)
            rows: dict[str, Any] = {"s": 10, "linewidths": 0, "alpha": 0.6}
            at = side.places(chosen, 0)
            axes.scatter(at, grid.rows.target[chosen], color="0.6", **rows)
        axes.hlines(grid.value, place - 0.4, place + 0.4, color=MIDDLE_COLOR, lw=2.5)
        axes.set_ylabel(view.target, fontsize=FONT_SIZE, parse_math=False)
        round_marks(axes.yaxis, 7)
    axes.set_xlim(*side.ends)
    open_frame(axes)


def _draw_cells(axes: Any, grid: CategoryGrid) -> None:
    """A coloured cell for each pair of places, and rows on them."""
    paint = Paint(grid.view, grid.value, grid.rows, not grid.n_averaged)
    x, y = grid.sides
    paint.draw_image(axes, np.swapaxes(grid.value, 0, 1), (*x.ends, *y.ends))
    if grid.rows is not None:
        chosen = evenly_spaced(len(grid.rows.target), _MOST_POINTS)
        axes.scatter(
            x.places(chosen, 0),
            y.places(chosen, 1),
            c=paint.of_rows(grid.rows.target[chosen]),
            **paint.mapped,
            s=14,
            edgecolors="0.15",
            linewidths=0.4,
        )
    axes.set(xlim=x.ends, ylim=y.ends)
    paint.draw_key(axes)
