"""Held-out rows are rows that were held out."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.data import seen
from secret_jax.datasets import make_fried

SMALL = {"max_leaf_nodes": 3, "oblique": False}


def table(n_rows: int = 500) -> tuple[np.ndarray, np.ndarray]:
    return make_fried(n_rows, random_state=0)


@pytest.mark.parametrize("kind", ["numbers", "float32", "frame", "classes", "file"])
def test_a_page_measures_only_rows_that_the_fit_has_not_seen(kind, tmp_path):
    X, y = table()
    model = SecretRegressor(**SMALL)
    if kind == "frame":
        town = np.where(X[:, 0] > 0.5, "Bern", "Oslo")
        X = pd.DataFrame(X).add_prefix("x").assign(town=town)
    if kind == "classes":
        model, y = SecretClassifier(**SMALL), np.where(y > 14, "high", "low")
    model.fit(X[:400], y[:400])
    if kind == "file":
        model.save(tmp_path / "model")
        model = SecretRegressor.load(tmp_path / "model")
    if kind == "float32":
        X, y = X.astype("f4"), y.astype("f4")
    mixed, alone = model.to_html(X, y), model.to_html(X[400:], y[400:])
    assert "100 held-out rows" in mixed
    assert "400 more rows were given that had grown the tree" in mixed
    assert "more rows were given" not in alone
    errors = [re.findall(r"<td.*?</td>", page)[:20] for page in (mixed, alone)]
    assert errors[0] == errors[1]
    with pytest.raises(ValueError, match="All 400 rows of X were used in fit"):
        model.to_html(X[:400], y[:400])


def test_rows_of_the_fit_do_not_calibrate_intervals():
    X, y = table()
    model = SecretRegressor(**SMALL).fit(X[:400], y[:400])
    expected = model.conformalize(X[400:], y[400:]).predict_interval(X)
    with pytest.warns(UserWarning, match="400 of the 500 rows of X were used in fit"):
        model.conformalize(X, y, np.ones(500))
    np.testing.assert_array_equal(model.predict_interval(X), expected)
    with pytest.raises(ValueError, match="All 100 rows of X were used in fit"):
        model.conformalize(X[:100], y[:100])
    # New measurements of the same rows are new, and so is a refit's first fit.
    model.conformalize(X[:100], y[:100] + 0.25)
    again = model.refit(X[400:], y[400:])
    with pytest.raises(ValueError, match="All 100 rows of X were used in fit"):
        again.conformalize(X[400:], y[400:])
    with pytest.raises(ValueError, match="All 100 rows of X were used in fit"):
        again.conformalize(X[:100], y[:100])


def test_rows_without_a_weight_or_of_another_fit_are_new():
    X, y = table()
    weight = np.where(np.arange(500) < 400, 1.0, 0.0)
    model = SecretRegressor(**SMALL).fit(X, y, weight)
    assert "100 held-out rows" in model.to_html(X, y)
    model.fit(X[100:], y[100:]).conformalize(X[:100], y[:100])
    model = SecretRegressor(**SMALL).fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
    with pytest.raises(ValueError, match="All 200 rows"):
        model.conformalize(X[300:], y[300:])


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_repeat_by_chance_are_no_rows_of_the_fit(seed):
    """Of truth values, and of measurements that were entered several times."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, 2, (600, 4))
    entered = random.normal(size=(500, 2))[random.integers(0, 500, 600)]
    for X in (truth, entered):
        y = X[:, 0] + (X[:, 1] > 0)
        model = SecretRegressor(**SMALL).fit(X[:400], y[:400])
        model.conformalize(X[400:], y[400:])
        assert "200 held-out rows" in model.to_html(X[400:], y[400:])


def test_of_many_rows_a_sample_is_remembered(monkeypatch):
    X, y = table(3000)
    monkeypatch.setattr(seen, "_MOST", 600)
    model = SecretRegressor(**SMALL).fit(X[:2000], y[:2000])
    hashes = model.training_rows_["hashes"]
    assert hashes.dtype == np.uint32
    assert 500 < len(hashes) < 700
    model.conformalize(X[2000:], y[2000:])
    with pytest.raises(ValueError, match=r"About [67]\d % of the 3,000 rows of X"):
        model.to_html(X, y)


def test_a_few_held_out_rows_have_no_share_of_a_variance():
    X, y = table(404)
    page = SecretRegressor(**SMALL).fit(X[:400], y[:400]).to_html(X[400:], y[400:])
    cards = re.findall(r"<b>\d held-out rows?</b>.*?</p>", page)
    assert cards
    assert not any("R²" in card for card in cards)


def test_a_transformed_target_is_read_as_before():
    X, y = table()
    inside = SecretRegressor(**SMALL)
    model = TransformedTargetRegressor(inside, func=np.log, inverse_func=np.exp)
    model.fit(X[:400], y[:400] + 5)
    from secret_jax.inspect.page import to_html

    assert "100 held-out rows" in to_html(model, X[400:], np.log(y[400:] + 5))
