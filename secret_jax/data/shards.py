"""Numeric rows on one or several devices, which stay there; all others are read.

Each device looks at blocks of its own rows: programs take a block, and nothing but its
sums, and a sample once, goes to the host. Rows of one device that all grow a tree are
encoded and put in order there.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from secret_jax.data.columns import refuse_other_shapes
from secret_jax.data.hashes import sampling_factors
from secret_jax.data.row_programs import (
    Scaling,
    bits_below,
    block_of,
    chosen_rows,
    encoded_block,
    hash_order,
    in_64_bits,
    put_in_order,
    scaled_outputs,
    sums_of_columns,
)
from secret_jax.data.rows import ReadColumns, Rows, Table, are_ones, rows_from
from secret_jax.data.scaling import ColumnSums, joint_sums
from secret_jax.data.schema import TableSchema
from secret_jax.runtime.devices import computing_on, in_32_bits, rows_at_once
from secret_jax.runtime.parallel import ROW_BLOCK, in_blocks
from secret_jax.runtime.shapes import bucket, next_power_of_two, padded, room_for

# Leaves for which blocks have room.
_SMALLEST_BLOCK, _LEAVES = 1024, 128
# What float32 may take from a column, in deviations.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class RowShards:
    """Numeric rows in shards; the last one may be padded.

    Attributes
    ----------
    x : jax.Array of shape (n_padded, n_columns)
        Sharded along its rows: what the rows hold, less ``center``.
    n_rows : int
        Rows that are none of the padding.
    center : ndarray of shape (n_columns,), float64
        Numbers of float32; zero for columns that lose nothing without.
    targets : jax.Array of shape (n_rows,) or (n_rows, n_outputs), optional
        Float32, in a fit whose rows and targets lie on one device: they stay there too.
    """

    x: jax.Array
    n_rows: int
    center: np.ndarray
    targets: jax.Array | None = None
    ndim: ClassVar[int] = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows without padding, and of columns."""
        return self.n_rows, self.x.shape[1]

    @property
    def dtype(self) -> Any:
        return self.x.dtype

    def __len__(self) -> int:
        return self.n_rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy  # it comes from devices: a copy always
        there = np.asarray(self.x)[: self.n_rows]
        return np.asarray(self.restored(there), dtype)

    def beside(self, y: jax.Array | None) -> Self:
        """With targets that lie on the only device of the rows, if these do."""
        ((_, part), *others) = self.parts
        lie = y is not None and y.dtype == np.float32 and y.devices() == part.devices()
        return replace(self, targets=y) if lie and not others else self

    def restored(self, there: np.ndarray) -> np.ndarray:
        """Convert rows of ``x`` back to their original units."""
        return there + self.center if self.center.any() else there

    @cached_property
    def parts(self) -> list[tuple[int, jax.Array]]:
        """First row of each shard, and its rows, on their device."""
        own = (s for s in self.x.addressable_shards if s.replica_id == 0)
        parts = [(shard.index[0].start or 0, shard.data) for shard in own]
        return sorted(parts, key=lambda part: part[0])

    def take(self, index: np.ndarray | None) -> ReadColumns:
        """Gather rows (sorted indices; None: all), in units of the data."""
        if index is None:
            found = np.asarray(self)
        else:
            found = np.empty((len(index), self.shape[1]), self.dtype)
            for first, part in self.parts:
                here = slice(*np.searchsorted(index, [first, first + len(part)]))
                own = index[here] - first
                place = padded(own, next_power_of_two(len(own)))
                with in_32_bits():
                    rows = chosen_rows(part, place.astype(np.int32))
                found[here] = np.asarray(rows)[: len(own)]
            found = self.restored(found)
        return ReadColumns(list(found.T), np.zeros((len(found), 0), np.int32))

    def over_blocks(
        self,
        function: Callable[[jax.Array, slice], Any],
        row_bytes: int,
        usual: int = ROW_BLOCK,
    ) -> Iterator[Any]:
        """Apply a function to blocks of rows, each on its device, and to their places.

        All blocks have one size, set by the ``row_bytes`` that a step takes for each
        row and the ``usual`` number of rows on processors: the last ones of a shard are
        filled up with copies of its last row.
        """
        size = bucket(len(self.parts[0][1]), smallest=_SMALLEST_BLOCK)
        size = min(size, rows_at_once(row_bytes, usual))
        places = [
            (part, start, slice(first + start, min(first + len(part), self.n_rows)))
            for first, part in self.parts
            for start in range(0, len(part), size)
            if first + start < self.n_rows
        ]

        def of_block(number: slice) -> Any:
            part, start, rows = places[number.start]
            end = min(rows.start + size, rows.stop)
            return function(rows_from(part, start, size=size), slice(rows.start, end))

        return in_blocks(of_block, len(places), 1)

    def sums(self, weight: np.ndarray) -> ColumnSums | None:
        """Sums over all rows, by positive weights; targets come after columns.

        None where there is a value that is no finite number, or a very large one.
        """
        center, mass = self.center, None if are_ones(weight) else weight
        if self.targets is not None:
            n_outputs = self.targets.size // self.n_rows
            center = np.append(center, np.zeros(n_outputs))

        def of_block(block: jax.Array, rows: slice) -> ColumnSums:
            n_inside, size = rows.stop - rows.start, len(block)
            own = None if mass is None else padded(mass[rows], size)
            lying = self.targets
            with in_64_bits():
                if lying is not None:
                    lying = rows_from(lying, rows.start, size=size)
                found = sums_of_columns(block, lying, own, n_inside)
            mass_of, mean, squares, low, high = map(np.asarray, found)
            ends = center + low, center + high
            counts, nothing = np.full(len(mean), mass_of), np.zeros(len(mean))
            return ColumnSums(counts, center + mean, squares, *ends, nothing)

        blocks = list(self.over_blocks(of_block, 24 * self.shape[1]))
        good = all(np.isfinite(np.stack(block)).all() for block in blocks)
        return joint_sums(blocks) if good else None

    def rows_below(
        self, categories: Any, targets: np.ndarray, limit: np.uint32
    ) -> np.ndarray:
        """See `secret_jax.data.rows.ReadColumns`."""
        factors = sampling_factors(self.shape[1] + targets.shape[1])
        center, lying = self.center.astype(np.float32), self.targets

        def of_block(block: jax.Array, rows: slice) -> np.ndarray:
            n_inside, size = rows.stop - rows.start, len(block)
            with in_32_bits():
                if lying is None:
                    own: Any = np.zeros((size, targets.shape[1]), np.float32)
                    own[:n_inside] = targets[rows]
                else:
                    own = rows_from(lying, rows.start, size=size)
                bits = np.asarray(bits_below(block, center, own, factors, limit))
            some = np.flatnonzero(bits)  # of which a small sample has few
            byte, bit = np.nonzero(np.unpackbits(bits[some, None], axis=1))
            index = 8 * some[byte] + bit
            return rows.start + index[: np.searchsorted(index, n_inside)]

        return np.concatenate(list(self.over_blocks(of_block, 12 * len(factors))))

    def in_hash_order(
        self, schema: TableSchema, targets: np.ndarray, weight: np.ndarray
    ) -> Rows | None:
        """Encode the rows of a single device in the order of `merged`, and leave them.

        None: some repeat others. Behind them is room for programs. ``targets`` (n_rows,
        n_outputs) are in units of their own.
        """
        ((_, x),) = self.parts
        known = [schema.in_order(x), targets if self.targets is None else self.targets]
        known += [] if are_ones(weight) else [weight[:, None]]
        every, room = slice(0, None), room_for(self.n_rows)
        units = np.array([schema.target_centers, schema.target_scales])
        with in_64_bits():
            known = [block_of(array, every, room) for array in known]
            x, outputs, *mass = jax.device_put(known, x.device)
            given = x, scaling_of(schema, self), outputs, units
            for apart in (False, True):
                order, n_alike = hash_order(*given, self.n_rows, apart=apart)
                if not int(n_alike):
                    break
            else:
                return None
            x, outputs, mass = put_in_order(*given, mass[0] if mass else None, order)
        table = Table(x, np.zeros((self.n_rows, 0), np.int32))
        if mass is not None:
            weight = np.asarray(mass)[: self.n_rows, 0]
        return Rows(table, np.asarray(outputs)[: self.n_rows], weight)

    def blocks(
        self,
        schema: TableSchema,
        function: Callable[[Table, slice, jax.Array | None], Any],
        size: int,
    ) -> Iterator[Any]:
        """Apply a function to encoded blocks; accelerators take larger ones.

        Its last argument are scaled targets, where they lie beside the rows.
        """
        scaling = scaling_of(schema, self)
        units = np.array([schema.target_centers, schema.target_scales])

        def of_block(block: jax.Array, rows: slice) -> Any:
            own = self.targets
            if own is not None:
                own = rows_from(own, rows.start, size=len(block))
                with in_64_bits():
                    own = scaled_outputs(own, units)
            x = encoded_block(schema.in_order(block), scaling)
            codes = np.zeros((rows.stop - rows.start, 0), np.int32)
            return function(Table(x, codes), rows, own)

        # Of a row its products, and its places among the leaves, usually fewer.
        width = 1 + schema.n_regressors + schema.n_outputs
        numbers = width * (width + 1) // 2 + 3 * schema.n_columns + _LEAVES
        return self.over_blocks(of_block, 4 * numbers, size)


def scaling_of(schema: TableSchema, shards: RowShards) -> Scaling:
    """Scaling of columns that lie without the centers of the shards."""
    center = schema.center - schema.in_order(shards.center[None])[0]
    return center, schema.scale, *schema.saturation


def shard_rows(X: Any, mesh: Mesh | None = None) -> RowShards:
    """Distribute numeric rows over several devices, for ``fit`` and ``predict``.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Numbers, as float32. A ``jax.Array`` that is sharded along its rows stays where
        it is. Of a column that is far from zero for its spread (a time in seconds, say)
        the distance from its mean is kept, with the digits in which its rows differ.
    mesh : jax.sharding.Mesh, optional
        Mesh with one axis; by default all devices of the platform that JAX prefers.
        The rows need not be a multiple of its devices: the last shard is padded.

    Returns
    -------
    RowShards
        Rows that ``fit``, ``predict`` and ``score`` accept in place of an array.

    Notes
    -----
    On accelerators the rows that grow a tree are divided among the same devices, at
    least 65,536 to each, by splits that accelerators compile, unless the estimator's
    ``device`` names one. Sums of nodes cross between devices, never all rows. Of each
    device's rows of a node a search sees at most an equal part of ``max_samples``:
    others than on one device, so that trees may differ. Forests and boosters grow on
    one.

    Raises
    ------
    ValueError
        If X is no table of numbers, or the mesh has several axes.

    Examples
    --------
    >>> from secret_jax import SecretRegressor, shard_rows
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> shards = shard_rows(X)
    >>> model = SecretRegressor(max_depth=0).fit(shards, y)
    >>> model.predict(shards).shape
    (500,)
    """
    if mesh is None:
        if is_sharded(X):
            return as_they_lie(X)
        mesh = Mesh(np.array(jax.local_devices()), ("rows",))
    if len(mesh.axis_names) != 1:
        raise ValueError(
            f"mesh has the axes {mesh.axis_names}; give one of a single axis, for "
            "example jax.make_mesh((jax.device_count(),), ('rows',))."
        )
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ValueError(
            f"X has {array.ndim} dimensions and the type {array.dtype}; shards hold "
            "numbers of shape (n_rows, n_columns)."
        )
    array, center = _narrowed(array)
    n_rows = len(array)
    n_padded = -(-max(n_rows, 1) // mesh.size) * mesh.size
    # A copy of the last row: padding is no value of its own.
    array = np.pad(array, [(0, n_padded - n_rows), (0, 0)], mode="edge")
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
    return RowShards(jax.device_put(array, sharding), n_rows, center)


def _narrowed(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Convert to float32; columns that would lose digits are centered (float64)."""
    center = np.zeros(array.shape[1])
    if array.dtype.itemsize <= 2 or array.dtype == np.float32:
        return array, center
    for number, column in enumerate(array.T):
        values = column[np.isfinite(column)].astype(np.float64)
        if len(values):
            largest = np.float32(min(np.abs(values).max(), np.finfo(np.float32).max))
            if np.spacing(largest) > _ROUNDING * values.std():
                center[number] = np.float32(values.mean())
    narrow = np.empty(array.shape, np.float32)
    np.subtract(array, center, out=narrow, casting="same_kind")
    return narrow, center


def is_resident(X: Any) -> TypeGuard[jax.Array]:
    """Whether a table is an array in the memory of an accelerator."""
    return isinstance(X, jax.Array) and any(
        device.platform != "cpu" for device in X.devices()
    )


def check_array(X: jax.Array) -> None:
    """Refuse arrays that are no tables of numbers."""
    refuse_other_shapes(X)
    if not (
        jnp.issubdtype(X.dtype, jnp.floating) or jnp.issubdtype(X.dtype, jnp.integer)
    ):
        raise ValueError(
            f"X is a device array of dtype {X.dtype}; it must hold real numbers. "
            "Convert it, for example with X.astype('float32')."
        )


def is_sharded(X: Any) -> bool:
    """Whether rows lie in shards on several devices."""
    return isinstance(X, RowShards) or (
        isinstance(X, jax.Array)
        and X.ndim == 2
        and len(X.sharding.device_set) > 1
        and not X.sharding.is_fully_replicated
    )


def as_they_lie(X: Any) -> RowShards:
    """Wrap an array of JAX as shards; rows on a single device are one shard."""
    if isinstance(X, RowShards):
        return X
    if not X.is_fully_addressable:
        raise ValueError(
            "X lies on devices of several processes. Give every process its own rows: "
            "fit_stream((X, y), processes=True)."
        )
    check_array(X)
    if X.sharding.shard_shape(X.shape)[1] < X.shape[1]:  # no device has whole rows
        return shard_rows(np.asarray(X))
    return RowShards(X, len(X), np.zeros(X.shape[1]))


def devices_of(X: Any, device: str | None) -> tuple[Any, ...]:
    """Devices that whole rows lie on, in their order; none where one is named."""
    if device is not None or not is_sharded(X):
        return ()
    array = X.x if isinstance(X, RowShards) else X
    if array.sharding.shard_shape(array.shape)[1] < array.shape[1]:
        return ()
    return tuple(part.device for _, part in as_they_lie(X).parts)


def computing_for(
    X: Any, device: str | None, *, fall_back: bool = False
) -> AbstractContextManager[None]:
    """Enter `computing_on` a device, by default one that suits the rows of X."""
    shape: Any = getattr(X, "shape", None)
    if not isinstance(shape, tuple):
        shape = (len(X),) if isinstance(X, list | tuple) else ()
    stays = is_resident(X) or is_sharded(X)
    n_rows = None if stays or not shape else shape[0]
    return computing_on(
        device, fall_back=fall_back, n_rows=n_rows, shape=shape, stays=stays
    )
