"""Classes in order, by one tree of how likely each is reached."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from secret_jax import SecretClassifier, SecretOrdinalClassifier, SecretRegressor
from secret_jax.data.labels import at_least, rank_error

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
    tree = clone(TREE).fit(rows[:250], at_least(1.0 * member))
    reached = np.clip(tree.predict(X), 0, 1)
    probability = model.predict_proba(X)
    assert (probability >= 0).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    # Where two classes are sure to be reached the equations differ by rounding.
    rise = np.diff(reached, axis=1).max(axis=1)
    falling = rise < 1e-6
    assert falling.mean() > 0.9
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
    numbers = pd.Series(pd.Categorical(y.cat.codes, [4, 2, 1, 0], ordered=True))
    for given, expected in (
        (y.array, order),
        (pl.Series(np.asarray(y)).cast(pl.Enum(order)), order),
        (np.asarray(y), sorted(order)),
        (numbers, [4, 2, 1, 0]),
    ):
        model = SecretOrdinalClassifier(few).fit(X, given)
        assert model.classes_.tolist() == expected
        plain = SecretClassifier.literature("cart", max_depth=1).fit(X, given)
        assert plain.classes_.tolist() == expected
