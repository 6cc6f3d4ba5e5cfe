"""The rows of a node in tiles: what is computed of a tile stays in a cache.

Padding after the last row costs a processor nothing, and sums keep their digits however
many rows there are. An accelerator takes all rows as one tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from secret_jax.runtime.linalg import is_written_out
from secret_jax.splits.one_node import Node

# Rows of a tile: a dozen columns of them fill half of the fastest cache.
TILE = 512
# Where the rows are no multiple of so many, they are one tile.
_SMALLEST_TILE = 64


class Tiles(NamedTuple):
    """Rows of a node."""

    x: jax.Array  # (n_tiles, n_tile_rows, n_columns), float32
    codes: jax.Array  # (n_tiles, n_tile_rows, n_discrete), int32
    targets: jax.Array  # (n_tiles, n_tile_rows, n_outputs), float32
    weight: jax.Array  # (n_tiles, n_tile_rows), float32

    @classmethod
    def of(cls, node: Node) -> Tiles:
        """The rows of a node, as they lie."""
        arrays = node.x, node.codes, node.targets, node.weight
        return cls(*(in_tiles(array) for array in arrays))

    @property
    def n_used(self) -> jax.Array:
        """How many tiles there are before those of nothing but padding."""
        return n_used(self.weight)


def in_tiles(values: Float[Array, "n_rows ..."] | Int[Array, "n_rows ..."]) -> Any:
    """Values with the axis of rows cut in two: tiles, and the rows of a tile."""
    n_rows = len(values)
    tile = math.gcd(n_rows, TILE)
    if is_written_out() or tile < _SMALLEST_TILE:
        tile = max(n_rows, 1)
    return values.reshape(max(n_rows, 1) // tile, tile, *values.shape[1:])


def n_used(weight: Float[Array, "n_tiles n_tile_rows"]) -> Int[Array, ""]:
    """How many tiles there are before those without any weight."""
    number = jnp.arange(1, len(weight) + 1, dtype=jnp.int32)
    return jnp.max(jnp.where((weight > 0).any(axis=1), number, 0))


def sum_of(function: Callable[..., Any], n_tiles: Int[Array, ""], *arrays: Any) -> Any:
    """Sums over tiles; the rounding of each addition is made good by the next.

    ``function``: from one tile of every array to arrays that add up over rows;
    ``n_tiles``: the tiles after these are left out; ``*arrays`` pytrees of Arrays of
    shape (n_all_tiles, ...).
    """
    if _is_one_tile(arrays):
        return function(*_tile(arrays, 0))

    def add(i, state):
        total, excess = state
        more = jax.tree.map(jnp.subtract, function(*_tile(arrays, i)), excess)
        larger = jax.tree.map(jnp.add, total, more)
        excess = jax.tree.map(lambda a, b, c: (a - b) - c, larger, total, more)
        return larger, excess

    nothing = _zeros(jax.eval_shape(lambda: function(*_tile(arrays, 0))))
    return jax.lax.fori_loop(0, n_tiles, add, (nothing, nothing))[0]


def each_of(
    function: Callable[..., Any], n_tiles: Int[Array, ""] | int, *arrays: Any
) -> Any:
    """Apply a function to every tile; results have an axis of tiles, zero at its end.

    ``function``: from one tile of every array to arrays; ``n_tiles``, ``*arrays``: as
    in `sum_of`. Returns a pytree of Arrays of shape (n_all_tiles, ...).
    """
    if _is_one_tile(arrays):
        return jax.tree.map(lambda a: a[None], function(*_tile(arrays, 0)))

    def put(i, found):
        one = function(*_tile(arrays, i))
        return jax.tree.map(lambda every, new: every.at[i].set(new), found, one)

    n_all = len(jax.tree.leaves(arrays)[0])
    one = jax.eval_shape(lambda: function(*_tile(arrays, 0)))
    every = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct((n_all, *a.shape), a.dtype), one
    )
    return jax.lax.fori_loop(0, n_tiles, put, _zeros(every))


def _is_one_tile(arrays: Any) -> bool:
    return len(jax.tree.leaves(arrays)[0]) == 1


def _tile(arrays: Any, i: Any) -> Any:
    return jax.tree.map(
        lambda array: jax.lax.dynamic_index_in_dim(array, i, keepdims=False), arrays
    )


def _zeros(shapes: Any) -> Any:
    return jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), shapes)
