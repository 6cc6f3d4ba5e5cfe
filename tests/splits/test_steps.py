"""Thresholds stand where the target steps, whatever the quantiles of a node are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.learners import GuideSplits, PhdSplits

# Most of the rows that may be on the wrong side.
MOST_WRONG = 0.004


def table(kind, n_rows, seed):
    """A column with a step of the target, another one, and what is right of it."""
    rng = np.random.default_rng(seed)
    other = rng.gamma(4, 10, n_rows)
    place, limit = rng.integers(18, 90, n_rows), 65
    if kind in ("continuous", "rates"):
        place = rng.gamma(2, 3, n_rows)
        limit = np.quantile(place, 0.37)
    right = place >= limit
    y = 0.3 * other + 20 * right + 3 * rng.normal(size=n_rows)
    if kind == "classes":
        y = np.where(rng.uniform(size=n_rows) < np.where(right, 0.9, 0.1), "yes", "no")
    if kind == "rates":
        y = rng.poisson(np.where(right, 10.0, 2.0)).astype(float)
    X = pd.DataFrame({"place": place.astype(float), "other": other})
    if kind == "gaps":
        X.loc[rng.uniform(size=n_rows) < 0.2, "place"] = np.nan
    return X, y, right


def model_of(kind, **parameters):
    if kind == "classes":
        return SecretClassifier(**parameters)
    if kind == "rates":
        return SecretRegressor(loss="poisson", **parameters)
    if kind == "monotone":
        return SecretRegressor(monotonic_cst={"place": 1}, **parameters)
    return SecretRegressor(**parameters)


def share_on_wrong_side(model, X, right):
    leaf, known = model.apply(X), X["place"].notna().to_numpy()
    wrong = np.mean((leaf == leaf.max())[known] != right[known])
    return min(wrong, 1 - wrong)


@pytest.mark.parametrize("n_rows", [600, 2000, 20_000])
@pytest.mark.parametrize(
    "kind", ["whole", "continuous", "classes", "rates", "monotone", "gaps"]
)
def test_a_tree_of_two_leaves_is_split_at_the_step(kind, n_rows):
    X, y, right = table(kind, n_rows, seed=3)
    model = model_of(kind, max_leaf_nodes=2).fit(X, y)
    assert model.tree_.n_leaves == 2
    assert share_on_wrong_side(model, X, right) <= MOST_WRONG


@pytest.mark.parametrize("n_rows", [2000, 20_000])
def test_the_step_of_whole_numbers_is_printed_as_it_is(n_rows):
    X, y, _ = table("whole", n_rows, seed=0)
    text = SecretRegressor(max_leaf_nodes=2).fit(X, y).export_text()
    assert "if place <= 64\n" in text


@pytest.mark.parametrize("finder", [GuideSplits(), PhdSplits()])
def test_finders_of_few_quantiles_look_between_them(finder):
    X, y, right = table("continuous", 2000, seed=1)
    model = SecretRegressor(splits=finder, max_leaf_nodes=2).fit(X, y)
    assert share_on_wrong_side(model, X, right) <= MOST_WRONG


def test_rows_beyond_the_sample_decide_between_those_of_it():
    """Of 20,000 rows some ten lie between two of a sample of 2,048."""
    X, y, right = table("continuous", 20_000, seed=0)
    model = SecretRegressor(max_leaf_nodes=2).fit(X, y)
    assert share_on_wrong_side(model, X, right) <= 1e-4
