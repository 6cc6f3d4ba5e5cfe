"""Slices through a tree: one or two columns vary, the others are held."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.data.schema import Role
from secret_jax.inspect.tree_view import Rows, TreeView
from secret_jax.tree.structure import SplitKind, Tree

MOST_POINTS = 800
_MOST_CATEGORIES = 24
_DEVIATIONS = 2.0  # to either side of the mean, where nothing says how far to draw
_EVEN = 3.0**0.5  # deviations from the middle to the ends of an even spread
_CLEARLY = 0.2  # deviations from zero to a mean that is on one side of it
_MARGIN = 0.02  # of the range of the rows, beyond them
_HALF = 0.3  # of a category's width: how far rows are scattered over it


class Side:
    """One axis: a column, its places in units of the column, and its ends."""

    def __init__(self, tree: Tree, column: int, rows: Rows | None):
        schema = tree.schema
        self.column, self.name = column, schema.names[column]
        self.is_discrete = schema.roles[column] is Role.DISCRETE
        if self.is_discrete:
            every = schema.categories[schema.discrete.index(column)]
            values = [] if rows is None else rows.columns[column].tolist()
            most = sorted(every, key=lambda one: -values.count(one))[:_MOST_CATEGORIES]
            self.categories = [one for one in every if one in most]
            self.ends = -0.5, len(most) - 0.5
            if len(most) < len(every):
                self.name += f" ({len(most)} of {len(every)} categories)"
            return
        self.position = schema.input_columns.index(column)
        self.center = float(schema.center[self.position])
        self.scale = float(schema.scale[self.position])
        self.bounds = [bounds[self.position] for bounds in schema.saturation]
        self.ends = _drawn_range(self, tree, rows)

    def places(self, n_places: int) -> np.ndarray:
        """Coordinates of middles of cells; categories stand at whole numbers."""
        if self.is_discrete:
            return np.arange(len(self.categories), dtype=float)
        low, high = self.ends
        return low + (high - low) * (np.arange(n_places) + 0.5) / n_places

    def of_rows(self, rows: Rows, chosen: np.ndarray) -> np.ndarray:
        """Coordinates of rows; NaN where they have no value, or a rare category."""
        values = rows.columns[self.column][chosen]
        if not self.is_discrete:
            return values.astype(np.float64)
        place = {value: i for i, value in enumerate(self.categories)}
        at = np.array([place.get(value, np.nan) for value in values.tolist()], float)
        return at + np.random.default_rng(self.column).uniform(-_HALF, _HALF, len(at))


class Slice:
    """A slice through a tree: one or two columns vary, the others are held.

    Two columns are numbers, one may be categories.
    """

    def __init__(
        self,
        view: TreeView,
        columns: list[int],
        at: Mapping[Any, Any],
        rows: Rows | None,
    ):
        self.view, self.tree, self.rows = view, view.tree, rows
        self.held = _held_values(self.tree, at, rows)
        self.given = {self.tree.schema.index_of(column) for column in at}
        self.sides = [Side(self.tree, column, rows) for column in columns]

    def table(self, places: list[np.ndarray]) -> Table:
        """Rows for all combinations of places, in order, the others held."""
        grid = np.array(np.meshgrid(*places, indexing="ij")).reshape(len(places), -1)
        first, discrete = self.sides[0], self.sides[0].is_discrete
        rows = np.empty((grid.shape[1] if discrete else 1, len(self.held)), object)
        rows[:] = self.held
        if discrete:
            rows[:, first.column] = first.categories
            return encode(self.tree.schema, rows).on_host()
        table = encode(self.tree.schema, rows).on_host()
        table = table.take(np.zeros(grid.shape[1], int))
        for side, at in zip(self.sides, grid, strict=True):
            encoded = (at - side.center) / side.scale
            table.x[:, side.position] = np.clip(encoded, *side.bounds)
        return table

    def predicted(self, places: list[np.ndarray]) -> np.ndarray:
        value = self.view.said(self.table(places))
        return value.reshape(*map(len, places), *value.shape[1:])


def _held_values(tree: Tree, at: Mapping[Any, Any], rows: Rows | None) -> list[Any]:
    schema = tree.schema
    held: list[Any] = [None] * len(schema.names)
    for position, column in enumerate(schema.input_columns):
        # The number comes before the indicator of its missing values.
        if schema.roles[column] is not Role.DISCRETE and held[column] is None:
            held[column] = float(schema.center[position])
            given = np.zeros(0) if rows is None else rows.columns[column].astype(float)
            known = given[~np.isnan(given)]
            if len(known):
                held[column] = float(np.median(known))
    for attribute, column in enumerate(schema.discrete):
        held[column] = _commonest(tree, attribute)
        if rows is not None:
            values = rows.columns[column].tolist()
            held[column] = max(schema.categories[attribute], key=values.count)
    for column, value in at.items():
        held[schema.index_of(column)] = value
    return held


def _commonest(tree: Tree, attribute: int) -> Any:
    """Find the most frequent category that has an indicator, or the first of all."""
    schema = tree.schema
    first = schema.n_regressors - schema.n_indicators
    shares = {
        code: float(tree.center[0, place])
        for place, (of, code) in enumerate(schema.indicators, first)
        if of == attribute
    }
    return schema.categories[attribute][max(shares, key=lambda c: shares[c], default=0)]


def _drawn_range(side: Side, tree: Tree, rows: Rows | None) -> tuple[float, float]:
    """Choose how far to draw a column: as far as the rows reach.

    Without rows as far as the leaves and the thresholds say that there were some: a
    range of even spread has a half-width of 1.7 deviations. A column whose mean is
    clearly on one side of zero is not drawn beyond zero: the spread of a skewed column,
    an age or a price, reaches further down than its values do.
    """
    values = np.zeros(0) if rows is None else rows.columns[side.column].astype(float)
    values = values[np.isfinite(values)]
    if len(values):
        far, near = (side.center + side.scale * bound for bound in side.bounds)
        low, high = np.clip([values.min(), values.max()], far, near).tolist()
        margin = _MARGIN * (high - low) or side.scale
        # No values below zero are drawn of a column that begins there.
        lowest = 0.0 if low - margin < 0.0 <= low else low - margin
        return lowest, high + margin
    position, ends = side.position, [-_DEVIATIONS, _DEVIATIONS]
    leaf = tree.is_leaf & (tree.weight > 0)
    if position < tree.schema.n_regressors and tree.spread[leaf, position].any():
        reach = _EVEN * np.array([[-1.0], [1.0]]) * tree.spread[leaf, position]
        ends = (tree.center[leaf, position] + reach).ravel().tolist()
    for part in tree.comparisons:
        on = (part.kind == SplitKind.AXIS) & (part.attribute == position)
        ends += (part.threshold[on] * part.direction[on, position]).tolist()
    low, high = (side.center + side.scale * end for end in (min(ends), max(ends)))
    whole = side.column in tree.schema.whole
    if side.center > (0.0 if whole else _CLEARLY * side.scale):
        return max(low, 0.0), high
    return low, min(high, 0.0) if side.center < -_CLEARLY * side.scale else high
