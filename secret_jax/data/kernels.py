"""The E step of EM as a kernel of Triton: it reads the rows of narrow tables once.

XLA writes the weighted rows and reads them again, five times the memory traffic: on an
H100 a step of 1.06 million rows of 11 columns takes it 351 to 398 microseconds, and a
kernel like this one 87 to 114. `secret_jax.data.mixtures` has the same in array
operations, for all other devices, and `secret_jax.data.fallback` decides between them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secret_jax.data.mixtures import shares

# Rows that a program takes at a time: one for each thread of a warp.
_BLOCK = 32
# Numbers of a row whose products registers hold: a one and eleven columns.
MOST_NUMBERS = 12
# Places of a tile that one program adds up.
_LONG = 256
# Emulate kernels: for tests where Triton does not run.
INTERPRETED = False


def takes(rows: Any, n_numbers: int) -> bool:
    """Whether tiles are whole blocks, and rows as narrow as registers are many."""
    return n_numbers <= MOST_NUMBERS and rows.tile % _BLOCK == 0


def expectation(
    rows: Any, forms: Sequence[Array], arrays: Sequence[Array]
) -> tuple[Array, Array]:
    """The same as `secret_jax.data.mixtures.expectation`, of rows that `takes` allows.

    ``rows``: a `TiledRows`.
    """
    node = jnp.arange(rows.n_nodes) if rows.node is None else rows.node
    layout = rows.length, rows.first, node.astype(jnp.int32)
    sums = rows.of_nodes(sums_of_tiles(layout, forms, arrays))
    return unpacked(sums, arrays[0].shape[1])


def unpacked(sums: Any, n_joint: int) -> tuple[Any, Any]:
    """Moments and log-likelihoods from the last axis of sums."""
    row, column = np.tril_indices(n_joint)
    place = np.zeros((n_joint, n_joint), int)
    place[row, column] = place[column, row] = np.arange(len(row))
    return sums[..., place], sums[..., -1]


def sums_of_tiles(
    layout: Sequence[Array], forms: Sequence[Array], arrays: Sequence[Array]
) -> Float[Array, "n_tiles n_starts n_sums"]:
    """Sums over the rows of each tile, for `unpacked`.

    A program takes a tile, or a part of a long one, and a start; rows lie side by side,
    one a thread, and sums stay in registers. ``layout``: number of rows and first tile
    of each node, and the node of each tile, int32.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    (n_tiles, n_joint, tile), n_starts = arrays[0].shape, forms[0].shape[1]
    n_parts, n_sums = max(tile // _LONG, 1), n_joint * (n_joint + 1) // 2 + 1
    shape = n_tiles, n_parts, n_starts, n_sums
    sums = pl.pallas_call(
        _sums_of_part,
        grid=(n_starts, n_parts, n_tiles),
        out_shape=jax.ShapeDtypeStruct(shape, jnp.float32),
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=INTERPRETED,
    )(*layout, *forms, *arrays)
    return jnp.sum(sums, axis=1)


def _sums_of_part(
    length_ref: Any,
    first_ref: Any,
    node_ref: Any,
    constant_ref: Any,
    factor_ref: Any,
    z_ref: Any,
    weight_ref: Any,
    sums_ref: Any,
) -> None:
    """Add up a part of a tile for one start: a triangle of products, the likelihood."""
    from jax.experimental import pallas as pl

    start, part, place = (pl.program_id(axis) for axis in range(3))
    n_parts, n_joint, tile = sums_ref.shape[1], z_ref.shape[1], z_ref.shape[2]
    node = node_ref[place]
    filled = length_ref[node] - (place - first_ref[node]) * tile

    def add(block: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        some = pl.ds(block * _BLOCK, _BLOCK)
        z = [z_ref[place, i, some] for i in range(n_joint)]
        weight = weight_ref[place, some]
        first, second = (
            constant_ref[node, start, component]
            - 0.5 * _square(factor_ref, (node, start, component), z)
            for component in range(2)
        )
        share, both = shares(first - second)
        weighted = [weight * share * values for values in z]
        products = [weighted[i] * z[j] for i in range(n_joint) for j in range(i + 1)]
        likelihood = weight * (jnp.maximum(first, second) + jnp.log(both))
        return tuple(map(jnp.add, sums, (*products, likelihood)))

    # Without rows, or where a node has settled, there is nothing to add up.
    n_blocks = (jnp.clip(filled, 0, tile) + (_BLOCK - 1)) // _BLOCK
    share = (n_blocks + (n_parts - 1)) // n_parts
    stop = jnp.minimum((part + 1) * share, n_blocks)
    sums = (jnp.zeros(_BLOCK, jnp.float32),) * sums_ref.shape[-1]
    sums = jax.lax.fori_loop(part * share, stop, add, sums)
    for number, values in enumerate(sums):
        sums_ref[place, part, start, number] = jnp.sum(values)


def _square(factor_ref: Any, at: tuple[Any, ...], z: Sequence[Array]) -> Array:
    """Squared length of rows by a triangle beside a column of means."""
    square = jnp.zeros_like(z[0])
    for row in range(len(z) - 1):
        terms = (factor_ref[(*at, row, i)] * z[i] for i in range(row + 2))
        square += functools.reduce(jnp.add, terms) ** 2
    return square
