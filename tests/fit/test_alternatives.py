"""Races of a plan with alternatives: logarithms, shares of classes, smaller leaves."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from secret_jax import HoldOut, Ridge, RssSplits, SecretClassifier, SecretRegressor
from secret_jax.estimators.parameters import value_of
from secret_jax.fit import alternatives
from secret_jax.fit.pipeline import grow_and_prune
from secret_jax.losses.numbers import QuasiPoisson, SquaredError


def table(n=300, seed=4):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    return X, X @ np.array([1.0, 0.5, 0.0]), random.normal(size=n)


def fitted(X, y, **parameters):
    return SecretRegressor(loss="auto", **parameters).fit(X, y)


def along_axes(X, y, **parameters):
    """Which takes half as long, where the race is all that matters."""
    return fitted(X, y, oblique=False, **parameters)


def test_what_is_linear_in_the_logarithm_has_one_equation_of_it():
    """In most tables: noise may look like a split in some of them."""
    n_leaves, errors = [], []
    for seed in range(3):
        X, level, noise = table(800, seed)
        y, (known, new) = np.exp(level + 0.1 * noise), np.arange(800).reshape(2, 400)
        models = [
            SecretRegressor(loss=loss, oblique=False).fit(X[known], y[known])
            for loss in ("auto", QuasiPoisson(), "squared")
        ]
        assert models[0].tree_.loss == QuasiPoisson()
        said = [model.predict(X[new]) for model in models]
        np.testing.assert_array_equal(said[0], said[1])
        n_leaves.append(models[0].n_leaves_)
        errors.append([np.mean((each - y[new]) ** 2) for each in said])
    assert np.median(n_leaves) == 1
    of_logarithms, _, of_sums = np.transpose(errors)
    assert np.median(of_logarithms / of_sums) < 0.5


@pytest.mark.parametrize("n_noise", [0, 3])
def test_an_interaction_is_no_logarithm(n_noise):
    """Of the price of a delivery: by the kilometre, thrice as much by post."""
    random = np.random.default_rng(0)
    km, post = random.gamma(2.0, 2.5, 1800), random.random(1800) < 0.2
    price = 12.0 + 4.5 * km * np.where(post, 3.0, 1.0) + random.normal(0.0, 6.0, 1800)
    X = pd.DataFrame({"km": km, "kind": np.where(post, "Post", "Van")})
    for i in range(n_noise):
        X[f"noise {i}"] = random.normal(size=1800)
    y, known, new = np.maximum(price, 5.0), slice(900), slice(900, None)
    plain = SecretRegressor().fit(X[known], y[known]).score(X[new], y[new])
    for model in (
        SecretRegressor(loss="auto"),
        SecretRegressor.accurate(gates=False),
    ):
        found = model.fit(X[known], y[known])
        assert found.tree_.loss == SquaredError()
        assert 1.0 - found.score(X[new], y[new]) < 1.02**2 * (1.0 - plain)


def test_logarithms_are_found_behind_a_split_and_wild_rows_do_not_decide(monkeypatch):
    X, level, noise = table(800)
    y = np.exp(np.where(X[:, 2] > 0.0, level, -level) + 0.1 * noise)
    assert along_axes(X, y, max_leaf_nodes=2).tree_.loss == QuasiPoisson()
    X, level, noise = table()
    y = np.exp(level + 0.1 * noise)
    y[np.argsort(level)[-4:]] = y.mean()  # sold to friends
    assert fitted(X, y, max_depth=0).tree_.loss == QuasiPoisson()
    monkeypatch.setattr(alternatives, "_COUNTED", 1.0)  # now they do
    assert fitted(X, y, max_depth=0).tree_.loss == SquaredError()


def test_a_stream_chooses_as_memory_does():
    X, level, noise = table()
    y = np.exp(level + 0.1 * noise)

    def streamed(y):
        parts = [(X[:100], y[:100]), (X[100:], y[100:])]
        return SecretRegressor(loss="auto", oblique=False).fit_stream(parts)

    model = streamed(y)
    assert model.tree_.loss == QuasiPoisson()
    np.testing.assert_array_equal(model.predict(X), along_axes(X, y).predict(X))
    y[0] = 0.0
    assert streamed(y).tree_.loss == SquaredError()


@pytest.mark.parametrize("seed", range(2))
def test_least_targets_may_be_lost_in_the_digits_of_others(seed):
    X = np.random.default_rng(seed).normal(size=(400, 2))
    y = np.exp(9.0 * X @ [1.0, 0.7])
    assert y.min() < 1e-16 * y.mean()
    assert np.isfinite(fitted(X, y, max_depth=0).predict(X)).all()


def test_logarithms_do_not_depend_on_the_unit_of_the_target():
    X, level, noise = table()
    y = np.exp(level + 0.1 * noise)
    models = [fitted(X, unit * y, max_depth=0) for unit in (2.0**-60, 1.0, 2.0**60)]
    slopes = [model.coefficients(0)[1:] for model in models]
    for one in slopes[1:]:
        for name in ("coefficient", "standard_error"):
            np.testing.assert_allclose(one[name], slopes[0][name], rtol=0.05)


def test_what_is_linear_stays_a_sum_and_so_what_has_no_equation_of_logarithms():
    class Halved(Ridge):
        def fit(self, statistics, parent):
            models = super().fit(statistics, parent)
            return models._replace(coefficient=models.coefficient / 2)

    X, level, noise = table()
    y = 10.0 + level + 0.3 * noise
    model = along_axes(X, y)
    assert model.tree_.loss == SquaredError()
    sums = SecretRegressor(loss="squared", oblique=False).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), sums.predict(X))
    y, flat = np.exp(level), (level - level.min()) / np.ptp(level)
    for target, parameters in (
        (y, {"leaf": "constant"}),
        (y, {"leaf": "m5"}),
        (y, {"leaf": Halved()}),  # nor is a leaf model of one's own left for them
        (y, {"prune": "bic"}),  # which would take amounts for counts
        (y[:199], {}),  # few rows have no race
        (np.where(np.arange(300), y, 0.0), {}),  # nor has what is not positive
        (1.45**flat, {"pruning_tolerance": 0.0}),  # nor what hardly varies
    ):
        model = along_axes(X[: len(target)], target, **parameters)
        assert model.tree_.loss == SquaredError()
    more = along_axes(X, 1.55**flat, pruning_tolerance=0.0)
    assert more.tree_.loss == QuasiPoisson()


def test_accurate_trees_choose_unless_they_have_gates():
    hard, soft = (SecretRegressor.accurate(gates=gates) for gates in (False, True))
    other = hard._plan().alternative_leaf
    assert other is not None
    assert other.leaf.loss == QuasiPoisson()
    assert soft._plan().alternative_leaf is None  # gates know no logarithms
    assert SecretRegressor()._plan().alternative_leaf is None
    for loss in ("poisson", "absolute", "gamma"):  # which trains no gates
        model = SecretRegressor.accurate(loss=loss)
        assert (model.refine, model._plan().leaf.loss) == (None, value_of("loss", loss))
    assert SecretRegressor.accurate(loss="squared").refine == "soft"


def test_copies_are_weights_and_rows_of_none_are_no_rows():
    X, level, noise = table(240)
    y, weight = np.exp(level + 0.1 * noise), 1 + np.arange(240) % 3
    y[0], weight[0] = -1.0, 0
    model = SecretRegressor(loss="auto").fit(X, y, weight)
    assert model.tree_.loss == QuasiPoisson()
    rows = np.repeat(np.arange(240), weight)
    copies = fitted(X[rows], y[rows])
    np.testing.assert_allclose(model.predict(X), copies.predict(X), rtol=1e-6)


def test_held_out_rows_judge_and_refinements_go_on_with_the_winner():
    X, level, noise = table(1500)
    y = np.exp(level + 0.1 * noise)
    model = fitted(X, y, prune="holdout", refine="blend")
    assert model.tree_.loss == QuasiPoisson()
    prediction, deviation = model.predict(X, return_std=True)
    assert np.median(deviation / prediction) == pytest.approx(0.1, rel=0.2)
    assert np.mean(np.abs(y - prediction) < 2.0 * deviation) > 0.9
    assert np.mean((model.predict(X) - y) ** 2) < 0.1 * y.var()


def classes(of_levels: bool):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 3))
    X[:, 0] = random.integers(0, 20, 300)
    number = random.uniform(size=300)
    of_slopes = number < 1 / (1 + np.exp(-2.0 * X[:, 1]))
    return X, (X[:, 0] % 3 > 0) ^ (number < 0.1) if of_levels else of_slopes


def test_what_concerns_the_rows_is_warned_of_once_whatever_races(capfd):
    X, y = classes(True)
    frame = pd.DataFrame(X, columns=[*"abc"]).assign(kind=["u", "v"] * 150)
    others = frame[:50].assign(kind="w")
    model = SecretClassifier(leaf="auto", prune=HoldOut(refit=False), verbose=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(frame, y, eval_set=(others, y[:50]))
        model.fit(frame, y, eval_set=(others, y[:50]))
    told = [str(each.message).split(":")[0] for each in caught]
    of_one_fit = ["There are categories that training never saw"]
    assert told == 2 * of_one_fit
    stages = [line[6:] for line in capfd.readouterr().err.splitlines()]
    read = [stage for stage in stages if stage.endswith("reading the columns")]
    assert read == 2 * ["reading the columns", "constant leaves: reading the columns"]


@pytest.mark.parametrize(
    ("of_levels", "winner"), [(True, "constant"), (False, "logistic")]
)
def test_shares_win_where_levels_decide_and_equations_where_log_odds_are_linear(
    of_levels, winner
):
    X, y = classes(of_levels)
    models = [
        SecretClassifier(leaf=leaf, categorical_features=[0]).fit(X, y)
        for leaf in ("auto", "constant", "logistic")
    ]
    found, shares, equations = (model.predict_proba(X) for model in models)
    same = {"constant": shares, "logistic": equations}
    np.testing.assert_array_equal(found, same.pop(winner))
    assert np.abs(found - next(iter(same.values()))).max() > 0.01
    again = models[0].refit(X, y)
    assert again.tree_.schema.n_regressors == models[0].tree_.schema.n_regressors
    assert SecretClassifier.accurate().leaf == "auto"


def calendar(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Days of many short seasons, each with a level of its own."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, 400, n_rows)
    level = np.random.default_rng(7).normal(size=134)
    return day[:, None].astype(float), level[day // 3] + 0.05 * rng.normal(size=n_rows)


def at_any_size(**parameters) -> SecretRegressor:
    options = {"oblique": False, "leaf": "constant", "pruning_tolerance": 0.0}
    return SecretRegressor(**options | parameters)


def test_small_regions_are_found_where_size_has_no_price_and_limits_hold():
    (seen, known), (X, y) = calendar(1600, 0), calendar(1000, 1)
    fine = at_any_size().fit(seen, known)
    coarse = at_any_size(min_samples_split=0.02).fit(seen, known)
    errors = [np.mean((model.predict(X) - y) ** 2) for model in (coarse, fine)]
    assert coarse.n_leaves_ < 100 < fine.n_leaves_
    assert errors[1] < 0.5 * errors[0]
    streamed = at_any_size().fit_stream(
        [(seen[:900], known[:900]), (seen[900:], known[900:])]
    )
    np.testing.assert_allclose(streamed.predict(seen), fine.predict(seen), 1e-9)
    limited = at_any_size(min_samples_leaf=20).fit(seen, known)
    least, given = (m.tree_.weight[m.tree_.is_leaf].min() for m in (fine, limited))
    assert given >= 20 > least


@pytest.mark.parametrize(
    "options",
    [{"max_depth": 2}, {"splits": RssSplits(fixed_splits=("x0", 200))}, {}],
    ids=["depth", "fixed splits alone", "root"],
)
def test_what_a_finer_growth_cannot_change_is_fitted_once(options, monkeypatch):
    X, y = calendar(400, 2)
    y = y if "max_depth" in options else np.random.default_rng(0).normal(size=len(y))
    fits = []

    def counted(*given, **options):
        fits.append(grow_and_prune(*given, **options))
        return fits[-1]

    monkeypatch.setattr(alternatives, "grow_and_prune", counted)
    at_any_size(**options).fit(X, y)
    assert len(fits) == 1


@pytest.mark.parametrize("prune", ["aic", "m5"])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4])
def test_trees_of_hardly_any_rows_are_no_race(prune, n_rows):
    """Their values are infinite, and nothing is less."""
    X = np.random.default_rng(0).normal(size=(n_rows, 3))
    model = SecretRegressor(prune=prune, leaf="linear").fit(X, X[:, 0] ** 2)
    assert model.n_leaves_ == 1
    assert np.isfinite(model.predict(X)).all()
