"""Small linear algebra that never yields NaN, for one problem; `vmap` batches it.

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

# Written out, so many squarings of a matrix follow each other before it is scaled
# again: far from any overflow.
_MOST_SQUARINGS = 3

_WRITTEN_OUT: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "written_out", default=False
)


@contextmanager
def written_out(wanted: bool = True) -> Iterator[None]:
    """Unroll short loops that are traced inside the block.

    An accelerator starts several kernels for every iteration of a loop, some only to
    copy its state, but few for steps that follow each other. On CPUs loops stay, as
    they compile faster. Results are the same up to rounding.
    """
    token = _WRITTEN_OUT.set(wanted)
    try:
        yield
    finally:
        _WRITTEN_OUT.reset(token)


def is_written_out() -> bool:
    """Whether loops that are traced now are unrolled."""
    return _WRITTEN_OUT.get()


def turns(n: int, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """Apply ``step(i, state)`` for all i below n, as a loop or unrolled.

    Examples
    --------
    >>> turns(3, lambda i, state: state + i, 0).item()
    3
    """
    if not is_written_out():
        return jax.lax.fori_loop(0, n, step, start)
    state = start
    for i in range(n):
        state = step(i, state)
    return state


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiply matrices in full float32: TF32 is not enough for a Gram matrix."""
    return jnp.matmul(a, b, precision=HIGHEST)


def small_matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiply small matrices, or a matrix and a vector, fused with other kernels.

    Unrolled, it is a sum of products, which a compiler can fuse with its neighbours.
    """
    if not is_written_out():
        return matmul(a, b)
    return jnp.sum(a * b if b.ndim == 1 else a[:, :, None] * b, axis=1)


def safe_divide(numerator: Any, denominator: Any, xp: Any = jnp) -> Any:
    """Divide, with 0 where the denominator is not positive.

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
    """Scale vectors along the last axis to length one; zero or non-finite ones to 0."""
    sound = jnp.isfinite(vectors).all(axis=-1, keepdims=True)
    length = jnp.sqrt(jnp.sum(vectors**2, axis=-1, keepdims=True))
    return jnp.where(sound, vectors / jnp.where(length > 0, length, 1.0), 0.0)


def inverse_cholesky(
    matrix: Float[Array, "n n"], tolerance: jax.Array | float
) -> tuple[Float[Array, "n n"], Bool[Array, " n"]]:
    """Invert the Cholesky factor of a positive semi-definite matrix.

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
    if is_written_out():
        inverse = _inverse_written_out(matrix, tolerance)
        return inverse, jnp.diagonal(inverse) > 0
    index = jnp.arange(n)

    def eliminate(j, both):
        factor = _factor(both[j, j], tolerance)
        row = factor * both[j]
        below = jnp.where(index > j, factor * both[:, j], 0.0)
        rest = both - below[:, None] * row[None, :]
        return jnp.where(index[:, None] == j, row[None, :], rest)

    # Side by side with the identity: one operation on one array for each column.
    both = jnp.concatenate([matrix, jnp.eye(n, dtype=matrix.dtype)], axis=1)
    inverse = jax.lax.fori_loop(0, n, eliminate, both)[:, n:]
    return inverse, jnp.diagonal(inverse) > 0


def _factor(pivot: jax.Array, tolerance: jax.Array | float) -> jax.Array:
    ok = pivot > tolerance
    return jnp.where(ok, 1.0 / jnp.sqrt(jnp.where(ok, pivot, 1.0)), 0.0)


def _inverse_written_out(
    matrix: Float[Array, "n n"], tolerance: jax.Array | float
) -> Float[Array, "n n"]:
    """Compute `inverse_cholesky` unrolled, two pivots per step.

    In place: what has been eliminated makes room for a column of the inverse. A step
    is one kernel. The barriers keep a compiler from merging steps: each would then be
    computed again for everything that reads it.
    """
    n = len(matrix)
    index = jnp.arange(n)
    for first in range(0, n, 2):
        pivots, rows, belows = range(first, min(first + 2, n)), [], []
        for pivot in pivots:
            row, column = matrix[pivot], matrix[:, pivot]
            for earlier, above, below in zip(pivots, rows, belows, strict=False):
                row = jnp.where(index == earlier, 0.0, row) - below[pivot] * above
                column = column - below * above[pivot]
            factor = _factor(column[pivot], tolerance)
            rows.append(factor * jnp.where(index == pivot, 1.0, row))
            belows.append(jnp.where(index > pivot, factor * column, 0.0))
        for pivot, row, below in zip(pivots, rows, belows, strict=True):
            matrix = jnp.where(index == pivot, 0.0, matrix) - below[:, None] * row
        for pivot, row in zip(pivots, rows, strict=True):
            matrix = jnp.where(index[:, None] == pivot, row, matrix)
        if pivots[-1] == n - 1:
            matrix = jnp.where(index <= index[:, None], matrix, 0.0)
        matrix = jax.lax.optimization_barrier(matrix)
    return matrix


def guarded_solve(
    matrix: Float[Array, "n n"], rhs: jax.Array, tolerance: jax.Array | float
) -> jax.Array:
    """Solve a positive semi-definite system, with zeros for dependent columns.

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
    """Eigenvectors of the largest absolute eigenvalues of a symmetric matrix.

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

    def squared(i, matrix):
        if not is_written_out() or i % _MOST_SQUARINGS == 0:
            matrix = normed(matrix)
        return small_matmul(matrix, matrix)

    def take(rest, _):
        power = turns(n_squarings + 1, squared, rest)
        # Nearly v v': every column is along v.
        vector = unit_vectors(normed(power[jnp.argmax(jnp.diagonal(power))]))
        # In the square, eigenvalues of opposite sign tie; this takes one of the two.
        image = matmul(rest, vector)
        size = jnp.sqrt(jnp.sum(image**2))
        same, opposite = image + size * vector, image - size * vector
        vector = unit_vectors(jnp.where(jnp.dot(image, vector) >= 0, same, opposite))
        outside = jnp.eye(len(rest), dtype=rest.dtype) - jnp.outer(vector, vector)
        return matmul(outside, matmul(rest, outside)), vector

    if is_written_out():
        rest, found = matrix, []
        for _ in range(n):
            rest, vector = take(rest, None)
            found.append(vector)
        return jnp.stack(found)
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
