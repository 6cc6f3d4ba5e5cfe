"""Encode rows: category codes, standardised columns, indicator columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.categories import codes_of, warn_of_unseen
from secret_jax.data.columns import ReadTable, numbers, read_columns
from secret_jax.data.device import encode_on_device, is_resident
from secret_jax.data.rows import Table
from secret_jax.data.schema import FAR, TableSchema
from secret_jax.runtime.parallel import in_blocks


class ReadColumns(NamedTuple):
    """Columns that were read and matched with a schema, not yet encoded.

    ``values`` are the continuous attributes, (n_rows,) each, numbers of any type;
    ``codes`` are int32 of shape (n_rows, n_discrete).
    """

    values: list[np.ndarray]
    codes: np.ndarray

    def take(self, index: np.ndarray) -> ReadColumns:
        """Select rows, by their indices."""
        # `numpy.take` would copy the whole of a column that is part of a table.
        values = [column[index] for column in self.values]
        return ReadColumns(values, self.codes.take(index, axis=0))

    def recoded(self, places: Sequence[np.ndarray]) -> ReadColumns:
        """Map the codes of each discrete attribute to others."""
        codes = np.empty_like(self.codes)
        for attribute, place in enumerate(places):
            codes[:, attribute] = place[self.codes[:, attribute]]
        return ReadColumns(self.values, codes)


class Unencoded(NamedTuple):
    """Rows that are encoded block by block, on demand."""

    schema: TableSchema
    columns: ReadColumns

    def block(self, rows: slice) -> Table:
        """Encode a block of rows; its columns lie one after the other."""
        columns = encoded_columns(self.schema, self.columns, rows)
        return Table(columns.T, self.columns.codes[rows])

    def encoded(self) -> Table:
        """Encode all rows, in blocks processed in parallel."""
        return encoded(self.schema, self.columns)


def encode(schema: TableSchema, X: Any, asked: Collection[int] | None = None) -> Table:
    """Encode all rows for a schema at once; see `unencoded`."""
    found = unencoded(schema, X, asked)
    return found if isinstance(found, Table) else found.encoded()


def unencoded(
    schema: TableSchema, X: Any, asked: Collection[int] | None = None
) -> Table | Unencoded:
    """Read rows for a schema and match their columns."""
    if is_resident(X):
        if schema.is_plain and X.shape[1] == schema.n_columns:
            scaling = schema.center, schema.scale, *schema.saturation
            x = encode_on_device(schema.in_order(X), scaling)
            if x is not None:
                return Table(x, np.zeros((len(X), 0), np.int32))
        X = np.asarray(X)
    return Unencoded(schema, matched(schema, read_columns(X), asked=asked))


def matched(
    schema: TableSchema,
    table: ReadTable,
    used: np.ndarray | None = None,
    asked: Collection[int] | None = None,
) -> ReadColumns:
    """Match the columns of a table, as read, with a schema; ``used`` rows are kept."""
    columns = schema.matching(table)
    if used is not None and not used.all():
        columns = [column[used] for column in columns]
    codes = np.empty((len(columns[0]), len(schema.discrete)), np.int32)
    unseen = {}
    for attribute, column in enumerate(schema.discrete):
        name = schema.names[column]
        codes[:, attribute], found = codes_of(
            columns[column], schema.categories[attribute], name, schema.allow_missing
        )
        if found and (asked is None or attribute in asked):
            unseen[name] = found
    warn_of_unseen(unseen)
    values = [
        numbers(columns[i], schema.names[i], schema.allow_missing)
        if columns[i].dtype == object
        else columns[i]
        for i in schema.continuous
    ]
    return ReadColumns(values, codes)


def encoded(schema: TableSchema, columns: ReadColumns) -> Table:
    """Encode all rows of columns, in blocks processed in parallel."""
    x = np.empty((len(columns.codes), schema.n_columns), np.float32)

    def fill(rows: slice) -> None:
        x[rows] = encoded_columns(schema, columns, rows).T

    for _ in in_blocks(fill, len(x)):
        pass
    return Table(x, columns.codes)


def encoded_columns(
    schema: TableSchema, columns: ReadColumns, rows: slice
) -> np.ndarray:
    """Encode a block of rows, shape (n_columns, n_rows), float32."""
    n_rows = rows.stop - rows.start
    found = np.empty((schema.n_columns, n_rows), np.float32)
    first = schema.n_regressors - schema.n_indicators
    codes = columns.codes[rows]
    for position, (attribute, code) in enumerate(schema.indicators, first):
        found[position] = codes[:, attribute] == code
    if codes.size and codes.min() < 0:
        shares = zip(schema.indicators, schema.indicator_shares, strict=False)
        for position, ((attribute, _), share) in enumerate(shares, first):
            found[position, codes[:, attribute] < 0] = share
    for _, indicator in schema.missing_columns:
        found[indicator] = 0.0
    wide = np.empty(n_rows)  # one column: it stays in a cache
    with np.errstate(over="ignore", invalid="ignore"):
        for column, i in zip(columns.values, schema.continuous_positions, strict=True):
            wide[:] = column[rows]
            wide -= schema.center[i]
            wide /= schema.scale[i]
            found[i] = wide
    missing = None
    extremes = found.max(initial=0.0), -found.min(initial=0.0)
    if not np.maximum(*extremes) <= FAR:  # or one is NaN
        missing = np.isnan(found)
        if np.isinf(found).any() or not (schema.allow_missing or ~missing.any()):
            for column, i in zip(columns.values, schema.continuous, strict=True):
                numbers(column, schema.names[i], schema.allow_missing)  # may refuse it
        # Far outside the training range numbers saturate.
        np.clip(found, -FAR, FAR, out=found)
    if schema.tails:
        low, high = (bounds[:, None].astype(np.float32) for bounds in schema.saturation)
        np.clip(found, low, high, out=found)
    if missing is not None:
        found[missing] = 0.0
        for i, indicator in schema.missing_columns:
            found[indicator] = missing[i]
    return found
