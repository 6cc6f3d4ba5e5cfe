"""What a slice shows and what it is held at: columns, values and rows."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.data.schema import Role, TableSchema
from secret_jax.inspect.printing import entry, quoted
from secret_jax.inspect.tree_view import TreeView
from secret_jax.runtime.values import is_integer
from secret_jax.tree.structure import SplitKind, Tree

_COLUMNS_NAMED = 8  # in a message
_DEVIATIONS = 2.0  # to either side of the mean, where nothing says how far to draw
_EVEN = 3.0**0.5  # deviations from the middle to the ends of an even spread
_ROUNDING = 1e-3  # of the margin: zero in encoded units is rounded
_CLEARLY = 0.2  # deviations from zero to a mean that is on one side of it
_MARGIN = 0.02  # of the range of the rows, beyond them
_TITLE_CHARACTERS, _TITLE_LINES = 90, 3


class Rows(NamedTuple):
    """Rows that are drawn as points."""

    columns: list[np.ndarray]
    table: Table
    target: np.ndarray

    @classmethod
    def of(cls, view: TreeView, X: Any, y: Any) -> Rows:
        """Rows and their targets, encoded, or a ValueError if they do not match."""
        schema = view.tree.schema
        table = encode(schema, X).on_host()
        return cls(schema.columns_of(X), table, view.targets(table, X, y))

    def known(self, schema: TableSchema, position: int) -> np.ndarray:
        """Rows in which a column of numbers is not missing, shape (n_rows,), bool."""
        values = self.columns[schema.input_columns[position]]
        return ~np.isnan(values.astype(np.float64))


def column_position(schema: TableSchema, column: Any) -> int:
    """A column, by name or position."""
    if isinstance(column, str) and column in schema.names:
        return schema.names.index(column)
    if is_integer(column) and 0 <= column < len(schema.names):
        return int(column)
    raise ValueError(
        f"There is no column {column!r}. The columns are "
        f"{', '.join(map(repr, schema.names[:_COLUMNS_NAMED]))}"
        + (" and others." if len(schema.names) > _COLUMNS_NAMED else ".")
    )


def held_values(tree: Tree, at: Mapping[Any, Any], rows: Rows | None) -> list[Any]:
    """What each column is held at."""
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
    """The most frequent category in training, as far as the models know the shares.

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


def drawn_range(tree: Tree, position: int, rows: Rows | None) -> tuple[float, float]:
    """How far to draw an encoded column, in encoded units.

    Without rows as far as the leaves and the thresholds say that there were some: a
    range of even spread has a half-width of 1.7 deviations. A column whose mean is
    clearly on one side of zero is not drawn beyond zero: the spread of a skewed column,
    an age or a price, reaches further down than its values do.
    """
    schema = tree.schema
    if rows is not None:
        values = rows.table.x[:, position][rows.known(schema, position)]
        if not len(values):
            return -_DEVIATIONS, _DEVIATIONS
        low, high = float(values.min()), float(values.max())
        margin = _MARGIN * (high - low) or 1.0
        zero = -float(schema.center[position] / schema.scale[position])
        lowest = zero if low - margin < zero <= low + margin * _ROUNDING else -np.inf
        return max(low - margin, lowest), high + margin
    low, high = -_DEVIATIONS, _DEVIATIONS
    if position < schema.n_regressors:
        leaf = tree.is_leaf & (tree.weight > 0)
        center, reach = tree.center[leaf, position], tree.spread[leaf, position]
        low = float((center - _EVEN * reach).min(initial=0.0))
        high = float((center + _EVEN * reach).max(initial=0.0))
        low, high = (low, high) if high > low else (-_DEVIATIONS, _DEVIATIONS)
    cuts = tree.threshold[(tree.kind == SplitKind.AXIS) & (tree.attribute == position)]
    low = float(cuts.min(initial=low))
    high = float(cuts.max(initial=high))
    mean = float(schema.center[position] / schema.scale[position])
    whole = schema.input_columns[position] in schema.whole
    if mean > (0.0 if whole else _CLEARLY):
        low = max(low, -mean)
    elif mean < -_CLEARLY:
        high = min(high, -mean)
    return low, high


def slice_title(
    target: str,
    schema: TableSchema,
    columns: list[int],
    at: Mapping[Any, Any],
    held: list[Any],
    from_rows: bool,
) -> str:
    """What the other columns are held at: those given, and categories, by value."""
    told = {column_position(schema, column) for column in at} | set(schema.discrete)
    told -= set(columns)
    said = [f"{quoted(schema.names[c])} = {entry(held[c])}" for c in sorted(told)]
    rest = len(schema.names) - len(told) - len(columns)
    title = target
    if said:
        title += " where " + ", ".join(said)
    if rest:
        level = "medians" if from_rows else "means"
        title += f", the other columns at their {level}"
    return textwrap.fill(title, _TITLE_CHARACTERS, max_lines=_TITLE_LINES)


def average_title(
    target: str, schema: TableSchema, at: Mapping[Any, Any], n_rows: int
) -> str:
    """What a mean over rows is a mean of."""
    told = ", ".join(
        f"{quoted(schema.names[column_position(schema, c)])} = {entry(value)}"
        for c, value in at.items()
    )
    title = f"{target}, mean prediction for {n_rows} of the rows"
    title += f" with {told}" if told else ""
    return textwrap.fill(title, _TITLE_CHARACTERS, max_lines=_TITLE_LINES)
