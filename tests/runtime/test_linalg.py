"""Small linear algebra and sums of moments: exact where they can be, else finite."""

from __future__ import annotations

import chex
import jax
import numpy as np
import pytest

from secret_jax.runtime.linalg import (
    Moments,
    added_up,
    definite_solve,
    guarded_solve,
    inverse_cholesky,
    largest,
    leading_eigenvectors,
    taken,
)

N = 5  # one shape, so one compiled program each
TOLERANCE = 1e-5
COMPILED = {
    function: jax.jit(function, static_argnums=() if n is None else n)
    for function, n in (
        *((inverse_cholesky, None), (guarded_solve, None), (definite_solve, None)),
        *((leading_eigenvectors, 1), (largest, 1), (taken, 2)),
    )
}


@pytest.fixture(params=["NumPy", "JAX"])
def call(request):
    """Calls a function as it is, or compiled, on float32 numbers."""

    def of(function, *given):
        arrays = [
            a.astype(np.float32) if getattr(a, "dtype", None) == np.float64 else a
            for a in given
        ]
        if request.param == "JAX":
            return jax.tree.map(np.asarray, COMPILED[function](*arrays))
        with np.errstate(all="ignore"):
            found = function(*arrays)
        assert all(isinstance(a, np.ndarray) for a in jax.tree.leaves(found))
        return found

    return of


# Columns that combine the earlier ones.
DEPENDENT = [
    {},
    {0: []},
    {3: [0, 1]},
    {4: [1, -2, 0, 0.5]},
    {1: [1], 2: [-3], 3: [0.5], 4: [2]},
    {0: [], 1: [], 2: [], 3: [], 4: []},
]


def gram(rng, dependent: dict[int, list[float]]) -> np.ndarray:
    columns = rng.normal(size=(40, N))
    for column, combination in dependent.items():
        columns[:, column] = columns[:, : len(combination)] @ combination
    return columns.T @ columns / 40


def test_inverse_cholesky(rng, call):
    """The inverse factor of the independent part; nothing at all for the rest."""
    matrices = np.stack([gram(rng, dependent) for dependent in DEPENDENT])
    found = call(inverse_cholesky, matrices, TOLERANCE)
    for dependent, matrix, *own in zip(DEPENDENT, matrices, *found, strict=True):
        inverse, independent = own
        assert np.flatnonzero(~independent).tolist() == sorted(dependent)
        assert not inverse[~independent].any()
        assert not inverse[:, ~independent].any()
        part = np.ix_(independent, independent)
        expected = np.linalg.inv(np.linalg.cholesky(matrix[part]))
        np.testing.assert_allclose(inverse[part], expected, rtol=1e-4, atol=1e-5)
    scale = np.array([1, 1e3, 1e-2, 1, 1])
    matrix = matrices[:1] * np.outer(scale, scale)
    inverse, independent = call(inverse_cholesky, matrix, 1e-9)
    expected = np.linalg.inv(np.linalg.cholesky(matrix))
    np.testing.assert_allclose(inverse, expected, rtol=1e-3, atol=1e-6)
    assert independent.all()


def test_guarded_solve(rng, call):
    """Solves every consistent system; dependent unknowns are exactly zero."""
    matrices = np.stack([gram(rng, dependent) for dependent in DEPENDENT])
    rhs = matrices @ rng.normal(size=(N, 2))
    found = call(guarded_solve, matrices, rhs, TOLERANCE)
    np.testing.assert_allclose(matrices @ found, rhs, atol=1e-4)
    for dependent, matrix, own, right in zip(
        DEPENDENT, matrices, found, rhs, strict=True
    ):
        assert not own[sorted(dependent)].any()
        kept = np.setdiff1d(np.arange(N), list(dependent))
        expected = np.linalg.solve(matrix[np.ix_(kept, kept)], right[kept])
        np.testing.assert_allclose(own[kept], expected, rtol=1e-4, atol=1e-4)
    one = call(guarded_solve, matrices, rhs[..., 0].copy(), TOLERANCE)
    np.testing.assert_allclose(one, found[..., 0], rtol=1e-5, atol=1e-6)
    # An inconsistent equation of a dropped column must not leak into the others.
    rhs[2, 3] = 1e6
    again = call(guarded_solve, matrices, rhs, TOLERANCE)
    np.testing.assert_array_equal(again, found)
    right = np.linalg.solve(matrices[:1], rhs[:1])
    found = call(definite_solve, matrices[:1], rhs[:1])
    np.testing.assert_allclose(found, right, atol=1e-4)


def test_leading_eigenvectors(rng, call):
    """Those of the largest absolute eigenvalues, whatever the scale and the sign."""
    rotation, _ = np.linalg.qr(rng.normal(size=(N, N)))
    values = np.array(
        [[1, -3, 2, 0.1, 0], [1e-25, 4e-25, 0, 0, -2e-25], [0, 0, 6e25, 1, -9e25]]
    )
    matrix = (rotation * values[:, None]) @ rotation.T
    for own, size in zip(
        call(leading_eigenvectors, matrix, 2), np.abs(values), strict=True
    ):
        order = np.argsort(-size)[:2]
        cosine = np.abs(np.sum(own * rotation.T[order], axis=1))
        np.testing.assert_allclose(cosine, 1, atol=1e-5)
        np.testing.assert_allclose(own @ own.T, np.eye(2), atol=1e-5)


def test_dependent_and_broken_problems_stop_no_other(call):
    nothing, broken = np.zeros((3, 3)), np.full((3, 3), np.nan)
    matrix = np.stack([np.eye(3), np.ones((3, 3)), broken, nothing])
    rhs = np.ones((4, 3))
    solved = call(guarded_solve, matrix, rhs, TOLERANCE)
    np.testing.assert_allclose(solved[:2], [[1, 1, 1], [1, 0, 0]])
    np.testing.assert_allclose(call(definite_solve, matrix, rhs)[0], 1)
    _, independent = call(inverse_cholesky, matrix, TOLERANCE)
    assert independent[:2].tolist() == [[True] * 3, [True, False, False]]
    vectors = call(leading_eigenvectors, matrix, 1)
    assert np.isfinite(vectors).all()
    assert not vectors[3].any()


@pytest.mark.parametrize("k", [1, 3])
def test_the_largest_come_first_and_ties_by_position(rng, call, k):
    values = np.round(rng.normal(size=(3, 4, 6)), 0)
    found = call(largest, values, k)
    order = np.lexsort([np.broadcast_to(np.arange(6), values.shape), -values], axis=-1)
    np.testing.assert_array_equal(found, order[..., :k])
    expected = np.take_along_axis(values, found, axis=-1)
    np.testing.assert_array_equal(call(taken, values, found, 2), expected)


@pytest.mark.parametrize("n", [1, 2, 8])
def test_elimination_on_accelerators_is_that_of_processors(rng, n):
    rows = rng.normal(size=(6, 40, n)).astype(np.float32)
    rows[1, :, n // 2] = rows[1, :, 0]  # dependent columns
    rows[2] = 0
    matrix = np.einsum("kri,krj->kij", rows, rows)
    right = rng.normal(size=(6, n, 2)).astype(np.float32)
    expected = inverse_cholesky(matrix, 1e-4), guarded_solve(matrix, right, 1e-4)
    found = (
        COMPILED[inverse_cholesky](matrix, 1e-4),
        COMPILED[guarded_solve](matrix, right, 1e-4),
    )
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-6)


def direct(values: np.ndarray, weight: np.ndarray, *, products: bool) -> Moments:
    """Moments of rows, by their definition; zero for no rows."""
    total = weight.sum(axis=0)
    share = weight if weight.ndim == 2 else weight[:, None]
    mean = (share * values).sum(axis=0) / np.where(total > 0, total, 1.0)
    offset = values - mean
    scatter = (share * offset).T @ offset
    squares = (share * offset**2).sum(axis=0)
    return Moments(total, mean, scatter if products else squares)


# Some parts have a single row, some none.
SIZES = [1, 40, 0, 7, 0, 0, 25, 3, 1, 60]


@pytest.mark.parametrize(
    ("products", "by_column"),  # squares alone may have a weight for each column
    [(True, False), (False, False), (False, True)],
)
def test_runs_of_parts_have_the_moments_of_their_rows(rng, products, by_column):
    n_rows, n_parts = sum(SIZES), len(SIZES)
    values = rng.normal([0, 5, -100], [1, 10, 0.1], (n_rows, 3))
    weight = rng.uniform(0.1, 4.0, (n_rows, 3) if by_column else n_rows)
    which = np.repeat(np.arange(n_parts), SIZES)

    def of(group: np.ndarray, n_groups: int) -> Moments:
        rows = [group == g for g in range(n_groups)]
        each = [direct(values[r], weight[r], products=products) for r in rows]
        return jax.tree.map(lambda *arrays: np.stack(arrays), *each)

    def assert_close(found: Moments, expected: Moments) -> None:
        chex.assert_trees_all_close(found, expected, rtol=1e-9, atol=1e-9)
        chex.assert_trees_all_close(found[:2], expected[:2], rtol=1e-12, atol=1e-12)

    each = of(which, n_parts)
    for first in ([0], [0, 1, 2, 5, 9], list(range(n_parts))):
        run = np.searchsorted(first, which, side="right") - 1
        assert_close(added_up(each, np.array(first)), of(run, len(first)))
    shuffle = rng.permutation(n_parts)
    other = Moments(*(array[shuffle] for array in each))
    assert_close(added_up(other, np.array([0])), added_up(each, np.array([0])))
