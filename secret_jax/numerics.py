"""Small linear algebra that never yields NaN, for one problem; `vmap` gives batches.

A factorisation that meets a pivot near zero (a constant or dependent column) drops that
column and says so, instead of poisoning the batch.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

HIGHEST = jax.lax.Precision.HIGHEST


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """Matrix product in full float32: TF32 is not enough for a Gram matrix."""
    return jnp.matmul(a, b, precision=HIGHEST)


def guarded_cholesky(
    matrix: jax.Array, tolerance: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """Cholesky factor of a positive semi-definite matrix, dependent columns dropped.

    Parameters
    ----------
    matrix : Array of shape (n, n)
    tolerance : float or Array of shape (n,)
        A pivot at or below it marks its column as dependent on the earlier ones.

    Returns
    -------
    factor : Array of shape (n, n)
        Lower triangular; a dropped column is the unit vector of the diagonal.
    independent : Array of shape (n,), bool
        False for dropped columns.

    Examples
    --------
    >>> matrix = jnp.array([[4.0, 2.0], [2.0, 1.0]])
    >>> factor, independent = guarded_cholesky(matrix, 1e-6)
    >>> independent.tolist()
    [True, False]
    """
    n = matrix.shape[0]
    index = jnp.arange(n)
    tolerance = jnp.broadcast_to(jnp.asarray(tolerance, matrix.dtype), (n,))

    def eliminate(j, state):
        remaining, factor, independent = state
        pivot = remaining[j, j]
        ok = pivot > tolerance[j]
        root = jnp.sqrt(jnp.where(ok, pivot, 1.0))
        below = jnp.where(ok & (index > j), remaining[:, j] / root, 0.0)
        column = jnp.where(index == j, root, below)
        remaining = remaining - below[:, None] * below[None, :]
        factor = jnp.where(index[None, :] == j, column[:, None], factor)
        return remaining, factor, independent & (ok | (index != j))

    start = (matrix, jnp.zeros_like(matrix), jnp.ones(n, bool))
    _, factor, independent = jax.lax.fori_loop(0, n, eliminate, start)
    return factor, independent


def inverse_factor(factor: jax.Array) -> jax.Array:
    """Inverse of a lower triangular factor, shape (n, n)."""
    identity = jnp.eye(factor.shape[0], dtype=factor.dtype)
    return solve_triangular(factor, identity, lower=True)


def guarded_solve(
    matrix: jax.Array, rhs: jax.Array, tolerance: jax.Array | float
) -> jax.Array:
    """Solve a positive semi-definite system; dropped columns get a zero.

    Parameters
    ----------
    matrix : Array of shape (n, n)
    rhs : Array of shape (n, k)
    tolerance : float
        As in `guarded_cholesky`.

    Returns
    -------
    Array of shape (n, k)
    """
    factor, independent = guarded_cholesky(matrix, tolerance)
    keep = independent[:, None]
    # Without its row, a dropped column takes no part in the forward substitution.
    factor = jnp.where(keep | jnp.eye(matrix.shape[0], dtype=bool), factor, 0.0)
    forward = solve_triangular(factor, jnp.where(keep, rhs, 0.0), lower=True)
    return solve_triangular(factor, forward, lower=True, trans=1)


def weighted_moments(
    values: jax.Array, weight: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
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
