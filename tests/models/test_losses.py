"""Losses by themselves: derivatives, best constants and what readers are told."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import Poisson, Quantile
from secret_jax.losses.classes import Brier, CrossEntropy
from secret_jax.losses.interface import quantile
from secret_jax.losses.numbers import Gamma, RoundedQuantile, SquaredError

SMOOTH = RoundedQuantile(level=0.8, width=np.full((40, 1), 0.7))
OF_NUMBERS = [SquaredError(), SMOOTH, Poisson(), Gamma()]
OF_CLASSES = [CrossEntropy(), Brier()]
STEP = 1e-4


def case(loss, n_outputs, rng):
    """Targets and raw predictions of 40 rows."""
    value = rng.normal(size=(40, n_outputs))
    if loss in OF_CLASSES:
        return rng.dirichlet(np.ones(3), size=40)[:, :n_outputs], value
    return rng.poisson(3.0, (40, n_outputs)) + 0.5, value


@pytest.mark.parametrize(
    ("loss", "n_outputs"),
    [(loss, 1) for loss in OF_NUMBERS + OF_CLASSES]
    + [(loss, 3) for loss in OF_CLASSES],
    ids=lambda value: type(value).__name__ if value in (1, 3) else str(value)[:9],
)
def test_slopes_and_curvatures_are_those_of_the_loss(loss, n_outputs, rng):
    targets, value = case(loss, n_outputs, rng)
    slope, curvature = loss.working(targets, value)
    again, second = loss.derivatives(targets, value)
    np.testing.assert_allclose(again, slope)
    for output in range(n_outputs):
        move = STEP * (np.arange(n_outputs) == output)
        below, above = (
            loss.losses(targets, value + d).sum(axis=1) for d in (-move, move)
        )
        np.testing.assert_allclose(
            (below - above) / (2 * STEP), slope[:, output], atol=1e-4
        )
        sides = (
            loss.derivatives(targets, value + d)[0][:, output] for d in (-move, move)
        )
        by_slopes = np.subtract(*sides) / (2 * STEP)
        np.testing.assert_allclose(by_slopes, second[:, output], atol=1e-3)
    if loss == Gamma():  # parabolas have the curvature that is expected
        mean = loss.prediction(value)
        np.testing.assert_allclose(curvature, loss.derivatives(mean, value)[1])
    else:  # or the loss's, and that of rounded corners not too small a one
        more = 0.02 if isinstance(loss, Quantile) else 0.0
        np.testing.assert_allclose(curvature, second, atol=1e-9 + more)


@pytest.mark.parametrize(
    "loss",
    [SquaredError(), Quantile(level=0.8), Poisson(), Gamma()],
    ids=repr,
)
def test_constants_are_the_best(loss, rng):
    targets = rng.poisson(3.0, (40, 1)) + 0.5
    weight = rng.uniform(0.5, 2.0, 40)
    best = loss.constant(targets, weight)

    def total(constant):
        return weight @ loss.losses(targets, np.full((40, 1), constant))[:, 0]

    grid = np.linspace(best[0] - 1, best[0] + 1, 201)
    assert total(best[0]) <= min(map(total, grid)) + 1e-6


@pytest.mark.parametrize("loss", OF_CLASSES, ids=repr)
def test_the_best_constant_is_the_share_of_each_class(loss, rng):
    targets, weight = np.eye(3)[rng.integers(0, 3, 50)], rng.uniform(size=50)
    value = loss.constant(targets, weight)
    share = weight @ targets / weight.sum()
    np.testing.assert_allclose(loss.prediction(value[None])[0], share, rtol=1e-9)
    mean = weight @ loss.losses(targets, np.tile(value, (50, 1))) / weight.sum()
    np.testing.assert_allclose(loss.of_constant(share), mean, rtol=1e-9)


def test_a_unit_of_weights_does_not_move_a_median(rng):
    values = np.arange(20.0)
    for unit in rng.random(100):
        assert quantile(values, np.full(20, unit), 0.5) == 9.0


def test_steps_of_squared_errors_are_residuals_of_any_length():
    targets, value, weight = np.array([[9.0]]), np.array([[1.0]]), np.array([2.0])
    step, same = SquaredError().steps(targets, value, weight)
    assert (step, same) == (8.0, 2.0)
    assert Quantile().steps(targets, value, weight)[0] == 4.0  # parabolas hold nearby
    assert SquaredError().reported(0.25, 6.0) == 3.0
