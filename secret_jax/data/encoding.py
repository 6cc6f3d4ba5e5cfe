"""Encode rows as they are asked for: a block, all of them, or a sample by content.

Everything that looks at all rows does it block by block, and everything that grows a
tree does it on a sample; so rows may lie in memory, on devices or in files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from secret_jax.data.columns import (
    ReadTable,
    factorised,
    numbers,
    read_columns,
    warn_of_unseen,
)
from secret_jax.data.hashes import (
    LEAST_DIFFERENT,
    Repeats,
    measured_again,
    repeats_of,
    sampling_limit,
)
from secret_jax.data.row_programs import all_finite, encoded_block
from secret_jax.data.rows import (
    ReadColumns,
    Rows,
    Table,
    all_one,
    every_copy,
    merged,
    unweighted,
)
from secret_jax.data.schema import FAR, TableSchema
from secret_jax.data.shards import (
    RowShards,
    as_they_lie,
    is_resident,
    is_sharded,
    scaling_of,
)
from secret_jax.data.validation import rounded_weight
from secret_jax.runtime.parallel import in_blocks

# A sample with a smaller share of the rows that were wanted comes of a table that
# repeats many: all rows are looked at first then.
_LEAST_FOUND = 0.5


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


class Lying(NamedTuple):
    """Rows of plain, finite numbers that lie on devices, to be encoded there."""

    schema: TableSchema
    shards: RowShards

    def encoded(self) -> Table:
        """Encode all rows: on their device, or, from several, on the host."""
        (_, x), *others = self.shards.parts
        if others:
            columns = self.shards.take(None)
            order = [columns.values[i] for i in self.schema.continuous]
            return Unencoded(self.schema, columns._replace(values=order)).encoded()
        scaling = scaling_of(self.schema, self.shards)
        found = encoded_block(self.schema.in_order(x), scaling)
        return Table(found, np.zeros((len(self.shards), 0), np.int32))


def encode(schema: TableSchema, X: Any) -> Table:
    """Encode all rows for a schema at once; see `unencoded`."""
    found = unencoded(schema, X)
    return found.encoded()


def unencoded(
    schema: TableSchema, X: Any, asked: Collection[int] | None = None
) -> Lying | Unencoded:
    """Read rows for a schema and match their columns."""
    if is_resident(X) or is_sharded(X):
        shards = as_they_lie(X)
        plain = schema.is_plain and shards.shape[1] == schema.n_columns
        if plain and bool(all_finite(shards.x)):
            return Lying(schema, shards)
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


@runtime_checkable
class RowSource(Protocol):
    """All rows of a fit, wherever they lie."""

    @property
    def total_weight(self) -> float: ...

    def blocks(self, function: Callable[[Rows], Any], size: int) -> Iterator[Any]:
        """Apply a function to blocks that cover all rows, in their order.

        Blocks are processed in parallel. Rows of weight zero are no rows.
        """
        ...


@dataclass(frozen=True, eq=False)
class TableSource:
    """Rows of a table that are encoded on demand; those of least hashes are a sample.

    ``columns`` are read, or lie in shards on devices; ``targets`` (n_rows, n_outputs)
    are in units of their own, weights positive, ``group`` and ``times`` as in `Rows`.
    ``sample_cache`` are the indices of samples, by number of rows; ``read_cache`` is
    the last index of rows that were read, and their columns.
    """

    schema: TableSchema
    columns: ReadColumns | RowShards
    targets: np.ndarray
    weight: np.ndarray
    group: np.ndarray | None = None
    times: np.ndarray | None = None
    sample_cache: dict[int, np.ndarray] = field(default_factory=dict)
    read_cache: list[Any] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        return len(self.weight)

    @property
    def n_given(self) -> np.ndarray:
        """Rows as given that each row stands for, (n_rows,), float64."""
        return unweighted(self.n_rows) if self.times is None else self.times

    @property
    def total_weight(self) -> float:
        return float(self.n_rows if all_one(self.weight) else self.weight.sum())

    def blocks(self, function: Callable[[Rows], Any], size: int) -> Iterator[Any]:
        """See `RowSource`; what lies on a device may be longer than its block."""

        def of_block(table: Table, part: slice, lying: Any = None) -> Any:
            targets = lying
            if lying is None:
                targets = self.schema.scale_targets(self.targets[part])
            times = None if self.times is None else self.times[part]
            return function(Rows(table, targets, self.weight[part], times=times))

        if isinstance(self.columns, RowShards):
            return self.columns.blocks(self.schema, of_block, size)
        every = Unencoded(self.schema, self.columns)
        return in_blocks(
            lambda rows: of_block(every.block(rows), rows), self.n_rows, size
        )

    def on_host(self, index: np.ndarray | None) -> TableSource:
        """Rows (sorted indices, or all) in the memory of the host, not encoded."""
        if index is None:
            return replace(self, columns=self.columns.take(None))
        # A sample is asked for several times, by one index.
        if not any(known is index for known in self.read_cache[:1]):
            self.read_cache[:] = index, self.columns.take(index)
        ones = all_one(self.weight)
        return TableSource(
            self.schema,
            self.read_cache[1],
            self.targets[index],
            unweighted(len(index)) if ones else self.weight[index],
            None if self.group is None else self.group[index],
            None if self.times is None else self.times[index],
        )

    def take(self, index: np.ndarray | None) -> Rows:
        """Encode rows (sorted indices, or all)."""
        rows = self.on_host(index)
        table = Unencoded(self.schema, rows.columns.take(None)).encoded()
        targets = self.schema.scale_targets(rows.targets)
        weight = np.ascontiguousarray(rows.weight)
        return Rows(table, targets, weight, rows.group, rows.times)

    def below(self, n_wanted: int) -> np.ndarray | None:
        """Find about ``n_wanted`` rows of least hashes; None if there are no more."""
        if n_wanted >= self.n_rows:
            return None
        if n_wanted not in self.sample_cache:
            limit = sampling_limit(n_wanted / self.n_rows)
            known = self.schema.categories, self.targets, limit
            self.sample_cache[n_wanted] = self.columns.rows_below(*known)
        return self.sample_cache[n_wanted]

    def sample(self, n_wanted: int) -> Rows:
        """Sample about ``n_wanted`` rows, the same ones wherever they lie."""
        return self.sample_of(self.below(n_wanted), n_wanted)

    def sample_of(self, index: np.ndarray | None, n_wanted: int) -> Rows:
        """Sample about ``n_wanted`` rows: those of an index, unless many repeat."""
        # Of few rows, each seen many times, the hash takes all or none.
        if index is not None and len(index) >= _LEAST_FOUND * n_wanted:
            single = merged(self.take(index))
            if single.rows.n_rows >= LEAST_DIFFERENT * len(index):
                most = slice(max(n_wanted, len(index)))
                return single.interleaved(n_wanted).take(most)
        return self.take(None).sample(n_wanted)

    def observed(self, n_wanted: int) -> TableSource:
        """Leave out copies of rows, of whose weight one has all.

        See `secret_jax.data.hashes`. Of many rows those decide that a sample of
        ``n_wanted`` holds, with all of their copies; few copies in it stay.
        """
        index = self.below(n_wanted)
        if index is not None:
            found = self.on_host(index).repeats()
            if found is None or not found.are_many:
                return self
        every = self.on_host(None)
        found = every.repeats()
        if found is None or found.number.sum() == self.n_rows:
            return self
        return every.without_copies(found)

    def grouped(self) -> TableSource:
        """Keep rows of a subject that was measured again together, if no groups are."""
        if self.group is not None or not isinstance(self.columns, ReadColumns):
            return self
        numbers, codes = self.columns
        return replace(self, group=measured_again(numbers, codes, self.targets))

    def repeats(self, times: np.ndarray | None = None) -> Repeats | None:
        """Find rows that repeat others; ``times``: how often each was given."""
        numbers, codes = self.columns.take(None)
        return repeats_of(numbers, codes, self.targets, self.group, times)

    def without_copies(self, found: Repeats, most: int | None = None) -> TableSource:
        """Rows as often as they were observed, ``most`` times at most."""
        number = np.minimum(found.number, most or found.number)
        weight, times = (
            np.repeat(np.bincount(found.member, each) / number, number)
            for each in (self.weight, self.times)
        )
        rows = self.on_host(np.repeat(found.first, number))
        return replace(rows, weight=weight, times=times)

    def scaled(self, factor: float) -> TableSource:
        """Multiply the weights."""
        weight = self.weight if factor == 1.0 else rounded_weight(factor * self.weight)
        return replace(self, weight=weight)


def every_row(source: TableSource) -> Rows:
    """Read all rows of a source in hash order, with those alike spread evenly."""
    return source.sample(every_copy(source.n_rows))
