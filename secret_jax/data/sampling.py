"""Ordering, sampling and hold-out selection of rows by their content alone.

Ties are identical rows, so nothing that follows depends on the order in which the rows
were given, and a row of weight two lands where two copies of it would. It does depend
on the order of the columns: the hash of a row knows the place of every value, as two
columns of truth values would otherwise be told apart by nothing.

Rows that repeat others in all columns and targets are observations, or copies of one. A
table of truth values has few different rows, and each of them is seen many times: those
are observations, which judge each other. In a table of measurements no two rows agree
by chance: who repeats one has drawn it twice, or joined tables wrongly, and what
repeats is one observation of their common weight. The whole table decides which it is.
"""

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.hashing import mix
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.parallel import in_blocks

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


def content_hash(columns: list[np.ndarray], seed: int) -> np.ndarray:
    """Hash the content of every row, to put rows in order."""
    state = np.broadcast_to(mix(np.uint64(seed)), columns[0].shape)
    for column in columns:
        # + 0.0 turns -0.0 into 0.0, which compares equal and must hash equal.
        bits = (np.asarray(column, np.float64) + 0.0).view(np.uint64)
        state = mix(state ^ bits)
    return state


def sampling_factors(n_columns: int, seed: int) -> np.ndarray:
    """Odd factors, one per column, for `sampling_hash`, uint32."""
    keys = np.arange(n_columns, dtype=np.uint64) + mix(np.uint64(seed))
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


def draws_of_groups(group: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw as many groups as there are, with replacement; how often each row's was."""
    _, member = np.unique(group, return_inverse=True)
    n_groups = member.max() + 1
    return random.multinomial(n_groups, np.full(n_groups, 1 / n_groups))[member]


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
    share = np.cumsum(weight) / np.sum(weight)
    cut = int(np.searchsorted(share, 1.0 - fraction - _ROUNDING)) + 1
    return min(cut, len(share))


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

    ``numbers`` are columns (n_rows,), ``codes`` (n_rows, n_discrete) and ``targets``
    (n_rows, n_outputs); ``group`` as in `secret_jax.data.rows.Rows`; ``times``
    (n_rows,): how often each row was given.
    """
    columns = [*numbers, *codes.T]
    others = [*targets.T] if group is None else [*targets.T, group]

    def of_block(rows: slice) -> np.ndarray:
        return content_hash([column[rows] for column in [*columns, *others]], _SEED)

    hashed = np.concatenate(list(in_blocks(of_block, len(targets))))
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


def distinct(hashed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each different hash comes first, rising, and which of them each one is."""
    _, first, member = np.unique(hashed, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[member]
