"""Slices through a tree: one or two columns vary, the others are held."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.data.schema import Role, TableSchema
from secret_jax.inspect.rows import Rows
from secret_jax.inspect.tree_view import TreeView
from secret_jax.runtime.values import is_integer
from secret_jax.tree.structure import SplitKind, Tree

MOST_CATEGORIES, MOST_POINTS = 24, 800
_COLUMNS_NAMED = 8  # in a message
_DEVIATIONS = 2.0  # to either side of the mean, where nothing says how far to draw
_EVEN = 3.0**0.5  # deviations from the middle to the ends of an even spread
_ROUNDING = 1e-3  # of the margin: zero in encoded units is rounded
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
            every = list(schema.categories[schema.discrete.index(column)])
            values = [] if rows is None else rows.columns[column].tolist()
            most = sorted(every, key=lambda one: -values.count(one))[:MOST_CATEGORIES]
            self.n_categories = len(every)
            self.categories = [one for one in every if one in most]
            self.ends = -0.5, len(most) - 0.5
            return
        self.position = schema.input_columns.index(column)
        self.center = float(schema.center[self.position])
        self.scale = float(schema.scale[self.position])
        self.bounds = [bounds[self.position] for bounds in schema.saturation]
        ends = _drawn_range(tree, self.position, rows)
        self.ends = tuple(self.center + self.scale * end for end in ends)

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
    """A slice through a tree: one or two columns vary, the others are held."""

    def __init__(
        self,
        view: TreeView,
        columns: list[int],
        at: Mapping[Any, Any],
        rows: Rows | None,
    ):
        self.view, self.tree, self.rows = view, view.tree, rows
        schema = self.tree.schema
        self.held = _held_values(self.tree, at, rows)
        self.given = {column_position(schema, column) for column in at}
        self.sides = [Side(self.tree, column, rows) for column in columns]

    def table(self, places: list[np.ndarray]) -> Table:
        """Rows for all combinations of places, in order, the others held."""
        sizes = [len(one) for one in places]
        index = np.indices(sizes).reshape(len(sizes), -1)
        discrete = [side for side in self.sides if side.is_discrete]
        combinations = [*itertools.product(*(side.categories for side in discrete))]
        rows = np.empty((len(combinations), len(self.held)), object)
        rows[:] = self.held
        for i, side in enumerate(discrete):
            rows[:, side.column] = [values[i] for values in combinations]
        which = np.zeros(index.shape[1], int)
        for side, own in zip(self.sides, index, strict=True):
            if side.is_discrete:
                which = which * len(side.categories) + own
        table = encode(self.tree.schema, rows).on_host().take(which)
        for side, own, at in zip(self.sides, index, places, strict=True):
            if not side.is_discrete:
                encoded = (at[own] - side.center) / side.scale
                table.x[:, side.position] = np.clip(encoded, *side.bounds)
        return table

    def predicted(self, places: list[np.ndarray]) -> np.ndarray:
        value = self.view.said(self.table(places))
        return value.reshape(*map(len, places), *value.shape[1:])


def column_position(schema: TableSchema, column: Any) -> int:
    if isinstance(column, str) and column in schema.names:
        return schema.names.index(column)
    if is_integer(column) and 0 <= column < len(schema.names):
        return int(column)
    raise ValueError(
        f"There is no column {column!r}. The columns are "
        f"{', '.join(map(repr, schema.names[:_COLUMNS_NAMED]))}"
        + (" and others." if len(schema.names) > _COLUMNS_NAMED else ".")
    )


def _held_values(tree: Tree, at: Mapping[Any, Any], rows: Rows | None) -> list[Any]:
    schema = tree.schema
    held: list[Any] = [None] * len(schema.names)
    for position, column in enumerate(schema.input_columns):
        # The number comes before the indicator of its missing values.
        if schema.roles[column] is not Role.DISCRETE and held[column] is None:
            held[column] = float(schema.center[position])
            if rows is not None:
                held[column] = float(np.nanmedian(rows.columns[column].astype(float)))
    for attribute, column in enumerate(schema.discrete):
        held[column] = _commonest(tree, attribute)
        if rows is not None:
            values = rows.columns[column].tolist()
            held[column] = max(schema.categories[attribute], key=values.count)
    for column, value in at.items():
        held[column_position(schema, column)] = value
    return held


def _commonest(tree: Tree, attribute: int) -> Any:
    """Find the most frequent category in training, as far as models know the shares.

    Categories without an indicator share the remaining rows; of an attribute that has
    no indicators at all it is the first category.
    """
    schema, first = tree.schema, tree.schema.n_regressors - tree.schema.n_indicators
    shares = {
        code: float(tree.center[0, first + i])
        for i, (of, code) in enumerate(schema.indicators)
        if of == attribute
    }
    codes = range(len(schema.categories[attribute]))
    rest = (1.0 - sum(shares.values())) / max(len(codes) - len(shares), 1)
    return schema.categories[attribute][max(codes, key=lambda c: shares.get(c, rest))]


def _drawn_range(tree: Tree, position: int, rows: Rows | None) -> tuple[float, float]:
    """Choose how far to draw an encoded column, in encoded units.

    Without rows as far as the leaves and the thresholds say that there were some: a
    range of even spread has a half-width of 1.7 deviations. A column whose mean is
    clearly on one side of zero is not drawn beyond zero: the spread of a skewed column,
    an age or a price, reaches further down than its values do.
    """
    schema = tree.schema
    zero = -float(schema.center[position] / schema.scale[position])
    low, high = -_DEVIATIONS, _DEVIATIONS
    if rows is not None:
        given = rows.columns[schema.input_columns[position]].astype(np.float64)
        values = rows.table.x[:, position][~np.isnan(given)]
        if not len(values):
            return low, high
        low, high = float(values.min()), float(values.max())
        margin = _MARGIN * (high - low) or 1.0
        lowest = zero if low - margin < zero <= low + margin * _ROUNDING else -np.inf
        return max(low - margin, lowest), high + margin
    if position < schema.n_regressors:
        leaf = tree.is_leaf & (tree.weight > 0)
        center, reach = tree.center[leaf, position], tree.spread[leaf, position]
        ends = (center - _EVEN * reach).min(initial=0.0), (center + _EVEN * reach)
        if ends[1].max(initial=0.0) > ends[0]:
            low, high = float(ends[0]), float(ends[1].max(initial=0.0))
    cuts = np.concatenate(
        [
            part.threshold[on] * part.direction[on, position]
            for part in tree.comparisons
            for on in [(part.kind == SplitKind.AXIS) & (part.attribute == position)]
        ]
    )
    low, high = float(cuts.min(initial=low)), float(cuts.max(initial=high))
    whole = schema.input_columns[position] in schema.whole
    if -zero > (0.0 if whole else _CLEARLY):
        low = max(low, zero)
    elif -zero < -_CLEARLY:
        high = min(high, zero)
    return low, high
