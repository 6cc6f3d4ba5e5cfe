"""Guarded linear algebra: exact where it can be, finite where it cannot."""

from __future__ import annotations

import chex
import jax
import numpy as np
import pytest

from secret_jax.runtime.eigenvectors import leading_eigenvectors
from secret_jax.runtime.linalg import (
    guarded_solve,
    inverse_cholesky,
)

N = 5  # one shape, so one compiled program each
TOLERANCE = 1e-5

cholesky = jax.jit(inverse_cholesky)
solve = jax.jit(guarded_solve)
eigenvectors = jax.jit(leading_eigenvectors, static_argnums=1)


def gram(rng, dependent: dict[int, list[float]]) -> np.ndarray:
    """Gram matrix of columns of which some combine the earlier ones, float64."""
    columns = rng.normal(size=(40, N))
    for column, combination in dependent.items():
        columns[:, column] = columns[:, : len(combination)] @ combination
    return columns.T @ columns / 40


DEPENDENT = {
    "none": {},
    "zero first": {0: []},
    "duplicate": {3: [0, 1]},
    "combination last": {4: [1, -2, 0, 0.5]},
    "all but one": {1: [1], 2: [-3], 3: [0.5], 4: [2]},
    "all": {0: [], 1: [], 2: [], 3: [], 4: []},
}


@pytest.mark.parametrize("dependent", DEPENDENT.values(), ids=DEPENDENT.keys())
def test_inverse_cholesky(rng, dependent):
    """The inverse factor of the independent part; nothing at all for the rest."""
    matrix = gram(rng, dependent)
    inverse, independent = (
        np.asarray(array) for array in cholesky(matrix.astype(np.float32), TOLERANCE)
    )
    assert np.flatnonzero(~independent).tolist() == sorted(dependent)
    assert not inverse[~independent].any()
    assert not inverse[:, ~independent].any()
    part = np.ix_(independent, independent)
    if independent.any():
        expected = np.linalg.inv(np.linalg.cholesky(matrix[part]))
        np.testing.assert_allclose(inverse[part], expected, rtol=1e-4, atol=1e-5)


def test_inverse_cholesky_of_columns_of_unlike_scale(rng):
    scale = np.array([1, 1e3, 1e-2, 1, 1])
    matrix = gram(rng, {}) * np.outer(scale, scale)
    inverse, independent = cholesky(matrix.astype(np.float32), 1e-9)
    expected = np.linalg.inv(np.linalg.cholesky(matrix))
    np.testing.assert_allclose(inverse, expected, rtol=1e-3, atol=1e-6)
    assert np.asarray(independent).all()


def test_a_pivot_at_the_tolerance_is_dependent():
    matrix = np.diag(np.array([1.0, 0.25, 0.5, 2.0, 0.0], np.float32))
    for tolerance, expected in ((0.5, [1, 0, 0, 1, 0]), (0.0, [1, 1, 1, 1, 0])):
        inverse, independent = cholesky(matrix, tolerance)
        assert independent.tolist() == expected
        assert np.isfinite(inverse).all()


@pytest.mark.parametrize("dependent", DEPENDENT.values(), ids=DEPENDENT.keys())
def test_guarded_solve(rng, dependent):
    """Solves every consistent system; dependent unknowns are exactly zero."""
    matrix = gram(rng, dependent)
    rhs = matrix @ rng.normal(size=N)
    got = np.asarray(
        solve(matrix.astype(np.float32), rhs.astype(np.float32), TOLERANCE)
    )
    assert np.isfinite(got).all()
    assert not got[sorted(dependent)].any()
    kept = np.setdiff1d(np.arange(N), list(dependent))
    expected = np.linalg.solve(matrix[np.ix_(kept, kept)], rhs[kept])
    np.testing.assert_allclose(got[kept], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(matrix @ got, rhs, atol=1e-4)


def test_guarded_solve_ignores_what_dependent_unknowns_should_equal(rng):
    """An inconsistent equation of a dropped column must not leak into the others."""
    matrix = gram(rng, {2: [1.0]}).astype(np.float32)
    rhs = rng.normal(size=N).astype(np.float32)
    other = rhs.copy()
    other[2] = 1e6
    first, second = solve(matrix, rhs, TOLERANCE), solve(matrix, other, TOLERANCE)
    assert np.array_equal(first, second)


def test_leading_eigenvectors(rng):
    """Those of the largest absolute eigenvalues, whatever the scale and the sign."""
    rotation, _ = np.linalg.qr(rng.normal(size=(N, N)))
    for values in (
        [1, -3, 2, 0.1, 0],
        [1e-25, 4e-25, 0, 0, -2e-25],
        [0, 0, 6e25, 1, -9e25],
    ):
        matrix = (rotation * values) @ rotation.T
        got = np.asarray(eigenvectors(matrix.astype(np.float32), 2))
        order = np.argsort(-np.abs(values))[:2]
        cosine = np.abs(np.sum(got * rotation.T[order], axis=1))
        np.testing.assert_allclose(cosine, 1, atol=1e-5)
        np.testing.assert_allclose(got @ got.T, np.eye(2), atol=1e-5)


def test_leading_eigenvectors_of_nothing_are_finite():
    assert np.isfinite(eigenvectors(np.zeros((N, N), np.float32), 2)).all()


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_elimination_on_accelerators_is_that_of_processors(rng, n):
    rows = rng.normal(size=(6, 40, n)).astype(np.float32)
    rows[1, :, n // 2] = rows[1, :, 0]  # dependent columns
    rows[2] = 0
    matrix = np.einsum("kri,krj->kij", rows, rows)
    right = rng.normal(size=(6, n, 2)).astype(np.float32)
    expected = inverse_cholesky(matrix, 1e-4), guarded_solve(matrix, right, 1e-4)
    found = cholesky(matrix, 1e-4), solve(matrix, right, 1e-4)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-6)
