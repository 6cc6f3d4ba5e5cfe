"""Whole fits whose rows lie in tiles, as on accelerators."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import SecretRegressor, SecretSplits
from secret_jax.datasets import make_fried

SMALL = {"max_depth": 2, "min_samples_leaf": 40, "prune": None, "random_state": 0}


@pytest.mark.parametrize(
    "parameters",
    [
        {"oblique": True},
        {"splits": SecretSplits(n_starts=1, n_attempts=1), "oblique": True},
        {"oblique": False, "mixed": True},
    ],
    ids=["oblique", "secret", "gaps and categories"],
)
def test_the_tree_is_that_of_processors(parameters, monkeypatch):
    parameters = dict(parameters)
    X, y = make_fried(500, n_features=5, random_state=0)
    if parameters.pop("mixed", False):
        X[::7, 1] = np.nan
        X[:, 4] = np.floor(4 * X[:, 4])
        parameters["categorical_features"] = [4]
    model = SecretRegressor(**SMALL, **parameters)
    on_host = model.fit(X, y)
    expected, prediction = on_host.tree_, on_host.predict(X)
    monkeypatch.setattr("secret_jax.fit.grow.grower.on_accelerator", lambda: True)
    found = model.fit(X, y).tree_
    assert expected.n_leaves > 2
    np.testing.assert_array_equal(found.kind, expected.kind)
    np.testing.assert_array_equal(found.attribute, expected.attribute)
    np.testing.assert_array_equal(found.weight, expected.weight)
    # Sums in another order: the same but for the rounding of float32.
    np.testing.assert_allclose(found.direction, expected.direction, atol=1e-4)
    np.testing.assert_allclose(found.threshold, expected.threshold, atol=1e-4)
    np.testing.assert_allclose(model.predict(X), prediction, atol=1e-4 * y.std())
