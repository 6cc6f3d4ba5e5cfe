"""The summary prints the equations of `coefficients`, and t as their ratio."""

import numpy as np
import pytest
from configurations import refusal
from random_trees import random_tree

from secret_jax import SecretRegressor
from secret_jax.inspect.summary import summary


def figures(line: str) -> list[float]:
    return [float(cell) for cell in line.split()[-5:]]


def test_one_leaf_is_an_ordinary_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = X @ [1.0, 2.0, -3.0] + 0.5 * rng.normal(size=100)
    options = {"max_depth": 0, "leaf": "linear", "equation_tolerance": 0.0}
    model = SecretRegressor(**options).fit(X, y)
    text = model.summary(coverage=0.9)
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    design = np.c_[np.ones(100), X]
    slopes, (squares,), _, _ = np.linalg.lstsq(design, y, rcond=None)
    covariance = squares / 96 * np.linalg.inv(design.T @ design)
    for i in range(3):
        value, error, ratio, low, high = figures(lines[f"x{i}"])
        known = slopes[i + 1], np.sqrt(covariance[i + 1, i + 1])
        assert (value, error) == pytest.approx(known, rel=1e-2)
        assert ratio == pytest.approx(value / error, rel=1e-2)
        assert (low, high) == pytest.approx(
            [value - 1.645 * error, value + 1.645 * error], abs=2e-3
        )
    share = 1.0 - squares / np.square(y - y.mean()).sum()
    assert f"R²: {share:.3g}" in text
    assert "[0.05" in text


def test_every_leaf_has_a_table_and_unknown_errors_are_dashes():
    tree = random_tree(3, 6)
    text = summary(tree)
    for leaf in np.flatnonzero(tree.is_leaf):
        assert f"\n[{leaf}] " in text
    assert text.count("(at the center)") == tree.n_leaves
    with refusal("coverage"):
        summary(tree, coverage=1.0)
