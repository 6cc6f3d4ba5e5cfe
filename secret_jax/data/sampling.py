"""Ordering, sampling and hold-out selection of rows by their content alone.

Ties are identical rows, so nothing that follows depends on the order in which the rows
were given, and a row of weight two lands where two copies of it would. It does depend
on the order of the columns: the hash of a row knows the place of every value, as two
columns of truth values would otherwise be told apart by nothing.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.hashing import mix
from secret_jax.runtime.linalg import AnyArray

# The seed of every order of rows: the same rows fall into the same parts in every fit.
ROW_ORDER = 0
# Shares closer than this are equal: sums of weights are rounded.
_ROUNDING = 1e-9


def content_hash(columns: list[np.ndarray], seed: int) -> np.ndarray:
    """Hash the content of every row, to put rows in order."""
    state = np.broadcast_to(mix(np.uint64(seed)), columns[0].shape)
    for column in columns:
        # + 0.0 turns -0.0 into 0.0, which compares equal and must hash equal.
        bits = (np.asarray(column, np.float64) + 0.0).view(np.uint64)
        state = mix(state ^ bits)
    return state


def sampling_factors(n_columns: int, seed: int) -> np.ndarray:
    """Odd factors, one per column, that `sampling_hash` multiplies by, uint32."""
    keys = np.arange(n_columns, dtype=np.uint64) + mix(np.uint64(seed))
    return (mix(keys) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)


def sampling_hash(values: AnyArray, factors: AnyArray) -> Any:
    """Hash rows cheaply to select a sample: the same on every device.

    A sum of the columns' bits, each times an odd number of its own, mixed once. Values
    are as they were given: an encoding would differ between devices in the last digit.
    """
    if isinstance(values, np.ndarray):
        return columns_hash([*values.T], factors)
    # A compiler leaves out "+ 0.0", and flushes the smallest numbers to zero.
    bits = jax.lax.bitcast_convert_type(values, jnp.uint32)
    bits = jnp.where(bits == np.uint32(1 << 31), np.uint32(0), bits)
    return _mixed(jnp.sum(bits * factors, axis=1, dtype=jnp.uint32))


def columns_hash(columns: Sequence[np.ndarray], factors: np.ndarray) -> np.ndarray:
    """Hash rows as `sampling_hash`, given columns of numbers of any type."""
    total = np.zeros(len(columns[0]), np.uint32)
    number = np.empty(len(total), np.float32)
    bits = number.view(np.uint32)
    with np.errstate(over="ignore"):
        for column, factor in zip(columns, factors, strict=True):
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
