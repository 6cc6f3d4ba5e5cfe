"""EM against float64 NumPy and SciPy, its monotony, and every way it can end."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from scipy.special import expit

from secret_jax.runtime.linalg import written_out
from secret_jax.splits.em import STEPS_TOGETHER, fit_mixture
from secret_jax.splits.mixture import (
    LogForms,
    MixtureFit,
    MixtureParameters,
    MixtureRows,
    MixtureStatus,
)

N, D = 128, 3  # one shape, so one compiled program
FLOOR = 0.02
NEVER = -1.0  # a tolerance that no rise of the objective falls below
PRIOR = FLOOR * np.eye(D)


def as_rows(z, weight, n_tiles=1) -> MixtureRows:
    """Rows as EM reads them, in so many tiles."""
    joint = jnp.concatenate([jnp.ones_like(z[:, :1]), z], axis=1)
    tiles = joint.reshape(n_tiles, -1, joint.shape[1]).swapaxes(1, 2)
    return MixtureRows(tiles, weight.reshape(n_tiles, -1), jnp.int32(n_tiles))


def test_rows_one_after_the_other_are_cut_as_they_are_read(rng):
    z, weight = rng.normal(size=(1024, D)), np.arange(1024) < 600
    z, weight = jnp.asarray(z, jnp.float32), jnp.asarray(weight, jnp.float32)
    for got, wanted in zip(
        MixtureRows.of(z, weight), as_rows(z, weight, 2), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)
    assert MixtureRows.of(z, weight.at[300:].set(0)).n_tiles == 1


@functools.partial(jax.jit, static_argnames=("tolerance", "n_tiles"))
def run(
    z, weight, responsibility, active, max_iter, tolerance, n_tiles=1
) -> MixtureFit:
    return fit_mixture(
        as_rows(z, weight, n_tiles),
        responsibility.reshape(n_tiles, -1),
        active,
        max_iter=max_iter,
        tolerance=tolerance,
        floor=FLOOR,
    )


def fit(z, weight, responsibility, *, max_iter, tolerance=NEVER, active=(True,) * D):
    z, weight, responsibility = (
        np.asarray(array, np.float32) for array in (z, weight, responsibility)
    )
    result = run(
        z, weight, responsibility, np.array(active), max_iter, tolerance=tolerance
    )
    return jax.tree.map(np.asarray, result)


def log_constant(d=D):
    """What the package leaves out of every log-density."""
    return 0.5 * d * np.log(2 * np.pi)


def as_mixture(parameters: MixtureParameters) -> reference.Mixture:
    factor = np.linalg.inv(parameters.inverse_factor.astype(np.float64))
    return reference.Mixture(
        np.exp(parameters.log_weight.astype(np.float64)),
        parameters.mean.astype(np.float64),
        factor @ factor.transpose(0, 2, 1),
    )


def assert_same_mixture(parameters: MixtureParameters, expected, *, tolerance):
    for got, wanted in zip(as_mixture(parameters), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def assert_finite(fit: MixtureFit):
    assert all(np.isfinite(array).all() for array in fit.parameters)
    assert not np.isnan(fit.objective)
    if MixtureStatus(int(fit.status)).usable:
        assert np.isfinite(fit.objective)


@pytest.fixture
def rows(rng):
    """Overlapping clusters of unlike shape, weights, and a rough start."""
    z = rng.normal(size=(N, D)) @ np.array([[1, 0.5, 0], [0, 0.4, 0.3], [0, 0, 0.8]])
    z[50:] = rng.normal(size=(N - 50, D)) * [0.5, 1.0, 0.2] + [1.0, -1.0, 0.5]
    responsibility = np.clip(rng.normal(0.6 - 0.3 * (np.arange(N) >= 50), 0.2), 0, 1)
    return z, rng.uniform(0.2, 3.0, N), responsibility


def test_log_densities(rng):
    mean = rng.normal(size=(2, D))
    root = rng.normal(size=(2, D, D)) + 2 * np.eye(D)
    mixture = reference.Mixture(
        np.array([0.2, 0.8]), mean, root @ root.transpose(0, 2, 1)
    )
    parameters = MixtureParameters(
        jnp.log(jnp.array([0.2, 0.8])),
        jnp.asarray(mean, jnp.float32),
        jnp.asarray(np.linalg.inv(np.linalg.cholesky(mixture.covariance)), jnp.float32),
    )
    z = 3 * rng.normal(size=(40, D))
    rows = as_rows(jnp.asarray(z, jnp.float32), jnp.ones(len(z)))
    got = jnp.stack(LogForms.of(parameters).densities(rows.z[0])) - log_constant()
    expected = reference.joint_log_density(mixture, z)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_one_step(rows):
    got = fit(*rows, max_iter=1)
    expected = reference.maximise(*rows, PRIOR)
    assert_same_mixture(got.parameters, expected, tolerance=1e-5)
    z, weight, _ = rows
    wanted = reference.objective(expected, z, weight, PRIOR)
    assert got.objective - log_constant() == pytest.approx(wanted, abs=1e-5)
    assert got.n_iterations == 1
    assert got.status == MixtureStatus.ITERATION_LIMIT


@pytest.mark.parametrize("n_steps", [2, 7, 60])
def test_steps_follow_the_reference(rows, n_steps):
    got = fit(*rows, max_iter=n_steps)
    expected = reference.fit_mixture(*rows, n_steps, PRIOR)
    assert_same_mixture(got.parameters, expected, tolerance=1e-4)
    z, weight, _ = rows
    wanted = reference.objective(expected, z, weight, PRIOR)
    assert got.objective - log_constant() == pytest.approx(wanted, abs=1e-5)
    assert got.n_iterations == n_steps


def test_converged_fit_is_a_local_maximum(rows, rng):
    """No small step in any parameter raises the penalised log-likelihood."""
    z, weight, _ = rows
    got = fit(*rows, max_iter=2000, tolerance=1e-7)
    assert got.status == MixtureStatus.CONVERGED
    best = as_mixture(got.parameters)
    top = reference.objective(best, z, weight, PRIOR)
    for _ in range(60):
        step = 0.02 * rng.normal(size=(2, D, D))
        stretch = np.eye(D) + step
        odds = best.fraction * np.exp(0.02 * rng.normal(size=2))
        other = reference.Mixture(
            odds / odds.sum(),
            best.mean + 0.02 * rng.normal(size=(2, D)),
            stretch @ best.covariance @ stretch.transpose(0, 2, 1),
        )
        assert reference.objective(other, z, weight, PRIOR) < top


@pytest.fixture
def thin_rows(rng):
    """Two exact planes that cross: each component flattens until the prior holds it."""
    z = rng.normal(size=(N, D))
    z[:, 2] = np.where(np.arange(N) < 60, z[:, 0], -z[:, 1])
    return z, np.ones(N), (np.arange(N) % 3 == 0) * 0.4 + 0.3


@pytest.mark.parametrize("data", ["rows", "thin_rows"])
def test_objective_never_falls(data, request):
    """Up to the rounding of a sum of N float32 terms: 1e-6 of their size."""
    z, weight, responsibility = request.getfixturevalue(data)
    trace = np.array(
        [
            fit(z, weight, responsibility, max_iter=n).objective.astype(np.float64)
            for n in range(1, 80)
        ]
    )
    assert trace[-1] - trace[0] > 0.05  # there was something to climb
    assert np.diff(trace).min() >= -1e-6 * max(1.0, np.abs(trace).max())


@pytest.mark.parametrize("tolerance", [1e-2, 5e-4])
def test_stops_at_the_first_small_rise(rows, tolerance):
    got = fit(*rows, max_iter=500, tolerance=tolerance)
    assert got.status == MixtureStatus.CONVERGED
    n = int(got.n_iterations)
    trace = [fit(*rows, max_iter=m).objective for m in range(1, n + 1)]
    rises = np.diff(trace)
    assert n > 3
    assert (rises[:-1] >= tolerance).all()
    assert rises[-1] < tolerance
    same = fit(*rows, max_iter=n)
    assert_same_mixture(got.parameters, as_mixture(same.parameters), tolerance=2e-5)


def test_many_rows_end_where_double_precision_does(rng):
    """The last rises are a ten-millionth of the objective."""
    n = 1 << 14
    second = rng.random(n) < 0.4
    z = rng.normal(size=(n, D)) * np.where(second[:, None], [0.5, 1.0, 0.2], 1.0)
    z[second] += [1.0, -1.0, 0.5]
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    weight, start = np.ones(n), np.where(second, 0.6, 0.4)
    mixture, before = reference.maximise(z, weight, start, PRIOR), -np.inf
    n_steps = 0
    while True:
        n_steps += 1
        now = reference.objective(mixture, z, weight, PRIOR)
        if now - before < 1e-6:
            break
        first, other = reference.joint_log_density(mixture, z)
        mixture = reference.maximise(z, weight, expit(first - other), PRIOR)
        before = now
    z, weight, start = (np.asarray(a, np.float32) for a in (z, weight, start))
    active = np.ones(D, bool)
    got = run(z, weight, start, active, 200, tolerance=1e-6, n_tiles=n // 512)
    assert got.n_iterations == n_steps
    parameters = jax.tree.map(np.asarray, got.parameters)
    assert_same_mixture(parameters, mixture, tolerance=2e-5)


def test_components_are_exchangeable(rows):
    z, weight, responsibility = rows
    got = fit(z, weight, responsibility, max_iter=20)
    swapped = fit(z, weight, 1 - responsibility, max_iter=20)
    mirrored = as_mixture(MixtureParameters(*(a[::-1] for a in swapped.parameters)))
    assert_same_mixture(got.parameters, mirrored, tolerance=1e-4)


def test_inactive_dimensions_take_no_part(rows):
    z, weight, responsibility = (array.copy() for array in rows)
    z[:, 1] = 0
    got = fit(z, weight, responsibility, max_iter=20, active=(True, False, True))
    kept = [0, 2]
    prior = FLOOR * np.eye(2)
    expected = reference.fit_mixture(z[:, kept], weight, responsibility, 20, prior)
    part = MixtureParameters(
        got.parameters.log_weight,
        got.parameters.mean[:, kept],
        got.parameters.inverse_factor[:, kept][:, :, kept],
    )
    assert_same_mixture(part, expected, tolerance=1e-4)
    wanted = reference.objective(expected, z[:, kept], weight, prior)
    assert got.objective - log_constant(2) == pytest.approx(wanted, abs=1e-5)


# Statuses


@pytest.mark.parametrize(("mass", "collapsed"), [(0, True), (3, True), (4, False)])
def test_collapse_at_as_many_rows_as_dimensions(rows, mass, collapsed):
    """Zero is the empty component."""
    z, _, _ = rows
    for flip in (False, True):
        responsibility = (np.arange(N) < mass) ^ flip
        got = fit(z, np.ones(N), responsibility, max_iter=1)
        ended = MixtureStatus(int(got.status))
        assert (ended is MixtureStatus.COLLAPSED) == collapsed
        assert ended.usable != collapsed
        assert got.n_iterations == 1
        assert_finite(got)


def test_collapse_on_the_way(rows, rng):
    """A component that starts wide can still shrink onto a few far rows."""
    z = 0.1 * rng.normal(size=(N, D))
    z[:2] += 40.0
    responsibility = np.where(np.arange(N) < 2, 1.0, 0.3)
    got = fit(z, np.ones(N), responsibility, max_iter=200)
    assert got.status == MixtureStatus.COLLAPSED
    assert 1 < got.n_iterations < 200
    assert_finite(got)


def test_only_active_dimensions_count(rows):
    """With two of them, three rows are enough for a component, and five for both."""
    z, _, responsibility = (array.copy() for array in rows)
    z[:, 2] = 0
    active = (True, True, False)
    got = fit(z, np.ones(N), np.arange(N) < 3, max_iter=1, active=active)
    assert got.status == MixtureStatus.ITERATION_LIMIT
    got = fit(z, np.arange(N) < 5, responsibility, max_iter=1, active=active)
    assert got.status != MixtureStatus.TOO_FEW_ROWS


@pytest.mark.parametrize(
    ("n_rows", "too_few"), [(0, True), (1, True), (D + 1, True), (6, True), (7, False)]
)
def test_too_few_rows(rows, n_rows, too_few):
    """Two covariances of rank three need more than six rows."""
    z, _, responsibility = rows
    weight = (np.arange(N) < n_rows).astype(float)
    got = fit(z, weight, responsibility, max_iter=50)
    assert (got.status == MixtureStatus.TOO_FEW_ROWS) == too_few
    assert (got.n_iterations == 0) == too_few
    assert_finite(got)


def test_two_point_masses():
    """The prior holds the variances up; the fit is sound and separates the points."""
    first = np.arange(N) < 32
    z = np.zeros((N, D))
    z[:, 0] = np.where(first, -np.sqrt(3), np.sqrt(1 / 3))
    active = (True, False, False)
    got = fit(
        z, np.ones(N), 0.3 + 0.4 * first, max_iter=500, tolerance=1e-6, active=active
    )
    assert got.status == MixtureStatus.CONVERGED
    assert_finite(got)
    mixture = as_mixture(got.parameters)
    np.testing.assert_allclose(mixture.fraction, [0.25, 0.75], rtol=1e-3)
    np.testing.assert_allclose(mixture.mean[:, 0], [-np.sqrt(3), np.sqrt(1 / 3)], 1e-3)
    np.testing.assert_allclose(
        mixture.covariance[:, 0, 0], FLOOR / mixture.fraction, rtol=2e-3
    )


def test_indistinct_start_stays_indistinct(rows):
    """Equal responsibilities are a saddle: one Gaussian twice, and it converges."""
    z, weight, _ = rows
    got = fit(z, weight, np.full(N, 0.5), max_iter=50, tolerance=1e-6)
    assert got.status == MixtureStatus.CONVERGED
    np.testing.assert_allclose(*got.parameters.mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("max_iter", [3, STEPS_TOGETHER + 14])
def test_steps_in_groups_end_where_single_ones_do(max_iter):
    rng = np.random.default_rng(3)
    z = rng.normal(size=(4, N, D)).astype(np.float32)
    z[:, : N // 2] += np.array([0.5, 1.0, 2.0, 6.0], np.float32)[:, None, None]
    weight = np.ones((4, N), np.float32)
    weight[3, 2:] = 0  # too few rows
    start = rng.random((4, N)).astype(np.float32)

    def fits():
        def one(z, weight, start):
            active = jnp.ones(D, bool)
            return run(z, weight, start, active, max_iter, tolerance=1e-4)

        return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(z, weight, start))

    alone = fits()
    with written_out():
        together = fits()
    assert (together.n_iterations <= max_iter).all()
    np.testing.assert_array_equal(together.status, alone.status)
    np.testing.assert_array_equal(together.n_iterations, alone.n_iterations)
    for found, expected in zip(together.parameters, alone.parameters, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-4)
