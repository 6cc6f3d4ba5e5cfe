"""Tables of few different rows: copies of a row are rows, and judge each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from secret_jax import (
    Logistic,
    SecretBoostingClassifier,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretForestRegressor,
    SecretRegressor,
)

MODELS = {
    "tree": SecretClassifier(oblique=False),
    "holdout": SecretClassifier(prune="holdout", oblique=False),
    "cart": SecretClassifier(prune="cart", oblique=False),
    "class weights": SecretClassifier(class_weight={0: 1.1, 1: 1.1}, oblique=False),
    "booster": SecretBoostingClassifier(max_leaf_nodes=4),
    "tree of numbers": SecretRegressor(oblique=False),
    "holdout of numbers": SecretRegressor(prune="holdout", oblique=False),
    "booster of numbers": SecretBoostingRegressor(max_leaf_nodes=4),
}


def counted(n_columns: int, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Different rows of truth values, their classes, and how many there are of each.

    The class is whether the first two differ; a tenth of the rows say the contrary.
    """
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (n_rows, n_columns))
    y = (X[:, 0] != X[:, 1]) ^ (random.random(n_rows) < 0.1)
    cells, number = np.unique(np.c_[X, y], axis=0, return_counts=True)
    return cells[:, :-1].astype(float), cells[:, -1], number


def shares(model, X) -> np.ndarray:
    if hasattr(model, "classes_"):
        return model.predict_proba(X)[:, 1]
    return model.predict(X)


@pytest.mark.parametrize("name", MODELS)
def test_truth_tables_are_learned_and_counts_are_rows(name):
    model = MODELS[name]
    X, y, number = counted(2 if "booster" in name else 3, 2000)
    weighted = shares(model.fit(X, y, sample_weight=number), X)
    expected = np.where(X[:, 0] != X[:, 1], 0.9, 0.1)
    np.testing.assert_allclose(weighted, expected, atol=0.05)
    several = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), number))
    repeated = shares(model.fit(X[several], y[several]), X)
    np.testing.assert_allclose(repeated, weighted, atol=1e-9)


@pytest.mark.parametrize("n_rows", [400, 8000])
def test_columns_that_say_nothing_do_no_harm(n_rows):
    X, y, number = counted(5, n_rows)
    model = SecretClassifier(oblique=False).fit(X, y, sample_weight=number)
    assert (model.predict(X) == (X[:, 0] != X[:, 1])).all()


def test_categories_and_a_single_truth_column():
    text = pd.DataFrame({"kind": np.repeat(["a", "b", "c"], 2)})
    y, number = np.tile([0, 1], 3), np.array([180, 20, 100, 100, 20, 180])
    for model in (
        SecretClassifier(leaf=Logistic(indicators=False)),
        SecretBoostingClassifier(max_leaf_nodes=4),
        SecretRegressor(leaf="constant"),
    ):
        found = shares(model.fit(text, y, sample_weight=number), text[::2])
        np.testing.assert_allclose(found, [0.1, 0.5, 0.9], atol=0.03)
    X, y, number = np.array([[0.0], [0.0], [1.0], [1.0]]), y[:4], [80, 20, 20, 80]
    model = SecretClassifier(leaf="constant").fit(X, y, sample_weight=number)
    np.testing.assert_allclose(model.predict_proba(X[::2])[:, 1], [0.2, 0.8], atol=0.03)


def test_a_forest_knows_its_error_on_counts():
    X, y, number = counted(2, 2000)
    forest = SecretForestRegressor(n_estimators=20, max_features=None)
    forest.fit(X, y.astype(float), sample_weight=number)
    # Of the variance, 1/4, what the noise, 0.9 * 0.1, leaves.
    assert forest.oob_score_ == pytest.approx(0.64, abs=0.04)
    expected = np.where(X[:, 0] != X[:, 1], 0.9, 0.1)
    np.testing.assert_allclose(forest.oob_prediction_, expected, atol=0.05)


def test_a_stream_of_copies_is_the_table():
    X, y, number = counted(3, 2000)
    several = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), number))
    model = SecretRegressor(oblique=False)
    expected = model.fit(X[several], y[several]).predict(X)
    parts = [(X[part], y[part]) for part in np.array_split(several, 3)]
    np.testing.assert_array_equal(model.fit_stream(parts).predict(X), expected)
