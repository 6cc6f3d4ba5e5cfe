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
    function: Callable[..., tuple[Sequence[Array], Sequence[Array]]],
    of_nodes: Sequence[Array],
    arrays: Sequence[Array],
    n_starts: int = 1,
) -> tuple[Float[Array, "n_nodes n_starts n_sums"], Float[Array, "n_tiles n tile"]]:
    """Sums over the rows of nodes, and what is written of rows, in one reading of them.

    A program takes a tile and a start; rows lie side by side, one a thread, and sums
    stay in registers. ``function(start, of_node, of_row)`` gives what is summed and
    what is written: lists of numbers of rows. ``of_node[i](*index)`` is a number of
    the node, and ``of_row[i](column)`` are numbers of rows.
    """
    from jax.experimental import pallas as pl

    def none() -> Array:
        return jnp.zeros(_BLOCK, arrays[0].dtype)

    tile, n_tiles = rows.tile, len(arrays[0])
    one = [lambda *_: 1.0] * len(of_nodes), [lambda *_: none()] * len(arrays)
    n_sums, n_written = map(len, jax.eval_shape(lambda: function(0, *one)))

    def of_tile(*refs: Any) -> None:
        (node_ref, first_ref, length_ref), refs = refs[:3], refs[3:]
        node_refs, row_refs = refs[: len(of_nodes)], refs[len(of_nodes) : -2]
        start, place = pl.program_id(0), pl.program_id(1)
        node = node_ref[place]
        of_node = [lambda *at, ref=ref: ref[(node, *at)] for ref in node_refs]

        def add(number: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            some = pl.ds(number * _BLOCK, _BLOCK)
            of_row = [lambda *at, ref=ref: ref[(place, *at, some)] for ref in row_refs]
            found, written = function(start, of_node, of_row)
            for column, values in enumerate(written):
                refs[-1][place, column, some] = values
            return tuple(old + new for old, new in zip(sums, found, strict=True))

        # Without rows, or where a node has settled, there is nothing to add up.
        filled = jnp.clip(length_ref[node] - (place - first_ref[node]) * tile, 0, tile)
        n_blocks = tile // _BLOCK if n_written else (filled + _BLOCK - 1) // _BLOCK
        sums = jax.lax.fori_loop(0, n_blocks, add, (none(),) * n_sums)
        for number, values in enumerate(sums):
            refs[-2][place, start, number] = jnp.sum(values)

    # An array without entries is none for the compiler.
    shapes = (n_tiles, n_starts, max(n_sums, 1)), (n_tiles, max(n_written, 1), tile)
    node = jnp.arange(rows.n_nodes) if rows.node is None else rows.node
    sums, written = kernel(
        of_tile,
        1,
        grid=(n_starts, n_tiles),
        out_shape=[jax.ShapeDtypeStruct(shape, arrays[0].dtype) for shape in shapes],
    )(node, rows.first, rows.length, *of_nodes, *arrays)
    return rows.of_nodes(sums), written


def triangle(left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
    """Products of two lists of numbers of rows, below the diagonal and on it."""
    return [a * b for i, a in enumerate(left) for b in right[: i + 1]]


def symmetric(packed: Float[Array, "... n_sums"], n: int) -> Float[Array, "... n n"]:
    """The matrices of which `triangle` made a list."""
    row, column = np.tril_indices(n)
    place = np.zeros((n, n), int)
    place[row, column] = place[column, row] = np.arange(len(row))
    return packed[..., place]


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
