"""Sample of a stream of unknown length: the rows of the smallest hashes.

The hash is that of `secret_jax.data.sampling`, so that the sample is the one which the
same rows in memory would give. While rows come in, the share that is kept only falls.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import jax
import numpy as np

from secret_jax.data.encoding import ReadColumns
from secret_jax.data.repeats import distinct
from secret_jax.data.rows import MAX_COPIES
from secret_jax.data.sampling import content_hash, sampling_limit
from secret_jax.data.schema import TableSchema
from secret_jax.data.source import TableSource
from secret_jax.data.validation import rounded_weight

# The pool may grow by this before the rows of larger hashes are dropped.
_SLACK = 1.25
# With fewer distinct rows among them equal ones become one of their common weight.
_FEW_DISTINCT = 0.9
# Larger than every hash.
_NO_LIMIT = 1 << 32


class PoolRows(NamedTuple):
    """Rows as they were given, with their hashes."""

    columns: ReadColumns  # with codes in the order in which categories came up
    targets: np.ndarray  # (n_rows, n_outputs), float64
    weight: np.ndarray  # (n_rows,), float64
    number: np.ndarray  # (n_rows,), int64: number of rows that each one stands for
    hashed: np.ndarray  # (n_rows,), uint32


class Pool:
    """Rows with a hash below a limit, which falls as more rows are seen.

    ``merged``: whether equal rows were made one, so that the share of the rows does not
    say how many are wanted.
    """

    def __init__(self):
        self._parts: list[PoolRows] = []
        self.limit, self.merged = _NO_LIMIT, False

    @property
    def rows(self) -> PoolRows:
        """Rows of the pool."""
        if len(self._parts) > 1:
            joined = jax.tree.map(lambda *arrays: np.concatenate(arrays), *self._parts)
            self._parts = [joined]
        return self._parts[0]

    @property
    def is_whole(self) -> bool:
        """Whether no row was dropped."""
        return self.limit == _NO_LIMIT

    def add(self, rows: PoolRows, n_seen: int, n_wanted: int) -> None:
        """Add rows below the limit; ``n_wanted`` of ``n_seen`` rows make the sample."""
        self._parts.append(rows)
        if sum(len(part.hashed) for part in self._parts) <= _SLACK * n_wanted:
            return
        # np.unique takes a hundred times as long as a sort.
        hashed = np.sort(self.rows.hashed)
        if 1 + np.count_nonzero(np.diff(hashed)) < _FEW_DISTINCT * len(hashed):
            single = _equal_as_one(self.rows)
            if len(single.hashed) < _FEW_DISTINCT * len(hashed):
                self.merged, self._parts = True, [single]
        if len(self.rows.hashed) > _SLACK * n_wanted:
            self._drop_above(int(sampling_limit(n_wanted / n_seen)))

    def shrink(self, n_seen: int, n_wanted: int) -> None:
        """Drop rows outside the sample of ``n_seen`` rows."""
        if n_wanted < n_seen and not self.merged:
            self._drop_above(int(sampling_limit(n_wanted / n_seen)))

    def merge(self, other: Self, places: Sequence[np.ndarray]) -> None:
        """Add another pool, whose codes are mapped by ``places``."""
        rows = other.rows
        self._parts.append(rows._replace(columns=rows.columns.recoded(places)))
        self.merged |= other.merged
        self._drop_above(other.limit)

    def _drop_above(self, limit: int) -> None:
        self.limit = min(self.limit, limit)
        rows = self.rows
        self._parts = [_taken(rows, np.flatnonzero(rows.hashed < self.limit))]

    def observed(
        self, schema: TableSchema, places: Sequence[np.ndarray], factor: float
    ) -> tuple[TableSource, float]:
        """Rows without copies, and the share of the rows that are none.

        ``places`` map codes to the schema's; weights are multiplied by ``factor``.
        """
        columns, targets, weight, times, _ = self.rows
        weight = rounded_weight(weight * factor)
        source = TableSource(schema, columns.recoded(places), targets, weight)
        found = source.repeats(times)
        if found is None or not (self.is_whole or self.merged or found.are_many):
            return source, 1.0
        share = float(found.number.sum() / times.sum())
        if share == 1.0 and not self.merged:
            return source, share
        return source.without_copies(found, MAX_COPIES).scaled(share), share


def _taken(rows: PoolRows, index: np.ndarray) -> PoolRows:
    return jax.tree.map(lambda array: array.take(index, axis=0), rows)


def _equal_as_one(rows: PoolRows) -> PoolRows:
    """Merge identical rows, in the order in which they came first."""
    values, codes = rows.columns
    first, member = distinct(content_hash([*values, *codes.T, *rows.targets.T], 0))
    weight, number = (np.bincount(member, a) for a in (rows.weight, rows.number))
    single = _taken(rows, first)
    return single._replace(weight=weight, number=number.astype(np.int64))
