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
from secret_jax.data.rows import (
    ROW_ORDER,
    STEPS,
    ReadColumns,
    Rows,
    Table,
    are_ones,
    rows_from,
    sampling_factors,
    sampling_hash,
)
from secret_jax.data.scaling import ColumnSums, joint_sums
from secret_jax.data.schema import TableSchema
from secret_jax.runtime.devices import computing_on, in_32_bits, rows_at_once
from secret_jax.runtime.hashing import mix, mix_there
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.parallel import ROW_BLOCK, in_blocks
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import bucket, next_power_of_two, padded, room_for

# Leaves for which blocks have room.
_SMALLEST_BLOCK, _LEAVES = 1024, 128
# What float32 may take from a column, in deviations.
_ROUNDING = 1e-6


# Centers, scales and bounds of encoded columns.
Scaling = tuple[AnyArray, AnyArray, AnyArray, AnyArray]


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
                    rows = _chosen(part, place.astype(np.int32))
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
                found = _column_sums(block, lying, own, n_inside)
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
                bits = np.asarray(_bits_below(block, center, own, factors, limit))
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
                order, n_alike = _hash_order(*given, self.n_rows, apart=apart)
                if not int(n_alike):
                    break
            else:
                return None
            x, outputs, mass = _in_order(*given, mass[0] if mass else None, order)
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
                    own = _outputs(own, units)
            x = encoded_block(schema.in_order(block), scaling)
            codes = np.zeros((rows.stop - rows.start, 0), np.int32)
            return function(Table(x, codes), rows, own)

        # Of a row its products, and its places among the leaves, usually fewer.
        width = 1 + schema.n_regressors + schema.n_outputs
        numbers = width * (width + 1) // 2 + 3 * schema.n_columns + _LEAVES
        return self.over_blocks(of_block, 4 * numbers, size)


@program()
def _column_sums(
    x: AnyArray, targets: AnyArray | None, weight: AnyArray | None, n_inside: AnyArray
) -> tuple[jax.Array, ...]:
    """Weight, means, sums of squares about them, and ranges of a block's columns."""
    # The fill has no weight, and is within the range.
    inside = jnp.arange(len(x)) < n_inside
    mass = inside if weight is None else weight
    mass, found = mass.astype(jnp.float64)[:, None], []
    for part in (x, targets):
        if part is not None:
            own = part.reshape(len(x), -1).astype(jnp.float64)
            mean = jnp.sum(mass * own, axis=0) / mass.sum()
            squares = jnp.sum(mass * (own - mean) ** 2, axis=0)
            found.append((mean, squares, own.min(axis=0), own.max(axis=0)))
    return mass.sum(), *map(jnp.concatenate, zip(*found, strict=True))


@program()
def _bits_below(
    x: AnyArray, center: AnyArray, targets: AnyArray, factors: AnyArray, limit: AnyArray
) -> jax.Array:
    """Mask of the rows whose hash is below a limit, packed eight to a byte."""
    values = x.astype(jnp.float32)
    # Not + 0.0, which would flush the smallest numbers to zero.
    values = jnp.where(center == 0, values, values + center)
    joint = jnp.concatenate([values, targets.reshape(len(x), -1)], axis=1)
    return jnp.packbits(sampling_hash(joint, factors) < limit)


@program(static_argnames=("apart",))
def _hash_order(
    x: AnyArray,
    scaling: Scaling,
    targets: AnyArray,
    units: AnyArray,
    n_rows: AnyArray,
    *,
    apart: bool,
) -> tuple[jax.Array, jax.Array]:
    """Order of rows by content hash, and how many have that of another.

    Those from ``n_rows`` on come last. ``apart``: rows that differ by less than a step
    are told apart by exact content.
    """
    outputs = _outputs(targets, units)
    columns = jnp.concatenate([standardised(x, scaling).T, outputs.T])
    hashed = _content_hash(jnp.rint(STEPS * columns))
    row = jnp.arange(len(x), dtype=jnp.int32)
    hashed, order, same = _ranked(hashed, row, row < n_rows)
    if apart:
        alike = jnp.append(same, False) | jnp.append(False, same)
        exact = mix_there(hashed ^ mix_there(_content_hash(columns)[order]))
        hashed = jnp.where(alike, exact, hashed)
        _, order, same = _ranked(hashed, order, row < n_rows)
    return order, jnp.sum(same)


def _ranked(
    hashed: jax.Array, order: jax.Array, inside: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sort hashes, those outside last, and mark those equal to the one before."""
    last = np.uint64(2**64 - 1)
    hashed = jnp.where(inside, jnp.minimum(hashed, last - np.uint64(1)), last)
    pairs = hashed, order
    hashed, order = jax.lax.sort(pairs, num_keys=1, is_stable=False)
    return hashed, order, (hashed[1:] == hashed[:-1]) & inside[1:]


def _content_hash(columns: jax.Array) -> jax.Array:
    """See `secret_jax.data.rows.content_hash`; of float32, none of them subnormal."""

    def with_column(state: jax.Array, column: jax.Array) -> tuple[jax.Array, None]:
        bits = jax.lax.bitcast_convert_type(column, jnp.uint32).astype(jnp.uint64)
        sign, size = bits >> np.uint64(31), bits & np.uint64(2**31 - 1)
        # The same number of 64 bits: not every device has these.
        wide = (size << np.uint64(29)) + np.uint64((1023 - 127) << 52)
        wide = jnp.where(size == 0, np.uint64(0), wide | sign << np.uint64(63))
        return mix_there(state ^ wide), None

    first = jnp.full(columns.shape[1], mix(np.uint64(ROW_ORDER)))
    return jax.lax.scan(with_column, first, columns)[0]


@program()
def _in_order(
    x: AnyArray,
    scaling: Scaling,
    targets: AnyArray,
    units: AnyArray,
    weight: AnyArray | None,
    order: AnyArray,
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Encoded rows in an order; their scaled targets; their weights."""
    own = None if weight is None else weight[order]
    return standardised(x[order], scaling), _scaled(targets[order], units), own


@program()
def _outputs(targets: AnyArray, units: AnyArray) -> jax.Array:
    return _scaled(targets, units).astype(jnp.float32)


def _scaled(targets: AnyArray, units: AnyArray) -> jax.Array:
    """Targets in standardised units, in float64."""
    targets = targets.reshape(len(targets), -1).astype(jnp.float64)
    return (targets - units[0]) / units[1]


@program()
def _chosen(x: AnyArray, index: AnyArray) -> jax.Array:
    return x[index]


def block_of(x: AnyArray, rows: slice, size: int) -> AnyArray:
    """Take a block of rows, padded to a size, of an array on host or device."""
    if not isinstance(x, np.ndarray):
        return x if len(x) == size else rows_from(x, rows.start or 0, size=size)
    block = x[rows]
    missing = size - len(block)
    return np.pad(block, [(0, missing), (0, 0)]) if missing else block


def in_64_bits() -> AbstractContextManager[Any]:
    """Trace programs with float64: few rows go to another leaf than on the host."""
    return jax.enable_x64(True)


def standardised(x: AnyArray, scaling: Scaling) -> jax.Array:
    """Standardise columns in float64, rounded to float32; traceable in `in_64_bits`."""
    center, scale, low, high = scaling
    value = (x.astype(jnp.float64) - center) / scale
    return jnp.clip(value, low, high).astype(jnp.float32)


_standardised = program()(standardised)


def encoded_block(x: jax.Array, scaling: Scaling) -> jax.Array:
    """Standardise finite numbers to float32 on their device."""
    with in_64_bits():
        return _standardised(x, scaling)


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
