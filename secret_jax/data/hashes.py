"""Hashes of rows by what they hold, and which rows repeat others.

Rows that repeat others in all columns and targets are observations, or copies of one. A
table of truth values has few different rows, and each of them is seen many times: those
are observations, which judge each other. In a table of measurements no two rows agree
by chance: who repeats one has drawn it twice, or joined tables wrongly, and what
repeats is one observation of their common weight. The whole table decides which it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.hashing import mix, mix_in_place
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.parallel import in_blocks

# The seed of every order of rows: the same rows fall into the same parts in every fit.
ROW_ORDER = 0
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
# Fewer subjects, of whom each was measured often, could not be held out in parts. If
# numbers were independent, so many others at most would be like one.
_FEWEST_SUBJECTS, _BY_CHANCE = 20, 0.1
_SEED = 1
# Content is compared in steps of 1/1024 deviations: a change of the last digit (by an
# offset, by another unit) must not move a row. Rows that differ by less, most rows of a
# table with heavy tails, are told apart by their exact content.
STEPS = 1024.0


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
    (n_rows, n_outputs), ``group`` as in `secret_jax.data.rows.Rows`; ``times``: how
    often each was given.
    """
    if times is None and _all_differ(numbers, targets):
        return None
    columns = [*numbers, *codes.T]
    others = [*targets.T] if group is None else [*targets.T, group]
    hashed = row_hashes([*columns, *others], _SEED)
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


def row_hashes(
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


def measured_again(
    numbers: Sequence[np.ndarray], codes: np.ndarray, targets: np.ndarray
) -> np.ndarray | None:
    """Group rows that measure the same subject again, (n_rows,), float64; None: none.

    Such rows share all columns, as those of a person, and differ in the targets. Where
    most rows do, and far more than would if the numbers had nothing to do with each
    other, a model that sees some of them is not judged by the others. Rows that meet
    by chance, as in tables of truth values, of categories or of a design with all
    combinations, are observations; so are those of subjects that categories name.

    Columns are as in `repeats_of`.
    """
    n_rows = len(targets)
    if any(_n_different(column) > n_rows / 2 for column in numbers):
        return None
    subject = row_hashes([*numbers, *codes.T], _SEED)
    first, member = distinct(subject)
    n_subjects = len(first)
    if not _FEWEST_SUBJECTS <= n_subjects <= n_rows / 2:
        return None
    if codes.size and len(np.unique(codes, axis=0)) == n_subjects:
        return None
    outcome, _ = distinct(row_hashes([member, *targets.T], _SEED))
    n_outcomes = np.bincount(member[outcome], minlength=n_subjects)
    if (n_outcomes[member] > 1).mean() < _SHARE_THAT_DIFFERS:
        return None
    log_chance = np.log(n_subjects)  # of the number of subjects that are like one
    for column in numbers:
        _, count = np.unique(column[first], return_counts=True)
        log_chance += np.log(np.sum((count / n_subjects) ** 2))
    return subject.astype(np.float64) if log_chance < np.log(_BY_CHANCE) else None


def _n_different(column: np.ndarray) -> int:
    ranked = np.sort(column)
    return 1 + int(np.count_nonzero(ranked[1:] != ranked[:-1]))
