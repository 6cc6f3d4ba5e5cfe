"""Operations with a body for NumPy and one for JAX: both give the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secret_jax.runtime import arrays, eigenvectors, linalg

N_NODES = 3


def both(function, *operands):
    """Results of NumPy, checked against those of JAX for all nodes and for each one."""
    with np.errstate(all="ignore"):
        found = function(*operands)
    assert all(isinstance(a, np.ndarray) for a in jax.tree.leaves(found))
    at_once = jax.jit(function)(*operands)
    each = jax.jit(jax.vmap(function))(*operands)
    for own, *others in zip(*map(jax.tree.leaves, (found, at_once, each)), strict=True):
        for other in others:
            assert own.shape == other.shape
            assert own.dtype.kind == other.dtype.kind
            np.testing.assert_allclose(own, other, rtol=2e-4, atol=2e-5)
    return found


def normal(rng, *shape):
    return rng.normal(size=(N_NODES, *shape)).astype(np.float32)


def test_small_linear_algebra(rng):
    factor = normal(rng, 5, 5)
    matrix = factor @ factor.swapaxes(1, 2) + np.eye(5, dtype=np.float32)
    rhs = normal(rng, 5, 2)
    expected = np.linalg.solve(matrix, rhs)
    for solve in (linalg.definite_solve, lambda a, b: linalg.guarded_solve(a, b, 0.0)):
        np.testing.assert_allclose(both(solve, matrix, rhs), expected, atol=1e-4)
        one = both(solve, matrix, rhs[..., 0].copy())
        np.testing.assert_allclose(one, expected[..., 0], atol=1e-4)
    inverse, _ = both(lambda a: linalg.inverse_cholesky(a, 0.0), matrix)
    identity = inverse @ matrix @ inverse.swapaxes(1, 2)
    np.testing.assert_allclose(
        identity, np.broadcast_to(np.eye(5), (3, 5, 5)), atol=1e-4
    )


@pytest.mark.parametrize("k", [1, 3])
def test_the_largest_come_first_and_ties_by_position(rng, k):
    values = np.round(normal(rng, 4, 6), 0)
    found = both(lambda values: arrays.largest(values, k), values)
    order = np.lexsort([np.broadcast_to(np.arange(6), values.shape), -values], axis=-1)
    np.testing.assert_array_equal(found, order[..., :k])
    expected = np.take_along_axis(values, found, axis=-1)
    taken = both(lambda a, i: arrays.taken(a, i, a.ndim - 1), values, found)
    np.testing.assert_array_equal(taken, expected)


def test_leading_eigenvectors_are_the_same_but_for_their_signs(rng):
    basis = np.linalg.qr(normal(rng, 5, 5))[0]
    matrix = basis @ np.diag([6, -3, 1, 0.3, 0]).astype(np.float32)
    matrix = (matrix @ basis.swapaxes(1, 2)).astype(np.float32)
    matrix[2] = 0  # nothing is left of it
    found = eigenvectors.leading_eigenvectors(matrix, 2)
    other = eigenvectors.leading_eigenvectors(jnp.asarray(matrix), 2)
    assert not found[2].any()
    for of_node in (found, np.asarray(other)):
        cosine = np.abs(np.einsum("nki,nik->nk", of_node, basis[..., :2]))
        np.testing.assert_allclose(cosine[:2], 1, atol=1e-4)


def test_dependent_and_broken_problems_stop_no_other():
    matrix = np.stack([np.eye(3), np.ones((3, 3)), np.full((3, 3), np.nan)])
    matrix = matrix.astype(np.float32)
    rhs = np.ones((3, 3), np.float32)
    with np.errstate(all="ignore"):
        for solve in (
            lambda: linalg.guarded_solve(matrix, rhs, 1e-5),
            lambda: linalg.definite_solve(matrix, rhs),
        ):
            np.testing.assert_allclose(solve()[0], 1)
        dependent = linalg.guarded_solve(matrix, rhs, 1e-5)[1]
        np.testing.assert_allclose(dependent, [1, 0, 0])
        _, independent = linalg.inverse_cholesky(matrix, 1e-5)
        assert independent[:2].tolist() == [[True] * 3, [True, False, False]]
        vector = eigenvectors.leading_eigenvectors(matrix, 1)
    assert np.isfinite(vector).all()
