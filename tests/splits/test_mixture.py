"""EM against float64 NumPy and SciPy, its monotony, and every way it can end."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import reference
from scipy.special import expit

from secret_jax.data.mixtures import weighted_products
from secret_jax.data.ragged import RaggedRows
from secret_jax.splits.mixture import (
    LogForms,
    MixtureFit,
    MixtureRows,
    MixtureStatus,
    fit_mixtures,
    moments_of,
)

N, D = 128, 3
FLOOR = 0.02
NEVER = -1.0  # a tolerance that no rise of the objective falls below
PRIOR = FLOOR * np.eye(D)


def fit(
    z, weight, responsibility, *, max_iter, tolerance=NEVER, active=(True,) * D
) -> MixtureFit:
    """One start in one node."""
    rows, weight = RaggedRows(np.array([len(z)])), np.float32(weight)
    joint = np.concatenate([np.ones((1, len(z))), z.T]).astype(np.float32)
    (total,) = rows.total(moments_of, (), (joint, weight))
    known = MixtureRows(rows, joint, weight, total, np.array([active]))
    start = weighted_products(rows, np.float32(responsibility)[None] * weight, joint)
    with np.errstate(all="ignore"):
        found = fit_mixtures(
            known, start, max_iter=max_iter, tolerance=tolerance, floor=FLOOR
        )
    return jax.tree.map(lambda array: array[0, 0], found)


def log_constant(d=D):
    """What the package leaves out of every log-density: that of one Gaussian."""
    return 0.5 * d * np.log(2 * np.pi) + 0.5 * d


def as_mixture(forms: LogForms) -> reference.Mixture:
    factor = forms.factor.astype(np.float64)
    moved, inverse = factor[..., 0], factor[..., 1:]
    root = np.linalg.inv(inverse)
    of_one = 0.5 * inverse.shape[-1]
    diagonal = np.diagonal(inverse, axis1=-2, axis2=-1)
    return reference.Mixture(
        np.exp(forms.constant - np.log(diagonal).sum(axis=-1) - of_one),
        -np.einsum("cij,cj->ci", root, moved),
        root @ root.transpose(0, 2, 1),
    )


def assert_same_mixture(forms: LogForms, expected, *, tolerance):
    """Of which component is called the first nothing is said."""
    got = as_mixture(forms)
    straight, turned = (
        np.abs(got.mean - mean).sum() for mean in (expected.mean, expected.mean[::-1])
    )
    for found, wanted in zip(got, expected, strict=True):
        wanted = wanted if straight <= turned else wanted[::-1]
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def assert_finite(fit: MixtureFit):
    usable = fit.status <= MixtureStatus.ITERATION_LIMIT
    assert all(np.isfinite(array).all() for array in fit.forms) or not usable
    assert not np.isnan(fit.objective)
    assert np.isfinite(fit.objective) == usable


@pytest.fixture
def rows(rng):
    """Overlapping clusters of unlike shape, weights, and a rough start."""
    z = rng.normal(size=(N, D)) @ np.array([[1, 0.5, 0], [0, 0.4, 0.3], [0, 0, 0.8]])
    z[50:] = rng.normal(size=(N - 50, D)) * [0.5, 1.0, 0.2] + [1.0, -1.0, 0.5]
    responsibility = np.clip(rng.normal(0.6 - 0.3 * (np.arange(N) >= 50), 0.2), 0, 1)
    return z, rng.uniform(0.2, 3.0, N), responsibility


@pytest.mark.parametrize("n_steps", [1, 2, 7, 60])
def test_steps_follow_the_reference(rows, n_steps):
    got = fit(*rows, max_iter=n_steps)
    expected = reference.fit_mixture(*rows, n_steps, PRIOR)
    tolerance = 1e-5 if n_steps == 1 else 1e-4
    assert_same_mixture(got.forms, expected, tolerance=tolerance)
    z, weight, _ = rows
    wanted = reference.objective(expected, z, weight, PRIOR)
    assert got.objective - log_constant() == pytest.approx(wanted, abs=1e-5)
    assert got.n_iterations == n_steps
    assert got.status == MixtureStatus.ITERATION_LIMIT


def test_converged_fit_is_a_local_maximum(rows, rng):
    """No small step in any parameter raises the penalised log-likelihood."""
    z, weight, _ = rows
    got = fit(*rows, max_iter=2000, tolerance=1e-7)
    assert got.status == MixtureStatus.CONVERGED
    best = as_mixture(got.forms)
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
    assert_same_mixture(got.forms, as_mixture(same.forms), tolerance=2e-5)


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
    start = np.where(second, 0.6, 0.4)
    got = fit(z, weight, start, max_iter=200, tolerance=1e-6)
    assert got.n_iterations == n_steps
    assert_same_mixture(got.forms, mixture, tolerance=2e-5)


def test_components_are_exchangeable(rows):
    z, weight, responsibility = rows
    got = fit(z, weight, responsibility, max_iter=20)
    swapped = fit(z, weight, 1 - responsibility, max_iter=20)
    assert_same_mixture(got.forms, as_mixture(swapped.forms), tolerance=1e-4)
    # Which one is called the first is decided by the weight.
    assert as_mixture(got.forms).fraction[0] < 0.5


def test_inactive_dimensions_take_no_part(rows):
    z, weight, responsibility = (array.copy() for array in rows)
    z[:, 1] = 0
    got = fit(z, weight, responsibility, max_iter=20, active=(True, False, True))
    kept = [0, 2]
    prior = FLOOR * np.eye(2)
    expected = reference.fit_mixture(z[:, kept], weight, responsibility, 20, prior)
    assert not got.forms.factor[:, 1].any()
    part = got.forms.factor[:, kept][:, :, [0, 1, 3]]
    part = LogForms(got.forms.constant, part)
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
        assert (ended is MixtureStatus.ITERATION_LIMIT) != collapsed
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


def test_only_active_dimensions_count(rows):
    """With two of them, three rows are enough for a component, and five for both."""
    z, _, responsibility = (array.copy() for array in rows)
    z[:, 2], few = 0, {"max_iter": 1, "active": (True, True, False)}
    got = fit(z, np.ones(N), np.arange(N) < 3, **few)
    assert got.status == MixtureStatus.ITERATION_LIMIT
    got = fit(z, np.arange(N) < 5, responsibility, **few)
    assert got.status != MixtureStatus.TOO_FEW_ROWS


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
    one = LogForms(got.forms.constant, got.forms.factor[:, :1, :2])
    mixture = as_mixture(one)
    np.testing.assert_allclose(mixture.fraction, [0.25, 0.75], rtol=1e-3)
    np.testing.assert_allclose(mixture.mean[:, 0], [-np.sqrt(3), np.sqrt(1 / 3)], 1e-3)
    np.testing.assert_allclose(
        mixture.covariance[:, 0, 0], FLOOR / mixture.fraction, rtol=2e-3
    )
