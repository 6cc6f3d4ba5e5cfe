"""CART's classifier on the common driver: scikit-learn's trees, node for node."""

from __future__ import annotations

import numpy as np
import pytest
from level_batches import find, mixed_level, node_rows, with_rows
from scikit_trees import nodes_beside
from sklearn.tree import DecisionTreeClassifier

from secret_jax import CostComplexity, SecretClassifier
from secret_jax.learners import CartSplits
from secret_jax.models.glm import ClassFrequencies

# Large leaves: counts of few rows tie, and either split would be right.
LEAST = 100


def rows(seed, cuts=(-0.7, 0.6)):
    random = np.random.default_rng(seed)
    X = random.normal(size=(3000, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 100.0, 0.0, -5.0]
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    # So much noise that no side of a split is pure: pure sides tie.
    y = np.sin(2 * z[:, 0]) + z[:, 1] * z[:, 2] + 0.7 * random.normal(size=3000)
    names = np.array(["low", "middle", "high"])
    return X, names[np.digitize(y, cuts)]


def cart(criterion, **parameters):
    leaf = ClassFrequencies(
        prior=0.0,
        clip_margin=None,
        impurity="gini" if criterion == "gini" else "entropy",
    )
    splits = CartSplits(criterion=criterion, max_samples=None)
    defaults = {"splits": splits, "leaf": leaf, "min_samples_leaf": LEAST}
    return SecretClassifier.literature("cart", **defaults | parameters)


def assert_same_tree(ours, reference, X):
    """Attributes, thresholds, weights and shares of every node."""
    tree, theirs = ours.tree_, reference.tree_
    for node, other in nodes_beside(ours, reference, X):
        shares = theirs.value[other][0][-tree.n_outputs :]
        np.testing.assert_allclose(tree.mean[node], shares, atol=1e-6)


@pytest.mark.parametrize(
    ("criterion", "cuts"), [("gini", (-0.7, 0.6)), ("entropy", (0.2, 9.0))]
)
def test_the_tree_is_that_of_scikit_learn(criterion, cuts):
    # Of other seeds some have equally good splits, of which scikit-learn draws one.
    X, y = rows(3, cuts)
    reference = DecisionTreeClassifier(criterion=criterion, min_samples_leaf=LEAST)
    reference.fit(X, y)
    ours = cart(criterion).fit(X, y)
    assert ours.n_leaves_ == reference.get_n_leaves() > 12
    assert_same_tree(ours, reference, X)
    np.testing.assert_array_equal(ours.classes_, reference.classes_)
    found, expected = ours.predict_proba(X), reference.predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), reference.predict(X))


def test_weights_of_rows_classes_and_priors_count_as_in_scikit_learn():
    X, y = rows(3)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    factors = {"low": 2.0, "middle": 1.0, "high": 3.0}
    reference = DecisionTreeClassifier(
        min_weight_fraction_leaf=0.03, class_weight=factors
    )
    reference.fit(X, y, sample_weight=weight)
    ours = cart("gini", min_samples_leaf=0.03, class_weight=factors)
    ours.fit(X, y, sample_weight=weight)
    assert ours.n_leaves_ == reference.get_n_leaves() > 12
    assert_same_tree(ours, reference, X)
    # Priors are weights of the classes.
    priors = {"high": 0.5, "low": 0.3, "middle": 0.2}
    factors = {name: 3000 * s / np.sum(y == name) for name, s in priors.items()}
    reference.set_params(class_weight=factors).fit(X, y)
    ours = cart("gini", min_samples_leaf=0.03, priors=priors).fit(X, y)
    assert ours.n_leaves_ == reference.get_n_leaves() > 12
    np.testing.assert_allclose(ours.tree_.mean[0], [0.5, 0.3, 0.2], rtol=1e-9)
    found, expected = ours.predict_proba(X), reference.predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_cost_complexity_path_is_that_of_scikit_learn():
    (X, y), criterion = rows(1), "entropy"
    reference = DecisionTreeClassifier(criterion=criterion, min_samples_leaf=LEAST)
    theirs = reference.cost_complexity_pruning_path(X, y)
    unit = np.log(2.0)  # they count bits
    ours = cart(criterion).cost_complexity_pruning_path(X, y)
    np.testing.assert_allclose(ours.ccp_alphas, unit * theirs.ccp_alphas, atol=1e-6)
    np.testing.assert_allclose(ours.impurities, unit * theirs.impurities, atol=1e-6)
    alpha = float(np.sqrt(theirs.ccp_alphas[-5] * theirs.ccp_alphas[-4]))
    pruned = cart(criterion, prune=CostComplexity(alpha=unit * alpha)).fit(X, y)
    assert_same_tree(pruned, reference.set_params(ccp_alpha=alpha).fit(X, y), X)


def test_misclassification_counts_the_rows_of_smaller_classes():
    X, y = rows(2)
    ours = cart("misclassification", max_depth=1).fit(X, y)
    member = y[:, None] == ours.classes_

    def wrong(left):
        sides = [member[side].sum(axis=0) for side in (left, ~left)]
        if min(side.sum() for side in sides) < LEAST:
            return len(y)
        return sum(side.sum() - side.max() for side in sides)

    least = min(
        wrong(X[:, column] <= cut) for column in range(4) for cut in X[::3, column]
    )
    left = ours.apply(X) == ours.tree_.left[0]
    assert wrong(left) <= least
    saved = member.sum(axis=0).sum() - member.sum(axis=0).max() - wrong(left)
    assert ours.tree_.gain[0] == pytest.approx(saved)


@pytest.mark.parametrize(
    ("criterion", "n_classes"), [("gini", 2), ("entropy", 3), ("misclassification", 3)]
)
def test_shares_of_classes_are_no_indicators(criterion, n_classes):
    """What is learned of other trees: their range in a node is no unit."""
    finder = CartSplits(criterion=criterion)
    level = mixed_level(finder)
    level.allowed[:, len(level.x) :] = False
    random = np.random.default_rng(0)
    share = np.exp(0.3 * random.normal(size=(n_classes, len(level.weight))))
    share[0] += 0.2 * (level.x[1] > 0.4) + 3.0
    share /= share.sum(axis=0)
    outputs = share[1:] if n_classes == 2 else share
    cuts = level.rows.first[1:]
    shares, outputs = (np.split(a.T, cuts) for a in (share, outputs))
    nodes = [node_rows(level, node) for node in range(level.n_nodes)]
    pairs = zip(nodes, outputs, strict=True)
    found = find(with_rows(level, [n._replace(targets=y) for n, y in pairs]), finder)

    def impurity(part):
        mean = part.mean(axis=0)
        if criterion == "gini":  # of two classes the tree has one indicator
            rest = part[:, 1:] if n_classes == 2 else part
            return len(part) * np.sum(np.mean(rest**2, axis=0) - rest.mean(axis=0) ** 2)
        if criterion == "entropy":
            return -len(part) * np.sum(mean * np.log(mean))
        return len(part) * (1.0 - mean.max())

    for node, (rows, own) in enumerate(zip(nodes, shares, strict=True)):
        x = rows.x
        gains = [
            impurity(own) - impurity(own[side]) - impurity(own[~side])
            for column in range(x.shape[1])
            for side in (x[:, [column]] <= np.sort(x[:, column])[7:-8]).T
        ]
        if criterion != "misclassification":  # one class leads everywhere
            assert max(gains) > 0
            assert found.gain[node] == pytest.approx(max(gains), rel=2e-3)
        else:
            assert found.gain[node] == pytest.approx(max(gains), abs=1e-3)
