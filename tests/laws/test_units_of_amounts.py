"""Trees of amounts, with logarithms, do not depend on the unit of the amounts."""

import numpy as np
import pandas as pd
import pytest
from exported_code import by_onnx, by_python, by_sql

from secret_jax import CrossValidation, Ridge, SecretRegressor
from secret_jax.inspect.tables import to_dataframe
from secret_jax.losses.numbers import Gamma, Poisson, QuasiPoisson

LOSSES = ["auto", "gamma", "poisson"]
# As of the default's folds, of which a power of two keeps all.
FOLDS = CrossValidation(n_folds=3, n_repeats=1)
BY_LOSS = pytest.mark.parametrize("loss", LOSSES, ids=str)


def table(seed=0, n=400, zeros=False):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    level = X[:, 0] + np.where(X[:, 1] > 0.3, X[:, 2], 1.0 - 0.5 * X[:, 2])
    y = np.exp(level) * random.gamma(20.0, 0.05, n)
    return X, np.where(X[:, 3] > 1.5, 0.0, y) if zeros else y


def prices(seed=0, n=400):
    """Amounts whose logarithm is nearly a line."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    level = X @ [1.0, 0.5, 0.2, 0.0] + np.where(X[:, 3] > 0.0, X[:, 2], 0.0)
    return X, np.exp(level + 0.1 * random.normal(size=n))


def both(loss, factor, X, y, weight=None, **parameters):
    """Trees of amounts, and of these in another unit."""
    parameters = {"max_leaf_nodes": 8, "prune": FOLDS} | parameters
    model = SecretRegressor(loss=loss, **parameters)
    other = SecretRegressor(loss=loss, **parameters)
    model.fit(X, y, sample_weight=weight)
    other.fit(X, factor * y, sample_weight=weight)
    assert model.n_leaves_ > 1
    return model, other


@BY_LOSS
@pytest.mark.parametrize("power", [-40, 5, 60])
def test_a_power_of_two_changes_no_bit(loss, power):
    X, y = prices()
    model, other = both(loss, 2.0**power, X, y, prune="auto")
    assert isinstance(model.tree_.loss, Poisson | QuasiPoisson | Gamma)
    if power == 5:  # in a stream as well
        for one, target in ((model, y), (other, 2.0**power * y)):
            one.fit_stream([(X[:150], target[:150]), (X[150:], target[150:])])
    np.testing.assert_array_equal(other.predict(X), 2.0**power * model.predict(X))


UNIT = 2.0**-20
CASES = {
    "CART": {"splits": "cart", "leaf": "constant"},
    "holdout": {"prune": "holdout"},
    "directions": {"monotonic_cst": [1, 0, 0, 0]},
    "sums of columns": {"leaf": Ridge(clip_margin=None), "oblique": True},
    "zeros": {"y": table(7, zeros=True)[1]},
    "no counts": {"weight": np.random.default_rng(2).uniform(0.2, 3.0, 400)},
    "two amounts": {
        "y": np.stack([table(7)[1], table(6)[1]], axis=1),
        "factor": np.array([4.0, 0.5]),
        "max_leaf_nodes": 4,
    },
}


@pytest.mark.parametrize("case", CASES)
def test_whatever_the_amounts_and_the_tree_are(case):
    X, y = table(7)
    given = {"y": y, "factor": UNIT} | CASES[case]
    model, other = both(QuasiPoisson(), X=X, **given)
    factor = given["factor"]
    np.testing.assert_array_equal(other.predict(X), factor * model.predict(X))
    y = given["y"][:200]
    again, others = model.refit(X[:200], y), other.refit(X[:200], factor * y)
    np.testing.assert_array_equal(others.predict(X), factor * again.predict(X))


@BY_LOSS
def test_orders_of_rows_and_units_of_attributes_change_no_bit(loss):
    X, y = table(3)
    model = SecretRegressor(loss=loss, prune=FOLDS).fit(X, y)
    order, unit = np.random.default_rng(3).permutation(len(y)), [1, 1024, 1, 0.125]
    for other, target, rows in ((X[order], y[order], X), (X * unit, y, X * unit)):
        again = SecretRegressor(loss=loss, prune=FOLDS).fit(other, target)
        np.testing.assert_array_equal(again.predict(rows), model.predict(X))


@BY_LOSS
def test_any_factor_changes_rounding_alone(loss):
    X, y = table(1)
    weight = np.random.default_rng(1).integers(1, 4, len(y))
    model, other = both(loss, 1000.0, X, y, weight)
    np.testing.assert_allclose(other.predict(X), 1000.0 * model.predict(X), rtol=1e-6)
    np.testing.assert_array_equal(other.tree_.kind, model.tree_.kind)


@BY_LOSS
def test_intervals_and_importances_are_of_the_unit(loss):
    X, y = table(8)
    model, other = both(loss, 2.0**-40, X, y)
    ours, theirs = (each.predict(X, return_std=True) for each in (model, other))
    np.testing.assert_allclose(theirs, 2.0**-40 * np.array(ours), rtol=1e-9)
    shares = [each.feature_importances_ for each in (model, other)]
    np.testing.assert_allclose(shares[1], shares[0], atol=1e-9)


def test_words_files_and_programs_are_in_the_unit_of_the_data(tmp_path):
    X, y = table(11)
    factor = 2.0**46  # its logarithm is above 30
    model, other = both("gamma", factor, X, y)
    frame, others = model.to_dataframe(), other.to_dataframe()
    np.testing.assert_allclose(others["mean"], factor * frame["mean"])
    np.testing.assert_allclose(others["error"], frame["error"])  # gamma's have no unit
    np.testing.assert_allclose(others["low"], frame["low"] + np.log(factor))
    np.testing.assert_allclose(frame["mean"][0], y.mean(), rtol=1e-6)
    raw = other.tree_.output(0)  # a tree and its estimator are read alike
    assert to_dataframe(other.tree_).equals(others)
    assert raw.schema.target_names == ("log of y",)
    other.save(tmp_path / "tree.npz")
    saved = SecretRegressor.load(tmp_path / "tree.npz")
    np.testing.assert_array_equal(saved.predict(X), other.predict(X))
    columns = pd.DataFrame(X[:50], columns=["x0", "x1", "x2", "x3"])
    for predicted in (by_python(other.tree_, columns), by_sql(other.tree_, columns)):
        np.testing.assert_allclose(predicted, other.predict(X[:50]), rtol=1e-4)


@pytest.mark.parametrize("power", [120, 300])
def test_amounts_beyond_single_precision_are_told_as_they_are(power):
    X, y = table(15)
    columns = pd.DataFrame(X[:50], columns=["x0", "x1", "x2", "x3"])
    model = SecretRegressor(loss="gamma", max_leaf_nodes=4, prune=FOLDS)
    expected = model.fit(X, 2.0**power * y).predict(X[:50])
    assert expected.mean() > 2.0**power / 10
    for run in (by_python, by_sql, by_onnx):
        np.testing.assert_allclose(run(model.tree_, columns), expected, rtol=1e-4)
    np.testing.assert_allclose(model.explain(X[:50]).predicted, expected, rtol=1e-4)


def test_errors_of_squares_by_means_are_in_the_unit_of_the_target():
    X, y = table(12)
    model, other = both(QuasiPoisson(), 4.0, X, y)
    errors = [each.to_dataframe()["error"] for each in (model, other)]
    np.testing.assert_allclose(errors[1], 4.0 * errors[0])
    value = np.log(model.predict(X))[:, None]
    lost = QuasiPoisson().losses(y[:, None], value).mean()
    frame = model.to_dataframe()
    leaves = frame[frame["kind"] == "leaf"]
    mean = np.average(leaves["error"], weights=leaves["rows"])
    np.testing.assert_allclose(mean, lost, rtol=1e-5)


@pytest.mark.parametrize("factor", [1e-9, 3e-6, 1e5])
def test_a_rate_is_a_count_in_another_unit(factor):
    """Counts over exposures, which are weights: of ten times the rate in a tenth."""
    random = np.random.default_rng(5)
    X, days = random.uniform(size=(1500, 3)), random.uniform(1e5, 1e6, 1500)
    rate = 3e-6 * np.where(X[:, 0] > 0.9, 10.0, 1.0) * np.exp(0.5 * X[:, 1])
    y = random.poisson(rate * days) / days
    parameters = {"loss": "poisson", "oblique": False, "prune": FOLDS}
    model = SecretRegressor(**parameters).fit(X, 1e6 * y, days)
    other = SecretRegressor(**parameters).fit(X, factor * y, days)
    prediction = other.predict(X) / factor
    np.testing.assert_allclose(prediction, 1e-6 * model.predict(X), rtol=1e-6)
    np.testing.assert_array_equal(other.tree_.kind, model.tree_.kind)
    assert days @ prediction == pytest.approx(days @ y, rel=0.01)
    often = X[:, 0] > 0.9
    ratio = prediction[often].mean() / prediction[~often].mean()
    assert ratio == pytest.approx(10.0, rel=0.15)
    errors = [
        each.coefficients(0).standard_error.to_numpy()[1:] for each in (model, other)
    ]
    np.testing.assert_allclose(errors[1], errors[0], rtol=1e-4)
    criterion = [
        SecretRegressor(**parameters | {"prune": "bic"}).fit(X, unit * y, days)
        for unit in (1e6, factor)
    ]
    assert criterion[0].n_leaves_ == criterion[1].n_leaves_ > 1
