"""Columns keep their types, whatever holds them and whatever they are called."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import cross_val_score

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.data.columns import read_columns
from secret_jax.data.schema import Role


def sizes(n_rows: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers beside categories of text, of numbers and of truth values, and dates."""
    rng = np.random.default_rng(0)
    area, new = rng.normal(size=n_rows), rng.random(n_rows) < 0.4
    size, zone = rng.integers(0, 3, n_rows), rng.integers(1, 5, n_rows)
    days = pd.to_timedelta(rng.integers(0, 900, n_rows), unit="D")
    frame = pd.DataFrame(
        {
            "area": area,
            "size": pd.Categorical.from_codes(size, ["S", "M", "L"], ordered=True),
            "zone": pd.Categorical(zone),
            "new": new,
            "sold": pd.Timestamp("2023-01-01") + days,
        }
    )
    y = 2.0 * area + 3.0 * (size > 0) + np.array([0, 4, -3, 1.0])[zone - 1] + 2.0 * new
    return frame, y + 0.1 * rng.normal(size=n_rows)


NAMES = {
    "whole numbers": range(5),
    "whole numbers in no order": [7, 3, 1, 9, 2],
    "pairs": pd.MultiIndex.from_product([["house"], list("abcde")]),
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES.keys())
def test_names_that_are_no_text_change_no_column(names):
    frame, y = sizes()
    expected = SecretRegressor(equation_tolerance=0).fit(frame, y)
    other = frame.set_axis(names, axis=1)
    read = read_columns(other)
    assert isinstance(read, list)
    for column, named in zip(read, read_columns(frame).values(), strict=True):
        assert type(column) is type(named)
        np.testing.assert_array_equal(column, named)
    assert read[1].levels == ("S", "M", "L")
    model = SecretRegressor(equation_tolerance=0).fit(other, y)
    np.testing.assert_array_equal(model.predict(other), expected.predict(frame))
    # Without names, columns are told by their order.
    np.testing.assert_array_equal(
        model.predict(other.to_numpy()), expected.predict(frame)
    )


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_rows_of_a_list_are_those_of_a_table():
    frame, y = sizes()
    frame = frame[["area", "new", "size", "zone"]].astype({"size": str, "zone": int})
    rows = [list(row) for row in frame.itertuples(index=False)]
    model, expected = SecretRegressor().fit(rows, y), SecretRegressor().fit(frame, y)
    assert model.score(rows, y) > 0.9
    for given in (rows, rows[:1]):
        predicted = expected.predict(frame[: len(given)])
        np.testing.assert_array_equal(expected.predict(given), predicted)
        np.testing.assert_array_equal(model.predict(given), predicted)


def test_truth_values_beside_gaps_are_truth_values_in_every_type():
    frame, y = sizes()
    gaps = np.arange(len(frame)) % 9 == 0
    given = frame["new"].astype("boolean").mask(gaps)
    frame = frame[["area"]].assign(new=given)
    objects = given.astype(object)
    others = [
        frame.assign(new=objects.where(~gaps, None)),
        frame.assign(new=objects.where(~gaps, np.nan)),
        frame.astype({"new": "bool[pyarrow]"}),
    ]
    model = SecretRegressor().fit(frame, y)
    assert "[new = True]" in model.export_text()
    for other in others:
        np.testing.assert_array_equal(model.predict(other), model.predict(frame))
        again = SecretRegressor().fit(other, y)
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


# A column of text that holds nothing in training is one of categories.
EMPTY = {
    "object": lambda n: pd.Series([None] * n, dtype=object),
    "object of NaN": lambda n: pd.Series([np.nan] * n, dtype=object),
    "str": lambda n: pd.Series([None] * n, dtype="str"),
    "string": lambda n: pd.Series([pd.NA] * n, dtype="string"),
    "category": lambda n: pd.Series([None] * n, dtype="category"),
    "ordered": lambda n: pd.Series(pd.Categorical([None] * n, [], ordered=True)),
}


def hinge(n: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": random.normal(size=n)})
    return X, np.maximum(X["x"].to_numpy(), 0) + 0.1 * random.normal(size=n)


@pytest.mark.parametrize("kind", EMPTY)
def test_text_may_come_later(kind):
    X, y = hinge()
    with_text = X.assign(note=EMPTY[kind](len(X)))
    model = SecretRegressor().fit(with_text, y)
    assert model.tree_.schema.roles[1] is Role.DISCRETE
    for of in (pl.from_pandas, pa.Table.from_pandas) if kind == "string" else ():
        other = SecretRegressor().fit(of(with_text), y)
        assert other.tree_.schema.roles[1] is Role.DISCRETE
        assert np.isfinite(other.predict(of(X.assign(note="sold")))).all()
    expected = model.predict(with_text)
    np.testing.assert_array_equal(model.predict(X.assign(note="sold")), expected)
    assert model.score(with_text, y) > 0.9


def test_numbers_without_a_value_stay_numbers():
    X, y = hinge()
    for gaps in (np.nan, pd.Series([pd.NA] * len(X), dtype="Int64")):
        model = SecretRegressor().fit(X.assign(n=gaps), y)
        assert model.tree_.schema.roles[1] is not Role.DISCRETE
        assert np.isfinite(model.predict(X.assign(n=3.0))).all()
    array = np.column_stack([X["x"].astype(object), np.full(len(X), np.nan, object)])
    assert SecretRegressor().fit(array, y).tree_.schema.roles[1] is not Role.DISCRETE


def test_a_field_that_began_lately_has_no_folds_without_a_score():
    X, y = hinge()
    note = np.where(np.arange(len(X)) < 250, None, "new")
    X = X.assign(note=pd.Series(note, dtype=object))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = cross_val_score(SecretRegressor(), X, y, cv=6, error_score="raise")
        assert np.isfinite(scores).all()
        model = SecretClassifier().fit(X[:200], y[:200] > 0.3)
        assert np.isfinite(model.predict_proba(X)).all()
