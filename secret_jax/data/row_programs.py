"""Programs over numeric rows where they lie: sums, hashes, order, encoding.

Those of float64 are called within `in_64_bits`.
"""

from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.hashes import ROW_ORDER, STEPS, sampling_hash
from secret_jax.data.rows import rows_from
from secret_jax.runtime.hashing import mix
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program

# Centers, scales and bounds of encoded columns.
Scaling = tuple[AnyArray, AnyArray, AnyArray, AnyArray]


@program()
def sums_of_columns(
    x: AnyArray, targets: AnyArray | None, weight: AnyArray | None, n_inside: AnyArray
) -> tuple[jax.Array, ...]:
    """Weight, means, sums of squares about them, and ranges of a block's columns."""
    # The fill has no weight, and is within the range.
    inside = jnp.arange(len(x)) < n_inside
    mass = inside if weight is None else weight
    mass, found = mass.astype(jnp.float64)[:, None], []
    for part in (x, targets):
        if part is not None:
            own = part.reshape(len(x), -1).astype(jnp.float64)
            mean = jnp.sum(mass * own, axis=0) / mass.sum()
            squares = jnp.sum(mass * (own - mean) ** 2, axis=0)
            found.append((mean, squares, own.min(axis=0), own.max(axis=0)))
    return mass.sum(), *map(jnp.concatenate, zip(*found, strict=True))


@program()
def bits_below(
    x: AnyArray, center: AnyArray, targets: AnyArray, factors: AnyArray, limit: AnyArray
) -> jax.Array:
    """Mask of the rows whose hash is below a limit, packed eight to a byte."""
    values = x.astype(jnp.float32)
    # Not + 0.0, which would flush the smallest numbers to zero.
    values = jnp.where(center == 0, values, values + center)
    joint = jnp.concatenate([values, targets.reshape(len(x), -1)], axis=1)
    return jnp.packbits(sampling_hash(joint, factors) < limit)


@program(static_argnames=("apart",))
def hash_order(
    x: AnyArray,
    scaling: Scaling,
    targets: AnyArray,
    units: AnyArray,
    n_rows: AnyArray,
    *,
    apart: bool,
) -> tuple[jax.Array, jax.Array]:
    """Order of rows by content hash, and how many have that of another.

    Those from ``n_rows`` on come last. ``apart``: rows that differ by less than a step
    are told apart by exact content.
    """
    outputs = scaled_outputs(targets, units)
    columns = jnp.concatenate([standardised(x, scaling).T, outputs.T])
    hashed = _content_hash(jnp.rint(STEPS * columns))
    row = jnp.arange(len(x), dtype=jnp.int32)
    hashed, order, same = _ranked(hashed, row, row < n_rows)
    if apart:
        alike = jnp.append(same, False) | jnp.append(False, same)
        exact = mix(hashed ^ mix(_content_hash(columns)[order]))
        hashed = jnp.where(alike, exact, hashed)
        _, order, same = _ranked(hashed, order, row < n_rows)
    return order, jnp.sum(same)


def _ranked(
    hashed: jax.Array, order: jax.Array, inside: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sort hashes, those outside last, and mark those equal to the one before."""
    last = np.uint64(2**64 - 1)
    hashed = jnp.where(inside, jnp.minimum(hashed, last - np.uint64(1)), last)
    pairs = hashed, order
    hashed, order = jax.lax.sort(pairs, num_keys=1, is_stable=False)
    return hashed, order, (hashed[1:] == hashed[:-1]) & inside[1:]


def _content_hash(columns: jax.Array) -> jax.Array:
    """See `secret_jax.data.hashes.content_hash`; of float32, none of them subnormal."""

    def with_column(state: jax.Array, column: jax.Array) -> tuple[jax.Array, None]:
        bits = jax.lax.bitcast_convert_type(column, jnp.uint32).astype(jnp.uint64)
        sign, size = bits >> np.uint64(31), bits & np.uint64(2**31 - 1)
        # The same number of 64 bits: not every device has these.
        wide = (size << np.uint64(29)) + np.uint64((1023 - 127) << 52)
        wide = jnp.where(size == 0, np.uint64(0), wide | sign << np.uint64(63))
        return mix(state ^ wide), None

    first = jnp.full(columns.shape[1], mix(np.uint64(ROW_ORDER)))
    return jax.lax.scan(with_column, first, columns)[0]


@program()
def put_in_order(
    x: AnyArray,
    scaling: Scaling,
    targets: AnyArray,
    units: AnyArray,
    weight: AnyArray | None,
    order: AnyArray,
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Encoded rows in an order; their scaled targets; their weights."""
    own = None if weight is None else weight[order]
    return standardised(x[order], scaling), _scaled(targets[order], units), own


@program()
def scaled_outputs(targets: AnyArray, units: AnyArray) -> jax.Array:
    return _scaled(targets, units).astype(jnp.float32)


def _scaled(targets: AnyArray, units: AnyArray) -> jax.Array:
    """Targets in standardised units, in float64."""
    targets = targets.reshape(len(targets), -1).astype(jnp.float64)
    return (targets - units[0]) / units[1]


@program()
def all_finite(x: AnyArray) -> jax.Array:
    return jnp.isfinite(x).all()


@program()
def chosen_rows(x: AnyArray, index: AnyArray) -> jax.Array:
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
