"""Texts that look like numbers or dates are told; names made of digits are not."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from secret_jax import SecretRegressor
from secret_jax.data.attributes import Role
from secret_jax.data.written import warn_of_written

COUNT = range(100, 140)


def told(texts, name="cost"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_written(np.array([*texts], object), name, f"X[{name!r}]")
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    ("texts", "kind", "example"),
    [
        ([f"1,{i}" for i in COUNT], "numbers", "1,100"),
        ([f"{i / 7:.2f}" for i in COUNT], "numbers", "14.29"),
        ([f"{i / 7:.2f} EUR" for i in COUNT], "numbers", "14.29 EUR"),
        ([f"{i}.50 EUR" for i in COUNT], "numbers", "100.50 EUR"),
        ([f"{i}.5" for i in range(80, 120)], "numbers", "100.5"),
        (
            [f"{i**3:,}".replace(",", " ") for i in range(80, 120)],
            "numbers",
            "1 000 000",
        ),
        ([f"-{i}" for i in range(80, 120)], "numbers", "-100"),
        ([f"{i / 7:.2f}".replace(".", ",") for i in COUNT], "numbers", "14,29"),
        ([f"{i} %" for i in COUNT], "numbers", "100 %"),
        ([f"{i}%" for i in COUNT], "numbers", "100%"),
        ([f"${i}.50" for i in COUNT], "numbers", "$100.50"),
        ([f"{i} km" for i in COUNT], "numbers", "100 km"),
        ([f"{i * i * i}" for i in range(30)], "numbers", "10648"),
        ([f"2021-03-{i:02}" for i in range(1, 31)], "dates", "2021-03-01"),
        ([f"{i}.12.2021" for i in range(1, 31)], "dates", "1.12.2021"),
        ([f"2021-03-{i:02} 02:15 PM" for i in range(1, 31)], "dates", "2021-03-01 02"),
        ([f"{i:02} Mar 2021" for i in range(1, 31)], "dates", "01 Mar 2021"),
        ([*(f"1,{i}" for i in COUNT), "?", None, np.nan], "numbers", "1,100"),
        ([f"-1.{i},5 €" for i in COUNT], "numbers", "-1.100,5 €"),
        ([f".{i}" for i in COUNT], "numbers", ".100"),
        ([f"{i}.50" for i in COUNT], "numbers", "100.50"),
        ([f"{i} years old" for i in COUNT], "numbers", "100 years old"),
        ([f"{i},5 km/h" for i in COUNT], "numbers", "100,5 km/h"),
        ([f"1.{i}.500,20" for i in COUNT], "numbers", "1.100.500,20"),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else "",
)
def test_numbers_and_dates_are_told_with_an_example_and_a_remedy(texts, kind, example):
    (message,) = told(texts)
    assert f"Column 'cost' holds {kind} written as text, such as '{example}" in message
    function = "pandas.to_numeric" if kind == "numbers" else "pandas.to_datetime"
    assert f"{function}(X['cost']" in message
    assert "categorical_features" in message


@pytest.mark.parametrize(
    "texts",
    [
        [f"0{i}00" for i in COUNT],  # zip codes
        [f"{i}21" for i in COUNT],
        [f"{i}A" for i in COUNT],  # rooms
        [f"{i} {'abc'[i % 3]}" for i in COUNT],
        [str(i) for i in range(10)] * 10,  # labels
        ["1,234", "2,345"] * 50,
        [f"1.{i}.7" for i in COUNT],  # versions
        [f"{i} 451" for i in COUNT],
        [f"{i}.588.794" for i in COUNT],
        [f"+49865{i}803" for i in COUNT],  # telephones
        [f"+{i}{'75' * (1 + i % 9)}" for i in COUNT],
        [f"-{i}" for i in COUNT],
        [f"0{i}.1" for i in COUNT],
        [f"{i}.{i % 3}1" if i % 2 else f"{i}" for i in COUNT],  # diseases
        [f"{i} Main Street" for i in COUNT],
        [f"{i}-{i + 9}" for i in COUNT],
        [f"{i}:30" for i in COUNT],
        [f"item {i}" for i in COUNT],
        [f"{i / 7:.2f}" if i % 3 else f"type {i}" for i in COUNT],
        [True, False] * 30,
    ],
    ids=lambda one: str(one[0]),
)
def test_names_and_few_categories_are_not(texts):
    assert told(texts) == []


def test_a_fit_says_it_once_unless_categories_are_meant():
    random = np.random.default_rng(0)
    number = random.integers(1000, 9999, 200)
    X = pd.DataFrame(
        {"cost": [f"{i:,}" for i in number], "size": random.normal(size=200)}
    )
    model = SecretRegressor(max_depth=1)
    with pytest.warns(UserWarning, match="Column 'cost' holds numbers") as caught:
        model.fit(X, number)
    assert len(caught) == 1
    model.set_params(categorical_features=["cost"]).fit(
        X, number
    )  # warnings are errors


def test_categories_by_type_are_meant():
    random = np.random.default_rng(0)
    number = random.integers(1000, 9999, 200)
    size = random.normal(size=200)
    cost = pd.Series([f"{i:,}" for i in number], dtype="category")
    X = pd.DataFrame({"cost": cost, "size": size})
    model = SecretRegressor(max_depth=1).fit(X, number)  # warnings are errors
    parts = [(X[:100], number[:100]), (X[100:], number[100:])]
    SecretRegressor(max_depth=1).fit_stream(parts)
    assert model.tree_.schema.roles[0] is Role.DISCRETE
    pl = pytest.importorskip("polars")
    SecretRegressor(max_depth=1).fit(
        pl.DataFrame({"cost": pl.Series([*cost], dtype=pl.Categorical), "size": size}),
        number,
    )


@pytest.mark.parametrize("text", ["{:,}", "{}"])
def test_columns_of_arrays_are_told_by_position(text):
    random = np.random.default_rng(0)
    number = random.integers(1, 9999, 200)
    X = np.stack([np.full(200, "a"), [text.format(i) for i in number]], axis=1)
    with pytest.warns(UserWarning, match="Column 'x1' holds numbers") as caught:
        SecretRegressor(max_depth=1).fit(X.astype(object), number)
    (remedy,) = re.findall(r"by (pandas.*), or name", str(caught[0].message))
    remedy = remedy.replace("...", "',', ''")
    found = eval(remedy, {"pandas": pd, "X": X})
    np.testing.assert_array_equal(found, number)


def test_long_texts_are_looked_at():
    """In time that grew with the square of the length it would take an hour."""
    assert told([f"{'1' * 100_000}x{i}" for i in range(30)]) == []
