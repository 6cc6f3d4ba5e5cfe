"""scikit-learn's own checks of every estimator and preset, with small trees.

The default regressor goes through them in `test_conformance`.
"""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from secret_jax import (
    KernelTreeRegressor,
    SecretAdditiveRegressor,
    SecretBoostingClassifier,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretForestRegressor,
    SecretRegressor,
    StandardErrors,
)

_SMALL: dict[str, Any] = {"max_leaf_nodes": 3, "prune": StandardErrors(n_folds=2)}
_STUMP: dict[str, Any] = {"max_depth": 1, "oblique": False, "distill": False}
_FEW: dict[str, Any] = {
    "max_leaf_nodes": 4,
    "max_iter": 3,
    "early_stopping": False,
    "n_folds": 2,
    "learning_rate": 0.5,
}
_POISSON = SecretRegressor(loss="poisson", **_STUMP)
EVERY = [
    SecretRegressor.paper().set_params(max_depth=2),
    SecretRegressor.cart(),
    SecretRegressor.guide(**_SMALL),
    SecretRegressor.m5(max_leaf_nodes=3),
    SecretRegressor.retis(**_SMALL),
    SecretRegressor.support(**_SMALL),
    SecretRegressor(splits="phd", leaf="linear", distill=False, **_SMALL),
    KernelTreeRegressor(SecretRegressor(**_STUMP), head="local"),
    SecretRegressor(loss="absolute", **_STUMP),
    _POISSON,
    SecretAdditiveRegressor(SecretRegressor(**_STUMP)),
    SecretForestRegressor(n_estimators=4),
    SecretBoostingRegressor(**_FEW),
    SecretClassifier(splits="cart", prune=None, distill=False),
    SecretClassifier.cart(),
    SecretBoostingClassifier(**_FEW),
]


def _failing(estimator: Any) -> dict[str, str]:
    """What cannot pass, and why."""
    if estimator is _POISSON:
        return {
            "check_regressor_multioutput": "gives negative targets whatever tags say"
        }
    return {}


# Some of the checks give a column as the target, or a single row of a class.
@pytest.mark.filterwarnings("ignore:Column 'x[0-9]' equals the target")
@pytest.mark.filterwarnings("ignore:The class .* has a single row")
@parametrize_with_checks(EVERY, expected_failed_checks=_failing)
def test_scikit_learn_checks(estimator, check):
    if getattr(check, "func", check).__name__ == "check_array_api_input":
        # For estimators that compute with the arrays they are given; ours are read.
        pytest.skip("needs SCIPY_ARRAY_API, and tells nothing of these estimators")
    check(estimator)
