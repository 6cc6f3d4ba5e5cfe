"""Rows that already lie on an accelerator: measured, encoded and chosen there.

Only numbers without gaps, all of them regressors, stay on the device; every other table
is read on the host. Sums of tiles are added up on the host in float64.
"""

from __future__ import annotations

import functools
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.compiling import jit
from secret_jax.runtime.devices import rows_at_once
from secret_jax.runtime.linalg import AnyArray

_TILE = 1024
# Encoded values saturate here, as on the host.
_FAR = 1e30


def is_resident(X: Any) -> TypeGuard[jax.Array]:
    """Whether a table is an array in the memory of an accelerator."""
    return isinstance(X, jax.Array) and any(
        device.platform != "cpu" for device in X.devices()
    )


def check_array(X: jax.Array) -> None:
    """Refuse arrays that are no tables of numbers.

    Raises
    ------
    ValueError
        With what was given and the remedy.
    """
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead. Reshape your data with "
            "array.reshape(-1, 1) if it has a single feature."
        )
    if not (
        jnp.issubdtype(X.dtype, jnp.floating) or jnp.issubdtype(X.dtype, jnp.integer)
    ):
        raise ValueError(
            f"X is a device array of dtype {X.dtype}; it must hold real numbers. "
            "Convert it, for example with X.astype('float32')."
        )


@functools.partial(jit, static_argnames=("size",))
def rows_from(x: AnyArray, start: AnyArray, *, size: int) -> jax.Array:
    """``size`` rows from ``start`` on; the last row stands for those past the end."""
    index = jnp.minimum(start + jnp.arange(size), x.shape[0] - 1)
    return x[index]


def block_of(x: AnyArray, rows: slice, size: int) -> AnyArray:
    """A block of rows, padded to a size, of an array on the host or on a device."""
    if isinstance(x, np.ndarray):
        block = x[rows]
        if len(block) == size:
            return block
        return np.pad(block, [(0, size - len(block)), (0, 0)])
    return rows_from(x, rows.start, size=size)


@jit
def _tile_sums(x: AnyArray, n_rows: AnyArray) -> tuple[jax.Array, ...]:
    """Count, mean, scatter, least and greatest value of each tile and column."""
    tiles = x.astype(jnp.float32).reshape(-1, _TILE, x.shape[1])
    inside = (jnp.arange(x.shape[0]) < n_rows).reshape(-1, _TILE)
    count = jnp.sum(inside, axis=1).astype(jnp.float32)
    shift = tiles[:, 0]  # an offset does not eat the digits
    offset = jnp.where(inside[:, :, None], tiles - shift[:, None], 0.0)
    mean = jnp.sum(offset, axis=1) / jnp.maximum(count, 1.0)[:, None]
    spread = jnp.where(inside[:, :, None], offset - mean[:, None], 0.0)
    lowest = jnp.min(jnp.where(inside[:, :, None], tiles, jnp.inf), axis=1)
    highest = jnp.max(jnp.where(inside[:, :, None], tiles, -jnp.inf), axis=1)
    return count, shift, mean, jnp.sum(spread**2, axis=1), lowest, highest


def moments(X: jax.Array) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and standard deviation of the columns, float64.

    Returns
    -------
    center, scale : ndarray of shape (n_columns,)
        A scale of 1 for a constant column.
    None
        If there is a value that is no finite number: then the host says which.
    """
    n_rows, n_columns = X.shape
    size = max(rows_at_once(16 * n_columns, 1 << 16), _TILE)
    found = []
    for start in range(0, n_rows, size):
        n_inside = min(size, n_rows - start)
        sums = _tile_sums(rows_from(X, start, size=size), n_inside)
        found.append([np.asarray(array, np.float64) for array in sums])
    count, shift, mean, scatter, lowest, highest = (
        np.concatenate(parts) for parts in zip(*found, strict=True)
    )
    filled = count > 0
    count, mean = count[filled, None], (shift + mean)[filled]
    if not np.isfinite(mean).all() or not np.isfinite(scatter[filled]).all():
        return None
    center = (count * mean).sum(axis=0) / n_rows
    total = scatter[filled].sum(axis=0) + (count * (mean - center) ** 2).sum(axis=0)
    constant = lowest[filled].min(axis=0) == highest[filled].max(axis=0)
    center = np.where(constant, lowest[filled].min(axis=0), center)
    scale = np.sqrt(total / n_rows)
    return center, np.where(constant | (scale <= 0), 1.0, scale)


@jit
def _standardised(
    x: AnyArray, center: AnyArray, rest: AnyArray, scale: AnyArray
) -> jax.Array:
    # The center in two parts: float32 alone would lose the digits of a large offset.
    encoded = ((x.astype(jnp.float32) - center) - rest) / scale
    return jnp.clip(encoded, -_FAR, _FAR)


def encode(X: jax.Array, center: np.ndarray, scale: np.ndarray) -> jax.Array | None:
    """Standardised columns, float32, on the device of ``X``.

    Returns
    -------
    Array of the shape of ``X``, or None
        None if there is a value that is no finite number: the host knows what to do.
    """
    if not jnp.isfinite(X).all():
        return None
    coarse = center.astype(np.float32)
    rest = (center - coarse).astype(np.float32)
    return _standardised(X, coarse, rest, scale.astype(np.float32))


@jit
def _hash(x: AnyArray, y: AnyArray, factor: AnyArray) -> jax.Array:
    """A hash of every row's content, uint32."""
    joint = jnp.concatenate([x, y[:, None]], axis=1)
    bits = jax.lax.bitcast_convert_type(joint + 0.0, jnp.uint32)
    state = jnp.sum(_mixed(bits) * factor, axis=1, dtype=jnp.uint32)
    return _mixed(state)


def _mixed(value: jax.Array) -> jax.Array:
    """Finaliser of MurmurHash3 (Appleby 2011), uint32."""
    value = (value ^ (value >> 16)) * jnp.uint32(0x85EBCA6B)
    value = (value ^ (value >> 13)) * jnp.uint32(0xC2B2AE35)
    return value ^ (value >> 16)


def chosen_rows(x: jax.Array, y: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Positions of about a share of the rows, chosen by their content, int64."""
    n_rows, n_columns = x.shape
    random = np.random.default_rng(seed)
    factor = random.integers(2**32, size=n_columns + 1, dtype=np.uint32) | np.uint32(1)
    size = rows_at_once(16 * (n_columns + 1), 1 << 16)
    limit = np.uint32(min(share, 1.0) * (2**32 - 1))
    found = []
    for start in range(0, n_rows, size):
        output = np.zeros(size, np.float32)
        part = y[start : start + size]
        output[: len(part)] = part
        hashed = np.asarray(_hash(rows_from(x, start, size=size), output, factor))
        found.append(start + np.flatnonzero(hashed[: len(part)] < limit))
    return np.concatenate(found)
