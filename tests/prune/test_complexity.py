"""Pruning on the training rows: weakest links, cross-validation, criteria."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from configurations import (
    assert_same_tree,
    crease,
    every_configuration,
    refusal,
    regressor,
    shop,
)
from handmade import SHAPES, build_tree
from sklearn.tree import DecisionTreeRegressor

from secret_jax import SecretRegressor
from secret_jax.models.leaves import NodeStatistics
from secret_jax.prune.cross_validation import folds
from secret_jax.prune.path import (
    by_criterion,
    covariance_complexity,
    model_degrees,
    split_degrees,
    weakest_links,
)
from secret_jax.tree.routing import predict
from secret_jax.tree.structure import SplitKind, compact

RULES = ["cross-validation", "aic", "bic", "icomp"]
every_rule = pytest.mark.parametrize("rule", RULES)


def all_subtrees(tree):
    inner = np.flatnonzero(~tree.is_leaf)
    for choice in itertools.product([False, True], repeat=len(inner)):
        keep = np.zeros(tree.n_nodes, bool)
        keep[inner] = choice
        yield compact(tree, keep)


def leaf_error(tree):
    """The errors of the leaves, which these trees keep in ``train_error``."""
    return tree.train_error[tree.is_leaf].sum()


def with_errors(shape, seed):
    """A tree whose nodes carry random errors; children may err more than parents."""
    tree = build_tree(SHAPES[shape], seed)
    error = np.random.default_rng(seed).uniform(0, 10, tree.n_nodes) / (1 + tree.depth)
    return dataclasses.replace(tree, train_error=error)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_every_subtree_is_the_best_at_its_price(shape, seed):
    tree = with_errors(shape, seed)
    path = weakest_links(tree, tree.train_error)
    assert path.alphas[0] == 0
    assert (np.diff(path.alphas) > 0).all()
    best = [(leaf_error(t), t.n_leaves) for t in all_subtrees(tree)]
    upper = np.append(path.alphas[1:], path.alphas[-1] + 1)
    for index, (low, high) in enumerate(zip(path.alphas, upper, strict=True)):
        subtree = path.subtree(tree, index)
        found = leaf_error(subtree), subtree.n_leaves
        for price in (low, 0.5 * (low + high)):
            least = min(error + price * size for error, size in best)
            assert found[0] + price * found[1] == pytest.approx(least)
    assert path.subtree(tree, len(path.alphas) - 1).n_leaves == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_totals_are_sums_over_the_leaves_of_the_subtrees(shape):
    tree = with_errors(shape, 5)
    path = weakest_links(tree, tree.train_error)
    for index, total in enumerate(path.totals(tree.train_error)):
        assert total == pytest.approx(leaf_error(path.subtree(tree, index)))


def test_sizes_need_not_be_one():
    tree = with_errors("bushy", 0)
    twice = weakest_links(tree, tree.train_error, np.full(tree.n_nodes, 2.0))
    once = weakest_links(tree, tree.train_error)
    np.testing.assert_allclose(2 * twice.alphas, once.alphas)
    assert np.array_equal(twice.step, once.step)


def test_the_path_is_that_of_scikit_learn():
    X, y = crease(128)
    cart = DecisionTreeRegressor(min_samples_leaf=5, random_state=0).fit(X, y)
    whole = cart.tree_
    # scikit-learn numbers depth first, so parents come before children there too.
    links = list(zip(whole.children_left, whole.children_right, strict=True))
    tree = build_tree(links, seed=0)
    error = whole.impurity * whole.weighted_n_node_samples / len(y)
    path = weakest_links(tree, error)
    expected = cart.cost_complexity_pruning_path(X, y)
    np.testing.assert_allclose(path.alphas, expected.ccp_alphas, atol=1e-12)
    np.testing.assert_allclose(path.totals(error), expected.impurities)


@every_configuration
def test_each_price_of_the_path_gives_its_error(configuration):
    X, y = crease()
    model = regressor(configuration, prune=None)
    path = model.cost_complexity_pruning_path(X, y)
    assert not hasattr(model, "tree_")
    grown = model.fit(X, y).n_leaves_
    assert len(path.ccp_alphas) == len(path.impurities) > 1
    assert (np.diff(path.impurities) > 0).all()
    chosen = np.unique([0, len(path.ccp_alphas) // 2, len(path.ccp_alphas) - 1])
    sizes = []
    for alpha, impurity in zip(
        path.ccp_alphas[chosen], path.impurities[chosen], strict=True
    ):
        model.set_params(ccp_alpha=float(alpha)).fit(X, y)
        assert np.mean((model.predict(X) - y) ** 2) == pytest.approx(impurity, rel=1e-4)
        assert model.n_leaves_grown_ == grown
        sizes.append(model.n_leaves_)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1


def test_prices_are_in_units_of_the_target_squared():
    X, y = crease()
    one = regressor("paper").cost_complexity_pruning_path(X, y)
    eight = regressor("paper").cost_complexity_pruning_path(X, 8 * y + 16)
    np.testing.assert_allclose(eight.ccp_alphas, 64 * one.ccp_alphas, rtol=1e-6)
    np.testing.assert_allclose(eight.impurities, 64 * one.impurities, rtol=1e-6)


def test_a_price_and_a_rule_are_refused_together():
    with refusal("ccp_alpha=0.5", "prune='holdout'", "prune=None"):
        SecretRegressor(prune="holdout", ccp_alpha=0.5).fit(*crease())


@every_rule
def test_pruning_rows_are_refused_where_none_are_used(rule):
    with refusal("prune_set", repr(rule), "'holdout'"):
        SecretRegressor(prune=rule).fit(*crease(), prune_set=crease(seed=1))


@every_rule
@pytest.mark.parametrize("configuration", ["default", "paper"])
def test_all_rows_are_trained_on(rule, configuration):
    X, y = crease()
    model = regressor(configuration, prune=rule).fit(X, y)
    grown = regressor(configuration, prune=None).fit(X, y)
    assert model.tree_.weight[0] == len(y)
    assert 1 < model.n_leaves_ <= model.n_leaves_grown_
    if configuration == "paper":
        assert model.n_leaves_grown_ == grown.n_leaves_
    assert model.score(*crease(seed=9)) > 0.8


@every_rule
def test_the_order_of_rows_and_their_repetition_change_nothing(rule):
    X, y = shop()
    weight = np.random.default_rng(0).integers(1, 3, len(y))
    model = regressor("default", prune=rule).fit(X, y, weight)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight))
    again = regressor("default", prune=rule)
    again.fit(X.iloc[order].reset_index(drop=True), y.iloc[order].to_numpy())
    assert_same_tree(again.tree_, model.tree_)


@every_rule
def test_nothing_is_left_of_noise(rule):
    X, _ = crease()
    y = np.random.default_rng(3).normal(size=len(X))
    # The criteria know nothing of the search, so they are given a small one.
    few = {"max_depth": 1, "oblique": False, "criterion": "gini"}
    model = regressor("default", prune=rule, **few).fit(X, y)
    assert model.n_leaves_ == 1


def test_constant_outputs_and_single_rows():
    X, _ = crease()
    for rule in RULES:
        model = regressor("paper", prune=rule).fit(X, np.full(len(X), 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0)
        assert regressor("paper", prune=rule).fit(X[:1], [2.0]).predict(X[:1]) == [2.0]


def test_parts_have_like_weight_and_keep_their_order():
    weight = np.random.default_rng(0).integers(1, 5, 1000).astype(float)
    fold = folds(weight, 5)
    assert (np.diff(fold) >= 0).all()
    np.testing.assert_allclose(
        np.bincount(fold, weight), weight.sum() / 5, atol=weight.max()
    )
    assert folds(np.ones(3), 5).max() < 5


def test_cross_validation_measures_trees_on_rows_they_have_not_seen():
    # A price that is chosen on the training rows themselves would be zero.
    X, y = crease(256)
    noisy = y + np.random.default_rng(0).normal(size=len(y)) * 2
    model = regressor("paper", prune="cross-validation").fit(X, noisy)
    assert model.n_leaves_ < 0.5 * model.n_leaves_grown_


def fitted_tree(**changes):
    X, y = shop()
    model = regressor("default", prune=None, oblique=True, **changes).fit(X, y)
    tree = model.tree_
    table = tree.schema.encode(X)
    return tree, table, tree.schema.scale_target(y.to_numpy()), np.ones(len(y))


@pytest.mark.parametrize("criterion", ["aic", "bic"])
def test_a_criterion_equals_its_definition(criterion):
    tree, table, y, weight = fitted_tree()
    pruned, value = by_criterion(tree, table, y, weight, criterion)
    residual = y - tree.schema.scale_target(predict(pruned, table))
    n = len(y)
    degrees = model_degrees(pruned)[pruned.is_leaf].sum() + split_degrees(pruned).sum()
    k = degrees + 1
    price = 2.0 * n / (n - k - 1) if criterion == "aic" else np.log(n)
    expected = n * np.log(residual @ residual / n) + price * k
    assert value == pytest.approx(expected, rel=1e-4)
    root = compact(tree, np.zeros(tree.n_nodes, bool))
    assert value < by_criterion(root, table, y, weight, criterion)[1]


def test_bic_keeps_fewer_leaves_than_aic():
    tree, table, y, weight = fitted_tree(min_samples_leaf=3, discrete_regressors=False)
    sizes = [
        by_criterion(tree, table, y, weight, name)[0].n_leaves
        for name in ("aic", "bic")
    ]
    assert sizes[0] > sizes[1] > 1


def test_the_complexity_is_that_of_the_whole_covariance_matrix(rng):
    # A stump: the path has the two leaves and the root.
    tree = with_errors("stump", 0)
    path = weakest_links(tree, np.array([3.0, 1.0, 1.0]))
    p, weight = 2, np.array([30.0, 10.0, 20.0])
    roots = rng.normal(size=(3, p + 1, p + 1))
    scatter = roots @ roots.transpose(0, 2, 1)
    unused = np.zeros(3)
    statistics = NodeStatistics(weight, np.zeros((3, p + 1)), scatter, unused, unused)
    variance = np.array([0.3, 0.7])
    found = covariance_complexity(path, statistics, variance)

    def complexity(leaves, noise):
        blocks = [np.array([[2 * noise**2 / weight[0]]])]
        for leaf in leaves:
            blocks += [
                np.array([[noise / weight[leaf]]]),
                noise * np.linalg.inv(scatter[leaf, :-1, :-1] + np.eye(p)),
            ]
        q = sum(len(block) for block in blocks)
        matrix, at = np.zeros((q, q)), 0
        for block in blocks:
            matrix[at : at + len(block), at : at + len(block)] = block
            at += len(block)
        return q / 2 * np.log(np.trace(matrix) / q) - np.linalg.slogdet(matrix)[1] / 2

    expected = [complexity([1, 2], 0.3), complexity([0], 0.7)]
    np.testing.assert_allclose(found, expected)
    # C1 is zero for equal eigenvalues only, and never negative.
    assert (found > 0).all()


def test_degrees_of_least_squares_are_its_coefficients():
    tree, *_ = fitted_tree(leaf="linear", min_samples_leaf=8)
    np.testing.assert_array_equal(model_degrees(tree), 1.0 + tree.schema.n_regressors)


def test_degrees_of_shrunken_models_lie_between():
    tree, *_ = fitted_tree()
    degrees = model_degrees(tree)
    assert (degrees >= tree.degrees - 1e-9).all()
    assert (degrees <= 1.0 + tree.schema.n_regressors).all()
    assert degrees[0] == tree.degrees[0]


def test_degrees_of_splits():
    X, y = shop()
    tree = regressor("default", prune=None, oblique=True, discrete_regressors=False)
    tree = tree.fit(X, y).tree_
    degrees = split_degrees(tree)
    expected = {SplitKind.LEAF: 0, SplitKind.AXIS: 1, SplitKind.DISCRETE: 3}
    for kind, number in expected.items():
        assert (degrees[tree.kind == kind] == number).all()
    assert (degrees[tree.kind == SplitKind.OBLIQUE] == 2).all()
    assert set(tree.kind) >= {SplitKind.LEAF, SplitKind.DISCRETE}
