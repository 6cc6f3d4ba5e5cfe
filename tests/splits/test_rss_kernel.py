"""Small algebra of nodes in kernels, against that of processors in more digits."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from secret_jax.data.ragged import RaggedRows
from secret_jax.runtime.linalg import definite_solve, inverse_cholesky, safe_divide
from secret_jax.splits import kernels_work, rss, rss_kernel, rss_nodes
from secret_jax.splits.labelled import oriented

RIDGE, ROUNDING = 3e-2, 1e-6


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setattr("secret_jax.data.kernels.INTERPRETED", True)


def by_kernel(function, *given, **static):
    """What a kernel finds of arrays of float32."""
    return jax.jit(lambda *arrays: function(*arrays, **static))(
        *(np.asarray(array, np.float32) for array in given)
    )


def close(found, expected):
    scale = np.abs(np.where(np.isfinite(expected), expected, 0)).max(initial=1e-30)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-4 * scale)


def products(rng, m, n_first=(0, 1, 3)):
    """Of rows (1, z) of four nodes: over some of its rows, and over all.

    One has no rows, one a single one, and of one no row has weight.
    """
    z = rng.normal(size=(4, 3 * m + 5, m))
    z[..., 0], weight = 1.0, rng.uniform(0.5, 2.0, z.shape[:2])
    weight[0], weight[1, 1:], weight[2, ::2] = 0.0, 0.0, 0.0
    first = weight * (z[..., -1] > 0)
    return [np.einsum("nr,nri,nrj->nij", w, z, z) for w in (first, weight)]


@pytest.mark.parametrize("m", SIZES := (1, 16, 17, 32))
def test_inverted_roots(rng, m):
    matrix = products(rng, m)[1] + np.eye(m)
    close(
        by_kernel(rss_kernel.inverted_roots, matrix), inverse_cholesky(matrix, 0.0)[0]
    )


@pytest.mark.parametrize("m", SIZES)
def test_sparse(rng, m):
    covariance = products(rng, m)[1]
    direction = rng.normal(size=(4, 3, m))
    direction[:, 1, ::2], direction[3] = 0.0, 0.0
    for n_kept in (5, np.array([1, 2, 40])):
        given = {"n_kept": n_kept, "ridge": RIDGE}
        found = by_kernel(rss_kernel.sparse, direction, covariance, **given)
        close(found, oriented(rss.sparse(direction, covariance, **given)))


@pytest.mark.parametrize("m", SIZES)
def test_discriminant(rng, m):
    first, both = products(rng, m)
    of_class = np.stack([first[:, 0], both[:, 0] - first[:, 0]])
    mean = safe_divide(of_class, of_class[..., :1])
    within = both - np.einsum("cn,cni,cnj->nij", of_class[..., 0], mean, mean)
    within = safe_divide(within, both[:, :1, :1])[:, 1:, 1:] + RIDGE * np.eye(m - 1)
    expected = np.zeros((4, m))
    expected[:, 1:] = definite_solve(within, (mean[0] - mean[1])[:, 1:])
    sums = np.stack([first, both], axis=1)
    close(by_kernel(rss_kernel.discriminant, sums, ridge=RIDGE), expected)


@pytest.mark.parametrize("m", SIZES)
def test_sides(rng, m):
    n, m = 1 if m < 17 else 2, max(m, 2)
    left, whole = products(rng, m)
    order = np.r_[1 : n + 1, 0, n + 1 : m]  # residuals before the one
    left, whole = (a[:, order][:, :, order] for a in (left, whole))
    sides = np.stack([left, whole - left], axis=1)
    weight = sides[..., n, n]
    penalty = np.full(m - n, RIDGE + ROUNDING)
    penalty[0] = ROUNDING
    mass = np.maximum(weight, ROUNDING)[..., None, None]
    moment = sides[..., n:, :n]
    models = definite_solve(sides[..., n:, n:] + mass * np.diag(penalty), moment)
    enough = (weight.min(axis=1) >= 2) & (weight.min(axis=1) > 0)
    gain = np.where(enough, np.sum(models * moment, axis=(1, 2, 3)), -np.inf)
    static = {"n_outputs": n, "ridge": RIDGE, "rounding": ROUNDING}
    given = left[:, None], whole, np.full(4, 2.0)
    found = by_kernel(rss_kernel.sides, *given, **static)
    close(found[0][:, 0], gain)
    close(found[1][:, 0][enough], models[enough])


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("m", SIZES)
def test_quantiles(rng, m, apart):
    length, n = np.array([40, 0, 1, 128, 30]), 3
    values = np.round(rng.normal(size=(n, length.sum())), 1).astype(np.float32)
    weight = rng.integers(0, 4, (n, length.sum())) if apart else np.ones(values.shape)
    weight[:, -30:] = 0
    rows = RaggedRows(length)
    weight = weight.astype(np.float32) if apart else weight[0].astype(np.float32)
    with np.errstate(all="ignore"):
        expected = rss_nodes.cuts_of(rows, values, weight, m)
    head, mass = rows.head(values, 128), rows.head(weight, 128)
    mass = mass if apart else mass[:, None]
    static = {"n": m, "rounding": ROUNDING}
    found = by_kernel(rss_kernel.quantiles, mass, head, **static)
    some = np.array([0, 2, 3])  # of others no row has weight, and no cut leaves any
    np.testing.assert_array_equal(found[some], expected[some])
    assert not np.isfinite(found[np.array([1, 4])]).any()


@pytest.mark.parametrize("m", [5, 24])
def test_leading_eigenvectors_in_one_kernel(rng, m):
    vector = np.linalg.qr(rng.normal(size=(3, m, m)))[0]
    value = 0.5 ** np.arange(m) * np.where(np.arange(m) % 2, -1.0, 1.0)
    whitened = np.einsum("nij,j,nkj->nik", vector, value, vector)
    whitener = np.tril(rng.normal(size=(3, m, m)), -1) / m + np.eye(m)
    back = np.linalg.inv(whitener)
    hessian = back @ whitened @ back.transpose(0, 2, 1)
    found = by_kernel(rss_kernel.bent_most, hessian[:, None], whitener, n=2)
    expected = vector.transpose(0, 2, 1)[:, :2] @ whitener
    sign = np.sign(np.sum(found * expected, axis=2, keepdims=True))
    np.testing.assert_allclose(sign * found, expected, atol=1e-4)


def test_kernels_are_tried_before_they_are_used(monkeypatch):
    device, tried = jax.devices("cpu")[0], kernels_work.tried
    assert not kernels_work.work_on(device)  # no card
    work_on = kernels_work.work_on.__wrapped__
    monkeypatch.setattr(kernels_work, "runs_triton", lambda device: True)
    with monkeypatch.context() as compiled:
        compiled.setattr("secret_jax.data.kernels.INTERPRETED", False)
        with pytest.warns(UserWarning, match=r"do not work on .*interpret mode"):
            assert not work_on(device)
    monkeypatch.setattr(kernels_work, "tried", lambda: tried())  # not cached
    assert work_on(device)
    right = [pair[1] for pair in jax.jit(lambda: tried())()]
    for number in range(len(right)):
        wrong = [(a, np.multiply(a, 1 + (i == number))) for i, a in enumerate(right)]
        monkeypatch.setattr(kernels_work, "tried", lambda wrong=wrong: wrong)
        with pytest.warns(UserWarning, match="a sum was wrong"):
            assert not work_on(device)
