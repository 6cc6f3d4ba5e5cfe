"""scikit-learn's checks of every estimator, and tools that are put around them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from configurations import crease, refusal, shop
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    estimator_checks_generator,
)

from secret_jax import (
    CostComplexity,
    CrossValidation,
    KernelTreeClassifier,
    KernelTreeRegressor,
    SecretBoostingClassifier,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretForestRegressor,
    SecretOrdinalClassifier,
    SecretRegressor,
    StandardErrors,
)

_SMALL: dict[str, Any] = {"max_leaf_nodes": 3, "prune": StandardErrors(n_folds=2)}
_STUMP: dict[str, Any] = {
    "max_depth": 1,
    "oblique": False,
    "distill": False,
    "prune": CrossValidation(n_folds=2),
}
_FEW: dict[str, Any] = {
    "max_leaf_nodes": 4,
    "max_iter": 2,
    "early_stopping": False,
    "n_folds": 2,
    "learning_rate": 0.5,
}
# One of every class goes through all checks ...
CLASSES = [
    SecretRegressor(),
    KernelTreeRegressor(SecretRegressor(**_STUMP), head="local"),
    KernelTreeClassifier(SecretClassifier(**_STUMP), head="rbf"),
    SecretOrdinalClassifier(SecretRegressor(**_STUMP)),
    SecretForestRegressor(n_estimators=2),
    SecretBoostingRegressor(**_FEW),
    SecretClassifier.literature("cart"),
    SecretBoostingClassifier(**_FEW),
]
# ... and other finders, leaves and losses through those that they could fail.
KINDS = [
    SecretRegressor.paper().set_params(max_depth=2),
    SecretRegressor.literature("cart"),
    SecretRegressor.literature("guide", max_leaf_nodes=3, prune=None),
    SecretRegressor.literature("m5", max_leaf_nodes=3),
    SecretRegressor.literature("retis", max_leaf_nodes=2, prune=None),
    SecretRegressor.literature("support", **_SMALL),
    SecretRegressor(splits="phd", leaf="linear", distill=False, oblique=True, **_SMALL),
    SecretRegressor(loss="absolute", **_STUMP),
    SecretRegressor(loss="poisson", **_STUMP),
    SecretClassifier(splits="cart", prune=None, distill=False),
]
OF_KINDS = {
    "check_classifiers_train",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
}


def _name(check: Any) -> str:
    return getattr(check, "func", check).__name__


def _checks() -> list[Any]:
    """Parameters of all checks: an estimator, a check, and an identifier."""
    return [
        pytest.param(owner, check, id=f"{type(owner).__name__}{n}-{_name(check)}")
        for n, estimator in enumerate([*CLASSES, *KINDS])
        for owner, check in estimator_checks_generator(estimator)
        if estimator in CLASSES
        or (_name(check) in OF_KINDS and not getattr(check, "keywords", None))
    ]


# Some of the checks give a column as the target, or a single row of a class.
@pytest.mark.filterwarnings("ignore:Column 'x[0-9]' equals the target")
@pytest.mark.filterwarnings("ignore:The class .* has a single row")
@pytest.mark.parametrize(("estimator", "check"), _checks())
def test_scikit_learn_checks(estimator, check):
    if _name(check) == "check_array_api_input":
        # For estimators that compute with the arrays they are given; ours are read.
        pytest.skip("needs SCIPY_ARRAY_API, and tells nothing of these estimators")
    if "max_iter" in estimator.get_params() and "class_weight" in _name(check):
        pytest.skip("sets a thousand rounds; tests of boosters weigh classes")
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [SecretRegressor(**_STUMP), *CLASSES[1:]],
    ids=lambda one: type(one).__name__,
)
def test_dictionaries_and_copies_of_unfitted_and_fitted_estimators(estimator):
    X, y = crease()
    y = y > 0 if is_classifier(estimator) else y
    parameters = asdict(estimator)
    assert parameters.keys() == estimator.get_params(deep=False).keys()
    model = clone(estimator).fit(X, y)
    assert asdict(model) == parameters
    for copied in (copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
        assert asdict(copied(estimator)) == parameters
        same = copied(model)
        assert asdict(same) == parameters
        assert (same.predict(X) == model.predict(X)).all()
        assert (clone(same).fit(X, y).predict(X) == model.predict(X)).all()
    model.note_ = "of one's own"
    assert model.fit(X, y).note_ == "of one's own"


def test_subclasses_with_parameters_of_their_own():
    class Stump(SecretRegressor):
        def __init__(self, *, depth=1):
            super().__init__(max_depth=depth, splits="cart")
            self.depth = depth

    class Two(SecretForestRegressor):
        def __init__(self, *, n_estimators=2):
            super().__init__(n_estimators=n_estimators)

    class Network(KernelTreeRegressor):
        def __init__(self, *, head="rbf"):
            super().__init__(SecretRegressor(**_STUMP), head=head)

    X, y = crease()
    for kind in (Stump, Two, Network):
        model = clone(kind()).fit(X, y)
        assert model.score(X, y) > 0.3
        assert len(model.get_params(deep=False)) == 1
    stump = Stump().fit(X, y)
    assert stump.n_leaves_ == 2
    assert stump.cost_complexity_pruning_path(X, y).ccp_alphas[0] == 0
    assert len(stump.stability(X, y, n_resamples=2, verbose=0)) > 0
    with refusal("'splits__min_gain'", "['depth']"):
        stump.set_params(splits__min_gain=1.0)
    with refusal("'max_depth' parameter of Stump", "Got -1"):
        Stump(depth=-1).fit(X, y)


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
