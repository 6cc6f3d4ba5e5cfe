"""scikit-learn's own checks of the boosters, with few and small trees."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from secret_jax import (
    SecretBoostingClassifier,
    SecretBoostingRegressor,
    SecretForestRegressor,
)

FEW = {"size": 4, "n_rounds": 3, "n_folds": 2, "learning_rate": 0.5}


def _name(check: Any) -> str:
    return getattr(check, "func", check).__name__


# Some of the checks give a column as the target.
@pytest.mark.filterwarnings("ignore:Column 'x[0-9]' equals the target")
@parametrize_with_checks(
    [
        SecretBoostingRegressor(**FEW),
        SecretBoostingClassifier(**FEW),
        SecretForestRegressor(n_estimators=4),
    ]
)
def test_scikit_learn_checks(estimator, check):
    if _name(check) == "check_array_api_input":
        # For estimators that compute with the arrays they are given; ours are read.
        pytest.skip("needs SCIPY_ARRAY_API, and tells nothing of this estimator")
    check(estimator)
