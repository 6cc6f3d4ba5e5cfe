"""CART on the common driver: scikit-learn's trees, node for node."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from configurations import shop
from scikit_trees import nodes_beside
from sklearn.tree import DecisionTreeRegressor

from secret_jax import CostComplexity, SecretClassifier, SecretRegressor
from secret_jax.learners import CartSplits


def cart(criterion="variance", **parameters):
    """The tree that scikit-learn grows: nothing sampled, pruned, clipped or priced."""
    defaults = {
        "splits": CartSplits(criterion=criterion, max_samples=None),
        "min_samples_leaf": 5,
    }
    return SecretRegressor.literature("cart", **defaults | parameters)


def rows(seed, n=400):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 100.0, 0.0, -5.0]
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.sin(2 * z[:, 0]) + z[:, 1] * z[:, 2] + 0.3 * random.normal(size=n)
    return X, y


def assert_same_tree(ours, reference, X):
    """Splits, thresholds, weights and means of every node."""
    tree, theirs = ours.tree_, reference.tree_
    for node, other in nodes_beside(ours, reference, X):
        own = tree.schema.restore_targets(tree.coefficient[node : node + 1, :, 0])
        np.testing.assert_allclose(own.ravel(), theirs.value[other].ravel(), atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_variance_grows_the_regressor_of_scikit_learn(n_outputs, weighted):
    X, y = rows(n_outputs + 4 * weighted)
    weight, least, theirs = np.ones(len(y)), 5, {"min_samples_leaf": 5}
    if weighted:
        weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
        least, theirs = 0.02, {"min_weight_fraction_leaf": 0.02}
    if n_outputs > 1:  # we compare in units of the deviations
        y = np.column_stack([y, X[:, 0] * X[:, 3]])
        y = y - np.average(y, axis=0, weights=weight)
        y /= np.sqrt(np.average(y**2, axis=0, weights=weight))
    reference = DecisionTreeRegressor(**theirs).fit(X, y, sample_weight=weight)
    ours = cart(min_samples_leaf=least).fit(X, y, sample_weight=weight)
    assert ours.n_leaves_ == reference.get_n_leaves() > 15
    assert_same_tree(ours, reference, X)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_splits_that_save_nothing_are_made_as_the_next_ones_may(criterion):
    cells = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 10, axis=0)
    exclusive = (cells[:, 0] != cells[:, 1]).astype(float)
    splits = CartSplits(criterion=criterion)
    classes = SecretClassifier.literature("cart", splits=splits).fit(cells, exclusive)
    assert classes.score(cells, exclusive) == 1.0
    assert classes.n_leaves_ == 4
    numbers = SecretRegressor.literature("cart").fit(cells, exclusive)
    np.testing.assert_allclose(numbers.predict(cells), exclusive, atol=1e-6)


def test_categories_and_gaps_are_cut_where_the_sum_of_squares_drops_most():
    frame, price = shop(110)
    frame.loc[::4, "width"] = np.nan
    model = cart(max_leaf_nodes=2, min_samples_leaf=8, equation_tolerance=0.0)
    left = np.asarray(model.fit(frame, price).apply(frame) == 1)

    def gain(left):
        if min(left.sum(), (~left).sum()) < 8:
            return -np.inf
        return sum(price[s].sum() ** 2 / s.sum() for s in (left, ~left))

    sides = []
    for name in frame:
        column = frame[name]
        if column.dtype == object:
            order = pd.Series(price).groupby(column.to_numpy()).mean().sort_values()
            sides += [column.isin(order.index[:k]) for k in range(1, len(order))]
            continue
        gone = column.isna()
        for cut in column.dropna().unique():
            sides += [column <= cut, (column <= cut) | gone]
    best = max(gain(side.to_numpy()) for side in sides)
    assert gain(left) == pytest.approx(best, rel=1e-6)


def test_cost_complexity_path_is_that_of_scikit_learn():
    X, y = rows(1)
    reference = DecisionTreeRegressor(min_samples_leaf=5)
    theirs = reference.cost_complexity_pruning_path(X, y)
    ours = cart().cost_complexity_pruning_path(X, y)
    np.testing.assert_allclose(ours.ccp_alphas, theirs.ccp_alphas, atol=1e-7)
    np.testing.assert_allclose(ours.impurities, theirs.impurities, atol=1e-6)
    assert len(ours.ccp_alphas) > 40
    alpha = float(np.sqrt(theirs.ccp_alphas[-9] * theirs.ccp_alphas[-8]))
    pruned = cart(prune=CostComplexity(alpha=alpha)).fit(X, y)
    reference.set_params(ccp_alpha=alpha).fit(X, y)
    assert_same_tree(pruned, reference, X)
