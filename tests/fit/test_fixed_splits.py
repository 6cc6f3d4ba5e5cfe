"""Splits that the user fixes are in the tree, at their numbers, whatever prunes it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from configurations import crease

from secret_jax import (
    LeastSquares,
    RssSplits,
    SecretClassifier,
    SecretRegressor,
    SecretSplits,
)
from secret_jax.datasets import make_fried
from secret_jax.learners.conjunctive import ConjunctiveSplits
from secret_jax.models.linear import MixtureLeaf

FIXED = ("x9", 0.3137, ("town", ["a", "b"]), ("x8", 0.5))


def table() -> tuple[pd.DataFrame, np.ndarray]:
    X, y = make_fried(250, random_state=0)
    towns = np.random.default_rng(0).choice(["a", "b", "c"], len(y))
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(10)]).assign(town=towns), y


@pytest.mark.parametrize(
    "options",
    [
        {"oblique": "auto"},
        {"distill": False},
        {"prune": "holdout"},
        {"prune": "bic"},
        {"max_leaf_nodes": 4},
        {"loss": "absolute"},
    ],
)
def test_fixed_splits_stay_although_noise_chose_them(options):
    X, y = table()
    given = {"splits": RssSplits(fixed_splits=FIXED), "oblique": False} | options
    model = SecretRegressor(**given).fit(X, y)
    segment = [X["x9"] <= 0.3137, np.where(X["x9"] <= 0.3137, X["town"] < "c", False)]
    segment[1] = np.where(segment[0], segment[1], X["x8"] <= 0.5)
    frame = pd.DataFrame({"leaf": model.apply(X), "s": 2 * segment[0] + segment[1]})
    assert (frame.groupby("leaf")["s"].nunique() == 1).all()
    assert model.n_leaves_ >= 4
    assert "if x9 <= 0.3137" in model.export_text()


def test_a_fixed_split_has_no_conditions_of_the_conjunction_found():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    y = 5.0 * ((X.a > 0) & (X.b > 0)) + 0.1 * rng.normal(size=200)
    model = SecretRegressor(
        splits=ConjunctiveSplits(fixed_splits=("c", 0.1)),
        leaf="constant",
        prune=None,
        max_leaf_nodes=4,
    ).fit(X, y)
    assert "[0] if c <= 0.1\n" in model.export_text()
    assert 0 not in model.tree_.further


def test_classes_have_fixed_splits_too_and_sides_without_rows_none():
    X, y = table()
    splits = RssSplits(fixed_splits=("town", "a"))
    model = SecretClassifier(splits=splits, oblique=False).fit(X, y > 14)
    assert model.export_text().count("if town in {a}") == 1
    splits = RssSplits(fixed_splits=("x9", 7.0))
    model = SecretRegressor(splits=splits, max_leaf_nodes=2).fit(X, y)
    assert "x9 <= 7" not in model.export_text()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("x9",), r"\(column, threshold\) or"),
        (5, "Got 5"),
        (("q", 1.0), "names 'q', but there is no such column"),
        (("town", ["z"]), "sends 'z' of column 'town'"),
        (("x1", "a"), "splits column 'x1' at 'a'"),
        (("x1", 0.5, ("x2", np.nan)), "splits column 'x2' at nan"),
    ],
)
def test_other_forms_are_refused(given, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        SecretRegressor(splits=RssSplits(fixed_splits=given)).fit(X, y)


@pytest.mark.parametrize(
    "splits", [SecretSplits, RssSplits], ids=["implied models", "least squares"]
)
def test_sides_of_a_fixed_split_have_models_of_their_own_rows(splits):
    X, y = crease()  # of a shape that other tests have compiled programs for
    X = pd.DataFrame(X, columns=["a", "b", "c"])
    leaf = MixtureLeaf if splits is SecretSplits else LeastSquares
    few = {"n_starts": 1} if splits is SecretSplits else {}
    model = SecretRegressor(
        splits=splits(fixed_splits=("c", 0.3), **few),
        leaf=leaf(clip_margin=None, tail_share=0.0),
        prune=None,
        distill=False,
        max_leaf_nodes=2,
        equation_tolerance=0,
    ).fit(X, y)
    left, saved = (X["c"] <= 0.3).to_numpy(), 0.0
    columns = np.column_stack([np.ones(len(y)), X])
    for side in (left, ~left):
        best = np.linalg.lstsq(columns[side], y[side])[0]
        predicted = model.predict(X[side])
        np.testing.assert_allclose(predicted, columns[side] @ best, atol=1e-3)
        saved -= np.sum((y[side] - columns[side] @ best) ** 2)
    saved += np.sum((y - columns @ np.linalg.lstsq(columns, y)[0]) ** 2)
    gain = model.to_dataframe()["gain"].to_numpy() * np.var(y)
    np.testing.assert_allclose(gain, [saved, 0.0, 0.0], rtol=1e-3)
