"""Small linear algebra that never yields NaN, for one problem; `vmap` gives batches.

Elimination is written out in array operations on purpose. Batched LAPACK calls on the
CPU share one thread pool and can wait for each other for ever (seen with jaxlib 0.10.2,
two calls in one program and batches of 512 and more; its neighbours are
https://github.com/jax-ml/jax/issues/39292 and
https://github.com/jax-ml/jax/issues/36927), and a factorisation that meets a pivot near
zero would poison the batch with NaN; here it drops that column and says so.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

# NumPy on the host, traced under jit: what a batch holds is both in its life.
if TYPE_CHECKING:  # which of the two it is no checker can follow
    AnyArray: TypeAlias = Any
else:
    AnyArray = jax.Array | np.ndarray

HIGHEST = jax.lax.Precision.HIGHEST

_WRITTEN_OUT: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "written_out", default=False
)


@contextmanager
def written_out() -> Iterator[None]:
    """Short loops that are traced within are written out, step by step.

    An accelerator starts several kernels for every turn of a loop, some of them to copy
    what it carries, but few for steps that stand side by side. Processors keep loops:
    they compile faster. The numbers are the same.
    """
    token = _WRITTEN_OUT.set(True)
    try:
        yield
    finally:
        _WRITTEN_OUT.reset(token)


def turns(n: int, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """``step(i, state)`` for i below n, a loop or `written_out`."""
    if not _WRITTEN_OUT.get():
        return jax.lax.fori_loop(0, n, step, start)
    state = start
    for i in range(n):
        state = step(i, state)
    return state


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """Matrix product in full float32: TF32 is not enough for a Gram matrix."""
    return jnp.matmul(a, b, precision=HIGHEST)


def safe_divide(numerator: Any, denominator: Any, xp: Any = jnp) -> Any:
    """A quotient, 0 where the denominator is not positive: weights of nothing.

    Parameters
    ----------
    numerator, denominator : Array
        Of shapes that are broadcast.
    xp : module
        `jax.numpy`, or `numpy` on the host.

    Returns
    -------
    Array

    Examples
    --------
    >>> safe_divide(jnp.array([1.0, 0.0]), jnp.array([4.0, 0.0])).tolist()
    [0.25, 0.0]
    """
    positive = denominator > 0
    return xp.where(positive, numerator / xp.where(positive, denominator, 1), 0)


def unit_vectors(vectors: jax.Array) -> jax.Array:
    """Vectors along the last axis with length one; what has none becomes zero."""
    sound = jnp.isfinite(vectors).all(axis=-1, keepdims=True)
    vectors = jnp.where(sound, vectors, 0.0)
    length = jnp.sqrt(jnp.sum(vectors**2, axis=-1, keepdims=True))
    return vectors / jnp.where(length > 0, length, 1.0)


def inverse_cholesky(
    matrix: Float[Array, "n n"], tolerance: jax.Array | float
) -> tuple[Float[Array, "n n"], Bool[Array, " n"]]:
    """Inverse of the Cholesky factor of a positive semi-definite matrix.

    Parameters
    ----------
    matrix : Array of shape (n, n)
    tolerance : float
        A pivot at or below it marks its column as dependent on the earlier ones.

    Returns
    -------
    inverse : Array of shape (n, n)
        Lower triangular ``W`` with ``W @ matrix @ W.T`` the identity; the row of a
        dependent column is zero.
    independent : Array of shape (n,), bool
        False for dependent columns.

    Examples
    --------
    >>> matrix = jnp.array([[4.0, 2.0], [2.0, 1.0]])
    >>> inverse, independent = inverse_cholesky(matrix, 1e-6)
    >>> independent.tolist()
    [True, False]
    >>> (inverse + 0.0).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    n = matrix.shape[0]
    if n == 0:
        return matrix, jnp.ones(0, bool)
    index = jnp.arange(n)

    def factor(pivot, ok):
        return jnp.where(ok, 1.0 / jnp.sqrt(jnp.where(ok, pivot, 1.0)), 0.0)

    def eliminate(pair, both):
        """Two pivots at once: half the steps, of the same operations on each number."""
        j, k = 2 * pair, jnp.minimum(2 * pair + 1, n - 1)
        first = factor(both[j, j], both[j, j] > tolerance)
        row = first * both[j]
        below = jnp.where(index > j, first * both[:, j], 0.0)
        pivot = both[k, k] - below[k] * row[k]
        second = factor(pivot, (pivot > tolerance) & (k > j))
        next_row = second * (both[k] - below[k] * row)
        next_below = second * (both[:, k] - below * row[k])
        next_below = jnp.where(index > k, next_below, 0.0)
        rest = both - below[:, None] * row - next_below[:, None] * next_row
        rest = jnp.where((index[:, None] == k) & (k > j), next_row, rest)
        return jnp.where(index[:, None] == j, row, rest)

    # Side by side with the identity: one operation on one array for each step.
    both = jnp.concatenate([matrix, jnp.eye(n, dtype=matrix.dtype)], axis=1)
    inverse = turns(-(-n // 2), eliminate, both)[:, n:]
    return inverse, jnp.diagonal(inverse) > 0


def guarded_solve(
    matrix: Float[Array, "n n"], rhs: jax.Array, tolerance: jax.Array | float
) -> jax.Array:
    """Solve a positive semi-definite system; dependent columns get a zero.

    Parameters
    ----------
    matrix : Array of shape (n, n)
    rhs : Array of shape (n,) or (n, n_right_hand_sides)
    tolerance : float
        As in `inverse_cholesky`.

    Returns
    -------
    Array of the shape of ``rhs``
    """
    inverse, _ = inverse_cholesky(matrix, tolerance)
    return matmul(inverse.T, matmul(inverse, rhs))


def leading_eigenvectors(
    matrix: Float[Array, "m m"], n: int, n_squarings: int = 6
) -> Float[Array, "n m"]:
    """Eigenvectors of a symmetric matrix with the largest absolute eigenvalues.

    One after the other, each from a high power of what the earlier ones leave of the
    matrix: few products of matrices take the place of many steps of an iteration.

    Parameters
    ----------
    matrix : Array of shape (m, m)
    n : int
        At most m.
    n_squarings : int
        The power is 2 ** (n_squarings + 1).

    Returns
    -------
    Array of shape (n, m)
        Rows of unit length, or zero where nothing is left of the matrix; approximate
        where eigenvalues nearly tie.
    """

    def normed(matrix):
        size = jnp.max(jnp.abs(matrix))
        return matrix / jnp.where(size > 0, size, 1.0)

    def squared(_, matrix):
        matrix = normed(matrix)
        return matmul(matrix, matrix)

    def take(rest, _):
        power = jax.lax.fori_loop(0, n_squarings + 1, squared, rest)
        # Nearly v v': every column is along v.
        vector = unit_vectors(normed(power[jnp.argmax(jnp.diagonal(power))]))
        # In the square, eigenvalues of opposite sign tie; this takes one of the two.
        image = matmul(rest, vector)
        size = jnp.sqrt(jnp.sum(image**2))
        same, opposite = image + size * vector, image - size * vector
        vector = unit_vectors(jnp.where(jnp.dot(image, vector) >= 0, same, opposite))
        outside = jnp.eye(len(rest), dtype=rest.dtype) - jnp.outer(vector, vector)
        return matmul(outside, matmul(rest, outside)), vector

    return jax.lax.scan(take, normed(matrix), None, length=n)[1]


def weighted_moments(
    values: Float[Array, "n_rows n_columns"], weight: Float[Array, " n_rows"]
) -> tuple[Float[Array, ""], Float[Array, " n_columns"], Float[Array, " n_columns"]]:
    """Total weight, mean and standard deviation of each column, in two passes.

    Parameters
    ----------
    values : Array of shape (n_rows, n_columns)
    weight : Array of shape (n_rows,)
        Zero for padding.

    Returns
    -------
    total : Array of shape ()
    mean, deviation : Array of shape (n_columns,)
    """
    total = jnp.sum(weight)
    share = weight / jnp.maximum(total, jnp.finfo(weight.dtype).tiny)
    # The mean of values about their first row: an offset does not eat the digits.
    shift = values[0]
    mean = shift + matmul(share, values - shift)
    variance = matmul(share, (values - mean) ** 2)
    return total, mean, jnp.sqrt(variance)
