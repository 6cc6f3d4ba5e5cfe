"""Losses: derivatives, best constants, and models by SciPy and scikit-learn."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor, TweedieRegressor

from secret_jax import Poisson, Quantile, SecretRegressor
from secret_jax.losses.classes import Brier, CrossEntropy
from secret_jax.losses.interface import Loss, quantile
from secret_jax.losses.numbers import Gamma, QuasiPoisson, RoundedQuantile, SquaredError
from secret_jax.tree.file import ModelFileError

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
    assert (
        Gamma().steps(targets, value - 9.0, weight)[0] == 4.0
    )  # parabolas hold nearby
    assert SquaredError().reported(0.25, 6.0) == 3.0


ROOT = {"splits": "cart", "max_depth": 0, "prune": None, "equation_tolerance": 0.0}


def table(n=300, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    return X, X @ [1.0, -2.0, 0.0] + random.standard_t(2, size=n), random


@pytest.mark.parametrize("exact", [False, True], ids=["noisy", "almost exact"])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.99])
def test_a_root_is_scikit_learns_quantile_regression(level, exact):
    X, y, random = table()
    if exact:  # far quantiles of it are reached as well
        X = random.normal(size=(1000, 3))
        y = X @ [3, -2, 1] + 0.1 * random.normal(size=1000)
    loss = Quantile(level=level)
    ours = SecretRegressor(loss=loss, leaf="linear", **ROOT).fit(X, y)
    theirs = QuantileRegressor(quantile=level, alpha=0.0).fit(X, y)
    found, least = (
        loss.losses(y[:, None], model.predict(X)[:, None]).mean()
        for model in (ours, theirs)
    )
    assert least <= found + 1e-9
    assert found < (1.02 if exact else 1.01) * least
    assert (y <= ours.predict(X)).mean() == pytest.approx(level, abs=0.02)


def test_medians_of_weak_slopes_are_not_shrunk():
    random = np.random.default_rng(1)
    X = random.normal(size=(3000, 3))
    y = X @ [0.3, -0.3, 0.15] + random.normal(size=3000)
    slopes = SecretRegressor(loss="absolute", **ROOT).fit(X, y).coefficients(0)
    theirs = QuantileRegressor(quantile=0.5, alpha=0.0).fit(X, y).coef_
    found = slopes.set_index("column").coefficient[["x0", "x1", "x2"]]
    np.testing.assert_allclose(found, theirs, atol=0.02)


def test_constant_leaves_of_the_absolute_error_are_medians():
    X, y, _ = table()
    options = {"loss": "absolute", "max_depth": 2, "min_samples_leaf": 20}
    model = SecretRegressor.literature("cart", **options).fit(X, y)
    leaf, said = model.apply(X), model.predict(X)
    for node in np.unique(leaf):
        own = y[leaf == node] - said[leaf == node]
        assert np.mean(own <= -1e-6) <= 0.5 <= np.mean(own <= 1e-6)


def test_outliers_hardly_count():
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 3))
    level = X @ [1.0, -1.0, 0.5]
    y = level + 0.3 * random.normal(size=2000)
    y[:20] = 99999.0
    for equation_tolerance in (0.0, 0.03):
        model = SecretRegressor(
            loss="absolute", **ROOT | {"equation_tolerance": equation_tolerance}
        ).fit(X, y)
        assert np.sqrt(np.mean((model.predict(X) - level) ** 2)) < 0.05
    assert model.reading_cost_ == 4


@pytest.mark.parametrize(("loss", "power"), [("poisson", 1), ("gamma", 2)])
def test_a_root_is_scikit_learns_regression_with_a_log_link(loss, power):
    X, _, random = table()
    mean = np.exp(1.0 + 0.5 * X[:, 0] - 0.3 * X[:, 1])
    y = random.gamma(2.0, mean / 2.0) if power == 2 else random.poisson(mean)
    ours = SecretRegressor(loss=loss, leaf="linear", **ROOT).fit(X, y)
    theirs = TweedieRegressor(
        power=power, alpha=0.0, link="log", tol=1e-9, max_iter=1000
    ).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-3)
    assert "log of y" in ours.export_text()


def test_amounts_where_a_leaf_saw_zeros_alone():
    random = np.random.default_rng(2)
    X = random.uniform(size=(300, 11))
    y = np.exp(X[:, 0] + X[:, 1]) * random.gamma(2, size=300)
    y[:50] = 0.0
    y[np.argsort(X[:, 2])[:50]] = 0.0
    losses = Gamma().losses(np.array([[3.0]]), np.array([[-60.0]]))
    assert losses < 1e10
    model = SecretRegressor(loss=QuasiPoisson(), leaf="linear").fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_a_tree_of_counts_reads_in_logarithms():
    X, _, random = table()
    mean = np.where(X[:, 0] > 0, np.exp(1 + X[:, 1]), np.exp(2 - X[:, 1]))
    y = random.poisson(mean)
    model = SecretRegressor(loss="poisson", oblique=False, prune="cross-validation")
    model.fit(X, y)
    assert model.n_leaves_ > 1
    assert (model.predict(X) > 0).all()
    assert np.corrcoef(model.predict(X), mean)[0, 1] > 0.9
    assert "log of y = " in model.export_text()
    # Means have steps of the target's deviation, whatever the equations say.
    scarce = SecretRegressor(loss="gamma", max_depth=0).fit(X, 1e4 * (1.0 + y))
    assert re.search(r"mean \d+,\d00, loss", scarce.export_text())
    why = model.explain(X[:5])
    total = why.baseline + why.contributions.sum(axis=1) + why.clipping
    np.testing.assert_allclose(np.exp(total), model.predict(X[:5]), rtol=1e-4)
    written, lines = why.to_dataframe(), str(why).splitlines()
    np.testing.assert_allclose(written["prediction"], model.predict(X[:5]), rtol=1e-4)
    np.testing.assert_allclose(written["score"], total)
    said = float(lines[0].removeprefix("row 0: y = "))
    assert said == pytest.approx(model.predict(X[:1])[0], rel=1e-3)
    assert lines[2].startswith("  log of y = ")


def test_rows_that_choose_the_size_may_hold_zeros_alone():
    X, _, random = table()
    y = random.poisson(np.exp(X[:, 0]))
    others = X[:40], np.zeros(40)
    model = SecretRegressor(**ROOT | {"prune": "holdout"}, loss="poisson")
    assert (model.fit(X, y, eval_set=others).predict(X) > 0).all()
    with pytest.raises(ValueError, match=r"In eval_set: .* the least target is -1"):
        model.fit(X, y, eval_set=(X[:40], -np.ones(40)))


def test_what_does_not_go_together_is_refused():
    X, y, _ = table(60)

    def refused(message, y=y, **parameters):
        with pytest.raises(ValueError, match=message):
            SecretRegressor(**ROOT | parameters).fit(X, y)

    refused("the least target is -", loss="poisson")
    refused("all are zero", y=np.zeros(60), loss="poisson")
    refused("'level' parameter", loss=Quantile(level=1.0))
    refused("'loss' parameter", loss="cauchy")
    refused("^loss='gamma' needs numbers above zero", loss="gamma")
    refused("'loss' parameter.*use SecretClassifier", loss=CrossEntropy())
    refused("'refine' parameter", loss="absolute", refine="soft", prune="holdout")
    refused("'leaf' parameter", loss="absolute", leaf="implied", splits="secret")
    model = SecretRegressor(loss="absolute", **ROOT).fit(X, y)
    with pytest.raises(ValueError, match=r"need loss='squared'.*two quantiles"):
        model.predict(X, return_std=True)


@dataclass(frozen=True, kw_only=True)
class Expectile(Loss):
    """Squared errors that cost more on one side (Newey & Powell 1987)."""

    level: float = 0.8
    link: ClassVar = "identity"
    predicts_mean: ClassVar = False

    def losses(self, targets, value):
        return self.working(targets, value)[1] * (targets - value) ** 2 / 2

    def working(self, targets, value):
        curvature = 2 * np.where(targets > value, self.level, 1 - self.level)
        return curvature * (targets - value), curvature

    def constant(self, targets, weight):
        return weight @ targets / weight.sum()  # where the steps begin

    def noise(self, error, mean):
        return 2 * error


def test_a_loss_of_ones_own_is_fitted_and_not_kept_in_a_file(tmp_path):
    X, y, _ = table()
    model = SecretRegressor(loss=Expectile(), leaf="linear", **ROOT).fit(X, y)
    # At the least sum of losses their slopes cancel.
    slope, _ = Expectile().working(y, model.predict(X))
    design = np.column_stack([np.ones(len(X)), X])
    assert (np.abs(slope @ design) < 2e-3 * (np.abs(slope) @ np.abs(design))).all()
    with pytest.raises(ModelFileError, match="a loss of your own"):
        model.save(tmp_path / "own")
