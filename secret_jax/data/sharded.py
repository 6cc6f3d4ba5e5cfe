"""Row source over shards on several devices; each device reduces its own rows.

Every pass is a `jax.shard_map` over a mesh of one axis: moments and sums of products
are added up with `psum`, hashes and predictions stay with their rows. Between devices
go sums alone, whose size does not depend on the number of rows; the sample goes to the
host once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from secret_jax.data.encoding import ReadColumns
from secret_jax.data.rows import Rows
from secret_jax.data.sampling import sampling_factors, sampling_hash, sampling_limit
from secret_jax.data.schema import TableSchema
from secret_jax.data.shards import RowShards
from secret_jax.data.source import HostRows, few_copies
from secret_jax.runtime.devices import in_32_bits
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import next_power_of_two

# Rows that a device looks at together: float32 sums of so few keep six digits, and the
# tiles are added up with their rounding errors beside them. Few stay in the caches of a
# processor; an accelerator starts the kernels of an iteration one by one.
_TILE, _ACCELERATOR_TILE = 1024, 8192
# Maximum number of values in a tile: 256 MB of float32.
_TILE_NUMBERS = 1 << 26

_Result = TypeVar("_Result")


def tiles(
    n_local: int, n_rows: AnyArray, shard: AnyArray, size: int
) -> Callable[[AnyArray], tuple[Any, Any]]:
    """Make a function that locates a tile of a shard and masks its valid rows.

    Rows of a shard need not be a multiple of a tile: the last one begins earlier, and
    what was seen already does not count. So no padded copy of the shard is made.
    """

    def tile(number: AnyArray) -> tuple[Any, Any]:
        begin = jnp.minimum(number * size, n_local - size)
        row = begin + jnp.arange(size)
        inside = (row >= number * size) & (shard * n_local + row < n_rows)
        return begin, inside

    return tile


def tile_size(n_local: int, mesh: Mesh, row_numbers: int = 1) -> int:
    """Number of rows that each device of a mesh processes at a time.

    ``row_numbers`` is the number of values held per row.
    """
    on_processors = mesh.devices.flat[0].platform == "cpu"
    usual = _TILE if on_processors else _ACCELERATOR_TILE
    return min(max(min(usual, _TILE_NUMBERS // row_numbers), 1), n_local)


def n_tiles(n_local: int, size: int) -> int:
    """Number of tiles of a shard."""
    return -(-n_local // size)


def plus(total: tuple[Any, Any], more: Any) -> tuple[Any, Any]:
    """Add to a compensated sum (Knuth's two-sum, float32)."""
    high, low = total
    new = high + more
    back = new - high
    return new, low + ((high - (new - back)) + (more - back))


def multiplied(first: Any, second: Any) -> tuple[Any, Any]:
    """Multiply exactly: a product and its rounding error (Dekker 1971), float32."""
    product = first * second
    (high, low), (more_high, more_low) = map(_halves, (first, second))
    error = high * more_high - product
    error = error + high * more_low + low * more_high + low * more_low
    return product, error


def _halves(value: Any) -> tuple[Any, Any]:
    """Split a float32 into two numbers of half the bits (Veltkamp 1968)."""
    factor = 4097.0 * value  # 2 to the power of 12, and 1
    high = factor - (factor - value)
    return high, value - high


@program(static_argnames=("mesh",))
def _moments(
    x: AnyArray, weight: AnyArray, n_rows: AnyArray, *, mesh: Mesh
) -> tuple[jax.Array, ...]:
    """Compensated weighted sums of offsets and their squares, and ranges of columns.

    Two float32 numbers hold 45 bits: with fewer, rows of the sample would be encoded in
    other digits than on a host, and another tree might grow on them.

    Returns
    -------
    shift : Array of shape (n_columns,)
        Origin of the offsets.
    sums : Array of shape (n_shards * tile, 4, n_columns)
        To be added up on the host: that is exact, and their number is fixed.
    low, high : Array of shape (n_columns,)
    """
    axis = mesh.axis_names[0]
    spec, whole = PartitionSpec(axis), PartitionSpec()

    def local(x: Any, weight: Any, n_rows: Any) -> tuple[Any, ...]:
        n_local, n_columns = x.shape
        shard, size = jax.lax.axis_index(axis), tile_size(n_local, mesh)
        tile = tiles(n_local, n_rows, shard, size)
        # Any number near the columns will do: the mean of the first rows of all shards.
        first = x[:size].astype(jnp.float32).mean(axis=0)
        shift = jax.lax.pmean(first, axis)

        def add(number: Any, state: Any) -> Any:
            total, squares, low, high = state
            begin, inside = tile(number)
            part = jax.lax.dynamic_slice_in_dim(x, begin, size).astype(jnp.float32)
            inside = inside[:, None]
            low = jnp.minimum(low, jnp.where(inside, part, jnp.inf).min(axis=0))
            high = jnp.maximum(high, jnp.where(inside, part, -jnp.inf).max(axis=0))
            offset, rest = plus((part, jnp.zeros_like(part)), -shift)
            square, error = multiplied(offset, offset)
            error = error + 2.0 * offset * rest
            own = jax.lax.dynamic_slice_in_dim(weight, begin, size)[:, None]
            offset, lost = multiplied(own, offset)
            rest = own * rest + lost
            square, lost = multiplied(own, square)
            error = own * error + lost
            zero = jnp.zeros_like(part)
            offset, rest, square, error = (
                jnp.where(inside, value, zero)
                for value in (offset, rest, square, error)
            )
            total, squares = plus(total, offset), plus(squares, square)
            return (
                (total[0], total[1] + rest),
                (squares[0], squares[1] + error),
                *(low, high),
            )

        nothing = jnp.zeros((size, n_columns))
        edge = jnp.full(n_columns, jnp.inf)
        state = (nothing, nothing), (nothing, nothing), edge, -edge
        total, squares, low, high = jax.lax.fori_loop(
            0, n_tiles(n_local, size), add, state
        )
        sums = jnp.stack([*total, *squares], axis=1)
        return shift, sums, jax.lax.pmin(low, axis), jax.lax.pmax(high, axis)

    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(spec, spec, whole),
        out_specs=(whole, spec, whole, whole),
        check_vma=False,
    )(x, weight, n_rows)


def moments_of_shards(
    shards: RowShards, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and standard deviation of columns, float64; constants get a scale of 1.

    None where there is a value that is no finite number, or a very large one. Weights
    are positive.
    """
    weight = weight.astype(np.float32)
    mass = weight.sum(dtype=np.float64)
    with in_32_bits():
        n_rows, beside = np.int32(shards.n_rows), shards.beside(weight)
        found = _moments(shards.x, beside, n_rows, mesh=shards.mesh)
    shift, sums, low, high = (np.asarray(array, np.float64) for array in found)
    if not all(np.isfinite(array).all() for array in (sums, low, high)):
        return None
    total, rest, squares, error = sums.sum(axis=0)
    mean = (total + rest) / mass
    scatter = (squares + error) - mass * mean**2
    scale = np.sqrt(np.maximum(scatter, 0.0) / mass)
    constant = (low == high) | (scale <= 0)
    center = shards.center + np.where(low == high, low, shift + mean)
    return center, np.where(constant, 1.0, scale)


@program(static_argnames=("mesh",))
def _bits_below(
    x: AnyArray,
    center: AnyArray,
    targets: AnyArray,
    factors: AnyArray,
    limit: AnyArray,
    *,
    mesh: Mesh,
) -> jax.Array:
    """Mask of the rows whose hash is below a limit, packed eight to a byte."""
    spec, whole = PartitionSpec(mesh.axis_names[0]), PartitionSpec()

    def local(x: Any, center: Any, targets: Any, factors: Any, limit: Any) -> Any:
        values = x.astype(jnp.float32)
        # Not + 0.0, which would flush the smallest numbers to zero.
        values = jnp.where(center == 0, values, values + center)
        joint = jnp.concatenate([values, targets], axis=1)
        below = sampling_hash(joint, factors) < limit
        return jnp.packbits(below)

    return jax.shard_map(
        local, mesh=mesh, in_specs=(spec, whole, spec, whole, whole), out_specs=spec
    )(x, center, targets, factors, limit)


@program(static_argnames=("mesh",))
def _chosen(x: AnyArray, index: AnyArray, *, mesh: Mesh) -> jax.Array:
    """Gather rows of every shard by their positions in it."""
    spec = PartitionSpec(mesh.axis_names[0])
    return jax.shard_map(
        lambda x, index: x[index], mesh=mesh, in_specs=(spec, spec), out_specs=spec
    )(x, index)


@dataclass(frozen=True, eq=False)
class ShardedRows:
    """Source of rows in shards on several devices; samples go to the host.

    Attributes
    ----------
    shards : RowShards
        Finite.
    targets : ndarray of shape (n_rows, n_outputs), float64
        In units of their own.
    weight : ndarray of shape (n_rows,), float64
        Positive.
    copies : ndarray of shape (n_rows,), int64, or None
        Number of rows that each one stands for; None: one.
    """

    schema: TableSchema
    shards: RowShards
    targets: np.ndarray
    weight: np.ndarray
    copies: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """See `secret_jax.data.source.RowSource`."""
        return self.shards.n_rows

    @property
    def total_weight(self) -> float:
        """See `secret_jax.data.source.RowSource`."""
        return float(self.weight.sum())

    def sample(self, n_wanted: int, seed: int) -> Rows:
        """See `secret_jax.data.source.RowSource`."""
        if n_wanted < self.n_rows:
            index = self._below(n_wanted / self.n_rows, seed)
            there = self._on_host(index)
            found = few_copies(there.take(None), there.copies, n_wanted, seed)
            if found is not None:
                return found
        return self._on_host(None).sample(n_wanted, seed)

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        """See `secret_jax.data.source.RowSource`: by way of the host."""
        return self._on_host(None).blocks(function, size)

    def _below(self, share: float, seed: int) -> np.ndarray:
        shards = self.shards
        factors = sampling_factors(shards.shape[1] + self.targets.shape[1], seed)
        with in_32_bits():
            targets = shards.beside(self.targets.astype(np.float32))
            bits = np.asarray(
                _bits_below(
                    shards.x,
                    shards.center.astype(np.float32),
                    targets,
                    factors,
                    sampling_limit(share),
                    mesh=shards.mesh,
                )
            )
        n_shards = shards.mesh.size
        n_local = len(shards.x) // n_shards
        below = np.unpackbits(bits.reshape(n_shards, -1), axis=1, count=n_local)
        return np.flatnonzero(below.ravel()[: self.n_rows])

    def _on_host(self, index: np.ndarray | None) -> HostRows:
        """Copy rows (sorted indices, or all) to host memory."""
        targets, weight, copies = self.targets, self.weight, self.copies
        if index is None:
            x = np.asarray(self.shards)
        else:
            x, targets, weight = self._rows(index), targets[index], weight[index]
            copies = None if copies is None else copies[index]
        columns = ReadColumns(list(x.T), np.zeros((len(weight), 0), np.int32))
        return HostRows(self.schema, columns, targets, weight, copies)

    def _rows(self, index: np.ndarray) -> np.ndarray:
        """Gather rows from their shards."""
        shards = self.shards
        n_shards = shards.mesh.size
        shard, place = np.divmod(index, len(shards.x) // n_shards)
        count = np.bincount(shard, minlength=n_shards)
        most = next_power_of_two(max(int(count.max()), 1))
        nth = np.arange(len(index)) - np.repeat(np.cumsum(count) - count, count)
        local = np.zeros((n_shards, most), np.int32)
        local[shard, nth] = place
        with in_32_bits():
            there = jax.device_put(
                local.ravel(), NamedSharding(shards.mesh, shards.spec)
            )
            found = np.asarray(_chosen(shards.x, there, mesh=shards.mesh))
        return shards.restored(found.reshape(n_shards, most, -1)[shard, nth])
