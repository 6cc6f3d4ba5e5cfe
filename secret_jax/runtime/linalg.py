"""Small linear algebra that never yields NaN, and sums of moments.

Problems may be one or many: each takes the last axes of arrays, all axes before them
enumerate problems. Arrays of NumPy are computed by NumPy, all others by JAX.

Elimination is written out in array operations on purpose. Batched LAPACK calls on the
CPU share one thread pool and can wait for each other for ever (seen with jaxlib
0.10.2, two calls in one program and batches of 512 and more; its neighbours are
https://github.com/jax-ml/jax/issues/39292 and
https://github.com/jax-ml/jax/issues/36927), and a factorisation that meets a pivot near
zero would poison the batch with NaN, or stop it; here it drops that column and says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

# NumPy on the host, traced under jit: what a batch holds is both in its life.
if TYPE_CHECKING:  # which of the two it is no checker can follow
    AnyArray: TypeAlias = Any
else:
    AnyArray = jax.Array | np.ndarray

HIGHEST = jax.lax.Precision.HIGHEST

_OF_NUMPY = (np.ndarray, np.generic)
# Of fewer matrices LAPACK takes one after the other in less time.
_FEW = 24
# Squarings of a matrix, and the logarithm of the largest number that they may lead to.
_N_SQUARINGS, _LARGEST = 7, 70.0


def namespace(array: Any) -> Any:
    """Choose NumPy for its own arrays, `jax.numpy` for all others."""
    return np if isinstance(array, _OF_NUMPY) else jnp


def each(function: Callable[..., Any], n_axes: int) -> Callable[..., Any]:
    """Map a JAX function of one problem over a number of leading axes."""
    for _ in range(n_axes):
        function = jax.vmap(function)
    return function


def matmul(a: AnyArray, b: AnyArray) -> AnyArray:
    """Multiply matrices in full float32: TF32 is not enough for a Gram matrix."""
    if namespace(a) is np and namespace(b) is np:
        return np.matmul(a, b)
    return jnp.matmul(a, b, precision=HIGHEST)


def small_matmul(a: AnyArray, b: AnyArray) -> AnyArray:
    """Multiply small matrices: JAX as a sum of products, fused with its neighbours."""
    if namespace(a) is np:
        return matmul(a, b)
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def matvec(matrix: AnyArray, vector: AnyArray) -> AnyArray:
    """Multiply matrices (..., m, n) by vectors (..., n)."""
    return matmul(matrix, vector[..., None])[..., 0]


def safe_divide(numerator: Any, denominator: AnyArray) -> Any:
    """Divide, with 0 where the denominator is not positive; it says whether by NumPy.

    >>> safe_divide(jnp.array([1.0, 0.0]), jnp.array([4.0, 0.0])).tolist()
    [0.25, 0.0]
    """
    xp = namespace(denominator)
    positive = denominator > 0
    return xp.where(positive, numerator / xp.where(positive, denominator, 1), 0)


def unit_vectors(vectors: AnyArray) -> AnyArray:
    """Scale vectors along the last axis to length one; zero or non-finite ones to 0."""
    xp = namespace(vectors)
    sound = xp.isfinite(vectors).all(axis=-1, keepdims=True)
    length = xp.sqrt(xp.sum(vectors**2, axis=-1, keepdims=True))
    return xp.where(sound, vectors / xp.where(length > 0, length, 1.0), 0.0)


def _unit_vector(vector: Array) -> Array:
    """One of `unit_vectors`."""
    square = jnp.sum(vector**2)
    return jnp.where(jnp.isfinite(square), safe_divide(vector, jnp.sqrt(square)), 0.0)


def inverse_cholesky(
    matrix: Float[AnyArray, "... n n"], tolerance: jax.Array | float
) -> tuple[Float[AnyArray, "... n n"], Bool[AnyArray, "... n"]]:
    """Invert the Cholesky factor of a positive semi-definite matrix.

    Returns the lower triangular ``W`` with ``W @ matrix @ W.T`` the identity, and False
    where a pivot is at most the tolerance: such a column depends on the earlier ones,
    and its row is zero.

    >>> matrix = jnp.array([[4.0, 2.0], [2.0, 1.0]])
    >>> inverse, independent = inverse_cholesky(matrix, 1e-6)
    >>> independent.tolist(), (inverse + 0.0).tolist()
    ([True, False], [[0.5, 0.0], [0.0, 0.0]])
    """
    xp, n = namespace(matrix), matrix.shape[-1]
    if n == 0:
        return matrix, xp.ones(matrix.shape[:-1], bool)
    identity = xp.broadcast_to(xp.eye(n, dtype=matrix.dtype), matrix.shape)
    inverse = None
    if xp is jnp:
        both = jnp.concatenate([matrix, identity], axis=-1)
        both = _traced_elimination(both, tolerance, upwards=False)
        pivot = jnp.diagonal(both, axis1=-2, axis2=-1)[..., None]
        ok = pivot > tolerance
        root = jnp.sqrt(jnp.where(ok, pivot, 1.0))
        inverse = jnp.where(ok, both[..., n:] / root, 0.0)
    elif tolerance == 0 and matrix.size <= _FEW * n * n:
        with contextlib.suppress(np.linalg.LinAlgError):  # not definite
            inverse = np.linalg.inv(np.linalg.cholesky(matrix))
    if inverse is None:
        both, factor = _eliminated(matrix, identity, tolerance, triangular=True)
        rows = both[:, n:] * np.sqrt(factor)[:, None]
        inverse = _problems_first(rows, matrix.shape)
    return inverse, xp.diagonal(inverse, axis1=-2, axis2=-1) > 0


def _traced_elimination(both: Array, tolerance: Any, *, upwards: bool) -> Array:
    """Eliminate the first columns of (..., n, n + k), below pivots or on both sides.

    On both sides rows are divided by their pivots. Written out, as an accelerator
    starts several kernels for every turn of a loop, two pivots a kernel: the barriers
    keep a compiler from merging steps, of which each would then be computed again for
    everything that reads it.
    """
    n = both.shape[-2]
    index = jnp.arange(n)
    for first in range(0, n, 2):
        pair, rows, columns = range(first, min(first + 2, n)), [], []
        for pivot in pair:
            row, column = both[..., pivot, :], both[..., pivot]
            for earlier, above, beside in zip(pair, rows, columns, strict=False):
                row = row - beside[..., pivot, None] * above
                left = above[..., pivot, None]
                column = jnp.where(index == earlier, left, column - beside * left)
            size = column[..., pivot, None]
            ok = size > tolerance
            rows.append(jnp.where(ok, row / jnp.where(ok, size, 1.0), 0.0))
            columns.append(column)
        if upwards:
            outside = (index < first) | (index > pair[-1])
            both = jnp.where(outside[:, None], both, 0.0)
        for pivot, row, column in zip(pair, rows, columns, strict=True):
            share = jnp.where(index > pivot, column, 0.0)
            if upwards:
                share = jnp.where((index > pivot) & (index <= pair[-1]), 0.0, column)
                share = jnp.where(index == pivot, -1.0, share)
            both = both - share[..., None] * row[..., None, :]
        if pair[-1] + 1 < n:
            both = jax.lax.optimization_barrier(both)
    return both


def guarded_solve(
    matrix: Float[AnyArray, "... n n"], rhs: AnyArray, tolerance: jax.Array | float
) -> AnyArray:
    """Solve a positive semi-definite system, with zeros for dependent columns.

    ``rhs`` (..., n) or (..., n, k); ``tolerance`` as in `inverse_cholesky`.
    """
    if rhs.ndim < matrix.ndim:
        return guarded_solve(matrix, rhs[..., None], tolerance)[..., 0]
    n = matrix.shape[-1]
    if namespace(matrix) is jnp:
        both = jnp.concatenate([matrix, rhs], axis=-1)
        return _traced_elimination(both, tolerance, upwards=True)[..., n:]
    both, factor = _eliminated(matrix, rhs, tolerance)
    found = both[:, n:] * factor[:, None]
    for j in range(n - 1, 0, -1):
        above = both[:j, j] * factor[:j]
        found[:j] -= above[:, None] * found[j]
    return _problems_first(found, rhs.shape)


def _eliminated(
    matrix: np.ndarray, right: np.ndarray, tolerance: Any, *, triangular: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Eliminate without pivoting many problems, which come last, in long operations.

    Returns upper triangles and right-hand sides (n, n + k, n_problems), and one over
    the pivots, zero for dependent columns.
    """
    n, width = matrix.shape[-1], matrix.shape[-1] + right.shape[-1]
    both = np.concatenate([matrix, right], axis=-1).reshape(-1, n * width)
    both = np.ascontiguousarray(both.T).reshape(n, width, -1)
    factor = np.zeros((n, both.shape[2]), both.dtype)
    room = np.empty(both.shape, both.dtype)
    for j in range(n):
        np.divide(1.0, both[j, j], out=factor[j], where=both[j, j] > tolerance)
        below = both[j, j + 1 : n] * factor[j]
        stop = n + j + 1 if triangular else width
        rest = both[j + 1 :, j + 1 : stop]
        product = room[j + 1 :, j + 1 : stop]
        rest -= np.multiply(below[:, None], both[j, j + 1 : stop], out=product)
    return both, factor


def _problems_first(found: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Put problems first, in the memory order of one alone: sums round alike."""
    n_numbers = shape[-2] * shape[-1]
    found = found.reshape(n_numbers, found.shape[-1])
    return np.ascontiguousarray(found.T).reshape(shape)


def definite_solve(matrix: AnyArray, rhs: AnyArray) -> AnyArray:
    """Solve a system that is positive definite up to rounding, as `guarded_solve`."""
    if namespace(matrix) is np:
        try:
            columns = rhs if rhs.ndim == matrix.ndim else rhs[..., None]
            return np.linalg.solve(matrix, columns).reshape(rhs.shape)
        except np.linalg.LinAlgError:  # of one of them a pivot is zero
            pass
    return guarded_solve(matrix, rhs, 0.0)


def largest(values: Float[AnyArray, "... n"], k: int) -> Int[AnyArray, "... k"]:
    """Positions of the k largest values, in descending order; ties by position.

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
    """Take entries, one or k, along the axis after ``n_axes`` axes of nodes."""
    if namespace(array) is np:
        nodes = np.indices(index.shape, sparse=True)[:n_axes]
        return array[(*nodes, index)]
    return each(lambda array, index: array[index], n_axes)(array, index)


def where_each(chosen: AnyArray, a: AnyArray, b: AnyArray) -> AnyArray:
    """Select entries of two arrays by a condition on their first axes."""
    shape = chosen.shape + (1,) * (a.ndim - chosen.ndim)
    return namespace(a).where(chosen.reshape(shape), a, b)


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
    found = each(lambda matrix: _by_powers(matrix, n), matrix.ndim - 2)(matrix)
    return found[..., :n, :]


def _by_powers(matrix: Float[Array, "m m"], n: int) -> Float[Array, "m m"]:
    """`leading_eigenvectors` of one matrix in the first rows."""
    index = jnp.arange(len(matrix))
    row, column = index[:, None], index[None]

    def normed(matrix):
        largest = jnp.max(jnp.abs(matrix))
        return matrix / jnp.where(largest > 0, largest, 1.0)

    # Eigenvalues of m x m numbers of at most one are at most m.
    together = int(np.log2(_LARGEST / np.log(max(len(matrix), 2))))
    rest, found = matrix, jnp.zeros_like(matrix)
    for number in range(n):
        power = rest = normed(rest)
        for i in range(_N_SQUARINGS):
            power = normed(power) if i and not i % together else power
            power = small_matmul(power, power)
        # Nearly v v': every column is along v, none is longer than the diagonal says.
        size = jnp.sum(jnp.where(row == column, power, 0.0), axis=0)
        longest = row == jnp.argmax(size, axis=0)
        vector = jnp.sum(jnp.where(longest, power, 0.0), axis=0)
        vector = safe_divide(vector, jnp.max(size))
        # In the square, eigenvalues of opposite sign tie; this takes one of the two.
        image = jnp.sum(rest * vector[None], axis=1)
        size = jnp.sqrt(safe_divide(jnp.sum(image**2), jnp.sum(vector**2)))
        size = jnp.where(jnp.sum(image * vector) >= 0, size, -size)
        vector = _unit_vector(image + size * vector)
        outside = jnp.where(row == column, 1.0, 0.0)
        outside = outside - vector[:, None] * vector[None]
        rest = small_matmul(outside, small_matmul(rest, outside))
        found = jnp.where(row == number, vector[None], found)
    return found


class Moments(NamedTuple):
    """Weight, mean and scatter (sum of weighted products about the mean) of parts.

    With a weight for each column, (n_parts, n_columns), the scatter is of squares only.
    """

    weight: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray


def added_up(parts: Moments, first: np.ndarray) -> Moments:
    """Combine the moments of runs of parts (Chan, Golub & LeVeque 1983).

    ``first`` says where each run begins. Means are compared with that of their run, so
    that no large numbers cancel.

    >>> means = np.array([[0.0], [4.0]])
    >>> parts = Moments(np.array([1.0, 3.0]), means, np.zeros((2, 1)))
    >>> [array.tolist() for array in added_up(parts, np.array([0]))]
    [[4.0], [[3.0]], [[12.0]]]
    """
    weight, mean, scatter = parts
    run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(weight))))
    total = np.add.reduceat(weight, first, axis=0)
    share, each = weight / np.where(total > 0, total, 1.0)[run], weight
    if weight.ndim < mean.ndim:
        share, each = share[:, None], weight[:, None]
    whole = np.add.reduceat(share * mean, first, axis=0)
    offset = mean - whole[run]
    if scatter.ndim > mean.ndim:
        between = (each * offset)[:, :, None] * offset[:, None, :]
    else:
        between = each * offset**2
    return Moments(total, whole, np.add.reduceat(scatter + between, first, axis=0))
