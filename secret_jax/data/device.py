"""Rows that already lie on an accelerator: measured, encoded and hashed there.

Only numbers without missing values, all of them regressors, stay on the device; every
other table is read on the host. Sums of tiles are added up on the host in float64.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.sampling import sampling_factors, sampling_hash, sampling_limit
from secret_jax.runtime.devices import rows_at_once
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.moments import Moments, added_up
from secret_jax.runtime.programs import program

# Float32 sums of so many numbers keep six digits; the tiles are added up in float64.
_TILE = 1024
# Rows of a step on a processor (tests; accelerators take as many as fit).
_BLOCK = 1 << 16
# Encoded values saturate here, so that their sums with coefficients stay finite.
FAR = 1e30


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


@program(static_argnames=("size",))
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


@program()
def _tile_sums(x: AnyArray, n_rows: AnyArray) -> tuple[jax.Array, ...]:
    """Count, first row, mean from it, scatter and range of each tile and column."""
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


def moments_on_device(X: jax.Array) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and standard deviation of the columns, float64.

    Returns
    -------
    center, scale : ndarray of shape (n_columns,)
        A scale of 1 for a constant column.
    None
        If there is a value that is no finite number: then the host says which.
    """
    n_rows, n_columns = X.shape
    size = max(rows_at_once(16 * n_columns, _BLOCK, n_rows), _TILE)
    found = []
    for start in range(0, n_rows, size):
        n_inside = min(size, n_rows - start)
        sums = _tile_sums(rows_from(X, start, size=size), n_inside)
        found.append([np.asarray(array, np.float64) for array in sums])
    count, shift, mean, scatter, lowest, highest = (
        np.concatenate(parts) for parts in zip(*found, strict=True)
    )
    filled = count > 0
    tiles = Moments(count[filled], (shift + mean)[filled], scatter[filled])
    if not np.isfinite(tiles.mean).all() or not np.isfinite(tiles.scatter).all():
        return None
    _, center, total = (array[0] for array in added_up(tiles, np.array([0])))
    low, high = lowest[filled].min(axis=0), highest[filled].max(axis=0)
    scale = np.sqrt(total / n_rows)
    constant = (low == high) | (scale <= 0)
    return np.where(low == high, low, center), np.where(constant, 1.0, scale)


@program()
def _standardised(
    x: AnyArray, center: AnyArray, rest: AnyArray, scale: AnyArray
) -> jax.Array:
    # The center in two parts: float32 alone would lose the digits of a large offset.
    encoded = ((x.astype(jnp.float32) - center) - rest) / scale
    return jnp.clip(encoded, -FAR, FAR)


def encode_on_device(
    X: jax.Array, center: np.ndarray, scale: np.ndarray
) -> jax.Array | None:
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


@program()
def _hashed(x: AnyArray, targets: AnyArray, factors: AnyArray) -> jax.Array:
    joint = jnp.concatenate([x.astype(jnp.float32), targets], axis=1)
    return sampling_hash(joint, factors)


def rows_chosen_on_device(
    X: jax.Array, targets: np.ndarray, share: float, seed: int
) -> np.ndarray:
    """Positions of about a share of the rows, chosen by their content, int64.

    Those that `secret_jax.data.source` chooses among the same rows on the host.
    """
    n_rows, n_columns = X.shape
    factors = sampling_factors(n_columns + targets.shape[1], seed)
    size = rows_at_once(16 * len(factors), _BLOCK, n_rows)
    limit, found = sampling_limit(share), []
    for start in range(0, n_rows, size):
        rows = slice(start, min(start + size, n_rows))
        outputs = block_of(targets.astype(np.float32), rows, size)
        hashed = _hashed(rows_from(X, start, size=size), outputs, factors)
        inside = np.asarray(hashed)[: rows.stop - rows.start]
        found.append(start + np.flatnonzero(inside < limit))
    return np.concatenate(found)
