"""Row source over shards on several devices; each device looks at its own rows.

Programs are plain `jit` on arrays that are sharded along their rows: within them a
shard is one entry of a leading axis, so that nothing but its sums leaves a device. The
sample goes to the host once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from secret_jax.data.device import in_64_bits
from secret_jax.data.encoding import ReadColumns
from secret_jax.data.rows import Rows
from secret_jax.data.sampling import sampling_factors, sampling_hash, sampling_limit
from secret_jax.data.scaling import ColumnSums
from secret_jax.data.schema import TableSchema
from secret_jax.data.shards import RowShards
from secret_jax.data.source import DrawnRows, HostRows
from secret_jax.runtime.devices import in_32_bits
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import next_power_of_two

# Rows that a device looks at together, in runs: float32 sums of so few rows keep their
# digits.
_TILE, RUN = 8192, 512

_Result = TypeVar("_Result")


def over_tiles(
    step: Callable[..., Any], state: Any, arrays: tuple[Any, ...], n_shards: int
) -> Any:
    """Fold the rows of every shard into a state, tile by tile; traceable.

    A step maps a state, the mask of the rows of a tile that are new, and the tiles of
    the arrays, (n_shards, size, ...), to the next state.
    """
    split = [array.reshape(n_shards, -1, *array.shape[1:]) for array in arrays]
    n_local = split[0].shape[1]
    size = min(_TILE, n_local) // RUN * RUN or n_local

    def body(number: Any, state: Any) -> Any:
        # The last tile begins earlier, so that no padded copy of a shard is made.
        begin = jnp.minimum(number * size, n_local - size)
        new = begin + jnp.arange(size, dtype=begin.dtype) >= number * size
        tiles = (jax.lax.dynamic_slice_in_dim(a, begin, size, axis=1) for a in split)
        return step(state, new, *tiles)

    return jax.lax.fori_loop(0, -(-n_local // size), body, state)


@program(static_argnames=("n_shards",))
def _column_sums(
    x: AnyArray, weight: AnyArray, *, n_shards: int
) -> tuple[jax.Array, ...]:
    """Origin of offsets, and their weighted sums, squares and ranges in every shard."""
    origin = x[0].astype(jnp.float64)  # near the columns: no large numbers cancel

    def step(state: Any, new: Any, part: Any, weight: Any) -> Any:
        total, squares, low, high = state
        weight = jnp.where(new, weight, 0.0)[:, :, None]
        offset = part.astype(jnp.float64) - origin
        total = total + jnp.sum(weight * offset, axis=1)
        squares = squares + jnp.sum(weight * offset**2, axis=1)
        low = jnp.minimum(low, offset.min(axis=1))
        return total, squares, low, jnp.maximum(high, offset.max(axis=1))

    zero = jnp.zeros((n_shards, x.shape[1]), jnp.float64)
    state = zero, zero, zero + jnp.inf, zero - jnp.inf
    return origin, *over_tiles(step, state, (x, weight), n_shards)


def sums_of_shards(shards: RowShards, weight: np.ndarray) -> ColumnSums | None:
    """Sums over all rows of shards, by positive weights.

    None where there is a value that is no finite number, or a very large one.
    """
    with in_64_bits():
        found = _column_sums(shards.x, shards.beside(weight), n_shards=shards.mesh.size)
    origin, total, squares, low, high = map(np.asarray, found)
    if not np.isfinite(np.stack([total, squares, low, high])).all():
        return None
    mass = np.full(len(origin), weight.sum())
    mean = total.sum(axis=0) / mass
    origin = origin + shards.center
    return ColumnSums(
        mass=mass,
        mean=origin + mean,
        scatter=np.maximum(squares.sum(axis=0) - mass * mean**2, 0.0),
        lowest=origin + low.min(axis=0),
        highest=origin + high.max(axis=0),
        missing_mass=np.zeros(len(origin)),
    )


@program(static_argnames=("n_shards",))
def _bits_below(
    x: AnyArray,
    center: AnyArray,
    targets: AnyArray,
    factors: AnyArray,
    limit: AnyArray,
    *,
    n_shards: int,
) -> jax.Array:
    """Mask of the rows whose hash is below a limit, packed eight to a byte."""
    values = x.astype(jnp.float32)
    # Not + 0.0, which would flush the smallest numbers to zero.
    values = jnp.where(center == 0, values, values + center)
    joint = jnp.concatenate([values, targets], axis=1)
    below = sampling_hash(joint, factors) < limit
    return jnp.packbits(below.reshape(n_shards, -1), axis=1)


@program()
def _chosen(x: AnyArray, index: AnyArray) -> jax.Array:
    """Gather rows of every shard by their positions in it, (n_shards, n_chosen)."""
    split = x.reshape(len(index), -1, x.shape[1])
    return jnp.take_along_axis(split, index[:, :, None], axis=1)


@dataclass(frozen=True, eq=False)
class ShardedRows(DrawnRows):
    """Source of finite rows in shards on several devices; samples go to the host.

    The other fields are those of `secret_jax.data.source.HostRows`.
    """

    schema: TableSchema
    shards: RowShards
    targets: np.ndarray
    weight: np.ndarray
    drawn: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def take(self, index: np.ndarray | None) -> Rows:
        return self.on_host(index).take(None)

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        """By way of the host."""
        return self.on_host(None).blocks(function, size)

    def _below(self, share: float, seed: int) -> np.ndarray:
        shards, n_shards = self.shards, self.shards.mesh.size
        factors = sampling_factors(shards.shape[1] + self.targets.shape[1], seed)
        with in_32_bits():
            bits = _bits_below(
                shards.x,
                shards.center.astype(np.float32),
                shards.beside(self.targets.astype(np.float32)),
                factors,
                sampling_limit(share),
                n_shards=n_shards,
            )
        n_local = len(shards.x) // n_shards
        below = np.unpackbits(np.asarray(bits), axis=1, count=n_local)
        return np.flatnonzero(below.ravel()[: self.n_rows])

    def on_host(self, index: np.ndarray | None) -> HostRows:
        targets, weight = self.targets, self.weight
        if index is None:
            x = np.asarray(self.shards)
        else:
            x, targets, weight = self._rows_at(index), targets[index], weight[index]
        columns = ReadColumns(list(x.T), np.zeros((len(weight), 0), np.int32))
        return HostRows(self.schema, columns, targets, weight)

    def values_at(self, index: np.ndarray | slice) -> list[np.ndarray]:
        """Continuous attributes of rows, in units of the data."""
        return [*self._rows_at(np.arange(self.n_rows)[index]).T]

    def _rows_at(self, index: np.ndarray) -> np.ndarray:
        """Gather rows, in units of the data, from their shards."""
        shards, n_shards = self.shards, self.shards.mesh.size
        shard, place = np.divmod(index, len(shards.x) // n_shards)
        count = np.bincount(shard, minlength=n_shards)
        nth = np.arange(len(index)) - np.repeat(np.cumsum(count) - count, count)
        most = next_power_of_two(max(int(count.max()), 1))
        local = np.zeros((n_shards, most), np.int32)
        local[shard, nth] = place
        with in_32_bits():
            there = jax.device_put(local, NamedSharding(shards.mesh, shards.spec))
            found = np.asarray(_chosen(shards.x, there))
        return shards.restored(found[shard, nth])
