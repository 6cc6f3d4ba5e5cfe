"""Tables of few different rows: those alike are observations, and judge each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from secret_jax import (
    Logistic,
    SecretBoostingClassifier,
    SecretBoostingRegressor,
    SecretClassifier,
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


def observed(n_columns: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of truth values and their classes.

    The class is whether the first two differ; a tenth of the rows say the contrary.
    """
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (n_rows, n_columns))
    y = (X[:, 0] != X[:, 1]) ^ (random.random(n_rows) < 0.1)
    return X.astype(float), y.astype(int)


def shares(model, X) -> np.ndarray:
    if hasattr(model, "classes_"):
        return model.predict_proba(X)[:, 1]
    return model.predict(X)


@pytest.mark.parametrize("name", MODELS)
def test_truth_tables_are_learned(name):
    X, y = observed(2 if "booster" in name else 3, 2000)
    expected = np.where(X[:, 0] != X[:, 1], 0.9, 0.1)
    found = shares(MODELS[name].fit(X, y), X)
    np.testing.assert_allclose(found, expected, atol=0.05)


@pytest.mark.parametrize("n_rows", [400, 8000])
def test_columns_that_say_nothing_do_no_harm(n_rows):
    X, y = observed(5, n_rows)
    model = SecretClassifier(oblique=False).fit(X, y)
    assert (model.predict(X) == (X[:, 0] != X[:, 1])).all()


def test_categories_and_a_single_truth_column():
    number = np.array([180, 20, 100, 100, 20, 180])
    text = pd.DataFrame({"kind": np.repeat(list("aabbcc"), number)})
    y, cells = np.repeat([0, 1] * 3, number), text.drop_duplicates()
    for model in (
        SecretClassifier(leaf=Logistic(indicators=False)),
        SecretBoostingClassifier(max_leaf_nodes=4),
        SecretRegressor(leaf="constant"),
    ):
        found = shares(model.fit(text, y), cells)
        np.testing.assert_allclose(found, [0.1, 0.5, 0.9], atol=0.03)
    X, y = np.repeat([[0.0], [1.0]], 100, axis=0), np.repeat([0, 1, 0, 1], [80, 20] * 2)
    y[100:] = 1 - y[100:]
    model = SecretClassifier(leaf="constant").fit(X, y)
    found = model.predict_proba([[0.0], [1.0]])[:, 1]
    np.testing.assert_allclose(found, [0.2, 0.8], atol=0.03)


def test_a_stream_of_few_different_rows_is_the_table():
    X, y = observed(3, 2000)
    model = SecretRegressor(oblique=False)
    expected = model.fit(X, y).predict(X)
    parts = [(X[s], y[s]) for s in np.array_split(np.arange(2000), 3)]
    np.testing.assert_allclose(model.fit_stream(parts).predict(X), expected, 1e-9)
