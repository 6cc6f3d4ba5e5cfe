"""Small arrays that cross to a device as one: every array costs a copy of its own."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.linalg import AnyArray

# Wider numbers than programs compute with.
_NARROW = {"int64": "int32", "float64": "float32"}
_WORD = 4


class Layout(NamedTuple):
    """Which arrays lie in one, of what shapes and types, one after the other."""

    tree: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]
    starts: tuple[int, ...]  # in words; the last one is the end

    @classmethod
    def of(cls, arrays: Any) -> Layout:
        """Lay out arrays, or what has their shapes and types."""
        leaves, tree = jax.tree.flatten(arrays)
        shapes = tuple(tuple(leaf.shape) for leaf in leaves)
        names = (np.dtype(leaf.dtype).name for leaf in leaves)
        dtypes = tuple(np.dtype(_NARROW.get(name, name)) for name in names)
        assert all(dtype.itemsize <= _WORD for dtype in dtypes), dtypes
        sizes = (math.prod(s) * d.itemsize for s, d in zip(shapes, dtypes, strict=True))
        starts = np.cumsum([0, *(-(-size // _WORD) for size in sizes)])
        return cls(tree, shapes, dtypes, tuple(starts.tolist()))

    def zeros(self) -> Packed:
        """Zeros, to be written into `Packed.apart`."""
        return Packed(np.zeros(self.starts[-1], np.int32), self)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["words"], meta_fields=["layout"]
)
@dataclass(frozen=True, eq=False)
class Packed:
    """Arrays as the bits of one of int32, which a program takes apart.

    Examples
    --------
    >>> packed = Packed.of({"a": np.arange(3), "b": np.array([True])})
    >>> packed.words.shape, packed.apart()["a"] + 1
    ((4,), array([1, 2, 3], dtype=int32))
    """

    words: AnyArray
    layout: Layout

    @classmethod
    def of(cls, arrays: Any) -> Packed:
        """Copy arrays of the host."""
        packed = Layout.of(arrays).zeros()
        own = jax.tree.leaves(packed.apart())
        for array, values in zip(own, jax.tree.leaves(arrays), strict=True):
            array[...] = values
            # What is too large for a program must not wrap.
            assert values.dtype != np.int64 or np.array_equal(array, values)
        return packed

    def apart(self) -> Any:
        """The arrays: on the host views, in a program parts."""
        tree, shapes, dtypes, starts = self.layout
        every = zip(shapes, dtypes, starts, starts[1:], strict=False)
        if isinstance(self.words, np.ndarray):
            words = self.words
            return tree.unflatten(
                [np.ndarray(s, d, words, _WORD * start) for s, d, start, _ in every]
            )
        return tree.unflatten(
            [
                _cast(self.words[start:stop], d)[: math.prod(s)].reshape(s)
                for s, d, start, stop in every
            ]
        )


def _cast(words: jax.Array, dtype: np.dtype) -> jax.Array:
    if dtype.kind == "b":  # shifts fuse with what reads them, casts of parts do not
        return (words[:, None] >> 8 * jnp.arange(4) & 0xFF != 0).ravel()
    return jax.lax.bitcast_convert_type(words, dtype).ravel()
