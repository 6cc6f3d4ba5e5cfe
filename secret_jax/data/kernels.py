"""Sums over rows of tiles, and chains of small algebra, by kernels of Triton.

Plain XLA writes what it multiplies out first, and reads it again, and of a chain it
starts a kernel for every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

# Rows that a program takes at a time: one for each thread of a warp.
BLOCK = 32
# Numbers of a row whose products registers hold.
_MOST_NUMBERS = 12
# Those up to which fits multiply by blocks: no more than is measured to be faster than
# XLA, by python -m benchmarks.device --stages em. Nothing is.
MOST_BY_BLOCKS = 12
# Places of a tile that one program adds up.
_LONG = 256
# Most programs that add up the tiles of one node, and numbers that one adds at a time.
_MOST_PARTS, _TOGETHER = 16, 2048
# Sums of rows below cuts that one program adds up.
_MOST_BELOW = 4096
# Rows and columns of matrices that one program has in its registers, several at a time.
_MOST_OF_EACH = 32
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
    return rows.triton and n_numbers <= _MOST_NUMBERS and rows.tile % BLOCK == 0


def by_blocks(rows: Any, n_numbers: int) -> bool:
    """Whether numbers of rows, too many to read once, are multiplied by blocks."""
    wide = _MOST_NUMBERS < n_numbers <= MOST_BY_BLOCKS
    return rows.triton and wide and rows.tile % 64 == 0


class Sizes(NamedTuple):
    """How many numbers `read_once` multiplies, adds up, writes, and reads.

    ``n_first``: columns of the first array that it reads; None: all.
    """

    n_joint: int
    n_starts: int = 1
    n_others: int = 0
    n_written: int = 0
    n_first: int | None = None


def read_once(
    rows: Any,
    function: Callable[..., tuple[Array, Sequence[Array], Sequence[Array]]],
    of_nodes: Sequence[Array],
    arrays: Sequence[Array],
    sizes: Sizes,
    of_starts: Sequence[Float[Array, "n_tiles n_starts tile"]] = (),
) -> tuple[Array, Array, Array]:
    """Weighted products of rows with themselves, in one reading of the rows.

    A program takes a tile, or a part of a long one, and a start; rows lie side by side,
    one a thread, and sums stay in registers. ``function(start, of_node, columns)``
    gives a weight, numbers of a row, and others. It finds numbers of the node by
    ``of_node[i](*index)``, and of every array its columns, or the only one, then of
    arrays ``of_starts`` that of the start.

    Returns products of the numbers (n_nodes, n_starts, n_joint, n_joint), sums of
    others (n_nodes, n_starts, n_others), and more others (n_tiles, n_written, tile).
    """
    from jax.experimental import pallas as pl

    n_joint, n_starts, n_others, n_written, n_first = sizes
    n_tiles, tile, dtype = len(arrays[0]), rows.tile, arrays[0].dtype
    n_parts = max(tile // _LONG, 1)
    row, column = np.tril_indices(n_joint)
    wanted = n_first, *[None] * (len(arrays) - 1)

    def of_tile(*refs: Any) -> None:
        refs, (sums_ref, written_ref) = refs[:-2], refs[-2:]
        layout, refs = refs[: len(_layout(rows))], refs[len(_layout(rows)) :]
        node_refs, row_refs = refs[: len(of_nodes)], refs[len(of_nodes) :]
        start, part, place = (pl.program_id(axis) for axis in range(3))
        node, filled = _tile_of(place, tile, *layout)
        of_node = [lambda *at, ref=ref: ref[(node, *at)] for ref in node_refs]

        def add(number: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            some = pl.ds(number * BLOCK, BLOCK)
            columns = [
                [ref[place, i, some] for i in range(ref.shape[1])[:most]]
                if len(ref.shape) == 3
                else ref[place, some]
                for ref, most in zip(row_refs, wanted, strict=False)
            ]
            columns += [ref[place, start, some] for ref in row_refs[len(arrays) :]]
            weight, z, others = function(start, of_node, columns)
            for i, values in enumerate(others[n_others:]):
                written_ref[place, i, some] = values
            weighted = [weight * values for values in z]
            products = (
                weighted[i] * z[j] for i in range(n_joint) for j in range(i + 1)
            )
            return tuple(map(jnp.add, sums, (*products, *others[:n_others])))

        # Without rows, or where a node has settled, there is nothing to add up.
        n_blocks = tile // BLOCK if n_written else (filled + BLOCK - 1) // BLOCK
        each = (n_blocks + (n_parts - 1)) // n_parts
        stop = jnp.minimum((part + 1) * each, n_blocks)
        sums = (jnp.zeros(BLOCK, dtype),) * (len(row) + n_others)
        sums = jax.lax.fori_loop(part * each, stop, add, sums)
        for number, values in enumerate(sums):
            sums_ref[place, part, start, number] = jnp.sum(values)

    # The compiler knows no array without entries.
    n_sums = max(len(row) + n_others, 1)
    shapes = [(n_tiles, n_parts, n_starts, n_sums), (1, 1, 1)]
    if n_written:
        shapes[1] = n_tiles, n_written, tile
    sums, written = kernel(
        of_tile,
        1,
        grid=(n_starts, n_parts, n_tiles),
        out_shape=[jax.ShapeDtypeStruct(shape, dtype) for shape in shapes],
    )(*_layout(rows), *of_nodes, *arrays, *of_starts)
    sums = rows.of_nodes(jnp.sum(sums, axis=1))
    place = np.zeros((n_joint, n_joint), int)
    place[row, column] = place[column, row] = np.arange(len(row))
    return sums[..., place], sums[..., len(row) :], written


def weighted_products(
    rows: Any, weights: Float[Array, "n_tiles n_weights tile"], z: Array, some: slice
) -> Float[Array, "n_nodes n_weights n n"]:
    """Products with themselves of some numbers of rows, by weights."""

    def one(_: Any, of_node: Any, columns: Any) -> Any:
        return columns[1], columns[0][some], []

    n = len(range(z.shape[1])[some])
    sizes = Sizes(n, weights.shape[1], n_first=some.stop)
    return read_once(rows, one, [], [z], sizes, [weights])[0]


def sums_below_fit(rows: Any, n_numbers: int, n_cuts: int) -> bool:
    """Whether `sums_below` has room for sums of so many numbers below so many cuts."""
    size = padded_size(n_numbers + 2) * padded_size(n_cuts)
    return rows.triton and size <= _MOST_BELOW and rows.tile % BLOCK == 0


def sums_below(
    rows: Any,
    values: Float[Array, "n_tiles n tile"],
    cuts: Float[Array, "n_nodes n n_cuts"],
    of: Float[Array, "n_tiles m tile"],
    weight: Float[Array, "n_tiles tile"],
) -> Float[Array, "n_nodes n m+2 n_cuts"]:
    """Sums over the rows whose value is at most a cut; then of it, and of its square.

    What is infinite adds nothing to the last two.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    (n_tiles, n, tile), m, n_cuts = values.shape, of.shape[1], cuts.shape[-1]
    # Of many lists there are programs enough, and parts would take memory.
    n_parts = max(min(tile // _LONG, _MOST_PARTS // n), 1)

    def of_part(*refs: Any) -> None:
        *layout, values_ref, cuts_ref, of_ref, weight_ref, found_ref = refs
        column, part, place = (pl.program_id(axis) for axis in range(3))
        node, filled = _tile_of(place, tile, *layout)
        number, index = jnp.arange(padded_size(m + 2)), jnp.arange(padded_size(n_cuts))
        some, inside = cuts_ref.at[node, column, index], index < n_cuts
        cut = triton.load(some, mask=inside, other=-jnp.inf)[None]

        def add(turn: Array, total: Array) -> Array:
            at = turn * BLOCK + jnp.arange(BLOCK)
            own, weight = values_ref[place, column, at], weight_ref[place, at]
            known = jnp.where(jnp.abs(own) < jnp.inf, own, 0.0)
            left = _block(of_ref, (place,), number, at)
            first, second = (number == m)[:, None], (number == m + 1)[:, None]
            left = jnp.where(first, (weight * known)[None], left)
            left = jnp.where(second, (weight * known**2)[None], left)
            below = (own[:, None] <= cut).astype(jnp.bfloat16)
            # Three numbers of two bytes have all digits of one of four.
            for _ in range(3):
                bits = jax.lax.bitcast_convert_type(left, jnp.int32) & -(1 << 16)
                high = jax.lax.bitcast_convert_type(bits, jnp.float32)
                total += jax.lax.dot(
                    high.astype(jnp.bfloat16),
                    below,
                    preferred_element_type=jnp.float32,
                )
                left = left - high
            return total

        n_blocks = (filled + (BLOCK - 1)) // BLOCK
        each = (n_blocks + (n_parts - 1)) // n_parts
        stop = jnp.minimum((part + 1) * each, n_blocks)
        total = jnp.zeros((len(number), len(index)), jnp.float32)
        total = jax.lax.fori_loop(part * each, stop, add, total)
        at = found_ref.at[place, part, column, number[:, None], index[None]]
        inside = (number < m + 2)[:, None] & inside[None]
        triton.store(at, total, mask=inside)

    shape = n_tiles, n_parts, n, m + 2, n_cuts
    found = kernel(
        of_part,
        2,
        grid=(n, n_parts, n_tiles),
        out_shape=jax.ShapeDtypeStruct(shape, jnp.float32),
    )(*_layout(rows), values, cuts, of, weight)
    return rows.of_nodes(jnp.sum(found, axis=1))


def matrices_fit(rows: Any, n: int) -> bool:
    """Whether `of_each` takes matrices of so many rows and columns: few, but some."""
    return rows.triton and 0 < n <= _MOST_OF_EACH


def of_each(
    function: Callable[..., Sequence[Array]],
    of_nodes: Sequence[Shaped[Array, "n_nodes ..."]],
    own: Sequence[Shaped[Array, "n_nodes n_problems ..."]],
    shapes: Sequence[tuple[int, ...]],
    n_warps: int = 1,
) -> list[Float[Array, "n_nodes n_problems ..."]]:
    """What a function makes of the small arrays of each problem, in one kernel.

    It finds those of the node, then those of the problem, and no other axes: all are
    padded with zeros to powers of two (`padded_size`), and so are its results, of which
    ``shapes`` says how much is wanted.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    n_given = len(of_nodes) + len(own)

    def places(ref: Any, at: tuple[Any, ...]) -> tuple[Any, Any]:
        index, inside = [], None
        for axis, n in enumerate(shape := ref.shape[len(at) :]):
            others = [other for other in range(len(shape)) if other != axis]
            index.append(jnp.expand_dims(jnp.arange(padded_size(n)), others))
            inside = index[-1] < n if inside is None else inside & (index[-1] < n)
        return ref.at[(*at, *index)], inside

    def of_one(*refs: Any) -> None:
        at, given = (pl.program_id(0), pl.program_id(1)), []
        for number, ref in enumerate(refs[:n_given]):
            place, inside = places(ref, at[: 1 + (number >= len(of_nodes))])
            other = None if inside is None else 0
            given.append(triton.load(place, mask=inside, other=other))
        for ref, values in zip(refs[n_given:], function(*given), strict=True):
            place, inside = places(ref, at)
            triton.store(place, values, mask=inside)

    grid = own[0].shape[:2]
    found = [jax.ShapeDtypeStruct((*grid, *shape), jnp.float32) for shape in shapes]
    if not all(grid):
        return [jnp.zeros_like(each) for each in found]
    return kernel(of_one, n_warps, grid=grid, out_shape=found)(*of_nodes, *own)


def padded_size(n: int) -> int:
    """Numbers along an axis of a matrix in registers: products take no fewer."""
    return max(1 << (n - 1).bit_length(), 16)


def _layout(rows: Any) -> list[Array]:
    return [rows.length] if rows.node is None else [rows.length, rows.node, rows.first]


def _tile_of(
    place: Any, tile: int, length_ref: Any, node_ref: Any = None, first_ref: Any = None
) -> tuple[Array, Array]:
    """Node of a tile, and how many rows are in it."""
    if node_ref is None:
        return place, length_ref[place]
    node = node_ref[place]
    filled = length_ref[node] - (place - first_ref[node]) * tile
    return node, jnp.clip(filled, 0, tile)


def _dot(left: Array, right: Array) -> Array:
    """Product of blocks: on tensor cores in three passes, as exact as float32."""
    presets = jax.lax.DotAlgorithmPreset
    there = presets.F32_F32_F32 if INTERPRETED else presets.TF32_TF32_F32_X3
    return jax.lax.dot(left, right, precision=there, preferred_element_type=left.dtype)


def _block(ref: Any, at: tuple[Any, ...], row: Array, column: Array) -> Array:
    """Block of a matrix at a place of an array; zero beyond its ends."""
    from jax.experimental.pallas import triton

    row, column = row[:, None], column[None]
    n_rows, n_columns = ref.shape[-2:]
    inside = (row >= 0) & (row < n_rows) & (column < n_columns)
    return triton.load(ref.at[(*at, row, column)], mask=inside, other=0.0)


def squares_by_blocks(
    rows: Any,
    factor: Float[Array, "n_nodes n_forms n_joint-1 n_joint"],
    z: Float[Array, "n_tiles n_joint tile"],
) -> Float[Array, "n_tiles n_forms tile"]:
    """Squared lengths of rows by triangles beside a column of means, of wide tables."""
    from jax.experimental import pallas as pl

    n_tiles, n, tile = z.shape
    width, together = 32, 64

    def of_rows(*refs: Any) -> None:
        *layout, factor_ref, z_ref, found_ref = refs
        form, part, place = (pl.program_id(axis) for axis in range(3))
        node, filled = _tile_of(place, tile, *layout)
        index, some = jnp.arange(width), part * together + jnp.arange(together)

        def of_block(row: Array, squares: Array) -> Array:
            def add(column: Array, scaled: Array) -> Array:
                own = column * width + index
                # The means make the triangle one of squares, with a row of zeros.
                left = _block(factor_ref, (node, form), row * width + index - 1, own)
                return scaled + _dot(left, _block(z_ref, (place,), own, some))

            scaled = jnp.zeros((width, together), z.dtype)
            scaled = jax.lax.fori_loop(0, row + 1, add, scaled)
            return squares + jnp.sum(scaled * scaled, axis=0)

        n_blocks = jnp.clip(filled - part * together, 0, 1) * pl.cdiv(n, width)
        squares = jnp.zeros(together, z.dtype)
        squares = jax.lax.fori_loop(0, n_blocks, of_block, squares)
        found_ref[place, form, pl.ds(part * together, together)] = squares

    shape = n_tiles, factor.shape[1], tile
    return kernel(
        of_rows,
        4,
        grid=(shape[1], tile // together, n_tiles),
        out_shape=jax.ShapeDtypeStruct(shape, z.dtype),
    )(*_layout(rows), factor, z)


def products_by_blocks(
    rows: Any,
    weight: Float[Array, "n_tiles n_starts tile"],
    z: Float[Array, "n_tiles n_joint tile"],
) -> Float[Array, "n_nodes n_starts n_joint n_joint"]:
    """Weighted products of rows with themselves, of wide tables."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    n_tiles, n, tile = z.shape
    width, together = min(pl.next_power_of_2(n), 64), 32
    n_blocks = pl.cdiv(n, width)

    def of_block(*refs: Any) -> None:
        *layout, weight_ref, z_ref, found_ref = refs
        pair, start, place = (pl.program_id(axis) for axis in range(3))
        _, filled = _tile_of(place, tile, *layout)
        row, column = pair // n_blocks, pair % n_blocks
        row, column = (at * width + jnp.arange(width) for at in (row, column))

        def add(number: Array, total: Array) -> Array:
            some = number * together + jnp.arange(together)
            weight = weight_ref[place, start, pl.ds(number * together, together)]
            left = weight * _block(z_ref, (place,), row, some)
            return total + _dot(left, _block(z_ref, (place,), column, some).T)

        total, turns = jnp.zeros((width, width), z.dtype), pl.cdiv(filled, together)
        total = jax.lax.fori_loop(0, turns, add, total)
        inside = (row < n)[:, None] & (column < n)[None]
        at = found_ref.at[place, start, row[:, None], column[None]]
        triton.store(at, total, mask=inside)

    shape = n_tiles, weight.shape[1], n, n
    found = kernel(
        of_block,
        4,
        grid=(n_blocks**2, shape[1], n_tiles),
        out_shape=jax.ShapeDtypeStruct(shape, z.dtype),
    )(*_layout(rows), weight, z)
    return rows.of_nodes(found)


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
    # Of many numbers there are programs enough, and parts would take memory.
    n_parts = min(max(_TOGETHER // n, 1), _MOST_PARTS)

    def of_part(first_ref: Any, n_own_ref: Any, sums_ref: Any, found_ref: Any) -> None:
        node, part, number = (pl.program_id(axis) for axis in range(3))
        column = number * width + jnp.arange(width)
        each = (n_own_ref[node] + (n_parts - 1)) // n_parts
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

    shape = len(first), n_parts, n
    return kernel(
        of_part,
        4,
        grid=(*shape[:2], pl.cdiv(n, width)),
        out_shape=jax.ShapeDtypeStruct(shape, sums.dtype),
    )(first, n_own, sums).sum(axis=1)
