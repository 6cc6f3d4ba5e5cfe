"""scikit-learn's checks of the default tree, and tools that are put around estimators.

Compiling takes most of the time here: trees are grown in the checks. All other
estimators go through them in `test_every_estimator`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from configurations import shop
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

from secret_jax import CostComplexity, SecretRegressor
from secret_jax.fit.grow.trees import Recipe

# Those whose rows the default splits.
_SPLIT = {
    "check_regressors_train",
    "check_estimators_dtypes",
}


def _name(check: Any) -> str:
    return getattr(check, "func", check).__name__


# Some of the checks give a column as the target.
@pytest.mark.filterwarnings("ignore:Column 'x[0-9]' equals the target")
@parametrize_with_checks([SecretRegressor()])
def test_scikit_learn_checks(estimator, check, monkeypatch):
    if _name(check) == "check_array_api_input":
        # For estimators that compute with the arrays they are given; ours are read.
        pytest.skip("needs SCIPY_ARRAY_API, and tells nothing of this estimator")
    grown = []

    def grow(recipe, rows, roots, *stage, **enough):
        trees = grow_as_ever(recipe, rows, roots, *stage, **enough)
        grown.extend(each.tree for each in trees)
        return trees

    grow_as_ever = Recipe.grow
    monkeypatch.setattr(Recipe, "grow", grow)
    check(estimator)
    if _name(check) in _SPLIT:
        assert max(tree.n_leaves for tree in grown) > 1


def test_parameters_are_refused_in_the_words_of_scikit_learn():
    check_param_validation("SecretRegressor", SecretRegressor(max_depth=0))


def test_names_of_columns_are_noted_and_compared():
    # All of the check up to where columns in another order must be refused: they are
    # found by their names instead.
    with pytest.raises(AssertionError, match=r"^predict did not raise$"):
        check_dataframe_column_names_consistency(
            "SecretRegressor", SecretRegressor(max_depth=0)
        )
    X, y = shop()
    model = SecretRegressor(max_depth=0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X[X.columns[::-1]]), model.predict(X))


def test_tags_say_what_is_accepted():
    assert get_tags(SecretRegressor()).target_tags.multi_output
    tags = get_tags(SecretRegressor()).input_tags
    assert tags.allow_nan
    assert tags.string
    assert tags.categorical
    assert not tags.sparse
    assert not get_tags(SecretRegressor(missing_values="error")).input_tags.allow_nan


def test_grid_search_in_spawned_processes_finds_what_one_process_finds():
    X, y = shop(96)
    grid = {"leaf": ["ridge", "constant"], "prune__alpha": [0.0]}
    model = SecretRegressor(max_depth=0, random_state=0, prune=CostComplexity())
    found = [
        GridSearchCV(model, grid, cv=2, n_jobs=jobs, scoring="r2").fit(X, y)
        for jobs in (1, 2)
    ]
    scores = [search.cv_results_["mean_test_score"] for search in found]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6)
    assert found[0].best_params_ == {"leaf": "ridge", "prune__alpha": 0.0}
    assert np.isfinite(found[1].predict(X)).all()


def test_weights_and_pruning_rows_are_routed():
    X, y = shop(96)
    weight = pd.Series(np.where(X["width"] > 0, 2.0, 0.0))
    pruning = (X[:20], y[:20])
    model = SecretRegressor(max_depth=0, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(model).set_fit_request(sample_weight=True, eval_set=True)
        request = routed.get_metadata_routing().fit.requests
        assert request == {"sample_weight": True, "eval_set": True, "groups": None}
        chain = make_pipeline(routed).fit(X, y, sample_weight=weight, eval_set=pruning)
        scores = cross_validate(
            clone(model)
            .set_fit_request(sample_weight=True)
            .set_score_request(sample_weight=True),
            X,
            y,
            cv=2,
            params={"sample_weight": weight},
        )
    alone = clone(model).fit(X, y, sample_weight=weight, eval_set=pruning)
    np.testing.assert_array_equal(chain.predict(X), alone.predict(X))
    assert np.isfinite(scores["test_score"]).all()
    unweighted = clone(model).fit(X, y, eval_set=pruning)
    assert np.abs(unweighted.predict(X) - alone.predict(X)).max() > 0.1
