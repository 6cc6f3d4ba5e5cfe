"""RETIS beside the exhaustive search in NumPy of the scaling benchmark."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.scaling.exhaustive import exhaustive_tree
from secret_jax import LeastSquares, SecretRegressor
from secret_jax.learners import RetisSplits


def rows(n=400, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) * [1.0, 20.0, 0.1] + [5.0, 0.0, 0.0]
    z = (X - [5.0, 0.0, 0.0]) / [1.0, 20.0, 0.1]
    y = np.abs(z[:, 0] - 0.3) * 3 + z[:, 1] * z[:, 2] + 0.2 * random.normal(size=n)
    return X, y


def retis(**parameters):
    options = {
        "oblique": False,
        "splits": RetisSplits(max_samples=None),
        "leaf": LeastSquares(clip_margin=None),
        "prune": None,
        "equation_tolerance": 0.0,
        "min_samples_split": 0.05,
        "min_samples_leaf": 12,
    }
    return SecretRegressor(**options | parameters)


def test_all_thresholds_are_those_of_the_exhaustive_search():
    X, y = rows()
    expected = exhaustive_tree(X, y, min_samples_split=0.05, min_samples_leaf=0.03)
    model = retis().fit(X, y)
    tree, schema = model.tree_, model.tree_.schema
    assert tree.n_leaves == expected.n_leaves > 10
    waiting = [(0, 0, np.ones(len(y), bool))]
    while waiting:
        node, other, inside = waiting.pop()
        column = expected.attribute[other]
        assert (tree.left[node] < 0) == (column < 0)
        if column < 0:
            continue
        assert int(tree.attribute[node]) == column
        threshold = tree.threshold[node] * schema.scale[column] + schema.center[column]
        # Theirs is the largest value on the left, ours lies between two rows.
        left = X[:, column] <= expected.threshold[other]
        slack = 1e-5 * schema.scale[column]
        assert X[inside & left, column].max() - slack <= threshold
        assert threshold <= X[inside & ~left, column].min() + slack
        waiting.append((int(tree.left[node]), expected.left[other], inside & left))
        waiting.append((int(tree.right[node]), expected.right[other], inside & ~left))
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=2e-3)


def test_gains_are_drops_of_the_sum_of_squares():
    X, y = rows()
    tree = retis(max_depth=1).fit(X, y).tree_
    left = (X[:, 0] - tree.schema.center[0]) / tree.schema.scale[0] <= tree.threshold[0]

    def rss(some):
        design = np.column_stack([np.ones(some.sum()), X[some]])
        return np.linalg.lstsq(design, y[some], rcond=None)[1].item()

    every = np.ones(len(y), bool)
    expected = rss(every) - rss(left) - rss(~left)
    found = tree.gain[0] * tree.schema.target_scale**2
    assert found == pytest.approx(expected, rel=1e-3)


def test_fewer_thresholds_gain_less_and_nearly_as_much():
    X, y = rows(2000)
    gains = {
        thresholds: retis(splits=RetisSplits(thresholds=thresholds), max_depth=1)
        .set_params(random_state=0)
        .fit(X, y)
        .tree_.gain[0]
        for thresholds in ("all", 32, 0.02, 1)
    }
    assert gains[1] < gains[32] <= gains["all"] * (1 + 1e-5)
    assert gains[0.02] <= gains["all"] * (1 + 1e-5)
    assert min(gains[32], gains[0.02]) > 0.97 * gains["all"]


def test_a_single_sampled_threshold_leaves_both_sides_enough():
    X, y = rows(100)
    splits = RetisSplits(thresholds=0.001)
    for seed in range(8):
        model = retis(
            splits=splits, min_samples_leaf=40, max_depth=1, random_state=seed
        )
        assert model.fit(X, y).n_leaves_ == 2


def test_a_side_has_rows_enough_for_its_model():
    X, y = rows(200)
    y[:3] += 1000.0 * np.arange(1, 4)  # worth a leaf of their own, if there were one
    tree = retis(min_samples_leaf=1, min_samples_split=2).fit(X, y).tree_
    assert tree.weight[tree.is_leaf].min() >= 2 * 4
