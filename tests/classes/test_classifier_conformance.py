"""scikit-learn's own checks of classifiers."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from secret_jax import SecretClassifier

# Few programs, since compiling takes most of the time: thresholds of the Gini
# impurity, and logistic regressions in the leaves.
_CHEAP = {"splits": "cart", "prune": None, "distill": False}


def _name(check: Any) -> str:
    return getattr(check, "func", check).__name__


@pytest.mark.filterwarnings("ignore:The class .* has a single row")
@parametrize_with_checks([SecretClassifier(**_CHEAP)])
def test_scikit_learn_checks(estimator, check):
    if _name(check) == "check_array_api_input":
        pytest.skip("needs SCIPY_ARRAY_API, and tells nothing of this estimator")
    check(estimator)
