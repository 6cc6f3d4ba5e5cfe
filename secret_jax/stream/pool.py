"""Sample of a stream of unknown length: the rows of the smallest hashes.

The hash is that of `secret_jax.data.sampling`, so that the sample is the one which the
same rows in memory would give. While rows come in, the share that is kept only falls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.encoding import ReadColumns
from secret_jax.data.rows import Rows
from secret_jax.data.sampling import content_hash, sampling_limit
from secret_jax.data.schema import TableSchema
from secret_jax.data.source import EncodedRows, HostRows, few_copies

# The pool may grow by this before the rows of larger hashes are dropped.
_SLACK = 1.25
# With fewer distinct rows among them copies become one row of their common weight.
_FEW_DISTINCT = 0.9
# Larger than every hash.
EVERY_HASH = 1 << 32


class PoolRows(NamedTuple):
    """Rows as they were given, with their hashes.

    Attributes
    ----------
    values : list of ndarray of shape (n_rows,)
        Continuous attributes.
    codes : ndarray of shape (n_rows, n_discrete), int32
        Places of categories in the order in which they came up.
    targets : ndarray of shape (n_rows, n_outputs), float64
    weight : ndarray of shape (n_rows,), float64
    number : ndarray of shape (n_rows,), int64
        Number of rows that each one stands for.
    hashed : ndarray of shape (n_rows,), uint32
    """

    values: list[np.ndarray]
    codes: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    number: np.ndarray
    hashed: np.ndarray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weight)

    def take(self, index: np.ndarray) -> PoolRows:
        """Select rows."""
        values = [column[index] for column in self.values]
        return PoolRows(values, *(array[index] for array in self[1:]))

    @classmethod
    def joined(cls, parts: Sequence[PoolRows]) -> PoolRows:
        """Concatenate the rows of several parts."""
        if len(parts) == 1:
            return parts[0]
        values = [
            np.concatenate(columns)
            for columns in zip(*(part.values for part in parts), strict=True)
        ]
        others = zip(*(part[1:] for part in parts), strict=True)
        return cls(values, *map(np.concatenate, others))


class Pool:
    """Rows with a hash below a limit, which falls as more rows are seen.

    Parameters
    ----------
    enough : callable
        Maps a number of rows to the size of their sample; its share never rises.

    Attributes
    ----------
    limit : int
        Rows of hashes below it are kept.
    merged : bool
        Whether copies were made one row.
    """

    def __init__(self, enough: Callable[[int], int]):
        self._enough = enough
        self._parts: list[PoolRows] = []
        self.limit, self.merged = EVERY_HASH, False

    @property
    def n_rows(self) -> int:
        """Number of rows kept."""
        return sum(part.n_rows for part in self._parts)

    def rows(self) -> PoolRows | None:
        """Rows of the pool; None if none was added."""
        if not self._parts:
            return None
        self._parts = [PoolRows.joined(self._parts)]
        return self._parts[0]

    def put(self, rows: PoolRows) -> None:
        """Replace the content of the pool, as when a saved state is restored."""
        self._parts = [rows]

    def add(self, rows: PoolRows, n_seen: int) -> None:
        """Add rows below the limit, of ``n_seen`` rows seen so far."""
        if rows.n_rows or not self._parts:
            self._parts.append(rows)
        most = _SLACK * self._enough(n_seen)
        if self.n_rows <= most:
            return
        whole = self.rows()
        assert whole is not None
        single = _copies_as_one(whole)
        if single.n_rows < _FEW_DISTINCT * whole.n_rows:
            self.merged, whole = True, single
        if whole.n_rows > most:
            share = self._enough(n_seen) / n_seen
            self.limit = min(self.limit, int(sampling_limit(share)))
            whole = whole.take(whole.hashed < self.limit)
        self._parts = [whole]

    def shrink(self, n_seen: int) -> None:
        """Drop rows outside the sample of ``n_seen`` rows, other pools included."""
        whole, n_wanted = self.rows(), self._enough(n_seen)
        if whole is not None and n_wanted < n_seen:
            self.limit = min(self.limit, int(sampling_limit(n_wanted / n_seen)))
            self._parts = [whole.take(whole.hashed < self.limit)]

    def sample(
        self,
        schema: TableSchema,
        places: Sequence[np.ndarray],
        n_seen: int,
        factor: float,
        seed: int,
        *,
        counts: bool,
    ) -> Rows:
        """Draw the sample of all rows seen; this empties the pool.

        Parameters
        ----------
        places : sequence of ndarray of int32
            For each discrete attribute from the codes of the pool to those of the
            schema.
        factor : float
            Factor of the weights.
        seed : int
            Seed of the order of the rows.
        counts : bool
            Whether the weights are numbers of rows.
        """
        whole, n_wanted = self.rows(), self._enough(n_seen)
        assert whole is not None
        self._parts = []
        copies = whole.weight.astype(np.int64) if counts else whole.number
        if n_wanted < n_seen and not self.merged:
            below = np.flatnonzero(whole.hashed < sampling_limit(n_wanted / n_seen))
            chosen = _encoded(schema, whole.take(below), places, factor)
            found = few_copies(chosen, copies[below], n_wanted, seed)
            if found is not None:
                return found
        everything = _encoded(schema, whole, places, factor)
        return EncodedRows(everything, copies).sample(n_wanted, seed)


def _encoded(
    schema: TableSchema,
    rows: PoolRows,
    places: Sequence[np.ndarray],
    factor: float,
) -> Rows:
    codes = np.empty_like(rows.codes)
    for attribute, place in enumerate(places):
        codes[:, attribute] = place[rows.codes[:, attribute]]
    columns = ReadColumns(rows.values, codes)
    return HostRows(schema, columns, rows.targets, rows.weight * factor).take(None)


def _copies_as_one(rows: PoolRows) -> PoolRows:
    """Merge identical rows, in the order of their first copies."""
    columns: list[Any] = [*rows.values, *rows.codes.T, *rows.targets.T]
    content = content_hash(columns, 0)
    _, first, which = np.unique(content, return_index=True, return_inverse=True)
    order = np.argsort(first)
    weight, number = (
        np.bincount(which, each)[order] for each in (rows.weight, rows.number)
    )
    single = rows.take(first[order])
    return single._replace(weight=weight, number=number.astype(np.int64))
