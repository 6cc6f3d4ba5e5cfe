"""The pruning rules of CART, GUIDE and M5, and all rules with all leaf models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from configurations import crease
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeRegressor

from secret_jax import SecretClassifier, SecretRegressor, StandardErrors
from secret_jax.data.encoding import encode
from secret_jax.data.rows import Rows
from secret_jax.estimators.parameters import CLASS_NAMED, NAMED, value_of
from secret_jax.fit.interface import Evidence
from secret_jax.fit.prune.rules import InformationCriterion
from secret_jax.learners import M5Pruning
from secret_jax.tree.reshape import compact
from secret_jax.tree.routing import apply, values
from secret_jax.tree.totals import model_degrees, split_degrees

SEEN: list[Evidence] = []


@dataclass(frozen=True, kw_only=True)
class Watched(StandardErrors):
    """Tells what it was given."""

    def __call__(self, tree, evidence):
        SEEN.append(evidence)
        return super().__call__(tree, evidence)


def noisy_steps(seed, n_rows=240):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3))
    y = np.floor(2 * X[:, 0]) + (X[:, 1] > 0.3) * np.floor(X[:, 2])
    return X, y + 0.7 * random.normal(size=n_rows)


@pytest.mark.parametrize(("seed", "factor"), [(0, 0.0), (1, 0.5), (2, 1.0)])
def test_standard_errors_choose_as_the_book_says_with_scikit_learns_trees(seed, factor):
    X, y = noisy_steps(seed)
    SEEN.clear()
    rule = Watched(factor=factor, n_folds=10)
    model = SecretRegressor.literature("cart", prune=rule, min_samples_leaf=5)
    model.fit(X, y)
    evidence = SEEN[-1]
    x, target = np.asarray(evidence.training.table.x), evidence.training.targets[:, 0]

    def grown(rows, alpha=0.0):
        tree = DecisionTreeRegressor(
            min_samples_leaf=5, ccp_alpha=alpha, random_state=0
        )
        return tree.fit(x[rows], target[rows])

    everyone = np.ones(len(x), bool)
    alphas = DecisionTreeRegressor(
        min_samples_leaf=5, random_state=0
    ).cost_complexity_pruning_path(x, target)["ccp_alphas"]
    alphas = np.unique(np.maximum(alphas, 0.0))
    typical = np.sqrt(alphas[:-1] * alphas[1:])
    losses = np.zeros((len(alphas), len(x)))
    for part in evidence.unseen:
        for index, alpha in enumerate(typical):
            said = grown(~part, alpha).predict(x[part])
            losses[index, part] = (said - target[part]) ** 2
        losses[-1, part] = (target[~part].mean() - target[part]) ** 2
    mean = losses.mean(axis=1)
    least = np.flatnonzero(mean <= mean.min() + 1e-12)[-1]
    most = mean[least] + factor * losses[least].std() / np.sqrt(len(x))
    best = np.flatnonzero(mean <= most + 1e-12)[-1]
    expected = grown(everyone, alphas[best] + 1e-12)
    assert len(evidence.unseen) == 10
    assert model.n_leaves_ == expected.get_n_leaves()
    said = values(model.tree_, evidence.training.table)[:, 0]
    np.testing.assert_allclose(said, expected.predict(x), atol=1e-5)


@pytest.mark.parametrize("leaf", ["linear", "m5"])
def test_m5_keeps_what_its_estimate_says_is_better(leaf):
    X, y = crease()
    model = SecretRegressor(leaf=leaf, splits="cart", prune=None, equation_tolerance=0)
    model.set_params(min_samples_split=8, min_samples_leaf=4, leaf__clip_margin=None)
    tree = model.fit(X, y).tree_
    table, target = encode(tree.schema, X), tree.schema.scale_targets(y[:, None])
    rows = Rows(table, target, np.ones(len(y)))
    found = M5Pruning()(tree, Evidence(rows, leaf=value_of("leaf", model.leaf)))
    if leaf == "m5":  # which is pruned before it is smoothed
        tree = model.set_params(leaf__smoothing=0.0).fit(X, y).tree_
    at = apply(tree, table)
    inside = np.zeros((tree.n_nodes, len(y)), bool)
    for row, node in enumerate(at):
        while node >= 0:
            inside[node, row] = True
            node = tree.parent[node]
    x = np.asarray(table.x).astype(float)[:, : tree.schema.n_regressors]

    def corrected(size, spent, n):
        return (n + spent) / (n - spent) * size if n > spent else np.inf

    def kept(node):
        """Absolute residuals, parameters and leaves of what is best from here on."""
        own, n = inside[node], inside[node].sum()
        model = tree.coefficient[node, 0]
        size = np.abs(model[0] + x[own] @ model[1:] - target[own, 0]).sum()
        spent = min(4, n) if leaf == "linear" else 1 + np.count_nonzero(model[1:])
        if tree.left[node] < 0:
            return size, spent, 1
        left, right = kept(tree.left[node]), kept(tree.right[node])
        below = left[0] + right[0], left[1] + right[1] + 1, left[2] + right[2]
        if corrected(*below[:2], n) < corrected(size, spent, n):
            return below
        return size, spent, 1

    size, spent, n_leaves = kept(0)
    error = corrected(size, spent, len(y))
    # The loss of medians is half of absolute errors.
    assert found.value == pytest.approx(error / 2, rel=1e-4)
    assert found.tree.n_leaves == n_leaves
    assert 1 < n_leaves < tree.n_leaves


@pytest.mark.parametrize("criterion", ["aic", "bic", "icomp"])
def test_a_criterion_of_classes_equals_its_definition(criterion):
    X, y = load_iris(return_X_y=True)
    model = SecretClassifier(splits="cart", leaf="constant", prune=None, distill=False)
    tree = model.set_params(min_samples_split=6, min_samples_leaf=2).fit(X, y).tree_
    rows = Rows(encode(tree.schema, X), np.eye(3)[y], np.ones(len(y)))
    found = InformationCriterion(criterion=criterion)(tree, Evidence(rows))
    pruned, n = found.tree, len(y)
    chance = np.exp(values(pruned, rows.table))
    chance /= chance.sum(axis=1, keepdims=True)
    k = 2 * model_degrees(pruned)[pruned.is_leaf].sum() + split_degrees(pruned).sum()
    penalty = {"aic": 2.0 * n / (n - k - 1) * k, "bic": np.log(n) * k}
    # Of a class's logarithm in a leaf: the variance of weighted least squares.
    leaf = pruned.is_leaf
    share = np.clip(pruned.mean[leaf], 1e-12, 1)
    inverse = 1 / (np.maximum(share * (1 - share), 1e-4) * pruned.weight[leaf][:, None])
    q = inverse.size
    c1 = q / 2 * np.log(inverse.sum() / q) - 0.5 * np.log(inverse).sum()
    penalty["icomp"] = 2 * c1 + 2 * split_degrees(pruned).sum()
    expected = -2.0 * np.log(chance[np.arange(n), y]).sum() + penalty[criterion]
    assert found.value == pytest.approx(expected, rel=1e-4)
    assert 1 < pruned.n_leaves < tree.n_leaves
    root = compact(tree, np.zeros(tree.n_nodes, bool))
    of_root = InformationCriterion(criterion=criterion)(root, Evidence(rows))
    assert found.value < of_root.value


@pytest.mark.parametrize("loss", ["absolute", "gamma"])
def test_what_is_no_likelihood_has_no_criterion(loss):
    X, y = crease(64)
    y = y - y.min() + 1.0
    with pytest.raises(ValueError, match="not defined for"):
        SecretRegressor(loss=loss, prune="aic").fit(X, y)


SMALL = {"splits": "cart", "distill": False, "max_depth": 2, "oblique": False}
LEAVES = ("ridge", "linear", "constant", "simple", "m5")
RULES = [name for name in NAMED["prune"] if name]


@pytest.mark.parametrize("place", range(len(RULES)))
def test_any_rule_with_a_leaf_and_with_counts(place):
    X, y = crease(80)
    rule, leaf = RULES[place], LEAVES[place % len(LEAVES)]
    model = SecretRegressor(leaf=leaf, prune=rule, **SMALL).fit(X, y)
    assert 1 <= model.n_leaves_ <= 4
    assert model.score(X, y) > 0.1
    if rule in ("holdout", "guide", "aic", "m5"):
        model = SecretRegressor(loss="poisson", prune=rule, **SMALL)
        assert (model.fit(X, np.round(np.abs(y))).predict(X) > 0).all()


@pytest.mark.parametrize("rule", ["holdout", "cross-validation", "bic", "guide"])
def test_any_rule_where_leaves_spend_less_than_their_parent(rule):
    random = np.random.default_rng(2)
    side = np.repeat([-1.0, 1.0], 60)
    X = side[:, None] * random.uniform(0.5, 3.0, (120, 4))
    y = side + 0.3 * random.normal(size=120)
    grown = SecretRegressor(leaf="m5", prune=None, **SMALL).fit(X, y)
    spent = grown.tree_.degrees
    assert spent[0] > 1 + spent[grown.tree_.left[0]] + spent[grown.tree_.right[0]]
    model = SecretRegressor(leaf="m5", prune=rule, **SMALL).fit(X, y)
    assert 1 <= model.n_leaves_ <= grown.n_leaves_
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("rule", [name for name in CLASS_NAMED["prune"] if name])
def test_any_rule_with_classes(rule):
    X, y = load_iris(return_X_y=True)
    leaf = "constant" if rule in ("bic", "guide", "m5", "holdout") else "logistic"
    model = SecretClassifier(leaf=leaf, prune=rule, **SMALL).fit(X, y)
    assert model.score(X, y) > 0.9
