"""Rows already on an accelerator, and padded blocks of rows on host or device.

Only numbers without missing values, all of them regressors, stay there (see
`secret_jax.data.shards`); every other table is read on the host.
"""

from contextlib import AbstractContextManager
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program

# Centers, scales and bounds of encoded columns.
Scaling = tuple[AnyArray, AnyArray, AnyArray, AnyArray]


def is_resident(X: Any) -> TypeGuard[jax.Array]:
    """Whether a table is an array in the memory of an accelerator."""
    return isinstance(X, jax.Array) and any(
        device.platform != "cpu" for device in X.devices()
    )


def check_array(X: jax.Array) -> None:
    """Refuse arrays that are no tables of numbers."""
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
    """Take ``size`` rows from ``start`` on; past the end the last row repeats."""
    index = jnp.minimum(start + jnp.arange(size), x.shape[0] - 1)
    return x[index]


def block_of(x: AnyArray, rows: slice, size: int) -> AnyArray:
    """Take a block of rows, padded to a size, of an array on host or device."""
    if not isinstance(x, np.ndarray):
        return x if len(x) == size else rows_from(x, rows.start or 0, size=size)
    block = x[rows]
    missing = size - len(block)
    return np.pad(block, [(0, missing), (0, 0)]) if missing else block


def in_64_bits() -> AbstractContextManager[Any]:
    """Trace programs with float64: few rows go to another leaf than on the host."""
    return jax.enable_x64(True)


def standardised(x: AnyArray, scaling: Scaling) -> jax.Array:
    """Standardise columns in float64, rounded to float32; traceable in `in_64_bits`."""
    center, scale, low, high = scaling
    value = (x.astype(jnp.float64) - center) / scale
    return jnp.clip(value, low, high).astype(jnp.float32)


_standardised = program()(standardised)


def encoded_block(x: jax.Array, scaling: Scaling) -> jax.Array:
    """Standardise finite numbers to float32 on their device."""
    with in_64_bits():
        return _standardised(x, scaling)
