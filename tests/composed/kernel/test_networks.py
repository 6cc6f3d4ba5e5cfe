"""Networks of basis functions and processes, against dense algebra and scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import Ridge

from secret_jax.composed.kernel import GaussianProcess, RadialBasis, kernels, networks
from secret_jax.composed.kernel.interface import Regions
from secret_jax.composed.kernel.networks import _BANDWIDTHS, _NOISES


def regions(n=120, n_outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 2))
    leaf = np.sort((x > 0) @ [1, 2])
    x = x[np.argsort((x > 0) @ [1, 2], kind="stable")]
    clean = np.stack([np.sin(2 * x[:, 0]) * x[:, 1], x.sum(axis=1)], axis=1)
    target = (clean + 0.1 * rng.normal(size=(n, 2)))[:, :n_outputs]
    return Regions(x, leaf, target, np.zeros_like(target), np.ones(n))


ROWS = regions()


def test_networks_are_ridge_regressions_on_bases_of_the_leaves():
    fit = RadialBasis(kernel="gaussian", smoother="mle").fit(ROWS)
    width = fit.model.bandwidth
    columns = []
    for leaf in range(4):
        own = ROWS.x[ROWS.leaf == leaf]
        off = ROWS.x - own.mean(axis=0)
        inverse = np.linalg.inv(np.cov(own.T, bias=True))
        square = np.einsum("ni,ij,nj->n", off, inverse, off)
        columns.append(np.exp(-square / (2 * width**2)))
    design = np.stack(columns, axis=1)
    scaled = design / design.std(axis=0)
    # One of the penalties gives these predictions, and it has the least error left out.
    ridges = [Ridge(alpha=120 * 10.0**i).fit(scaled, ROWS.target) for i in range(-6, 3)]
    said = [ridge.predict(scaled) for ridge in ridges]
    off = [np.abs(one - fit.fitted).max() for one in said]
    best = int(np.argmin(off))
    np.testing.assert_allclose(fit.fitted, said[best], atol=1e-6)
    value, deviation = fit.model.predict(ROWS.x, ROWS.leaf, ROWS.base)
    np.testing.assert_allclose(value, fit.fitted, atol=1e-9)
    centered = scaled - scaled.mean(axis=0)
    errors = []
    for ridge in ridges:
        inner = centered.T @ centered + ridge.alpha * np.eye(4)
        hat = centered @ np.linalg.solve(inner, centered.T) + 1 / 120
        left = ((ROWS.target - hat @ ROWS.target) ** 2).sum()
        errors.append(left / (120 - 1.2 * np.trace(hat)) ** 2)
    assert int(np.argmin(errors)) == best
    error = (ROWS.target - fit.left_out)[ROWS.leaf == 2] ** 2
    np.testing.assert_allclose(deviation[ROWS.leaf == 2][0] ** 2, error.mean(axis=0))


def test_left_out_rows_have_no_part_in_what_is_said_of_them():
    """Of the same bases, and of the same choices, as are made here by all rows."""
    head, row = RadialBasis(), 17
    before = head.fit(ROWS)
    target = ROWS.target.copy()
    target[row] += 1e-3  # too little to choose otherwise
    after = head.fit(ROWS._replace(target=target))
    moved = np.abs(after.left_out - before.left_out)
    assert moved[row].max() < 2e-6 < 1e-5 < np.abs(after.fitted - before.fitted).max()


def test_processes_are_equations_4_54_and_4_55():
    head = GaussianProcess(kernel="exponential", smoother="identity")
    fit = head.fit(ROWS)
    model, network = fit.model, RadialBasis(kernel="exponential", smoother="identity")
    mean = network.fit(ROWS)
    rest = ROWS.target - mean.left_out
    width, noise = model.process.bandwidth, model.noise
    assert np.isin(width / np.sqrt(2), _BANDWIDTHS)
    width = width / np.diag(model.process.metric.root)
    assert noise in _NOISES
    new = np.random.default_rng(1).uniform(-3, 3, (30, 2))
    nothing, leaf = np.zeros((30, 2)), np.zeros(30, int)
    value, deviation = model.predict(new, leaf, nothing)
    mu, _ = mean.model.predict(new, leaf, nothing)
    for output, scale in enumerate(model.scale):
        kernel = ConstantKernel(scale) * Matern(width, nu=0.5)
        kernel += WhiteKernel(noise * scale)
        peer = GaussianProcessRegressor(kernel, optimizer=None)
        said, std = peer.fit(ROWS.x, rest[:, output]).predict(new, return_std=True)
        np.testing.assert_allclose(value[:, output], mu[:, output] + said, atol=1e-5)
        np.testing.assert_allclose(deviation[:, output], std, rtol=1e-4)
        # The variance of the process is the likeliest.
        likelihood = [
            peer.log_marginal_likelihood(np.log([scale * c, *width, noise * scale * c]))
            for c in (0.9, 1.0, 1.1)
        ]
        assert np.argmax(likelihood) == 1


def test_projected_processes_are_near_and_memory_is_bounded(monkeypatch):
    rows = regions(300)
    monkeypatch.setattr(networks, "_MOST_ROWS", 100)
    head = GaussianProcess(smoother="identity")
    full = head.fit(rows)
    some = replace(head, max_centers=100).fit(rows)
    assert len(some.model.process.z) == 100
    spread = rows.target.std(axis=0)
    assert (np.abs(some.fitted - full.fitted) < 0.15 * spread).all()
    monkeypatch.setattr(kernels, "BLOCK_NUMBERS", 1 << 12)
    again = replace(head, max_centers=100).fit(rows)
    np.testing.assert_allclose(again.fitted, some.fitted, atol=1e-8)
    np.testing.assert_allclose(again.left_out, some.left_out, atol=1e-8)


def test_weights_are_copies():
    weight = np.random.default_rng(2).integers(1, 4, 120)
    rows = ROWS._replace(weight=weight.astype(float))
    network = RadialBasis(kernel="cauchy", smoother="identity")
    one = network.fit(rows)
    other = network.fit(Regions(*(np.repeat(part, weight, axis=0) for part in ROWS)))
    said = np.repeat(one.fitted, weight, axis=0)
    np.testing.assert_allclose(said, other.fitted, atol=1e-7)
    # Of a process the noise of a row is that of a mean of so many.
    fit = GaussianProcess(smoother="identity").fit(rows)
    model, rest = fit.model, rows.target - one.left_out
    z = model.process.metric(ROWS.x)
    gram = model.process.covariance(z, z)
    said = gram @ np.linalg.solve(gram + np.diag(model.noise / weight), rest)
    np.testing.assert_allclose(fit.fitted, one.fitted + said, atol=1e-5)


def test_distances_that_are_rounding_break_no_process():
    """Copies far from the center: the exponential kernel falls at once."""
    rng = np.random.default_rng(0)
    x = np.repeat(30.0 * rng.normal(size=(60, 3)), 5, axis=0)
    target = np.sin(x[:, :1]) + rng.normal(size=(300, 1))
    rows = Regions(x, np.zeros(300, int), target, 0 * target, np.ones(300))
    head = GaussianProcess(kernel="exponential", smoother="identity")
    assert np.isfinite(head.fit(rows).left_out).all()
