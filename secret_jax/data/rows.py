"""Rows as they were read, and encoded with their targets: the input of all training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from secret_jax.data.sampling import (
    category_numbers,
    content_hash,
    sampling_factors,
    sampling_hash,
)
from secret_jax.runtime.hashing import mix
from secret_jax.runtime.parallel import in_blocks

# Content is compared in steps of 1/1024 deviations: a change of the last digit (by an
# offset, by another unit) must not move a row. Rows that differ by less, most rows of a
# table with heavy tails, are told apart by their exact content.
_STEPS = 1024.0
# Maximum and minimum number of copies of a row that repeats. 50 are ten for each of
# five folds, five for each of ten, two for each pair of folds of two divisions into
# five; 5 are one for each of five folds.
MAX_COPIES, _MIN_COPIES = 50, 5
# Number of interleaved copies that is enough.
_PLENTY = 1 << 16


class Table(NamedTuple):
    """Encoded columns and category codes of rows.

    ``x`` is float32 of shape (n_rows, n_columns): the regressors (standardised
    continuous attributes, indicators of categories, indicators of missing values), then
    what is only split on (standardised attributes, indicators of missing values). A
    missing value is 0, the mean of the column in training. It is on a device only if
    the rows were given there, or grow trees there. ``codes``, int32 of shape (n_rows,
    n_discrete), are -1 for a category that training never saw.
    """

    x: Any
    codes: Any

    def on_host(self) -> Table:
        """Copy the columns to host memory."""
        return Table(np.asarray(self.x), np.asarray(self.codes))

    def take(self, index: np.ndarray | slice) -> Table:
        """Select rows."""
        return Table(_taken(self.x, index), _taken(self.codes, index))


class ReadColumns(NamedTuple):
    """Columns that were read and matched with a schema, not yet encoded.

    ``values`` are the continuous attributes, (n_rows,) each, numbers of any type;
    ``codes`` are int32 of shape (n_rows, n_discrete).
    """

    values: list[np.ndarray]
    codes: np.ndarray

    def take(self, index: np.ndarray | None) -> ReadColumns:
        """Select rows, by their indices; None: all."""
        if index is None:
            return self
        # `numpy.take` would copy the whole of a column that is part of a table.
        values = [column[index] for column in self.values]
        return ReadColumns(values, self.codes.take(index, axis=0))

    def recoded(self, places: Sequence[np.ndarray]) -> ReadColumns:
        """Map the codes of each discrete attribute to others."""
        codes = np.empty_like(self.codes)
        for attribute, place in enumerate(places):
            codes[:, attribute] = place[self.codes[:, attribute]]
        return ReadColumns(self.values, codes)

    def hashes(
        self, categories: Sequence[Iterable[Any]], targets: np.ndarray, seed: int
    ) -> np.ndarray:
        """Sampling hashes of the rows, by what they hold, (n_rows,), uint32.

        ``categories``: those of every discrete attribute, in the order of its codes.
        """
        pairs = zip(categories, self.codes.T, strict=True)
        # The last one is for the code -1, of what training never saw.
        numbers = [category_numbers([*values, ...])[codes] for values, codes in pairs]
        every = [*self.values, *numbers, *targets.T]
        factors = sampling_factors(len(every), seed)
        hashed = in_blocks(
            lambda rows: sampling_hash([column[rows] for column in every], factors),
            len(targets),
        )
        return np.concatenate(list(hashed))

    def rows_below(
        self,
        categories: Sequence[Iterable[Any]],
        targets: np.ndarray,
        limit: np.uint32,
        seed: int,
    ) -> np.ndarray:
        """Find the rows whose sampling hash is below a limit."""
        return np.flatnonzero(self.hashes(categories, targets, seed) < limit)


class Rows(NamedTuple):
    """Encoded rows with targets and weights.

    ``targets`` are float64 of shape (n_rows, n_outputs) in standardised units, weights
    positive. ``group`` are numbers, float64: rows of one number, as those of one
    person, are held out together. None: each row for itself.
    """

    table: Table
    targets: np.ndarray
    weight: np.ndarray
    group: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        return len(self.weight)

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum())

    def sample(self, n_wanted: int, seed: int) -> Rows:
        """See `secret_jax.data.source.RowSource`."""
        rows = merged(self, seed).interleaved(n_wanted)
        return rows.take(slice(n_wanted)) if n_wanted < rows.n_rows else rows

    def blocks(self, function: Callable[[Rows], Any], size: int) -> Iterator[Any]:
        """See `secret_jax.data.source.RowSource`."""
        return in_blocks(lambda part: function(self.take(part)), self.n_rows, size)

    def take(self, index: np.ndarray | slice) -> Rows:
        """Select rows."""
        table = self.table.take(index)
        group = None if self.group is None else self.group[index]
        return Rows(table, self.targets[index], self.weight[index], group)


def every_copy(n_rows: int) -> int:
    """Size of a sample that leaves out none of the copies of so many rows."""
    return max(_MIN_COPIES * n_rows, _PLENTY)


def _taken(array: Any, index: np.ndarray | slice) -> Any:
    """Select rows; to take whole ones costs NumPy a quarter of what indices cost."""
    if isinstance(index, slice) or not isinstance(array, np.ndarray) or not array.size:
        return array[index]
    index = np.flatnonzero(index) if index.dtype == bool else index
    return array.take(index, axis=0)


def join(parts: list[Rows]) -> Rows:
    """Concatenate the rows of several parts, in groups if all of them are."""
    if len(parts) == 1:
        return parts[0]
    if any(part.group is None for part in parts):
        parts = [part._replace(group=None) for part in parts]
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def shuffled(rows: Rows, seed: int) -> Rows:
    """Reorder rows by a hash of their content and the seed.

    Identical rows stand apart: any stretch of the rows holds its share of them.
    """
    order, hashed, first = _hash_order(rows, seed)
    number = np.diff(np.append(first, rows.n_rows))
    return rows.take(order[_spread(hashed[first], number)])


class Merged(NamedTuple):
    """Distinct rows in hash order, with summed weights and how often each was seen.

    A prefix of ``rows`` is a sample of distinct rows; ``hashed`` (uint64) rises;
    ``seen`` counts the given rows that each one stands for, ``place`` says which of
    them each given row is.
    """

    rows: Rows
    hashed: np.ndarray
    seen: np.ndarray
    place: np.ndarray

    def interleaved(self, most: int = _PLENTY) -> Rows:
        """Spread observations that are alike evenly over the shuffled order.

        A row that was seen several times is split into as many of equal weight (at most
        50) at equal distances, so that every stretch of the rows, and every fold made
        of stretches, holds its share of them: models fitted to some are judged by
        others. Copies of one observation must have been left out before, see
        `secret_jax.data.sampling`.
        """
        suitable = min(most, _PLENTY) // self.rows.n_rows
        number = np.minimum(self.seen, np.clip(suitable, _MIN_COPIES, MAX_COPIES))
        if (number == 1).all():
            return self.rows
        order = _spread(self.hashed, number)
        index = np.repeat(np.arange(len(number)), number)[order]
        return self.rows.take(index)._replace(weight=(self.rows.weight / number)[index])


def merged(rows: Rows, seed: int) -> Merged:
    """Merge identical rows, summing their weights, and put them in hash order."""
    order, hashed, first = _hash_order(rows, seed)
    weight = np.add.reduceat(rows.weight[order], first)
    found = rows.take(order[first])._replace(weight=weight)
    seen, place = np.diff(np.append(first, rows.n_rows)), np.empty_like(order)
    place[order] = np.repeat(np.arange(len(first)), seen)
    return Merged(found, hashed[first], seen, place)


def _spread(hashed: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Order of parts, numbered row by row, evenly spaced from each row's hash on."""
    start = np.repeat(np.cumsum(number) - number, number)
    nth = (np.arange(len(start)) - start).astype(np.uint64)
    distance = np.uint64(2**64 - 1) // number.astype(np.uint64)
    # Sums of unsigned numbers go round.
    place = np.repeat(hashed, number) + nth * np.repeat(distance, number)
    return np.argsort(place, kind="stable")


def _hash_order(rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order rows by content hash; also the hashes, and where distinct rows begin."""
    targets = rows.targets.astype(np.float32)
    columns = [*rows.table.x.T, *rows.table.codes.T, *targets.T]
    if rows.group is not None:  # equal rows of two groups stay two
        columns.append(rows.group)

    def of_block(part: slice) -> tuple[np.ndarray, np.ndarray]:
        own = [column[part] for column in columns]
        rounded = [np.rint(_STEPS * column) for column in own]
        return content_hash(rounded, seed), content_hash(own, seed)

    each = zip(*in_blocks(of_block, rows.n_rows), strict=True)
    hashed, exact = map(np.concatenate, each)
    order = np.argsort(hashed)
    # A sort by several keys takes three times as long.
    if (np.diff(hashed[order]) == 0).any():
        hashed = _told_apart(hashed, exact)
        # By weight at last: equal rows may be given in any order.
        order = np.lexsort((rows.weight, exact, hashed))
    hashed, exact = hashed[order], exact[order]
    new = np.r_[True, (np.diff(hashed) != 0) | (np.diff(exact) != 0)]
    return order, hashed, np.flatnonzero(new)


def _told_apart(hashed: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Mix exact hashes into rounded ones of distinct rows: they would stay together."""
    order = np.lexsort((exact, hashed))
    first = np.flatnonzero(np.r_[True, np.diff(hashed[order]) != 0])
    count = np.diff(np.append(first, len(order)))
    lowest, highest = exact[order[first]], exact[order[first + count - 1]]
    several = np.zeros(len(order), bool)
    several[order] = np.repeat(lowest != highest, count)
    return np.where(several, mix(hashed ^ mix(exact)), hashed)
