"""Rows of the nodes of a level on an accelerator: tiles, traced by JAX.

A tile is a fixed number of rows of one node; a node begins with a tile of its own and
has as many as its rows need, one after the other. The axis of tiles is the first one of
every array of rows, and that within a tile the last one. A place in a tile that no row
takes is padding: its weight is zero, and so is all else that is known of it.

`secret_jax.data.ragged` says what the verbs do: here values of rows have the shape
(n_tiles, ..., tile) where those there have (..., n_rows).

Shapes are those of a table, never of a level, so one program serves every level. No sum
scatters: sums of tiles become sums of nodes by a product with the matrix of which tile
is whose, whose order is fixed.

On several devices each has tiles of its own, of the same nodes, with stretches of their
rows: the order of a node's rows is that of the devices. What crosses between devices is
sums of nodes, numbers of their rows, and few rows of each: never all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Shaped

from secret_jax.data import kernels, mixtures
from secret_jax.data.fallback import uses_kernels
from secret_jax.runtime.linalg import matmul

# Stands for what is no number, or beyond it, where tiles are added up.
_HUGE = 1e30
# Numbers of the matrix of which tile is whose that are in memory at a time.
_MOST_MEMBERS = 1 << 26


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["length", "first", "node", "filled"],
    meta_fields=["tile", "axis"],
)
@dataclass(frozen=True, eq=False)
class TiledRows:
    """Which tiles are of which node, and the sums of what is known of the rows.

    `TiledRows.of` lays out nodes, `TiledRows.samples` the first rows of nodes.

    Attributes
    ----------
    length : Array of shape (n_nodes,), int32
        Number of rows of each node, of several devices on this one (`lengths` are those
        of all); zero where a program has room for more nodes.
    first : Array of shape (n_nodes,), int32
        First tile of each node.
    node : Array of shape (n_tiles,), int32, or None
        Node of each tile; that of a tile without rows means nothing. None: every node
        has one tile.
    filled : Array of shape (n_tiles,), int32
        Number of rows in each tile, which come before the padding.
    tile : int
        Number of places in a tile.
    axis : str or None
        Of the mesh of devices that have rows of the nodes: the arrays are of those of
        one device, and sums are over all devices. None: there is one.
    """

    length: Int[Array, " n_nodes"]
    first: Int[Array, " n_nodes"]
    node: Int[Array, " n_tiles"] | None
    filled: Int[Array, " n_tiles"]
    tile: int
    axis: str | None = None

    xp = jnp

    @classmethod
    def of(
        cls,
        length: Any,
        n_tiles: int,
        tile: int,
        axis: str | None = None,
    ) -> TiledRows:
        """Lay out nodes of so many rows, one after the other."""
        length = jnp.asarray(length, jnp.int32)
        n_own = (length + (tile - 1)) // tile
        first = jnp.cumsum(n_own) - n_own
        number = jnp.arange(n_tiles, dtype=jnp.int32)
        # Of nodes that begin at a tile it is the last one's: those before have no rows.
        few = n_tiles * len(length) <= _MOST_MEMBERS
        method = "compare_all" if few else "scan_unrolled"
        begun = jnp.searchsorted(first, number, side="right", method=method)
        node = jnp.maximum(begun.astype(jnp.int32) - 1, 0)
        filled = length[node] - (number - first[node]) * tile
        return cls(length, first, node, jnp.clip(filled, 0, tile), tile, axis)

    @classmethod
    def samples(cls, length: Any, n_rows: int, axis: str | None = None) -> TiledRows:
        """Lay out the first rows of each node, up to a number, as `head` gives them."""
        length = jnp.minimum(jnp.asarray(length, jnp.int32), n_rows)
        first = jnp.arange(len(length), dtype=jnp.int32)
        return cls(length, first, None, length, n_rows, axis=axis)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, those without rows included."""
        return len(self.length)

    @property
    def lengths(self) -> Int[Array, "n_nodes n_devices"]:
        """Number of rows of each node on each device."""
        if self.axis is None:
            return self.length[:, None]
        return jax.lax.all_gather(self.length, self.axis, axis=1)

    @property
    def inside(self) -> Shaped[Array, "n_tiles tile"]:
        """Which places hold rows."""
        return jnp.arange(self.tile) < self.filled[:, None]

    def filling(self, values: Array) -> Array:
        """`inside`, of a shape that goes with values of rows."""
        return self.inside.reshape(len(values), *(1,) * (values.ndim - 2), self.tile)

    def spread(self, values: Array) -> Array:
        """What each tile's node has (n_tiles, ..., 1): it broadcasts to its rows."""
        return self._of_tiles(values)[..., None]

    def sums(self, values: Array) -> Array:
        """Sums over the rows of each node."""
        zero = jnp.zeros((), values.dtype)
        kept = jnp.where(self.filling(values), values, zero)
        return self.of_nodes(jnp.sum(kept, axis=-1))

    def least(self, values: Array) -> Array:
        """Smallest value among the rows of each node; infinite where there is none."""
        found = jnp.where(self.filling(values), values, jnp.inf).min(axis=-1)
        if self.node is not None:
            own = self.node == jnp.arange(self.n_nodes)[:, None]
            own = own.reshape(*own.shape, *(1,) * (found.ndim - 1))
            found = jnp.where(own, found, jnp.inf).min(axis=1)
        return found if self.axis is None else jax.lax.pmin(found, self.axis)

    def products(self, left: Array, right: Array) -> Array:
        """Sums of products of two lists of numbers of the rows."""
        return self.of_nodes(matmul(left, jnp.swapaxes(right, -1, -2)))

    def transformed(self, matrices: Array, values: Array) -> Array:
        """Each row by the matrix of its node."""
        return matmul(self._of_tiles(matrices), values)

    def sums_by_code(self, code: Array, n_codes: int, values: Array) -> Array:
        """Sums over the rows of each node with each code of each attribute."""
        codes = jnp.arange(n_codes, dtype=code.dtype)[:, None]
        return self._sums_where(code[:, :, None, :] == codes, values)

    def moments_below(
        self, values: Array, cuts: Array, of: Array, weight: Array
    ) -> tuple[Array, Array]:
        """Sums over the rows whose value is at most a cut."""
        below = values[:, :, None, :] <= self.spread(cuts)
        known = jnp.where(jnp.isfinite(values), values, 0)
        powers = (weight[:, None] * known, weight[:, None] * known**2)
        own = [jnp.sum(jnp.where(below, a[:, :, None], 0), axis=-1) for a in powers]
        return self._sums_where(below, of), self.of_nodes(jnp.stack(own, axis=2))

    def chosen(self, index: Array, values: Array) -> Array:
        """Of each row the values that its node chooses."""
        return values[jnp.arange(len(values))[:, None], self._of_tiles(index)]

    def looked_up(self, table: Array, code: Array) -> Array:
        """What the tables of each row's node have at its codes."""
        node = jnp.arange(self.n_nodes) if self.node is None else self.node
        return table[node[:, None, None], jnp.arange(code.shape[1])[:, None], code]

    @property
    def longest(self) -> int:
        """Most rows that a node may have."""
        here = len(self.filled) * self.tile if self.node is not None else self.tile
        return here if self.axis is None else here * jax.lax.axis_size(self.axis)

    def head(self, values: Array, n: int) -> Array:
        """The first rows of each node, which are a random sample; zero beyond them."""
        n_each = -(-n // self.tile)
        place = self.first[:, None] + jnp.arange(n_each, dtype=jnp.int32)
        # (n_nodes, n_each, ..., tile) to (n_nodes, ..., n_each * tile)
        found = values[jnp.minimum(place, len(values) - 1)]
        found = jnp.moveaxis(found, 1, -2)
        found = found.reshape(*found.shape[:-2], n_each * self.tile)[..., :n]
        inside = jnp.arange(n) < self.length[:, None]
        inside = inside.reshape(len(inside), *(1,) * (found.ndim - 2), n)
        found = jnp.where(inside, found, jnp.zeros((), found.dtype))
        if self.axis is None:
            return found
        # Those of the devices before come first.
        upto, here = self._upto(self.length)
        place = jnp.arange(n, dtype=jnp.int32) - (upto[here] - self.length)[:, None]
        place = place.reshape(inside.shape)
        moved = jnp.take_along_axis(found, jnp.maximum(place, 0), axis=-1)
        return self.of_all(jnp.where(place >= 0, moved, jnp.zeros((), found.dtype)))

    def total(
        self,
        function: Callable[[Any, Any, Any], tuple[Array, ...]],
        node_values: Sequence[Array],
        row_arrays: Sequence[Array],
    ) -> tuple[Array, ...]:
        """Sums, or arrays, that a function makes of all tiles at once.

        See `secret_jax.data.ragged.RaggedRows.total`.
        """
        return function(self, node_values, row_arrays)

    each = total

    def expectation(
        self, forms: Sequence[Array], z: Array, weight: Array, going: Array
    ) -> tuple[Array, Array]:
        """E step of mixtures of two Gaussians, in the nodes that are ``going``.

        See `secret_jax.data.mixtures.expectation`; other nodes have any sums.
        """
        arrays = z, weight
        if not (kernels.takes(self, z.shape[1]) and uses_kernels()):
            return mixtures.expectation(self, forms, arrays)
        rows = replace(self, length=jnp.where(going, self.length, 0))
        return kernels.expectation(rows, forms, arrays)

    def at_share(self, values: Array, weight: Array, share: Array) -> Array:
        """The rows at some shares of the weight, as it adds up row by row."""
        of_tile = jnp.sum(weight, axis=-1)
        below, most = jnp.cumsum(of_tile), len(of_tile) - 1
        first = jnp.minimum(self.first, most)[:, None]
        last = first + jnp.maximum(-(-self.length // self.tile), 1)[:, None] - 1
        last = jnp.minimum(last, most)
        start = below[first] - of_tile[first]
        wanted, is_here = self._shares_here(share, below[last] - start)
        wanted = start + wanted
        number = jnp.searchsorted(below, wanted, side="right", method="compare_all")
        number = jnp.clip(number.astype(jnp.int32), first, last)
        wanted = wanted - (below[number] - of_tile[number])
        within = jnp.cumsum(weight[number], axis=-1)
        # Rounding must not lead beyond the last row of some weight.
        passed = (within <= wanted[..., None]) & (within < within[..., -1:])
        place = jnp.sum(passed, axis=-1, dtype=jnp.int32)
        found = jnp.moveaxis(values[number, ..., place], 1, -1)
        if self.axis is None:
            return found
        is_here = is_here.reshape(len(found), *(1,) * (found.ndim - 2), -1)
        return self.of_all(jnp.where(is_here, found, 0))

    def _shares_here(self, share: Array, mass: Array) -> tuple[Array, Array]:
        """What shares of a node's weight are of its mass here, and which end here."""
        if self.axis is None:
            return share * mass, jnp.ones_like(share, bool)
        mass = jnp.where(self.length[:, None] > 0, mass, 0.0)
        upto, here = self._upto(mass)
        wanted = share * upto[-1]
        passed = (upto <= wanted) & (upto < upto[-1])
        return wanted - (upto[here] - mass), jnp.sum(passed, axis=0) == here

    def _of_tiles(self, values: Array) -> Array:
        """What each tile's node has."""
        return values if self.node is None else values[self.node]

    def of_nodes(self, sums: Array) -> Array:
        """Sums over the tiles of each node."""
        if self.node is None:
            return self.of_all(sums)
        flat = sums.reshape(len(sums), -1)
        if jnp.issubdtype(sums.dtype, jnp.integer):
            found = self.of_all(_of_members(self.node, self.n_nodes, flat))
        else:
            # What is no number would be none in any node: zero times it is none.
            finite = jnp.where(jnp.abs(flat) < _HUGE, flat, _HUGE)
            found = self.of_all(_of_members(self.node, self.n_nodes, finite))
            found = jnp.where(found < 0.5 * _HUGE, found, jnp.nan)
        return found.reshape(self.n_nodes, *sums.shape[1:])

    def of_all(self, sums: Array) -> Array:
        """Sums over the devices, of what each has of nodes."""
        return sums if self.axis is None else jax.lax.psum(sums, self.axis)

    def _upto(self, values: Array) -> tuple[Array, Array]:
        """Sums over the devices up to each, and which of them this one is."""
        every = jax.lax.all_gather(values, self.axis)
        return jnp.cumsum(every, axis=0), jax.lax.axis_index(self.axis)

    def _sums_where(self, chosen: Array, values: Array) -> Array:
        """Sums of values (n_tiles, m, tile) over chosen rows (n_tiles, a, b, tile)."""
        n_tiles, a, b, tile = chosen.shape
        m = values.shape[1]
        mask = chosen.reshape(n_tiles, a * b, tile).astype(jnp.bfloat16)
        # Numbers of two bytes whose sum is a float32, to its last digit: as exact, on
        # units that multiply such numbers.
        parts = []
        for _ in range(3):
            part = jax.lax.reduce_precision(values, exponent_bits=8, mantissa_bits=7)
            parts.append(part.astype(jnp.bfloat16))
            values = values - part
        found = jnp.matmul(
            mask,
            jnp.swapaxes(jnp.concatenate(parts, axis=1), -1, -2),
            precision=jax.lax.Precision.DEFAULT,
            preferred_element_type=jnp.float32,
        ).reshape(n_tiles, a, b, 3, m)
        found = found[..., 2, :] + found[..., 1, :] + found[..., 0, :]
        return jnp.swapaxes(self.of_nodes(found), -1, -2)


def _of_members(node: Array, n_nodes: int, values: Array) -> Array:
    """Sums of values (n_tiles, n) over the tiles of each node.

    Of very many tiles some at a time: the matrix of which is whose would be too large.
    """
    n_parts = -(-len(node) * n_nodes // _MOST_MEMBERS)
    size = -(-len(node) // n_parts)
    spare = n_parts * size - len(node)
    node = jnp.pad(node, (0, spare), constant_values=-1).reshape(n_parts, size)
    values = jnp.pad(values, ((0, spare), (0, 0))).reshape(n_parts, size, -1)

    def of_part(node: Array, values: Array) -> Array:
        own = node == jnp.arange(n_nodes)[:, None]
        return matmul(own.astype(values.dtype), values)

    if n_parts == 1:
        return of_part(node[0], values[0])

    def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        return total + of_part(*part), None

    total = jnp.zeros((n_nodes, values.shape[-1]), values.dtype)
    return jax.lax.scan(add, total, (node, values))[0]
