"""Numeric rows in shards on several devices."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from secret_jax.data.device import check_array, is_resident
from secret_jax.runtime.devices import computing_on

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
    """

    x: jax.Array
    n_rows: int
    center: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows without padding, and of columns."""
        return self.n_rows, self.x.shape[1]

    @property
    def ndim(self) -> int:
        """Number of dimensions, as `numpy.ndarray.ndim`."""
        return 2

    @property
    def dtype(self) -> Any:
        """Type of the stored numbers, as `numpy.ndarray.dtype`."""
        return self.x.dtype

    def __len__(self) -> int:
        return self.n_rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy  # it comes from devices: a copy always
        there = np.asarray(self.x)[: self.n_rows]
        return np.asarray(self.restored(there), dtype)

    def restored(self, there: np.ndarray) -> np.ndarray:
        """Convert rows of ``x`` back to their original units."""
        return there + self.center if self.center.any() else there

    @cached_property
    def parts(self) -> list[tuple[int, jax.Array]]:
        """First row of each shard, and its rows, on their device."""
        own = (s for s in self.x.addressable_shards if s.replica_id == 0)
        parts = [(shard.index[0].start or 0, shard.data) for shard in own]
        return sorted(parts, key=lambda part: part[0])


def shard_rows(X: Any, mesh: Mesh | None = None) -> RowShards:
    """Distribute numeric rows over several devices, for ``fit`` and ``predict``.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Numbers. A ``jax.Array`` that is sharded along its rows stays where it is.
        Others lie there as float32. Of a column that is far from zero for its spread
        (a time in seconds, say) what lies there is the distance from its mean, so that
        it keeps the digits in which its rows differ.
    mesh : jax.sharding.Mesh, optional
        Mesh with one axis; by default all devices of the platform that JAX prefers.
        The rows need not be a multiple of its devices: the last shard is padded.

    Returns
    -------
    RowShards
        Rows that ``fit``, ``predict`` and ``score`` accept in place of an array.

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
    if mesh is None and is_sharded(X):
        return as_they_lie(X)
    if mesh is None:
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
    n_rows, n_shards = len(array), mesh.size
    n_padded = -(-max(n_rows, 1) // n_shards) * n_shards
    # A copy of the last row: padding is no value of its own.
    padded = np.pad(array, [(0, n_padded - n_rows), (0, 0)], mode="edge")
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
    return RowShards(jax.device_put(padded, sharding), n_rows, center)


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


def is_sharded(X: Any) -> bool:
    """Whether rows lie in shards on several devices."""
    if isinstance(X, RowShards):
        return True
    return (
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


def computing_for(
    X: Any, device: str | None, *, fall_back: bool = False
) -> AbstractContextManager[None]:
    """Enter `computing_on` a device, by default one that suits the rows of X."""
    shape = getattr(X, "shape", None) or (
        (len(X),) if isinstance(X, list | tuple) else None
    )
    there = is_resident(X) or is_sharded(X)
    n_rows = None if there or not isinstance(shape, tuple) else shape[0]
    return computing_on(device, fall_back=fall_back, n_rows=n_rows)
