"""One row alone goes a shorter way to the same prediction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from configurations import crease, every_configuration, regressor, shop

from secret_jax import SecretRegressor
from secret_jax.tree import routing
from secret_jax.tree.one_row import OneRow


def usual(model: SecretRegressor, X: np.ndarray) -> np.ndarray:
    """Predictions for rows in one batch of many."""
    many = np.concatenate([X] * (200 // len(X) + 1))
    return model.predict(many)[: len(X)]


@every_configuration
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_alone_gets_what_it_gets_among_others(configuration, dtype):
    X, y = crease(200)
    model = regressor(configuration).fit(X, 1000 + 7 * y)
    fresh = np.random.default_rng(3).normal(size=(50, 3)).astype(dtype)
    rows = np.concatenate([fresh, 50 * fresh, X.astype(dtype)])  # clipped ones as well
    alone = [model.predict(row[None, :]) for row in rows]
    assert all(found.shape == (1,) and found.dtype == np.float64 for found in alone)
    bound = 1e-6 * np.std(7 * y) * np.abs(rows).max()
    np.testing.assert_allclose(np.concatenate(alone), usual(model, rows), atol=bound)


def test_it_really_is_short(monkeypatch):
    X, y = crease(200)
    model = regressor("default").fit(X, y)

    def refused(*_):
        raise AssertionError("the long way")

    expected = model.predict(X[:1])
    monkeypatch.setattr(routing, "predict", refused)
    assert model.predict(X[:1]) == expected
    with pytest.raises(AssertionError, match="the long way"):
        model.predict(X[:2])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, -1e8])
def test_what_is_no_ordinary_number_goes_the_usual_way(value):
    X, y = crease(200)
    model = regressor("default", missing_values="error").fit(X, y)
    row = X[:1].copy()
    row[0, 1] = value
    assert routing.predict_one(model.tree_, row) is None
    if np.isfinite(value):
        np.testing.assert_array_equal(model.predict(row), model.predict(row.tolist()))
    else:
        with pytest.raises(ValueError, match="x1"):
            model.predict(row)


def test_trees_that_need_more_have_no_short_way():
    X, y = crease(128)
    leaf = regressor("default", max_depth=0, prune=None)  # nothing is compiled
    assert OneRow.of(leaf.fit(X, y).tree_) is not None
    assert OneRow.of(leaf.fit(X, np.c_[y, -y]).tree_) is None
    assert OneRow.of(leaf.fit(*shop(128)).tree_) is None
    named = leaf.fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        named.predict(X[:1])
    with pytest.raises(ValueError, match="4 features"):
        leaf.fit(X, y).predict(np.zeros((1, 4)))
