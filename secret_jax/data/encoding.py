"""Encode rows: category codes, standardised columns, indicator columns."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from secret_jax.data.categories import factorised, warn_of_unseen
from secret_jax.data.columns import ReadTable, read_columns
from secret_jax.data.rows import ReadColumns, Table
from secret_jax.data.scaling import numbers
from secret_jax.data.schema import FAR, TableSchema
from secret_jax.data.shards import encoded_block, is_resident
from secret_jax.runtime.parallel import in_blocks


class Unencoded(NamedTuple):
    """Rows that are encoded block by block, on demand."""

    schema: TableSchema
    columns: ReadColumns

    def block(self, rows: slice) -> Table:
        """Encode a block of rows; its columns lie one after the other."""
        (schema, (values, codes)), n_rows = self, rows.stop - rows.start
        found, codes = np.empty((schema.n_columns, n_rows), np.float32), codes[rows]
        first = schema.n_regressors - schema.n_indicators
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
            for column, i in zip(values, schema.continuous_positions, strict=True):
                wide[:] = column[rows]
                wide -= schema.center[i]
                wide /= schema.scale[i]
                found[i] = wide
        self._bound(found)
        return Table(found.T, codes)

    def _bound(self, found: np.ndarray) -> None:
        """Let far numbers saturate, in place, and replace missing ones."""
        schema, missing = self.schema, None
        extremes = found.max(initial=0.0), -found.min(initial=0.0)
        if not np.maximum(*extremes) <= FAR:  # or one is NaN
            missing = np.isnan(found)
            if np.isinf(found).any() or not (schema.allow_missing or ~missing.any()):
                columns = zip(self.columns.values, schema.continuous, strict=True)
                for column, i in columns:  # may refuse it
                    numbers(column, schema.names[i], schema.allow_missing)
            np.clip(found, -FAR, FAR, out=found)
        if schema.tails:
            low, high = (ends[:, None].astype("f4") for ends in schema.saturation)
            np.clip(found, low, high, out=found)
        if missing is not None:
            found[missing] = 0.0
            for i, indicator in schema.missing_columns:
                found[indicator] = missing[i]

    def encoded(self) -> Table:
        """Encode all rows, in blocks processed in parallel."""
        x = np.empty((len(self.columns.codes), self.schema.n_columns), np.float32)

        def fill(rows: slice) -> None:
            x[rows] = self.block(rows).x

        for _ in in_blocks(fill, len(x)):
            pass
        return Table(x, self.columns.codes)


def encode(schema: TableSchema, X: Any, asked: Collection[int] | None = None) -> Table:
    """Encode all rows for a schema at once; see `unencoded`."""
    found = unencoded(schema, X, asked)
    return found if isinstance(found, Table) else found.encoded()


def unencoded(
    schema: TableSchema, X: Any, asked: Collection[int] | None = None
) -> Table | Unencoded:
    """Read rows for a schema and match their columns."""
    if is_resident(X):
        plain = schema.is_plain and X.shape[1] == schema.n_columns
        if plain and jnp.isfinite(X).all():
            scaling = schema.center, schema.scale, *schema.saturation
            x = encoded_block(schema.in_order(X), scaling)
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
        distinct, code = factorised(columns[column], name, schema.allow_missing)
        place = {value: k for k, value in enumerate(schema.categories[attribute])}
        known = np.array([place.get(value, -1) for value in distinct], np.int32)
        codes[:, attribute] = known[code]
        if (known < 0).any() and (asked is None or attribute in asked):
            unseen[name] = set(distinct) - place.keys()
    warn_of_unseen(unseen)
    values = [
        numbers(columns[i], schema.names[i], schema.allow_missing)
        if columns[i].dtype == object
        else columns[i]
        for i in schema.continuous
    ]
    return ReadColumns(values, codes)
