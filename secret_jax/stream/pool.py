"""Sample of a stream of unknown length: the rows of the smallest hashes.

The hash is that of `secret_jax.data.sampling`, so that the sample is the one which the
same rows in memory would give. While rows come in, the share that is kept only falls.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from secret_jax.data.encoding import ReadColumns
from secret_jax.data.rows import Rows
from secret_jax.data.sampling import ROW_ORDER, content_hash, sampling_limit
from secret_jax.data.schema import TableSchema
from secret_jax.data.source import HostRows
from secret_jax.data.validation import MOST_COPIES

# The pool may grow by this before the rows of larger hashes are dropped.
_SLACK = 1.25
# With fewer distinct rows among them copies become one row of their common weight.
_FEW_DISTINCT = 0.9


class Weights(NamedTuple):
    """Summary of the weights of rows."""

    n_rows: int = 0
    n_used: int = 0  # number of rows of positive weight
    total: float = 0.0
    largest: float = 0.0
    whole: bool = True  # whether all are whole numbers

    @classmethod
    def of(cls, weight: np.ndarray) -> Self:
        """Check and summarise weights."""
        n_rows = len(weight)
        if (weight == 1).all():
            return cls(n_rows, n_rows, float(n_rows), 1.0)
        bad = ~(np.isfinite(weight) & (weight >= 0))
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(
                f"Bad sample weights: row {row} has {weight[row]}. Give finite numbers "
                "that are not negative."
            )
        whole = bool((weight == np.floor(weight)).all())
        largest = float(weight.max(initial=0.0))
        return cls(
            n_rows, int(np.count_nonzero(weight)), float(weight.sum()), largest, whole
        )

    def plus(self, other: Self) -> Self:
        """Merge with another `Weights`."""
        return type(self)(
            self.n_rows + other.n_rows,
            self.n_used + other.n_used,
            self.total + other.total,
            max(self.largest, other.largest),
            self.whole and other.whole,
        )

    @property
    def are_counts(self) -> bool:
        """Whether all weights are integers whose sum is exact."""
        return self.whole and self.largest <= MOST_COPIES / max(self.n_rows, 1)

    @property
    def factor(self) -> float:
        """Factor that scales weights to a mean of one; 1 for integer weights."""
        return 1.0 if self.are_counts or not self.total else self.n_used / self.total


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

    ``limit``: rows of hashes below it are kept; ``merged``: whether copies were made
    one row.
    """

    def __init__(self):
        self._parts: list[PoolRows] = []
        # Larger than every hash.
        self.limit, self.merged = 1 << 32, False

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
            single = _copies_as_one(whole)
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

    def sample(
        self,
        schema: TableSchema,
        places: Sequence[np.ndarray],
        weights: Weights,
        n_wanted: int,
    ) -> Rows:
        """Draw the sample of all rows seen; ``places`` map codes to the schema's."""
        columns, targets, weight, number, hashed = self.rows
        copies = weight.astype(np.int64) if weights.are_counts else number
        columns = columns.recoded(places)
        source = HostRows(schema, columns, targets, weight * weights.factor, copies)
        below = None
        if n_wanted < weights.n_used and not self.merged:
            limit = sampling_limit(n_wanted / weights.n_used)
            below = np.flatnonzero(hashed < limit)
        return source.sample_of(below, n_wanted, ROW_ORDER)


def _copies_as_one(rows: PoolRows) -> PoolRows:
    """Merge identical rows, in the order of their first copies."""
    values, codes = rows.columns
    content = content_hash([*values, *codes.T, *rows.targets.T], 0)
    _, first, which = np.unique(content, return_index=True, return_inverse=True)
    order = np.argsort(first)
    weight, number = (
        np.bincount(which, array)[order] for array in (rows.weight, rows.number)
    )
    single = rows.take(first[order])
    return single._replace(weight=weight, number=number.astype(np.int64))
