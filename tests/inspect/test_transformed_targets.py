"""Readers of trees know a target that scikit-learn has transformed before the fit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler

from secret_jax import SecretRegressor
from secret_jax.inspect.coefficients import summary
from secret_jax.inspect.explain import explain
from secret_jax.inspect.frame import to_dataframe
from secret_jax.inspect.report.page import to_html
from secret_jax.inspect.stability import stability
from secret_jax.inspect.text import export_text


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"func": np.log, "inverse_func": np.exp}, "log of y"),
        ({"func": lambda y: y + 1, "inverse_func": lambda y: y - 1}, "transformed y"),
        ({"func": partial(np.log), "inverse_func": np.exp}, "transformed y"),
        ({"transformer": StandardScaler()}, "StandardScaler of y"),
        ({}, "y"),
    ],
)
def test_the_target_is_named_for_what_the_tree_has_learned(options, name):
    X = np.random.default_rng(0).uniform(size=(200, 2))
    target = np.exp(np.abs(2 * X[:, 0] - 1))
    tree = SecretRegressor(max_leaf_nodes=2, oblique=False)
    model = TransformedTargetRegressor(tree, **options).fit(X, target)
    lines = export_text(model).splitlines()
    assert lines[0].startswith(f"{name}: a tree of 2 leaves")
    assert any(f"] {name} = " in line for line in lines)
    assert f"\n{name}: n = " in summary(model)
    assert to_dataframe(model)["model"][0].startswith(f"{name} = ")
    assert f"<h1>{name}</h1>" in to_html(model)
    own, targets = model.regressor_, model.regressor_.predict(X)
    np.testing.assert_allclose(explain(model, X).prediction, targets, atol=1e-5)
    drawn = {"n_resamples": 2, "random_state": 0, "verbose": 0}
    expected = own.stability(X, targets, **drawn)
    pd.testing.assert_frame_equal(stability(model, X, targets, **drawn), expected)
    assert model.regressor_.tree_.schema.target_name == "y"  # it is only read
