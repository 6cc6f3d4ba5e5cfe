"""Boosters with the losses of single trees: counts, amounts, quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from configurations import refusal
from ensemble_tables import SMALL, wave
from exported_code import records, run_onnx, run_python
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor, QuantileRegressor
from sklearn.metrics import mean_gamma_deviance, mean_pinball_loss
from sklearn.metrics import mean_poisson_deviance as poisson_deviance

from secret_jax import Poisson, Quantile, SecretBoostingRegressor
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import Gamma, QuasiPoisson, SquaredError

LOSSES = ["poisson", "gamma", "absolute", Quantile(level=0.9)]
FEW = {"max_leaf_nodes": 8, "n_folds": 2, "learning_rate": 0.3}


def outcomes(loss: Any, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Table of a curve and an interaction, with counts, amounts or numbers."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (n_rows, 4))
    level = np.sin(3 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0)
    if loss == "poisson":
        return X, random.poisson(np.exp(level)).astype(float)
    if loss == "gamma":
        return X, np.exp(level) * random.gamma(2, 0.5, n_rows)
    return X, level + (0.2 + 0.5 * (X[:, 3] > 0)) * random.standard_t(3, n_rows)


def missed(loss: Any, y: np.ndarray, prediction: np.ndarray) -> float:
    if isinstance(loss, str) and loss != "absolute":
        return {"poisson": poisson_deviance, "gamma": mean_gamma_deviance}[loss](
            y, prediction
        )
    level = 0.5 if loss == "absolute" else loss.level
    return mean_pinball_loss(y, prediction, alpha=level)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_losses_on_new_rows_are_not_above_those_of_scikit_learn(loss):
    X, y = outcomes(loss, 700, seed=0)
    new, outcome = outcomes(loss, 3000, seed=1)
    model = SecretBoostingRegressor(loss=loss, **FEW).fit(X, y)
    theirs = {"loss": "quantile", "quantile": 0.9}
    if isinstance(loss, str):
        theirs = {"loss": "absolute_error" if loss == "absolute" else loss}
    other = HistGradientBoostingRegressor(**theirs, learning_rate=0.05).fit(X, y)
    least = missed(loss, outcome, other.predict(new))
    prediction = model.predict(new)
    assert model.n_iter_ > 1
    assert missed(loss, outcome, prediction) < 1.03 * least
    if loss in ("poisson", "gamma"):
        assert (prediction > 0).all()
        assert prediction.mean() == pytest.approx(outcome.mean(), rel=0.1)
    else:
        level = 0.5 if loss == "absolute" else loss.level
        assert (outcome <= prediction).mean() == pytest.approx(level, abs=0.04)


def test_first_models_are_regressions_with_the_loss():
    X, y = outcomes("poisson", 700, seed=2)
    none = {"max_iter": 0, "ensemble": False, "early_stopping": False}
    model = SecretBoostingRegressor(loss="poisson", **none).fit(X, y)
    theirs = PoissonRegressor(alpha=0.0).fit(X, y).predict(X)
    found = poisson_deviance(y, model.predict(X))
    assert found < 1.01 * poisson_deviance(y, theirs)
    assert model.predict(X).sum() == pytest.approx(y.sum(), rel=1e-2)
    X, y = outcomes("absolute", 700, seed=2)
    loss = Quantile(level=0.8)
    model = SecretBoostingRegressor(loss=loss, **none).fit(X, y)
    theirs = QuantileRegressor(quantile=0.8, alpha=0.0).fit(X, y).predict(X)
    assert missed(loss, y, model.predict(X)) < 1.01 * missed(loss, y, theirs)


@pytest.mark.parametrize(
    "loss",
    [SquaredError(), Poisson(), QuasiPoisson(), Gamma(), Quantile(level=0.3)],
    ids=repr,
)
def test_what_remains_has_the_losses_of_the_sum(loss):
    random = np.random.default_rng(0)
    targets = random.uniform(0.1, 3, (6, 1))
    value, more, less = random.normal(size=(3, 6, 1))
    weight = random.uniform(1, 2, 6)
    rest, heavy = loss.remaining(targets, value, weight)
    whole = loss.losses(targets, value + more) - loss.losses(targets, value + less)
    part = loss.losses(rest, more) - loss.losses(rest, less)
    np.testing.assert_allclose(heavy[:, None] * part, weight[:, None] * whole)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_predictions_survive_files_and_programs(loss, tmp_path):
    X, y = wave()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = SecretBoostingRegressor(loss=loss, **SMALL).fit(frame, 100 * np.exp(y))
    found = model.predict(frame)
    *_, last = model.staged_predict(frame)
    np.testing.assert_allclose(last, found, rtol=1e-6)
    model.save(tmp_path / "of.model")
    loaded = SecretBoostingRegressor.load(tmp_path / "of.model")
    np.testing.assert_array_equal(loaded.predict(frame), found)
    loaded.set_params(loss="squared")  # of the next fit
    np.testing.assert_array_equal(loaded.predict(frame), found)
    few = run_python(model.export_code(), records(frame[:20]))
    np.testing.assert_allclose(few, found[:20], rtol=1e-4)
    (graph,) = run_onnx(model.export_code("onnx"), frame)
    np.testing.assert_allclose(graph, found, rtol=1e-4)
    shares = model.feature_importances_
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] == shares.max() > 0.5


@pytest.mark.parametrize("loss", ["gamma", "poisson"])
def test_a_factor_on_amounts_is_one_on_predictions(loss):
    X, y = wave()
    y, factor = np.exp(y), 2.0**-40
    model = SecretBoostingRegressor(loss=loss, **SMALL).fit(X, y)
    other = SecretBoostingRegressor(loss=loss, **SMALL).fit(X, factor * y)
    np.testing.assert_allclose(other.predict(X), factor * model.predict(X), rtol=1e-6)
    np.testing.assert_allclose(other.validation_errors_, model.validation_errors_)
    assert other.n_iter_ == model.n_iter_


def test_intervals_grow_with_the_means_of_amounts_and_counts():
    for loss in ("poisson", "gamma"):
        X, y = outcomes(loss, 1000, seed=3)
        new, outcome = outcomes(loss, 2000, seed=4)
        model = SecretBoostingRegressor(loss=loss, **FEW).fit(X, y)
        low, high = model.predict_interval(new, coverage=0.8)
        within = (low <= outcome) & (outcome <= high)
        assert within.mean() == pytest.approx(0.8, abs=0.07)
        assert (low >= 0).all()
        prediction, deviation = model.predict(new, return_std=True)
        power = 0.5 if loss == "poisson" else 1.0
        np.testing.assert_allclose(deviation, model.deviation_ * prediction**power)
        share = (outcome - prediction) / prediction**power
        assert model.deviation_ == pytest.approx(np.sqrt(np.mean(share**2)), rel=0.15)


def test_several_outputs_of_counts():
    X, y = outcomes("poisson", 400, seed=5)
    both = np.stack([y, np.exp(2 * X[:, 3])], axis=1)
    model = SecretBoostingRegressor(loss="poisson", **SMALL).fit(X, both)
    prediction = model.predict(X)
    assert (prediction > 0).all()
    for output in range(2):
        constant = np.full(len(y), both[:, output].mean())
        least = poisson_deviance(both[:, output], constant)
        assert poisson_deviance(both[:, output], prediction[:, output]) < 0.8 * least


def test_one_tree_learns_means():
    X, y = wave()
    model = SecretBoostingRegressor(loss="gamma", **SMALL).fit(X, np.exp(y))
    tree = model.distill(max_leaf_nodes=4)
    assert tree.tree_.loss == Gamma()
    assert tree.distillation_["fidelity"] > 0.7
    assert (tree.predict(X) > 0).all()


def test_refusals():
    X, y = wave()

    @dataclass(frozen=True, kw_only=True)
    class Odd(SquaredError):
        least_squares = False

        def remaining(self, *_) -> Any:
            return Loss.remaining(self, *_)

    with refusal("'poisson'", "'auto'"):
        SecretBoostingRegressor(loss="auto").fit(X, y)
    with pytest.raises(NotImplementedError, match="Odd has no method remaining"):
        SecretBoostingRegressor(loss=Odd()).fit(X, y)
    with refusal("least target is -"):
        SecretBoostingRegressor(loss="gamma").fit(X, y)
    model = SecretBoostingRegressor(loss="gamma", **SMALL).fit(X, np.exp(y))
    with refusal("least target is -"):
        model.distill(X, y, max_leaf_nodes=4)
    model.set_params(loss="absolute").fit(X, y)
    assert not hasattr(model, "deviation_")
    with refusal("Fit a SecretRegressor with this loss"):
        model.distill(max_leaf_nodes=4)
    with refusal("two quantiles"):
        model.predict(X, return_std=True)
    with refusal("two quantiles"):
        model.conformalize(X, y)
