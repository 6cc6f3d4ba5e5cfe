"""Row source over numeric rows on one or several devices, which stay there.

Each device looks at blocks of its own rows: programs take a block, and nothing but its
sums goes to the host. The sample goes there once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.device import Scaling, encoded_block, in_64_bits, rows_from
from secret_jax.data.encoding import ReadColumns
from secret_jax.data.rows import Rows, Table
from secret_jax.data.sampling import sampling_factors, sampling_hash, sampling_limit
from secret_jax.data.scaling import ColumnSums, joint_sums
from secret_jax.data.schema import TableSchema
from secret_jax.data.shards import RowShards
from secret_jax.data.source import DrawnRows, HostRows
from secret_jax.runtime.devices import in_32_bits, rows_at_once
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.parallel import ROW_BLOCK, in_blocks
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import bucket, next_power_of_two, padded

_SMALLEST_BLOCK = 1024

_Result = TypeVar("_Result")


def over_blocks(
    shards: RowShards,
    function: Callable[[jax.Array, slice], _Result],
    row_bytes: int,
    usual: int = ROW_BLOCK,
) -> Iterator[_Result]:
    """Apply a function to blocks of rows, each on its device, and to their positions.

    All blocks have one size: the last ones of a shard are filled up with copies of its
    last row. ``row_bytes`` that a step takes for each row, and the ``usual`` number of
    rows on processors, set it. Results come in the order of the rows.
    """
    size = bucket(len(shards.parts[0][1]), smallest=_SMALLEST_BLOCK)
    size = min(size, rows_at_once(row_bytes, usual))
    places = [
        (part, start, slice(first + start, min(first + len(part), shards.n_rows)))
        for first, part in shards.parts
        for start in range(0, len(part), size)
        if first + start < shards.n_rows
    ]

    def of_block(number: slice) -> _Result:
        part, start, rows = places[number.start]
        block = rows_from(part, start, size=size)
        return function(block, slice(rows.start, min(rows.start + size, rows.stop)))

    return in_blocks(of_block, len(places), 1)


@program()
def _column_sums(x: AnyArray, weight: AnyArray) -> tuple[jax.Array, ...]:
    """Weight, means, sums of squares about them, and ranges of the columns of a block.

    The fill has no weight, and is within the range.
    """
    x, weight = x.astype(jnp.float64), weight[:, None]
    mean = jnp.sum(weight * x, axis=0) / weight.sum()
    squares = jnp.sum(weight * (x - mean) ** 2, axis=0)
    return weight.sum(), mean, squares, x.min(axis=0), x.max(axis=0)


def sums_of_shards(shards: RowShards, weight: np.ndarray) -> ColumnSums | None:
    """Sums over all rows of shards, by positive weights.

    None where there is a value that is no finite number, or a very large one.
    """
    center = shards.center

    def of_block(block: jax.Array, rows: slice) -> ColumnSums:
        with in_64_bits():
            found = _column_sums(block, padded(weight[rows], len(block)))
        mass, mean, squares, low, high = map(np.asarray, found)
        mass, nothing = np.full(len(mean), mass), np.zeros(len(mean))
        return ColumnSums(
            mass, center + mean, squares, center + low, center + high, nothing
        )

    blocks = list(over_blocks(shards, of_block, 24 * shards.shape[1]))
    good = all(np.isfinite(np.stack(block)).all() for block in blocks)
    return joint_sums(blocks) if good else None


@program()
def _bits_below(
    x: AnyArray, center: AnyArray, targets: AnyArray, factors: AnyArray, limit: AnyArray
) -> jax.Array:
    """Mask of the rows whose hash is below a limit, packed eight to a byte."""
    values = x.astype(jnp.float32)
    # Not + 0.0, which would flush the smallest numbers to zero.
    values = jnp.where(center == 0, values, values + center)
    joint = jnp.concatenate([values, targets], axis=1)
    return jnp.packbits(sampling_hash(joint, factors) < limit)


@program()
def _chosen(x: AnyArray, index: AnyArray) -> jax.Array:
    return x[index]


@dataclass(frozen=True, eq=False)
class ShardedRows(DrawnRows):
    """Source of finite rows in shards on devices; samples go to the host.

    The other fields are those of `secret_jax.data.source.HostRows`.
    """

    schema: TableSchema
    shards: RowShards
    targets: np.ndarray
    weight: np.ndarray
    drawn: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        """See `RowSource`; rows of weight zero, at the end of a block, are its fill.

        Accelerators take larger blocks than ``size``.
        """
        schema, scaling = self.schema, scaling_of(self.schema, self.shards)

        def of_block(block: jax.Array, rows: slice) -> _Result:
            table = encoded_block(schema.in_order(block), scaling)
            targets = schema.scale_targets(self.targets[rows])
            known = (
                padded(array, len(block)) for array in (targets, self.weight[rows])
            )
            codes = np.zeros((len(block), 0), np.int32)
            return function(Rows(Table(table, codes), *known))

        # Of a row its products, and its places among the leaves, usually fewer.
        numbers = (1 + schema.n_regressors + schema.n_outputs) ** 2 + 256
        return over_blocks(self.shards, of_block, 4 * numbers, size)

    def _below(self, share: float, seed: int) -> np.ndarray:
        targets = self.targets.astype(np.float32)
        factors = sampling_factors(self.shards.shape[1] + targets.shape[1], seed)
        center = self.shards.center.astype(np.float32)

        def of_block(block: jax.Array, rows: slice) -> np.ndarray:
            own = padded(targets[rows], len(block))
            with in_32_bits():
                bits = _bits_below(block, center, own, factors, sampling_limit(share))
            count = rows.stop - rows.start
            below = np.unpackbits(np.asarray(bits), count=count)
            return rows.start + np.flatnonzero(below)

        found = over_blocks(self.shards, of_block, 12 * len(factors))
        return np.concatenate(list(found))

    def on_host(self, index: np.ndarray | None) -> HostRows:
        targets, weight = self.targets, self.weight
        if index is None:
            x = np.asarray(self.shards)
        else:
            x, targets, weight = self._rows_at(index), targets[index], weight[index]
        columns = ReadColumns(list(x.T), np.zeros((len(weight), 0), np.int32))
        return HostRows(self.schema, columns, targets, weight)

    def _rows_at(self, index: np.ndarray) -> np.ndarray:
        """Gather rows, in units of the data, from their shards."""
        shards = self.shards
        found = np.empty((len(index), shards.shape[1]), shards.dtype)
        for first, part in shards.parts:
            here = np.flatnonzero((index >= first) & (index < first + len(part)))
            place = padded(index[here] - first, next_power_of_two(len(here)))
            with in_32_bits():
                rows = _chosen(part, place.astype(np.int32))
            found[here] = np.asarray(rows)[: len(here)]
        return shards.restored(found)


def scaling_of(schema: TableSchema, shards: RowShards) -> Scaling:
    """Scaling of columns that lie without the centers of the shards."""
    center = schema.center - schema.in_order(shards.center[None])[0]
    return center, schema.scale, *schema.saturation
