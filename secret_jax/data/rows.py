"""Rows as they were read, and encoded with their targets: the input of all training.

They are ordered, sampled and held out by their content alone. Ties are identical rows,
so nothing that follows depends on the order in which the rows were given, and a row of
weight two lands where two copies of it would. It does depend on the order of the
columns: the hash of a row knows the place of every value, as two columns of truth
values would otherwise be told apart by nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.hashes import (
    ROW_ORDER,
    STEPS,
    category_numbers,
    row_hashes,
    sampling_factors,
    sampling_hash,
)
from secret_jax.runtime.devices import in_32_bits
from secret_jax.runtime.hashing import mix
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.parallel import in_blocks
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import room_for

# Shares closer than this are equal: sums of weights are rounded.
_ROUNDING = 1e-9
# Maximum and minimum number of copies of a row that repeats. 50 are ten for each of
# five folds, five for each of ten, two for each pair of folds of two divisions into
# five; 5 are one for each of five folds.
MAX_COPIES, _MIN_COPIES = 50, 5
# Number of interleaved copies that is enough.
_PLENTY = 1 << 16


def unweighted(n_rows: int) -> np.ndarray:
    """Weights of one each: a single number, read-only, however many the rows."""
    return np.broadcast_to(1.0, n_rows)


def all_one(weight: np.ndarray) -> bool:
    """Whether weights are those of `unweighted`: nobody looks at them all."""
    return weight.strides == (0,) and weight.size > 0 and bool(weight[0] == 1.0)


def are_ones(weight: np.ndarray) -> bool:
    """Whether every row has the weight one."""
    return all_one(weight) or bool((weight == 1.0).all())


def all_count(weight: np.ndarray) -> bool:
    """Whether no row has the weight zero."""
    return all_one(weight) or bool(weight.all())


def hold_out(weight: np.ndarray, fraction: float) -> int:
    """Position at which to cut rows in hash order: those after it are held out."""
    total, n_rows = np.sum(weight), len(weight)
    below = range(1, n_rows + 1) if are_ones(weight) else np.cumsum(weight)
    kept = 1.0 - fraction - _ROUNDING
    return min(bisect_left(below, kept, key=lambda own: own / total) + 1, n_rows)


class Table(NamedTuple):
    """Encoded columns and category codes of rows.

    ``x`` is float32 of shape (n_rows, n_columns): the regressors (standardised
    continuous attributes, indicators of categories, indicators of missing values), then
    what is only split on (standardised attributes, indicators of missing values). A
    missing value is 0, the mean of the column in training. It is on a device only if
    the rows were given there, or grow trees there: then what comes after ``n_rows`` is
    none of the table. ``codes``, int32 of shape (n_rows, n_discrete), are -1 for a
    category that training never saw.
    """

    x: Any
    codes: Any

    @property
    def n_rows(self) -> int:
        return len(self.codes)

    def on_host(self) -> Table:
        """Copy the columns to host memory."""
        return Table(np.asarray(self.x)[: self.n_rows], np.asarray(self.codes))

    def take(self, index: np.ndarray | slice) -> Table:
        """Select rows; those side by side stay where they are."""
        if isinstance(self.x, np.ndarray):
            return Table(_taken(self.x, index), _taken(self.codes, index))
        if not isinstance(index, slice) or index.step not in (None, 1):
            return self.on_host().take(index)
        codes, (first, _, _) = self.codes[index], index.indices(self.n_rows)
        size = room_for(len(codes))
        if not first and 2 * size >= len(self.x):  # the others do not matter
            return Table(self.x, codes)
        with in_32_bits():
            return Table(rows_from(self.x, first, size=size), codes)


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
        self, categories: Sequence[Iterable[Any]], targets: np.ndarray
    ) -> np.ndarray:
        """Sampling hashes of the rows, by what they hold, (n_rows,), uint32.

        ``categories``: those of every discrete attribute, in the order of its codes.
        """
        pairs = zip(categories, self.codes.T, strict=True)
        # The last one is for the code -1, of what training never saw.
        numbers = [category_numbers([*values, ...])[codes] for values, codes in pairs]
        every = [*self.values, *numbers, *targets.T]
        factors = sampling_factors(len(every))
        hashed = in_blocks(
            lambda rows: sampling_hash([column[rows] for column in every], factors),
            len(targets),
        )
        return np.concatenate(list(hashed))

    def rows_below(
        self, categories: Any, targets: np.ndarray, limit: np.uint32
    ) -> np.ndarray:
        """Find the rows whose sampling hash is below a limit."""
        return np.flatnonzero(self.hashes(categories, targets) < limit)


@program(static_argnames=("size",))
def rows_from(x: AnyArray, start: AnyArray, *, size: int) -> jax.Array:
    """Take ``size`` rows from ``start`` on; past the end the last row repeats."""
    index = jnp.minimum(start + jnp.arange(size), x.shape[0] - 1)
    return x[index]


class Rows(NamedTuple):
    """Encoded rows with targets and weights.

    ``targets`` are float64 of shape (n_rows, n_outputs) in standardised units, weights
    positive, perhaps a read-only number (see `unweighted`). ``group`` are numbers,
    float64: rows of one number, as those of one person, are held out together. None:
    each row for itself. ``times``, float64: number of rows as given that each one
    stands for, perhaps a part; None: one each. In blocks of rows on a device targets
    that lie beside them stay there, float32, as long as ``table.x``.
    """

    table: Table
    targets: np.ndarray
    weight: np.ndarray
    group: np.ndarray | None = None
    times: np.ndarray | None = None

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

    def sample(self, n_wanted: int) -> Rows:
        """Sample about ``n_wanted`` rows in hash order, or all if there are fewer.

        Identical rows are one, which is several again, see `Merged.interleaved`.
        """
        rows = merged(self).interleaved(n_wanted)
        return rows.take(slice(n_wanted)) if n_wanted < rows.n_rows else rows

    def on_host(self) -> Rows:
        """Copy the columns, and targets that lie beside them, to host memory."""
        targets = np.asarray(self.targets)[: self.n_rows]
        return self._replace(table=self.table.on_host(), targets=targets)

    def blocks(self, function: Callable[[Rows], Any], size: int) -> Iterator[Any]:
        """See `secret_jax.data.encoding.RowSource`."""
        return in_blocks(lambda part: function(self.take(part)), self.n_rows, size)

    def take(self, index: np.ndarray | slice) -> Rows:
        """Select rows."""
        table = self.table.take(index)
        group = None if self.group is None else self.group[index]
        times = None if self.times is None else self.times[index]
        targets, weight = _taken(self.targets, index), _taken(self.weight, index)
        return Rows(table, targets, weight, group, times)


def every_copy(n_rows: int) -> int:
    """Size of a sample that leaves out none of the copies of so many rows."""
    return max(_MIN_COPIES * n_rows, _PLENTY)


def _taken(array: Any, index: np.ndarray | slice) -> Any:
    """Select rows; to take whole ones costs NumPy a quarter of what indices cost."""
    if isinstance(index, slice):
        return array[index]
    index = np.flatnonzero(index) if index.dtype == bool else index
    return unweighted(len(index)) if all_one(array) else array.take(index, axis=0)


def join(parts: list[Rows]) -> Rows:
    """Concatenate the rows of several parts, in groups if all of them are."""
    if len(parts) == 1:
        return parts[0]
    parts = [part.on_host() for part in parts]
    if any(part.group is None for part in parts):
        parts = [part._replace(group=None) for part in parts]
    if any(part.times is not None for part in parts):
        parts = [part._replace(times=part.n_given) for part in parts]
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def shuffled(rows: Rows) -> Rows:
    """Reorder rows by a hash of their content.

    Identical rows stand apart: any stretch of the rows holds its share of them.
    """
    order, hashed, first = _hash_order(rows)
    if len(first) == len(order):
        return rows.take(order)
    number = np.diff(np.append(first, rows.n_rows))
    return rows.take(order[_spread(hashed[first], number)])


class Merged(NamedTuple):
    """Distinct rows in hash order, with summed weights and how often each was seen.

    A prefix of ``rows`` is a sample of distinct rows; ``hashed`` (uint64) rises;
    ``seen`` counts the given rows that each one stands for, ``order`` has these, those
    of a row side by side.
    """

    rows: Rows
    hashed: np.ndarray
    seen: np.ndarray
    order: np.ndarray

    @property
    def place(self) -> np.ndarray:
        """Which of the rows each given row is."""
        place = np.empty_like(self.order)
        place[self.order] = np.repeat(np.arange(len(self.seen)), self.seen)
        return place

    def interleaved(self, most: int = _PLENTY) -> Rows:
        """Spread observations that are alike evenly over the shuffled order.

        A row that was seen several times is split into as many of equal weight (at most
        50) at equal distances, so that every stretch of the rows, and every fold made
        of stretches, holds its share of them: models fitted to some are judged by
        others. Copies of one observation must have been left out before, see
        `repeats_of`.
        """
        if len(self.seen) == len(self.order):
            return self.rows
        suitable = min(most, _PLENTY) // self.rows.n_rows
        number = np.minimum(self.seen, np.clip(suitable, _MIN_COPIES, MAX_COPIES))
        order = _spread(self.hashed, number)
        index = np.repeat(np.arange(len(number)), number)[order]
        weight, times = (
            (each / number)[index] for each in (self.rows.weight, self.rows.n_given)
        )
        return self.rows.take(index)._replace(weight=weight, times=times)


def merged(rows: Rows) -> Merged:
    """Merge identical rows, summing their weights, and put them in hash order."""
    order, hashed, first = _hash_order(rows)
    if len(first) == len(order):
        return Merged(rows.take(order), hashed, np.ones_like(order), order)
    weight, times = (
        np.add.reduceat(each[order], first) for each in (rows.weight, rows.n_given)
    )
    found = rows.take(order[first])._replace(weight=weight, times=times)
    seen = np.diff(np.append(first, rows.n_rows))
    return Merged(found, hashed[first], seen, order)


def _spread(hashed: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Order of parts, numbered row by row, evenly spaced from each row's hash on."""
    start = np.repeat(np.cumsum(number) - number, number)
    nth = (np.arange(len(start)) - start).astype(np.uint64)
    distance = np.uint64(2**64 - 1) // number.astype(np.uint64)
    # Sums of unsigned numbers go round.
    place = np.repeat(hashed, number) + nth * np.repeat(distance, number)
    return np.argsort(place, kind="stable")


def _hash_order(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order rows by content hash; also the hashes, and where distinct rows begin."""
    targets = rows.targets.astype(np.float32)
    columns = [*rows.table.x.T, *rows.table.codes.T, *targets.T]
    if rows.group is not None:  # equal rows of two groups stay two
        columns.append(rows.group)
    hashed = row_hashes(columns, ROW_ORDER, STEPS)
    order = np.argsort(hashed)
    ranked = hashed[order]
    alike, exact = _alike(ranked), np.zeros_like(hashed)
    if not len(alike):
        return order, ranked, np.arange(len(order))
    tied = np.sort(order[alike])  # only these need an exact hash
    if len(tied) < len(order):
        columns = [column[tied] for column in columns]
    exact[tied] = row_hashes(columns, ROW_ORDER)
    tied = order[alike]
    hashed[tied] = _told_apart(hashed[tied], exact[tied])
    order = np.argsort(hashed)
    alike = _alike(hashed[order])
    # By weight at last: equal rows may be given in any order.
    tied = np.sort(order[alike])
    order[alike] = tied[np.lexsort((rows.weight[tied], exact[tied], hashed[tied]))]
    hashed, exact = hashed[order], exact[order]
    same = (hashed[1:] == hashed[:-1]) & (exact[1:] == exact[:-1])
    return order, hashed, np.flatnonzero(np.append(True, ~same))


def _alike(ranked: np.ndarray) -> np.ndarray:
    """Places of sorted values that are equal to one beside them."""
    same = ranked[1:] == ranked[:-1]
    return np.flatnonzero(np.append(same, False) | np.append(False, same))


def _told_apart(hashed: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Mix exact hashes into rounded ones (which rise) of rows that only round alike."""
    first = np.flatnonzero(np.append(True, hashed[1:] != hashed[:-1]))
    lowest, highest = (f.reduceat(exact, first) for f in (np.minimum, np.maximum))
    several = np.repeat(lowest != highest, np.diff(np.append(first, len(hashed))))
    return np.where(several, mix(hashed ^ mix(exact)), hashed)
