"""Classes in order, by one tree of how likely each is reached."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import log_loss

from secret_jax import SecretClassifier, SecretOrdinalClassifier, SecretRegressor
from secret_jax.data.labels import at_least, rank_error
from secret_jax.losses.classes import CumulativeLogits
from secret_jax.models.glm import LinearOfLoss

CUMULATIVE = LinearOfLoss(of=CumulativeLogits(), prior=1.0)
TREE = SecretRegressor(oblique=False, distill=False, max_leaf_nodes=6)
NAMES = ["poor", "fair", "good", "never seen", "best"]


def grades(n=400):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (n, 3))
    value = X[:, 0] + np.abs(X[:, 1] - 2) + 0.3 * rng.normal(size=n)
    place = np.array([0, 1, 2, 4])[np.digitize(value, [1.5, 3, 5])]
    return X, pd.Series(pd.Categorical.from_codes(place, NAMES, ordered=True))


@pytest.fixture(scope="module")
def fitted():
    X, y = grades()
    return SecretOrdinalClassifier(TREE).fit(X[:250], y[:250]), X[250:], y[250:]


def test_probabilities_are_differences_of_what_a_tree_of_indicators_says(fitted):
    model, X, _ = fitted
    classes = ["poor", "fair", "good", "best"]  # in order, without the one of no rows
    assert model.classes_.tolist() == classes
    rows, labels = grades()
    member = np.asarray(labels)[:250, None] == np.array(classes)
    tree = clone(TREE).set_params(loss=CumulativeLogits(), leaf=CUMULATIVE)
    reached = tree.fit(rows[:250], at_least(1.0 * member)).predict(X)
    assert ((reached > 0) & (reached < 1)).all()
    probability = model.predict_proba(X)
    assert (probability >= 0).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    # Where two classes are sure to be reached the equations differ by rounding.
    rise = np.diff(reached, axis=1).max(axis=1)
    falling = rise < 1e-6
    assert falling.mean() > 0.8
    np.testing.assert_allclose(
        at_least(probability)[falling], reached[falling], atol=1e-6
    )
    assert rise.max() < 0.05


def test_mistakes_are_near_and_the_tree_reads_as_steps(fitted):
    model, X, y = fitted
    error = rank_error(y, model.predict(X), model.classes_)
    assert error < 0.3
    assert 1.0 - model.score(X, np.asarray(y)) > 0.9 * error  # hardly two places off
    assert "at least good" in model.tree_.export_text(output="at least good")


def test_files_keep_it(fitted, tmp_path):
    model, X, _ = fitted
    model.save(tmp_path / "model")
    again = SecretOrdinalClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="SecretClassifier"):
        SecretClassifier.load(tmp_path / "model")


def test_two_classes_and_one():
    X, _ = grades(60)
    model = SecretOrdinalClassifier(TREE).fit(X, X[:, 0] > 2)
    assert model.score(X, X[:, 0] > 2) > 0.9
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(X, np.ones(60))


def test_orders_are_those_of_categories_of_any_kind():
    import polars as pl

    X, y = grades(80)
    few = SecretRegressor(splits="cart", leaf="constant", prune=None, max_depth=1)
    order = ["poor", "fair", "good", "best"]
    text = np.asarray(y)
    alphabetical = pytest.warns(UserWarning, match="'best' < 'fair' < 'good' < 'poor'")
    numbers = pd.Series(pd.Categorical(y.cat.codes, [4, 2, 1, 0], ordered=True))
    for given, expected in (
        (y.array, order),
        (pl.Series(np.asarray(y)).cast(pl.Enum(order)), order),
        (text, sorted(order)),
        (numbers, [4, 2, 1, 0]),
    ):
        model = SecretOrdinalClassifier(few)
        with nullcontext() if given is not text else alphabetical:
            model.fit(X, given)
        assert model.classes_.tolist() == expected
        plain = SecretClassifier.literature("cart", max_depth=1).fit(X, given)
        assert plain.classes_.tolist() == expected


def cumulative_logit(n_rows: int, n_classes: int, seed: int, bend: float = 0.0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3))
    score = X @ [1.0, -1.0, 0.5] + bend * np.abs(X[:, 2])
    steps = np.linspace(-1.0, 1.0, n_classes - 1)
    return X, np.searchsorted(steps, score + random.logistic(size=n_rows))


def test_a_leaf_is_a_proportional_odds_regression():
    X, y = cumulative_logit(3000, 4, seed=0)
    new, _ = cumulative_logit(1000, 4, seed=1)

    def reached(theta, X):
        steps = np.cumsum(np.r_[theta[0], np.exp(theta[1:3])])
        return expit((X @ theta[3:])[:, None] - steps)

    def shares(theta, X):
        every = np.pad(reached(theta, X), [(0, 0), (1, 1)], constant_values=1.0)
        every[:, -1] = 0.0
        return every[:, :-1] - every[:, 1:]

    def cost(theta):
        return -np.log(shares(theta, X)[np.arange(len(y)), y]).mean()

    theirs = minimize(cost, np.zeros(6), method="BFGS").x
    one = SecretRegressor(max_leaf_nodes=1, equation_tolerance=0.0)
    model = SecretOrdinalClassifier(one).fit(X, y)
    found = at_least(model.predict_proba(new))
    np.testing.assert_allclose(found, reached(theirs, new), atol=0.035)
    slopes = model.tree_.coefficients(0, output=1).set_index("column").coefficient
    np.testing.assert_allclose(slopes[["x0", "x1", "x2"]], theirs[3:], atol=0.15)


@pytest.mark.parametrize("n_classes", [3, 6])
def test_log_losses_are_not_above_those_of_a_tree_that_knows_no_order(n_classes):
    ratio = []
    for seed in range(2):
        X, y = cumulative_logit(400, n_classes, seed, bend=1.5)
        new, outcome = cumulative_logit(2000, n_classes, 10 + seed, bend=1.5)
        trees = SecretOrdinalClassifier(), SecretClassifier()
        losses = [
            log_loss(outcome, tree.fit(X, y).predict_proba(new).clip(1e-9))
            for tree in trees
        ]
        ratio.append(losses[0] / losses[1])
    assert np.mean(ratio) <= 1.0
