"""Kernels and smoothed covariances against their equations and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import EmpiricalCovariance, ledoit_wolf
from sklearn.metrics.pairwise import (
    euclidean_distances,
    polynomial_kernel,
    rbf_kernel,
    sigmoid_kernel,
)

from secret_jax.composed.kernel.kernels import (
    DEFINITE,
    KERNELS,
    SMOOTHERS,
    WEIGHING,
    Metric,
    products,
)

RNG = np.random.default_rng(0)
X, OTHER = RNG.normal(size=(30, 4)), RNG.normal(size=(20, 4))
DISTANCE, WIDTH = euclidean_distances(X, OTHER), 1.7


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gaussian", rbf_kernel(X, OTHER, gamma=1 / (2 * WIDTH**2))),
        ("power", np.exp(-((DISTANCE**2 / WIDTH**2) ** 0.75))),
        ("exponential", np.exp(-DISTANCE / WIDTH)),
        ("cauchy", 1 / (1 + DISTANCE**2 / WIDTH**2)),
        ("inverse_multiquadric", (DISTANCE**2 + WIDTH**2) ** -0.5),
        ("multiquadric", (DISTANCE**2 + WIDTH**2) ** 0.5),
        ("polynomial", polynomial_kernel(X, OTHER, 2, gamma=1, coef0=WIDTH**2)),
        ("sigmoid", sigmoid_kernel(X, OTHER, gamma=1 / WIDTH**2, coef0=-1)),
    ],
)
def test_kernels_are_their_equations(name, expected):
    found = KERNELS[name].value(*products(X, OTHER), WIDTH)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    if name in WEIGHING:
        log = KERNELS[name].log(np.linspace(0, 900, 50), WIDTH)
        assert (np.diff(log) < 0).all()  # falls, without an end
        assert np.isfinite(log).all()
    values = np.linalg.eigvalsh(KERNELS[name].value(*products(X, X), WIDTH))
    assert (values[0] > -1e-9 * values[-1]) == (name in DEFINITE)


def by_hand(name, x):
    """The equations for rows of equal weight."""
    (n, p), mle = x.shape, np.cov(x.T, bias=True)
    if name in ("me", "meeb"):
        # From the density itself: uniform between midpoints of neighbours, tails that
        # are exponential and keep the mean (3 x1 + x2) / 4 of the outer intervals.
        mean, inside = np.empty_like(x), np.empty_like(x)
        for j in range(p):
            order = np.argsort(x[:, j])
            v = x[order, j]
            middle = (v[1:] + v[:-1]) / 2
            mean[order[1:-1], j] = (middle[1:] + middle[:-1]) / 2
            inside[order[1:-1], j] = np.diff(middle) ** 2 / 12
            for end, neighbour in ((0, 1), (-1, -2)):
                mean[order[end], j] = (3 * v[end] + v[neighbour]) / 4
                off = (v[end] + v[neighbour]) / 2 - mean[order[end], j]
                inside[order[end], j] = off**2  # an exponential's deviation: its mean
        me = np.cov(mean.T, bias=True) + np.diag(inside.mean(axis=0))
        bayes = (p - 1) / (n * np.trace(me)) * np.eye(p)
        return me if name == "me" else me + bayes
    if name == "sdce":
        deviation = np.sqrt(np.diag(mle))
        correlation = mle / np.outer(deviation, deviation)
        excess = np.trace(np.linalg.inv(correlation)) - p
        pi = p * (p - 1) / (2 * n * excess)
        return (1 - pi) * mle + pi * np.diag(np.diag(mle))
    if name == "csce":
        beta = np.trace(mle) ** 2 / np.trace(mle @ mle)
        m = 0.5 * 2 * (p * (1 + beta) - 2) / (p - beta)
        own = n / (n + m)
        return own * mle + (1 - own) * np.trace(mle) / p * np.eye(p)
    return {
        "none": np.cov(x.T),
        "mle": EmpiricalCovariance().fit(x).covariance_,
        "mleeb": mle + (p - 1) / (n * np.trace(mle)) * np.eye(p),
        "srce": mle + p * (p - 1) / (2 * n * np.trace(mle)) * np.eye(p),
        "ledoit_wolf": ledoit_wolf(x)[0],
        "identity": np.eye(p),
    }[name]


@pytest.mark.parametrize("name", SMOOTHERS)
def test_smoothed_covariances_are_their_equations(name):
    x = RNG.normal(size=(40, 4)) @ RNG.normal(size=(4, 4)) + 3.0
    weight = np.ones(len(x))
    found = SMOOTHERS[name](x, weight)
    np.testing.assert_allclose(found, by_hand(name, x), rtol=1e-7, atol=1e-12)
    if name not in ("me", "meeb"):  # copies have no gap between them
        times = RNG.integers(1, 4, len(x))
        copies = SMOOTHERS[name](np.repeat(x, times, axis=0), np.ones(times.sum()))
        np.testing.assert_allclose(SMOOTHERS[name](x, times * 1.0), copies, rtol=1e-9)


@pytest.mark.parametrize("name", SMOOTHERS)
def test_equal_values_that_are_rounded_otherwise_are_equal(name):
    rng = np.random.default_rng(3)
    x = rng.integers(-2, 3, (40, 3)).astype(float)
    rounded = x + 1e-16 * rng.normal(size=x.shape)
    found, weight = SMOOTHERS[name](x, np.ones(40)), np.ones(40)
    np.testing.assert_allclose(SMOOTHERS[name](rounded, weight), found, rtol=1e-9)


@pytest.mark.parametrize("name", SMOOTHERS)
@pytest.mark.parametrize(("n", "p"), [(1, 3), (2, 5), (3, 1), (4, 0)])
def test_smoothers_answer_of_few_rows(name, n, p):
    x = RNG.normal(size=(n, p))
    for rows in (x, np.repeat(x[:1], n, axis=0), np.hstack([x, x])):
        found = SMOOTHERS[name](rows, np.ones(n))
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, found.T, atol=1e-12)
        metric = Metric.of(rows.mean(axis=0), found)
        assert np.isfinite(metric(rows + 1.0)).all()


def test_metrics_measure_mahalanobis_distances():
    covariance = np.cov(X.T)
    metric = Metric.of(X.mean(axis=0), covariance)
    square, _ = products(metric(X), metric(OTHER))
    off = X[:, None] - OTHER
    expected = np.einsum("abi,ij,abj->ab", off, np.linalg.inv(covariance), off)
    np.testing.assert_allclose(square, expected, rtol=1e-9)
