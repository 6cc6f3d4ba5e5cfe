"""M5's splits beside the definition, node for node."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from level_batches import NodeRows, find, level_of

from secret_jax import SecretRegressor
from secret_jax.learners import CartSplits, M5Splits

LEAST = 8


def rows(seed, n=300):
    """Many ordinary rows, and few that lie far off."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * random.normal(size=n)
    return X, y + 9.0 * (X[:, 1] > 1.9)


def m5(**parameters):
    options = {"splits": M5Splits(), "min_samples_leaf": LEAST} | parameters
    return SecretRegressor.literature("cart", **options)


def best_split(X, y, weight):
    """(gain, column, lowest, highest threshold) by the definition, in float64."""

    def spread(some):
        total = weight[some].sum()
        mean = weight[some] @ y[some] / total
        return total * np.sqrt(weight[some] @ (y[some] - mean) ** 2 / total)

    every = np.ones(len(y), bool)
    found = []
    for column in range(X.shape[1]):
        values = np.unique(X[:, column])
        for low, high in pairwise(values):
            left = X[:, column] <= low
            if min(weight[left].sum(), weight[~left].sum()) >= LEAST:
                gain = spread(every) - spread(left) - spread(~left)
                found.append((gain, column, low, high))
    return max(found, default=None)


def assert_definition(model, X, y, weight):
    """Walk the tree: every split is the best one of its rows, every leaf is none."""
    tree, schema = model.tree_, model.tree_.schema
    scale = schema.target_scale
    waiting, n_splits = [(0, np.ones(len(y), bool))], 0
    while waiting:
        node, inside = waiting.pop()
        best = best_split(X[inside], y[inside], weight[inside])
        mean = np.average(y[inside], weights=weight[inside])
        spread = np.sqrt(np.average((y[inside] - mean) ** 2, weights=weight[inside]))
        if tree.left[node] < 0:
            assert best is None or spread <= 0.05 * scale
            continue
        assert spread > 0.05 * scale
        gain, column, low, high = best
        assert int(tree.attribute[node]) == column
        threshold = tree.threshold[node] * schema.scale[column] + schema.center[column]
        assert low - 1e-5 <= threshold <= high + 1e-5
        assert tree.gain[node] * scale == pytest.approx(gain, rel=1e-3)
        left = X[:, column] <= low
        waiting.append((int(tree.left[node]), inside & left))
        waiting.append((int(tree.right[node]), inside & ~left))
        n_splits += 1
    return n_splits


def test_every_split_lowers_the_deviations_most():
    X, y = rows(0)
    model = m5().fit(X, y)
    assert assert_definition(model, X, y, np.ones(len(y))) > 15
    # The rows far off are not the first thing: the variance would take them first.
    tree = m5(max_depth=1, splits=CartSplits()).fit(X, y).tree_
    assert int(tree.attribute[0]) == 1


def test_weights_count():
    X, y = rows(1)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    model = m5(max_depth=3).fit(X, y, sample_weight=weight)
    tree, scale = model.tree_, model.tree_.schema.target_scale
    gain, column, *_ = best_split(X, y, weight / weight.mean())
    assert int(tree.attribute[0]) == column
    assert tree.gain[0] * scale == pytest.approx(gain, rel=1e-3)


def test_what_hardly_varies_is_not_split():
    X, y = rows(2)
    y = np.where(X[:, 0] > 0, 100.0, 0.0) + 0.5 * y
    assert m5(splits=M5Splits(least_deviation=0.1)).fit(X, y).n_leaves_ == 2
    assert m5(splits=M5Splits(least_deviation=0.0)).fit(X, y).n_leaves_ > 10


def gain_of(x, target):
    """What the best split of one node of plain rows gains."""
    least = np.full(1, LEAST, np.float32)
    level = level_of(M5Splits(), [NodeRows(x[:, None], target)], min_weight=least)
    return find(level, M5Splits()).gain[0]


def test_noise_of_many_rows_gains_what_it_does_in_float64():
    n = 1 << 18
    random = np.random.default_rng(1)
    value = random.normal(size=n)
    target = (value - value.mean()) / value.std()
    order = random.permutation(n)
    x = np.argsort(order).astype(np.float32)
    found = float(gain_of(x, target.astype(np.float32)))
    ranked = target[np.argsort(x)]
    count = np.arange(1, n)
    sums, squares = np.cumsum(ranked)[:-1], np.cumsum(ranked**2)[:-1]
    left = np.sqrt(squares / count - (sums / count) ** 2)
    rest = n - count
    right = np.sqrt(
        (squares[-1] + ranked[-1] ** 2 - squares) / rest - (sums / rest) ** 2
    )
    gain = n - count * left - rest * right
    inside = np.minimum(count, rest) >= LEAST
    assert found == pytest.approx(gain[inside].max(), rel=0.02)
