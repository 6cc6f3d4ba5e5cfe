"""Encoded rows with their targets: the one form in which they train anything."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.sampling import content_hash
from secret_jax.runtime.hashing import mix

# Content is compared in steps of 1/1024 deviations: a change of the last digit (by an
# offset, by another unit) must not move a row. Rows that differ by less, most rows of a
# table with heavy tails, are told apart by their exact content.
_STEPS = 1024.0


class Table(NamedTuple):
    """Encoded rows.

    Attributes
    ----------
    x : ndarray or jax.Array of shape (n_rows, n_columns), float32
        The regressors (standardised continuous attributes, indicators of categories,
        indicators of missing values), then what is only split on (standardised
        attributes, indicators of missing values). A missing value is 0, the mean of the
        column in training. On a device only if the rows were given there.
    codes : ndarray of shape (n_rows, n_discrete), int32
        Category codes; -1 for a category that training never saw.
    """

    x: Any
    codes: np.ndarray

    def on_host(self) -> Table:
        """The same rows in the memory of the host."""
        return Table(np.asarray(self.x), self.codes)

    def take(self, index: np.ndarray | slice) -> Table:
        """Some of the rows."""
        return Table(self.x[index], self.codes[index])


class Rows(NamedTuple):
    """Encoded rows with their targets.

    Attributes
    ----------
    table : Table
    targets : ndarray of shape (n_rows, n_outputs), float64
        In standardised units.
    weight : ndarray of shape (n_rows,), float64
        Positive.
    """

    table: Table
    targets: np.ndarray
    weight: np.ndarray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weight)

    def take(self, index: np.ndarray | slice) -> Rows:
        """Some of the rows."""
        table = self.table.take(index)
        return Rows(table, self.targets[index], self.weight[index])


def join(parts: list[Rows]) -> Rows:
    """The rows of several parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    tables, targets, weights = zip(*parts, strict=True)
    x, codes = zip(*tables, strict=True)
    table = Table(np.concatenate(x), np.concatenate(codes))
    return Rows(table, np.concatenate(targets), np.concatenate(weights))


def shuffled(rows: Rows, seed: int) -> Rows:
    """The rows in an order that depends on their content and the seed alone."""
    return rows.take(_hash_order(rows, seed)[0])


def merged(rows: Rows, seed: int) -> Rows:
    """The rows in shuffled order, identical ones as one.

    A prefix of them is a sample of distinct rows.
    """
    order, hashed, exact = _hash_order(rows, seed)
    rows = rows.take(order)
    new = np.r_[True, (np.diff(hashed) != 0) | (np.diff(exact) != 0)]
    first = np.flatnonzero(new)
    weight = np.add.reduceat(rows.weight, first)
    return rows.take(first)._replace(weight=weight)


def _hash_order(rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order of the rows by a hash of their content.

    Returns
    -------
    order : ndarray of shape (n_rows,), int64
    hashed, exact : ndarray of shape (n_rows,), uint64
        Hashes in that order: the first is of slightly rounded content unless other rows
        share it, the second of exact content.
    """
    targets = rows.targets.astype(np.float32)
    columns = [*rows.table.x.T, *rows.table.codes.T, *targets.T]
    hashed = content_hash([np.rint(_STEPS * column) for column in columns], seed)
    exact = content_hash(columns, seed)
    order = np.argsort(hashed)
    # A sort by two keys takes three times as long.
    if (np.diff(hashed[order]) == 0).any():
        hashed = _told_apart(hashed, exact)
        order = np.lexsort((exact, hashed))
    return order, hashed[order], exact[order]


def _told_apart(hashed: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Hashes of which those that stand for several contents depend on the exact one.

    Side by side in the order, such rows would be held out, or not, all together.
    """
    order = np.lexsort((exact, hashed))
    first = np.flatnonzero(np.r_[True, np.diff(hashed[order]) != 0])
    count = np.diff(np.append(first, len(order)))
    lowest, highest = exact[order[first]], exact[order[first + count - 1]]
    several = np.zeros(len(order), bool)
    several[order] = np.repeat(lowest != highest, count)
    return np.where(several, mix(hashed ^ mix(exact)), hashed)
