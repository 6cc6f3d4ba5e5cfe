"""The E step of EM in one reading of the rows, where an accelerator runs Triton.

A program takes a tile of one node and one start. Rows lie side by side, one a thread,
and all sums stay in registers, as far as these go: of at most eleven dimensions. Plain
XLA writes the responsibilities and weighted rows out and reads them again, six times
what the rows themselves take.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Rows that a program takes at a time: one for each thread of a warp.
_BLOCK = 32
# Columns of (1, z) whose products registers hold.
_MOST_COLUMNS = 12
# Emulated, not compiled: for tests where Triton does not run.
INTERPRETED = False


def can_read(rows: Any, z: Float[Array, "n_tiles n_joint tile"]) -> bool:
    """Whether the kernel takes rows: of narrow tables, in tiles of whole blocks."""
    return rows.triton and z.shape[1] <= _MOST_COLUMNS and z.shape[2] % _BLOCK == 0


def moments_and_likelihood(
    rows: Any,
    forms: Sequence[Array],
    z: Float[Array, "n_tiles n_joint tile"],
    weight: Float[Array, "n_tiles tile"],
) -> tuple[
    Float[Array, "n_nodes n_starts n_joint n_joint"], Float[Array, "n_nodes n_starts"]
]:
    """Moments of the first component and the log-likelihood; see `mixture.expect`."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    n_tiles, n_joint, _ = z.shape
    n_starts = forms[0].shape[1]
    node = jnp.arange(rows.n_nodes) if rows.node is None else rows.node
    row, column = np.tril_indices(n_joint)
    sums = pl.pallas_call(
        functools.partial(_of_tile, n_joint=n_joint, block=_BLOCK),
        grid=(n_tiles, n_starts),
        out_shape=jax.ShapeDtypeStruct((n_tiles, n_starts, len(row) + 1), z.dtype),
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=INTERPRETED,
    )(node, rows.filled, *forms, z, weight)
    sums = rows.of_nodes(sums)
    place = np.zeros((n_joint, n_joint), int)
    place[row, column] = place[column, row] = np.arange(len(row))
    return sums[..., place], sums[..., -1]


def _of_tile(
    node_ref: Any,
    filled_ref: Any,
    constant_ref: Any,
    factor_ref: Any,
    z_ref: Any,
    weight_ref: Any,
    sums_ref: Any,
    *,
    n_joint: int,
    block: int,
) -> None:
    """Sums over the rows of a tile: a lower triangle, and the log-likelihood."""
    from jax.experimental import pallas as pl

    tile, start = pl.program_id(0), pl.program_id(1)
    node = node_ref[tile]

    def log_density(component: int, z: list[Array]) -> Array:
        squares = jnp.zeros_like(z[0])
        for row in range(n_joint - 1):  # of a triangle beside a column of means
            entries = (
                factor_ref[node, start, component, row, column] * z[column]
                for column in range(row + 2)
            )
            squares += functools.reduce(jnp.add, entries) ** 2
        return constant_ref[node, start, component] - 0.5 * squares

    def add(number: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        some = pl.ds(number * block, block)
        z = [z_ref[tile, column, some] for column in range(n_joint)]
        weight = weight_ref[tile, some]
        first, second = log_density(0, z), log_density(1, z)
        odds = first - second
        least = jnp.exp(-jnp.abs(odds))
        both = 1.0 + least
        share = weight * jnp.where(odds > 0, 1.0, least) / both
        likelihood = weight * (jnp.maximum(first, second) + jnp.log(both))
        weighted = [share * value for value in z]
        products = [weighted[i] * z[j] for i in range(n_joint) for j in range(i + 1)]
        found = (*products, likelihood)
        return tuple(old + new for old, new in zip(sums, found, strict=True))

    # Without rows, or where a node has settled, there is nothing to read.
    n_blocks = (filled_ref[tile] + (block - 1)) // block
    n_sums = n_joint * (n_joint + 1) // 2 + 1
    begin = (jnp.zeros(block, z_ref.dtype),) * n_sums
    sums = jax.lax.fori_loop(jnp.int32(0), n_blocks, add, begin)
    for place, values in enumerate(sums):
        sums_ref[tile, start, place] = jnp.sum(values)
