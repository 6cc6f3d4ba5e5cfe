"""Sample of a stream of unknown length: the rows of the smallest hashes.

The hash is that of `secret_jax.data.sampling`, so that the sample is the one which the
same rows in memory would give. While rows come in, the share that is kept only falls.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from secret_jax.data.encoding import ReadColumns
from secret_jax.data.rows import MOST_DEALT
from secret_jax.data.sampling import content_hash, sampling_limit
from secret_jax.data.schema import TableSchema
from secret_jax.data.source import HostRows
from secret_jax.data.validation import rounded_weight

# The pool may grow by this before the rows of larger hashes are dropped.
_SLACK = 1.25
# With fewer distinct rows among them equal ones become one of their common weight.
_FEW_DISTINCT = 0.9
# Larger than every hash.
_NO_LIMIT = 1 << 32


class Weights(NamedTuple):
    """Summary of the weights of rows."""

    n_rows: int = 0
    n_used: int = 0  # number of rows of positive weight
    total: float = 0.0
    observed: float = 1.0  # share of the rows that are no copies of others

    @classmethod
    def of(cls, weight: np.ndarray) -> Self:
        """Check and summarise weights."""
        n_rows = len(weight)
        if (weight == 1).all():
            return cls(n_rows, n_rows, float(n_rows))
        bad = ~(np.isfinite(weight) & (weight >= 0))
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(
                f"Bad sample weights: row {row} has {weight[row]}. Give finite numbers "
                "that are not negative."
            )
        return cls(n_rows, int(np.count_nonzero(weight)), float(weight.sum()))

    def plus(self, other: Self) -> Self:
        """Merge with another `Weights`."""
        return type(self)(
            self.n_rows + other.n_rows,
            self.n_used + other.n_used,
            self.total + other.total,
        )

    @property
    def n_observed(self) -> int:
        """Number of rows that weigh something and are no copies."""
        return round(self.observed * self.n_used)

    @property
    def factor(self) -> float:
        """Factor that scales weights to a mean of one for every observation."""
        return self.observed * self.n_used / self.total if self.total else 1.0


class PoolRows(NamedTuple):
    """Rows as they were given, with their hashes."""

    columns: ReadColumns  # with codes in the order in which categories came up
    targets: np.ndarray  # (n_rows, n_outputs), float64
    weight: np.ndarray  # (n_rows,), float64
    number: np.ndarray  # (n_rows,), int64: number of rows that each one stands for
    hashed: np.ndarray  # (n_rows,), uint32

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weight)

    def take(self, index: np.ndarray) -> Self:
        """Select rows."""
        others = (array.take(index, axis=0) for array in self[1:])
        return type(self)(self.columns.take(index), *others)

    def below(self, limit: int) -> Self:
        """Select the rows of hashes below a limit."""
        return self.take(np.flatnonzero(self.hashed < limit))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the rows of several parts."""
        if len(parts) == 1:
            return parts[0]
        columns = ReadColumns.joined([part.columns for part in parts])
        others = zip(*(part[1:] for part in parts), strict=True)
        return cls(columns, *map(np.concatenate, others))


class Pool:
    """Rows with a hash below a limit, which falls as more rows are seen.

    ``limit``: rows of hashes below it are kept; ``merged``: whether equal rows were
    made one.
    """

    def __init__(self):
        self._parts: list[PoolRows] = []
        self.limit, self.merged = _NO_LIMIT, False

    @property
    def rows(self) -> PoolRows:
        """Rows of the pool."""
        self._parts = [PoolRows.joined(self._parts)]
        return self._parts[0]

    def add(self, rows: PoolRows, n_seen: int, n_wanted: int) -> None:
        """Add rows below the limit; ``n_wanted`` of ``n_seen`` rows make the sample."""
        self._parts.append(rows)
        most = _SLACK * n_wanted
        if sum(part.n_rows for part in self._parts) <= most:
            return
        whole = self.rows
        # np.unique takes a hundred times as long as a sort.
        n_hashes = 1 + np.count_nonzero(np.diff(np.sort(whole.hashed)))
        if n_hashes < _FEW_DISTINCT * whole.n_rows:
            single = _equal_as_one(whole)
            if single.n_rows < _FEW_DISTINCT * whole.n_rows:
                self.merged, self._parts = True, [single]
        if self.rows.n_rows > most:
            self.shrink(n_seen, n_wanted)

    def shrink(self, n_seen: int, n_wanted: int) -> None:
        """Drop rows outside the sample of ``n_seen`` rows, other pools included."""
        if n_wanted < n_seen:
            self.limit = min(self.limit, int(sampling_limit(n_wanted / n_seen)))
            self._parts = [self.rows.below(self.limit)]

    def merge(self, other: Self, places: Sequence[np.ndarray]) -> None:
        """Add another pool, whose codes are mapped by ``places``."""
        self.limit = min(self.limit, other.limit)
        self.merged |= other.merged
        rows = other.rows
        self._parts.append(rows._replace(columns=rows.columns.recoded(places)))
        self._parts = [part.below(self.limit) for part in self._parts]

    def observed(
        self, schema: TableSchema, places: Sequence[np.ndarray], weights: Weights
    ) -> tuple[HostRows, float]:
        """Rows without copies, and the share of the rows that are none.

        ``places`` map codes to the schema's.
        """
        columns, targets, weight, times, _ = self.rows
        weight = rounded_weight(weight * weights.factor)
        source = HostRows(schema, columns.recoded(places), targets, weight)
        found = source.repeats(times)
        if found is None or not (self.is_whole or self.merged or found.are_many):
            return source, 1.0
        share = float(found.number.sum() / times.sum())
        if share == 1.0 and not self.merged:
            return source, share
        return source.without_copies(found, MOST_DEALT).scaled(share), share

    @property
    def is_whole(self) -> bool:
        """Whether no row was dropped."""
        return self.limit == _NO_LIMIT


def _equal_as_one(rows: PoolRows) -> PoolRows:
    """Merge identical rows, in the order in which they came first."""
    values, codes = rows.columns
    content = content_hash([*values, *codes.T, *rows.targets.T], 0)
    _, first, which = np.unique(content, return_index=True, return_inverse=True)
    order = np.argsort(first)
    weight, number = (
        np.bincount(which, array)[order] for array in (rows.weight, rows.number)
    )
    single = rows.take(first[order])
    return single._replace(weight=weight, number=number.astype(np.int64))
