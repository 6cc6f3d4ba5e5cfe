"""Rows as they were read, and encoded with their targets: the input of all training.

They are ordered, sampled and held out by their content alone. Ties are identical rows,
so nothing that follows depends on the order in which the rows were given, and a row of
weight two lands where two copies of it would. It does depend on the order of the
columns: the hash of a row knows the place of every value, as two columns of truth
values would otherwise be told apart by nothing.

Rows that repeat others in all columns and targets are observations, or copies of one. A
table of truth values has few different rows, and each of them is seen many times: those
are observations, which judge each other. In a table of measurements no two rows agree
by chance: who repeats one has drawn it twice, or joined tables wrongly, and what
repeats is one observation of their common weight. The whole table decides which it is.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.devices import in_32_bits
from secret_jax.runtime.hashing import mix, mix_in_place
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.parallel import in_blocks
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import room_for

# The seed of every order of rows: the same rows fall into the same parts in every fit.
ROW_ORDER = 0
# Shares closer than this are equal: sums of weights are rounded.
_ROUNDING = 1e-9
# A number is discrete with one value for so many different rows, or with two values,
# or fewer whole ones than these.
_FEW_VALUES = 10
# Of so many different rows not every one is seen as often as the others by chance.
_MANY_ROWS = 64
# Of a sample with a smaller share of different rows all rows are looked at.
LEAST_DIFFERENT = 0.9
# Rows are observations if this share of those that agree in all columns differ in y,
# or in their group.
_SHARE_THAT_DIFFERS = 0.5
_SEED = 1
# Content is compared in steps of 1/1024 deviations: a change of the last digit (by an
# offset, by another unit) must not move a row. Rows that differ by less, most rows of a
# table with heavy tails, are told apart by their exact content.
STEPS = 1024.0
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


def content_hash(
    columns: Sequence[np.ndarray], seed: int, steps: float | None = None
) -> np.ndarray:
    """Hash the content of every row, to put rows in order; ``steps``: rounded so."""
    state = np.full(columns[0].shape, mix(np.uint64(seed)))
    number, spare = np.empty(state.shape), np.empty_like(state)
    for column in columns:
        number[...] = column if steps is None else np.rint(steps * column)
        number += 0.0  # -0.0 compares equal to 0.0, and must hash equal
        state ^= number.view(np.uint64)
        mix_in_place(state, spare)
    return state


def sampling_factors(n_columns: int) -> np.ndarray:
    """Odd factors, one per column, for `sampling_hash`, uint32."""
    keys = np.arange(n_columns, dtype=np.uint64) + mix(np.uint64(ROW_ORDER))
    return (mix(keys) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)


def sampling_hash(table: Any, factors: AnyArray) -> Any:
    """Hash rows cheaply to select a sample, uint32: the same on every device.

    A sum of the columns' bits, each times an odd number of its own, mixed once.
    ``table``: columns of numbers of any type on the host, or an array of JAX (n_rows,
    n_columns). Values are as they were given: an encoding would differ between devices
    in the last digit.
    """
    if isinstance(table, jax.Array):
        # A compiler leaves out "+ 0.0", and flushes the smallest numbers to zero.
        bits = jax.lax.bitcast_convert_type(table, jnp.uint32)
        bits = jnp.where(bits == np.uint32(1 << 31), np.uint32(0), bits)
        return _mixed(jnp.sum(bits * factors, axis=1, dtype=jnp.uint32))
    total = np.zeros(len(table[0]), np.uint32)
    number = np.empty(len(total), np.float32)
    bits = number.view(np.uint32)
    with np.errstate(over="ignore"):
        for column, factor in zip(table, factors, strict=True):
            number[:] = column
            # + 0.0 turns -0.0 into 0.0, which compares equal and must hash equal.
            number += np.float32(0)
            bits *= factor
            total += bits
    return _mixed(total)


def category_numbers(categories: Sequence[Any]) -> np.ndarray:
    """Map categories to float32 for `sampling_hash`, whatever the others are."""
    written = [f"{type(value).__name__} {value}".encode() for value in categories]
    # 24 bits are a whole number of float32.
    return np.array([zlib.crc32(text) >> 8 for text in written], np.float32)


def group_numbers(groups: Any, n_rows: int) -> np.ndarray:
    """Number the groups of rows by a hash of their names, which orders them anyhow."""
    names, member = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    if member.shape != (n_rows,):
        raise ValueError(f"groups must name one of each row: {n_rows} names.")
    return category_numbers(names.tolist()).astype(np.float64)[member]


def sampling_limit(share: float) -> np.uint32:
    """Threshold of `sampling_hash` below which about a given share of rows lies."""
    return np.uint32(min(max(share, 0.0), 1.0) * (2**32 - 1))


def _mixed(value: Any) -> Any:
    """Apply the finaliser of MurmurHash3 (Appleby 2011), uint32."""
    value = (value ^ (value >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    value = (value ^ (value >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return value ^ (value >> np.uint32(16))


def hold_out(weight: np.ndarray, fraction: float) -> int:
    """Position at which to cut rows in hash order: those after it are held out."""
    total, n_rows = np.sum(weight), len(weight)
    below = range(1, n_rows + 1) if are_ones(weight) else np.cumsum(weight)
    kept = 1.0 - fraction - _ROUNDING
    return min(bisect_left(below, kept, key=lambda own: own / total) + 1, n_rows)


class Repeats(NamedTuple):
    """Different rows of a table that repeats some."""

    first: np.ndarray  # (n_different,), int: where each of them comes first, rising
    member: np.ndarray  # (n_rows,), int: which of them each given row is
    number: np.ndarray  # (n_different,), int64: observations that each one is

    @property
    def are_many(self) -> bool:
        """Whether a sample of rows by their content tells too little of them."""
        return len(self.first) < LEAST_DIFFERENT * len(self.member)


def repeats_of(
    numbers: Sequence[np.ndarray],
    codes: np.ndarray,
    targets: np.ndarray,
    group: np.ndarray | None = None,
    times: np.ndarray | None = None,
) -> Repeats | None:
    """Find rows that repeat others, and how many observations they are; None: no row.

    ``numbers`` are columns (n_rows,), ``codes`` (n_rows, n_discrete), ``targets``
    (n_rows, n_outputs), ``group`` as in `Rows`; ``times``: how often each was given.
    """
    if times is None and _all_differ(numbers, targets):
        return None
    columns = [*numbers, *codes.T]
    others = [*targets.T] if group is None else [*targets.T, group]
    hashed = _hashed([*columns, *others], _SEED)
    ranked = np.sort(hashed)
    if times is None and (ranked[1:] != ranked[:-1]).all():
        return None
    first, member = distinct(hashed)
    number = np.bincount(member, times).astype(np.int64)
    if len(first) >= _MANY_ROWS:
        number //= np.gcd.reduce(number)
    of_columns = content_hash([column[first] for column in columns], _SEED)
    _, place = np.unique(of_columns, return_inverse=True)
    n_different, n_seen = np.bincount(place), np.bincount(place, number)
    differ = n_different[n_seen > 1] > 1
    few = max(2, len(first) // _FEW_VALUES)
    different = (np.unique(column[first]) for column in numbers)
    discrete = all(
        len(values) <= few
        or (len(values) < _FEW_VALUES and (values == np.floor(values)).all())
        for values in different
    )
    if not discrete and differ.sum() < _SHARE_THAT_DIFFERS * len(differ):
        number = np.ones_like(number)
    return Repeats(first, member, number)


def _all_differ(numbers: Sequence[np.ndarray], targets: np.ndarray) -> bool:
    """Whether a column and a target tell all rows apart; not where a number misses."""
    key = targets[:, 0]
    if len(numbers):
        with np.errstate(over="ignore", invalid="ignore"):
            key = key + np.pi * np.asarray(numbers[0], np.float64)
    key = np.sort(key)
    return bool((key[1:] > key[:-1]).all())


def _hashed(
    columns: Sequence[np.ndarray], seed: int, steps: float | None = None
) -> np.ndarray:
    """See `content_hash`; in blocks processed in parallel."""

    def of_block(rows: slice) -> np.ndarray:
        return content_hash([column[rows] for column in columns], seed, steps)

    return np.concatenate(list(in_blocks(of_block, len(columns[0]))))


def distinct(hashed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each different hash comes first, rising, and which of them each one is."""
    _, first, member = np.unique(hashed, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[member]


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
    each row for itself. In blocks of rows on a device targets that lie beside them stay
    there, float32, as long as ``table.x``.
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
        targets, weight = _taken(self.targets, index), _taken(self.weight, index)
        return Rows(table, targets, weight, group)


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
        return self.rows.take(index)._replace(weight=(self.rows.weight / number)[index])


def merged(rows: Rows) -> Merged:
    """Merge identical rows, summing their weights, and put them in hash order."""
    order, hashed, first = _hash_order(rows)
    if len(first) == len(order):
        return Merged(rows.take(order), hashed, np.ones_like(order), order)
    weight = np.add.reduceat(rows.weight[order], first)
    found = rows.take(order[first])._replace(weight=weight)
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
    hashed = _hashed(columns, ROW_ORDER, STEPS)
    order = np.argsort(hashed)
    ranked = hashed[order]
    alike, exact = _alike(ranked), np.zeros_like(hashed)
    if not len(alike):
        return order, ranked, np.arange(len(order))
    tied = np.sort(order[alike])  # only these need an exact hash
    if len(tied) < len(order):
        columns = [column[tied] for column in columns]
    exact[tied] = _hashed(columns, ROW_ORDER)
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
