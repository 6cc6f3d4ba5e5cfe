"""What a slice shows and what it is held at: columns, values and rows."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.columns import read_target
from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.data.schema import Role, TableSchema
from secret_jax.inspect.printing import entry, quoted
from secret_jax.runtime.values import is_integer

_COLUMNS_NAMED = 8  # in a message
_DEVIATIONS = 2.5  # to either side of the mean, where no rows say how far to draw
_MARGIN = 0.02  # of the range of the rows, beyond them
_TITLE_CHARACTERS, _TITLE_LINES = 90, 3


class Rows(NamedTuple):
    """Rows that are drawn as points."""

    columns: list[np.ndarray]
    table: Table
    target: np.ndarray

    @classmethod
    def of(cls, schema: TableSchema, X: Any, y: Any) -> Rows:
        """Rows and their targets, encoded, or a ValueError if they do not match."""
        columns, target = schema.columns_of(X), read_target(y)
        if target.shape != (len(columns[0]),):
            raise ValueError(
                f"data holds {len(columns[0])} rows and targets of shape "
                f"{target.shape}; one for every row is needed."
            )
        return cls(columns, encode(schema, X), target)


def numeric_column(schema: TableSchema, column: Any) -> int:
    """A column of numbers, by name or position."""
    position = _column(schema, column)
    if schema.roles[position] is Role.DISCRETE:
        numbers = [
            repr(name)
            for name, role in zip(schema.names, schema.roles, strict=True)
            if role is not Role.DISCRETE
        ]
        raise ValueError(
            f"Column {schema.names[position]!r} is discrete. Choose a column of "
            f"numbers ({', '.join(numbers[:_COLUMNS_NAMED])}), and hold it at a "
            f"category: at={{{schema.names[position]!r}: ...}}."
        )
    return position


def _column(schema: TableSchema, column: Any) -> int:
    if isinstance(column, str) and column in schema.names:
        return schema.names.index(column)
    if is_integer(column) and 0 <= column < len(schema.names):
        return int(column)
    raise ValueError(
        f"There is no column {column!r}. The columns are "
        f"{', '.join(map(repr, schema.names[:_COLUMNS_NAMED]))}"
        + (" and others." if len(schema.names) > _COLUMNS_NAMED else ".")
    )


def held_values(
    schema: TableSchema, at: Mapping[Any, Any], rows: Rows | None
) -> list[Any]:
    """What each column is held at."""
    held: list[Any] = [None] * len(schema.names)
    for position, column in enumerate(schema.input_columns):
        # The number comes before the indicator of its missing values.
        if schema.roles[column] is not Role.DISCRETE and held[column] is None:
            held[column] = float(schema.center[position])
            if rows is not None:
                held[column] = float(np.nanmedian(rows.columns[column].astype(float)))
    for attribute, column in enumerate(schema.discrete):
        held[column] = schema.categories[attribute][0]
        if rows is not None:
            values = rows.columns[column].tolist()
            held[column] = max(schema.categories[attribute], key=values.count)
    for column, value in at.items():
        held[_column(schema, column)] = value
    return held


def drawn_range(position: int, rows: Rows | None) -> tuple[float, float]:
    """How far to draw an encoded column, in encoded units."""
    if rows is None:
        return -_DEVIATIONS, _DEVIATIONS
    values = rows.table.x[:, position]
    low, high = float(values.min()), float(values.max())
    margin = _MARGIN * (high - low) or 1.0
    return low - margin, high + margin


def slice_title(
    schema: TableSchema,
    columns: list[int],
    at: Mapping[Any, Any],
    held: list[Any],
    from_rows: bool,
) -> str:
    """What the other columns are held at: those given, and categories, by value."""
    told = {_column(schema, column) for column in at} | set(schema.discrete)
    told -= set(columns)
    said = [f"{quoted(schema.names[c])} = {entry(held[c])}" for c in sorted(told)]
    rest = len(schema.names) - len(told) - len(columns)
    title = schema.target_name
    if said:
        title += " where " + ", ".join(said)
    if rest:
        level = "medians" if from_rows else "means"
        title += f", the other columns at their {level}"
    return textwrap.fill(title, _TITLE_CHARACTERS, max_lines=_TITLE_LINES)
