"""Leading eigenvectors of small symmetric matrices."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secret_jax.runtime.linalg import (
    AnyArray,
    each,
    matmul,
    namespace,
    safe_divide,
    small_matmul,
    unit_vectors,
)

# Squarings of a matrix, and the logarithm of the largest number that they may lead to.
_N_SQUARINGS, _LARGEST = 7, 70.0


def leading_eigenvectors(
    matrix: Float[AnyArray, "... m m"], n: int
) -> Float[AnyArray, "... n m"]:
    """Eigenvectors of a symmetric matrix with the largest absolute eigenvalues.

    In JAX each comes from a high power of what the earlier ones leave of the matrix:
    few products of matrices take the place of many steps of an iteration; they are
    approximate where eigenvalues nearly tie. Rows have unit length, or are zero where
    nothing is left of the matrix.
    """
    if namespace(matrix) is np:
        finite = np.isfinite(matrix).all(axis=(-2, -1), keepdims=True)
        value, vector = np.linalg.eigh(np.where(finite, matrix, 0.0))
        size = np.abs(value)[..., None, :]
        order = np.argsort(-size, axis=-1, stable=True)[..., :n]
        vector = np.where(size > 0, vector, 0.0)
        return np.swapaxes(np.take_along_axis(vector, order, axis=-1), -1, -2)
    return each(lambda matrix: _by_powers(matrix, n), matrix.ndim - 2)(matrix)


def _by_powers(matrix: Float[Array, "m m"], n: int) -> Float[Array, "n m"]:
    def normed(matrix):
        largest = jnp.max(jnp.abs(matrix), keepdims=True)
        return matrix / jnp.where(largest > 0, largest, 1.0)

    # Eigenvalues of m x m numbers of at most one are at most m.
    together = int(np.log2(_LARGEST / np.log(max(len(matrix), 2))))
    rest, found = matrix, []
    for _ in range(n):
        power = rest = normed(rest)
        for i in range(_N_SQUARINGS):
            power = normed(power) if i and not i % together else power
            power = small_matmul(power, power)
        # Nearly v v': every column is along v, none is longer than the diagonal says.
        size = jnp.diagonal(power)
        vector = safe_divide(power[jnp.argmax(size)], jnp.max(size))
        # In the square, eigenvalues of opposite sign tie; this takes one of the two.
        image = matmul(rest, vector)
        size = jnp.sqrt(safe_divide(jnp.sum(image**2), jnp.sum(vector**2)))
        size = jnp.where(jnp.sum(image * vector) >= 0, size, -size)
        vector = unit_vectors(image + size * vector)
        outside = jnp.eye(len(rest), dtype=rest.dtype) - jnp.outer(vector, vector)
        rest = small_matmul(outside, small_matmul(rest, outside))
        found.append(vector)
    return jnp.stack(found)
