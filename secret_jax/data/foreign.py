"""Arrays of other libraries, taken by DLPack; results as arrays of the kind of X."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import numpy as np
from jax.core import Tracer

from secret_jax.data.shards import RowShards
from secret_jax.runtime.devices import in_32_bits

_Method = TypeVar("_Method", bound=Callable[..., Any])

# Devices of DLPack whose memory a processor reads: its own, and that pinned for GPUs.
_OF_HOST = (1, 3, 11)


def taken(array: Any) -> Any:
    """Take an array of another library as one of JAX or NumPy; all else stays.

    One in the memory of a device that JAX sees stays there, others are copied to the
    host. TypeError within a trace of JAX, and where an array cannot be read.
    """
    if isinstance(array, Tracer):
        raise TypeError(
            "A method of an estimator was traced by JAX (jax.jit, jax.grad, jax.vmap), "
            "and works on values. Trace the function of the model: function, "
            "parameters = model.to_jax(), then function(parameters, model.encode(X))."
        )
    if isinstance(array, np.ndarray | jax.Array) or not hasattr(array, "__dlpack__"):
        return array
    try:
        on_host = int(array.__dlpack_device__()[0]) in _OF_HOST
        if on_host and hasattr(array, "__array__"):
            return np.asarray(array)
        return np.from_dlpack(array) if on_host else _from_device(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"An array of type {type(array).__name__} cannot be read: {error} Give one "
            "without gradients in the memory of the host: tensor.detach().cpu() of "
            "PyTorch, array.get() of CuPy."
        ) from error


def _from_device(array: Any) -> Any:
    try:
        with in_32_bits():
            return jax.dlpack.from_dlpack(array)
    except Exception:  # JAX sees no such device, or knows no such type
        for name in ("get", "cpu"):  # of CuPy and of PyTorch
            if hasattr(array, name):
                return np.asarray(getattr(array, name)())
        return np.from_dlpack(array, device="cpu", copy=True)


def of_kind_of_x(method: _Method) -> _Method:
    """Decorate a method of X: results for an array of JAX are arrays of JAX.

    They lie where X lies. Text stays an array of NumPy.
    """

    @functools.wraps(method)
    def call(self: Any, X: Any, *arguments: Any, **more: Any) -> Any:
        if type(X) is np.ndarray:
            return method(self, X, *arguments, **more)
        X = taken(X)
        found = method(self, X, *arguments, **more)
        array = X.x if isinstance(X, RowShards) else X
        if not isinstance(array, jax.Array):
            return found
        return jax.tree.map(functools.partial(_beside, array), found)

    return cast(_Method, call)


def _beside(array: jax.Array, found: Any) -> Any:
    """Put values of rows where the rows lie, unless they are there, or text."""
    if isinstance(found, jax.Array) or found.dtype.kind not in "biuf":
        return found
    several = len(array.sharding.device_set) > 1
    return jax.device_put(found, None if several else array.sharding)
