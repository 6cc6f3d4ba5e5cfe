"""A column of text that holds nothing in training is one of categories."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import cross_val_score

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.data.attributes import Role

EMPTY = {
    "object": lambda n: pd.Series([None] * n, dtype=object),
    "object of NaN": lambda n: pd.Series([np.nan] * n, dtype=object),
    "str": lambda n: pd.Series([None] * n, dtype="str"),
    "string": lambda n: pd.Series([pd.NA] * n, dtype="string"),
    "category": lambda n: pd.Series([None] * n, dtype="category"),
    "ordered": lambda n: pd.Series(pd.Categorical([None] * n, [], ordered=True)),
}


def numbers(n: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": random.normal(size=n)})
    return X, np.maximum(X["x"].to_numpy(), 0) + 0.1 * random.normal(size=n)


@pytest.mark.parametrize("kind", EMPTY)
def test_text_may_come_later(kind):
    X, y = numbers()
    with_text = X.assign(note=EMPTY[kind](len(X)))
    model = SecretRegressor().fit(with_text, y)
    assert model.tree_.schema.roles[1] is Role.DISCRETE
    expected = model.predict(with_text)
    np.testing.assert_array_equal(model.predict(X.assign(note="sold")), expected)
    assert model.score(with_text, y) > 0.9


@pytest.mark.parametrize("of", [pl.from_pandas, pa.Table.from_pandas])
def test_of_other_libraries_too(of):
    X, y = numbers()
    model = SecretRegressor().fit(of(X.assign(note=EMPTY["string"](len(X)))), y)
    assert model.tree_.schema.roles[1] is Role.DISCRETE
    assert np.isfinite(model.predict(of(X.assign(note="sold")))).all()


def test_numbers_without_a_value_stay_numbers():
    X, y = numbers()
    for gaps in (np.nan, pd.Series([pd.NA] * len(X), dtype="Int64")):
        model = SecretRegressor().fit(X.assign(n=gaps), y)
        assert model.tree_.schema.roles[1] is not Role.DISCRETE
        assert np.isfinite(model.predict(X.assign(n=3.0))).all()
    array = np.column_stack([X["x"].astype(object), np.full(len(X), np.nan, object)])
    assert SecretRegressor().fit(array, y).tree_.schema.roles[1] is not Role.DISCRETE


def test_a_field_that_began_lately_has_no_folds_without_a_score():
    X, y = numbers()
    note = np.where(np.arange(len(X)) < 250, None, "new")
    X = X.assign(note=pd.Series(note, dtype=object))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = cross_val_score(SecretRegressor(), X, y, cv=6, error_score="raise")
        assert np.isfinite(scores).all()
        model = SecretClassifier().fit(X[:200], y[:200] > 0.3)
        assert np.isfinite(model.predict_proba(X)).all()


def test_streams_that_begin_without_a_value():
    X, y = numbers()
    parts = [
        (X[:150].assign(note=EMPTY["object"](150)), y[:150]),
        (X[150:].assign(note="sold"), y[150:]),
    ]
    model = SecretRegressor().fit_stream(parts)
    assert model.tree_.schema.categories == (("sold", None),)
