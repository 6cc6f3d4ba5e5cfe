"""Operations with a body for NumPy and one for JAX: both give the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secret_jax.runtime import arrays, eigenvectors, linalg, pieces

N_NODES, N_ROWS = 3, 40


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


def test_sums_by_code(rng):
    codes = rng.integers(0, 4, (N_NODES, N_ROWS)).astype(np.int32)
    values = normal(rng, N_ROWS)
    found = both(
        lambda codes, values: arrays.sums_by_code(codes, values, 5), codes, values
    )
    for node in range(N_NODES):
        expected = [values[node][codes[node] == code].sum() for code in range(5)]
        np.testing.assert_allclose(found[node], expected, atol=1e-5)


@pytest.mark.parametrize("weights", ["equal", "different", "of directions", "none"])
def test_weighted_quantiles(rng, weights):
    values = np.round(normal(rng, 2, N_ROWS), 1)
    weight = np.ones((N_NODES, N_ROWS), np.float32)
    weight[:, 30:] = 0
    if weights == "different":
        weight *= rng.integers(0, 3, weight.shape)
    if weights == "of directions":
        weight = weight[:, None] * rng.integers(0, 2, values.shape).astype(np.float32)
    if weights == "none":
        weight[1] = 0
    share = np.array([0.0, 0.25, 0.5, 0.99], np.float32)
    found = both(lambda v, w: arrays.weighted_quantiles(v, w, share), values, weight)
    for node, direction in np.ndindex(N_NODES, 2):
        own = weight[node] if weight.ndim == 2 else weight[node, direction]
        repeated = np.sort(np.repeat(values[node, direction], own.astype(int)))
        if not len(repeated):
            assert (found[node, direction] == np.inf).all()
            continue
        place = np.ceil(share.astype(float) * len(repeated) - 1e-3).astype(int) - 1
        expected = repeated[np.maximum(place, 0)]
        np.testing.assert_array_equal(found[node, direction], expected)


def test_sums_below(rng):
    projection, columns = normal(rng, 3, N_ROWS), normal(rng, N_ROWS, 4)
    own = normal(rng, 3, N_ROWS)
    weight = rng.integers(0, 3, (N_NODES, N_ROWS)).astype(np.float32)
    cuts = np.sort(normal(rng, 3, 5), axis=2)
    parts = [columns[..., :1], columns[..., 1:]]
    every = both(arrays.sums_below, projection, cuts, weight, parts, own)
    alone = both(arrays.sums_below, projection, cuts, weight, parts)
    np.testing.assert_array_equal(alone, every[..., :4])
    sums, own_sums = every[..., :4], every[..., 4:]
    for node, along, cut in np.ndindex(cuts.shape):
        inside = projection[node, along] <= cuts[node, along, cut]
        left = weight[node] * inside
        np.testing.assert_allclose(
            sums[node, along, cut], left @ columns[node], rtol=1e-4, atol=1e-4
        )
        np.testing.assert_allclose(
            own_sums[node, along, cut],
            [left @ own[node, along], left @ own[node, along] ** 2],
            rtol=1e-4,
            atol=1e-4,
        )


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
    values, weight = normal(rng, N_ROWS, 3), np.abs(normal(rng, N_ROWS))
    _, mean, deviation = both(pieces.weighted_moments, values, weight)
    share = weight / weight.sum(axis=1, keepdims=True)
    middle = np.einsum("nr,nrc->nc", share, values)
    np.testing.assert_allclose(mean, middle, atol=1e-5)
    square = np.einsum("nr,nrc->nc", share, (values - middle[:, None]) ** 2)
    np.testing.assert_allclose(deviation, np.sqrt(square), atol=1e-5)


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
