"""Array operations implemented separately for NumPy and for JAX.

Axes before the last ones enumerate nodes. Arrays of NumPy are computed by NumPy, all
others by JAX.
"""

from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from secret_jax.runtime.linalg import AnyArray, each, namespace


def largest(values: Float[AnyArray, "... n"], k: int) -> Int[AnyArray, "... k"]:
    """Positions of the k largest values, in descending order; ties by position.

    Examples
    --------
    >>> largest(np.array([1.0, 3.0, 3.0, 2.0]), 3).tolist()
    [1, 2, 3]
    """
    if namespace(values) is np:
        return np.argsort(-values, axis=-1, stable=True)[..., :k]
    # Counted: a sort of so few takes longer.
    index, order = jnp.arange(values.shape[-1]), jnp.arange(k)
    own, other = values[..., :, None], values[..., None, :]
    before = (other > own) | ((other == own) & (index < index[:, None]))
    rank = jnp.sum(before, axis=-1)
    return jnp.sum(jnp.where(rank[..., None, :] == order[:, None], index, 0), axis=-1)


def taken(array: AnyArray, index: AnyArray, n_axes: int) -> AnyArray:
    """Take entries along the axis after ``n_axes`` axes of nodes.

    ``array`` (..., n, *rest); ``index`` (...) or (..., k), int. Returns (..., *rest) or
    (..., k, *rest).
    """
    if namespace(array) is np:
        return array[(*_all_nodes(array.shape[:n_axes], np.ndim(index)), index)]
    return each(lambda array, index: array[index], n_axes)(array, index)


@lru_cache(maxsize=1024)
def _all_nodes(shape: tuple[int, ...], n_axes: int) -> tuple[np.ndarray, ...]:
    """Indices along the axes of nodes, for broadcasting to ``n_axes`` axes."""
    after = n_axes - 1
    return tuple(
        np.arange(n).reshape(n, *(1,) * (after - axis)) for axis, n in enumerate(shape)
    )


def where_each(chosen: AnyArray, a: AnyArray, b: AnyArray) -> AnyArray:
    """Select entries of two arrays by a condition on their first axes."""
    shape = chosen.shape + (1,) * (a.ndim - chosen.ndim)
    return namespace(a).where(chosen.reshape(shape), a, b)
