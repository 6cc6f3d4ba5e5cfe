"""Sums over rows of tiles by kernels of Triton, for accelerators that run it.

Plain XLA writes what it multiplies out first, and reads it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

# Rows that a program takes at a time: one for each thread of a warp.
_BLOCK = 32
# Numbers of a row whose products registers hold.
_MOST_NUMBERS = 12
# Programs that add up the tiles of one node, and numbers that one adds at a time.
_PARTS, _TOGETHER = 16, 2048
# Emulated, not compiled: for tests where Triton does not run.
INTERPRETED = False


def kernel(function: Callable[..., None], n_warps: int, **options: Any) -> Any:
    """Launch a function of references as programs of so many warps."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    parameters = triton.CompilerParams(num_warps=n_warps, num_stages=1)
    options |= {"compiler_params": parameters, "interpret": INTERPRETED}
    return pl.pallas_call(function, **options)


def reads_once(rows: Any, n_numbers: int) -> bool:
    """Whether `read_once` has room for products of so many numbers of a row."""
    triton = getattr(rows, "triton", False)
    return triton and n_numbers <= _MOST_NUMBERS and rows.tile % _BLOCK == 0


def read_once(
    rows: Any,
    function: Callable[..., tuple[Array, Sequence[Array], Sequence[Array], Any]],
    of_nodes: Sequence[Array],
    arrays: Sequence[Array],
    n_starts: int = 1,
) -> tuple[Array, Array, Array]:
    """Weighted products of rows with themselves, in one reading of the rows.

    A program takes a tile and a start; rows lie side by side, one a thread, and sums
    stay in registers. ``function(start, of_node, columns)`` gives a weight, numbers of
    a row, what else is summed, and what is written. It finds numbers of the node by
    ``of_node[i](*index)``, and of every array its columns, or the only one.

    Returns products of the numbers (n_nodes, n_starts, n, n), the other sums (n_nodes,
    n_starts, n_others), and what is written (n_tiles, n_written, tile).
    """
    from jax.experimental import pallas as pl

    n_tiles, tile, dtype = len(arrays[0]), rows.tile, arrays[0].dtype

    def made(start: Any, of_node: Any, read: Any, arrays: Any = arrays) -> Any:
        columns = [
            [read(array, i) for i in range(array.shape[1])]
            if len(array.shape) == 3
            else read(array)
            for array in arrays
        ]
        return function(start, of_node, columns)

    def none(*_: Any) -> Array:
        return jnp.zeros(_BLOCK, dtype)

    one = [lambda *_: 1.0] * len(of_nodes)
    _, z, others, written = jax.eval_shape(lambda: made(0, one, none))
    row, column = np.tril_indices(len(z))
    n_sums, n_written = len(row) + len(others), len(written)

    def of_tile(*refs: Any) -> None:
        node_ref, first_ref, length_ref, *refs, sums_ref, written_ref = refs
        node_refs, row_refs = refs[: len(of_nodes)], refs[len(of_nodes) :]
        start, place = pl.program_id(0), pl.program_id(1)
        node = node_ref[place]
        of_node = [lambda *at, ref=ref: ref[(node, *at)] for ref in node_refs]

        def add(number: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            some = pl.ds(number * _BLOCK, _BLOCK)
            weight, z, others, written = made(
                start, of_node, lambda ref, *at: ref[(place, *at, some)], row_refs
            )
            for i, values in enumerate(written):
                written_ref[place, i, some] = values
            weighted = [weight * values for values in z]
            products = (weighted[i] * z[j] for i in range(len(z)) for j in range(i + 1))
            found = [*products, *others]
            return tuple(map(jnp.add, sums, found))

        # Without rows, or where a node has settled, there is nothing to add up.
        filled = jnp.clip(length_ref[node] - (place - first_ref[node]) * tile, 0, tile)
        n_blocks = tile // _BLOCK if n_written else (filled + _BLOCK - 1) // _BLOCK
        sums = jax.lax.fori_loop(0, n_blocks, add, (none(),) * n_sums)
        for number, values in enumerate(sums):
            sums_ref[place, start, number] = jnp.sum(values)

    # The compiler knows no array without entries.
    shapes = (n_tiles, n_starts, max(n_sums, 1)), (n_tiles, max(n_written, 1), tile)
    node = jnp.arange(rows.n_nodes) if rows.node is None else rows.node
    sums, written = kernel(
        of_tile,
        1,
        grid=(n_starts, n_tiles),
        out_shape=[jax.ShapeDtypeStruct(shape, dtype) for shape in shapes],
    )(node, rows.first, rows.length, *of_nodes, *arrays)
    sums = rows.of_nodes(sums)
    place = np.zeros((len(z), len(z)), int)
    place[row, column] = place[column, row] = np.arange(len(row))
    return sums[..., place], sums[..., len(row) :], written


def sums_of_nodes(
    first: Int[Array, " n_nodes"],
    n_own: Int[Array, " n_nodes"],
    sums: Float[Array, "n_tiles n"],
) -> Float[Array, "n_nodes n"]:
    """Sums over the tiles of nodes, each of which has so many from its first one on."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    n = sums.shape[1]
    width = min(pl.next_power_of_2(n), 128)
    together = _TOGETHER // width

    def of_part(first_ref: Any, n_own_ref: Any, sums_ref: Any, found_ref: Any) -> None:
        node, part, number = (pl.program_id(axis) for axis in range(3))
        column = number * width + jnp.arange(width)
        each = (n_own_ref[node] + (_PARTS - 1)) // _PARTS
        begin, stop = part * each, jnp.minimum((part + 1) * each, n_own_ref[node])

        def add(turn: Array, total: Array) -> Array:
            tile = begin + turn * together + jnp.arange(together)
            at = sums_ref.at[first_ref[node] + tile[:, None], column[None]]
            inside = (tile < stop)[:, None] & (column < n)[None]
            return total + triton.load(at, mask=inside, other=0.0)

        turns = (jnp.maximum(stop - begin, 0) + (together - 1)) // together
        total = jnp.zeros((together, width), sums.dtype)
        total = jnp.sum(jax.lax.fori_loop(0, turns, add, total), axis=0)
        triton.store(found_ref.at[node, part, column], total, mask=column < n)

    shape = len(first), _PARTS, n
    return kernel(
        of_part,
        4,
        grid=(*shape[:2], pl.cdiv(n, width)),
        out_shape=jax.ShapeDtypeStruct(shape, sums.dtype),
    )(first, n_own, sums).sum(axis=1)
