"""Cross-validation side by side says what scikit-learn's says, fold for fold."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from configurations import refusal, shop, tree_bytes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    ShuffleSplit,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import secret_jax.grow.together as together
from secret_jax import (
    CartSplits,
    SecretClassifier,
    SecretRegressor,
    cross_validate_many,
    fit_many,
    grid_search_many,
)


@pytest.fixture(scope="module")
def waves():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 3))
    return X, np.sin(4 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0)


def small(**changes):
    """A tree that is grown and pruned in no time."""
    return SecretRegressor.cart(max_leaf_nodes=4, prune="holdout", **changes)


def assert_same_scores(found, expected):
    assert found.keys() == expected.keys()
    for name in found:
        if name.startswith("test"):
            np.testing.assert_array_equal(found[name], expected[name])
        elif name.endswith("time"):
            assert found[name].shape == expected[name].shape
            assert (found[name] > 0).all()


def test_scores_trees_and_names_are_those_of_scikit_learn(waves, monkeypatch):
    sizes, grow = [], together._grow_alike

    def counted(requests):
        sizes.append(len(requests))
        grow(requests)

    monkeypatch.setattr(together, "_grow_alike", counted)
    model, weight = small(), np.random.default_rng(1).uniform(0.5, 2, 120)
    scoring = ["r2", "neg_mean_absolute_error"]
    folds = ShuffleSplit(3, random_state=0)  # draws anew whenever it is asked
    folds = list(folds.split(waves[0]))
    options = {"cv": folds, "scoring": scoring, "return_estimator": True}
    found = cross_validate_many(model, *waves, weight, **options)
    assert sizes[0] == 3
    params = {"sample_weight": weight}
    expected = cross_validate(model, *waves, params=params, **options)
    assert_same_scores(found, expected)
    for own, other in zip(found["estimator"], expected["estimator"], strict=True):
        assert tree_bytes(own.tree_) == tree_bytes(other.tree_)
    assert not hasattr(model, "tree_")


def test_several_models_among_them_others_have_scores_of_their_own(waves):
    models = [
        small(random_state=1),
        make_pipeline(StandardScaler(), small(max_depth=1)),
        LinearRegression(),
    ]
    several = cross_validate_many(models, *waves, together=4)  # five folds by default
    for model, found in zip(models, several, strict=True):
        assert_same_scores(found, cross_validate(model, *waves))
    assert len({found["test_score"].mean() for found in several}) == 3


def test_folds_of_a_classifier_are_stratified_and_groups_are_told_to_the_splitter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.array(["no", "yes"])[(X[:, 0] + 0.5 * rng.normal(size=90) > 0).astype(int)]
    y = np.sort(y)  # rows in their order would leave folds of one class
    model = SecretClassifier.cart(max_leaf_nodes=3, prune=None)
    for options in ({"cv": 3}, {"cv": GroupKFold(3), "groups": np.arange(90) % 7}):
        found = cross_validate_many(model, X, y, **options)
        assert_same_scores(found, cross_validate(model, X, y, **options))


def test_rows_of_any_kind_of_table_keep_their_names_and_types():
    frame, price = shop(90, 0)
    other = pl.DataFrame({name: frame[name].to_list() for name in frame})
    model = SecretRegressor.cart(max_leaf_nodes=3, prune=None)
    found, expected = (
        cross_validate_many(model, X, price, cv=2) for X in (other, frame)
    )
    np.testing.assert_array_equal(found["test_score"], expected["test_score"])
    (fitted,) = fit_many(model, other, price, rows=[np.arange(60)])
    assert list(fitted.feature_names_in_) == list(frame)


@pytest.mark.parametrize("scoring", [None, ["r2", "neg_mean_squared_error"]])
def test_a_grid_has_the_results_of_scikit_learn(waves, scoring):
    grid = [
        {"max_leaf_nodes": [4, 2], "splits": [CartSplits()]},
        {"min_samples_leaf": [30]},
    ]
    options = {"scoring": scoring, "cv": 3}
    found = grid_search_many(small(), grid, *waves, **options)
    search = GridSearchCV(small(), grid, refit=False, **options).fit(*waves)
    expected = search.cv_results_
    times = {"std_fit_time", "std_score_time"}
    assert found.keys() == expected.keys() - times
    assert found["params"] == expected["params"]
    for name, values in found.items():
        if "_test_" in name:
            np.testing.assert_allclose(values, expected[name], rtol=1e-12)
        elif name.startswith("param_"):
            assert values.tolist() == expected[name].tolist()
    assert set(found[next(n for n in found if n.startswith("rank"))]) == {1, 2, 3}


def test_what_cannot_be_validated_is_refused_in_words(waves):
    X, y = waves
    for name in ("sample_weight", "groups"):
        with refusal(f"{name} has 119 rows, but X has 120"):
            cross_validate_many(small(), X, y, **{name: np.ones(119)})
    with refusal("y has 3 rows, but X has 120"):
        grid_search_many(small(), {}, X, y[:3])
    with refusal("no folds"):
        cross_validate_many(small(), X, y, cv=[])
    with refusal("no estimator"):
        cross_validate_many([], X, y)
    with refusal("max_leaf_nodes"):  # no score stands for a fit that failed
        grid_search_many(small(), {"max_leaf_nodes": [2, -1]}, X, y)
    with refusal("magic"):
        grid_search_many(small(), {"magic": [1]}, X, y)
    with refusal("together"):
        cross_validate_many(small(), X, y, together=0)
