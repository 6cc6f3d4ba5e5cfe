"""The laws of pruning: held-out rows, weakest links, folds, criteria."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from configurations import crease, regressor, shop
from handmade import BUSHY, SHAPES, build_tree, rows, subtrees

from secret_jax import CostComplexity, CrossValidation, HoldOut, Ridge, SecretRegressor
from secret_jax.data.encoding import encode
from secret_jax.data.rows import Rows
from secret_jax.datasets import make_3dsin
from secret_jax.fit import interface
from secret_jax.fit.interface import Evidence
from secret_jax.fit.prepare import parts_of
from secret_jax.fit.prune.path import (
    penalised,
    training_errors,
    training_path,
    weakest_links,
)
from secret_jax.fit.prune.rules import InformationCriterion, covariance_complexity
from secret_jax.models.statistics import NodeStatistics
from secret_jax.tree.reshape import compact
from secret_jax.tree.routing import values
from secret_jax.tree.structure import SplitKind, StopReason, Tree
from secret_jax.tree.totals import model_degrees, split_degrees


def evidence(
    n_outputs: int = 1, weight: np.ndarray | None = None, seed: int = 9
) -> Evidence:
    """Fifty rows with any outputs, which prune and did not train."""
    table = rows()
    n_rows = len(table.x)
    targets = np.random.default_rng(seed).normal(size=(n_rows, n_outputs))
    weight = np.ones(n_rows) if weight is None else weight
    held_out = Rows(table, targets, weight)
    return Evidence(held_out.take(slice(0)), held_out)


def error_of(tree: Tree, part: Rows) -> float:
    residual = values(tree, part.table) - part.targets
    return float(part.weight @ (residual**2).sum(axis=1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clip_margin", [None, 0.1])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_pruning_finds_the_best_of_all_subtrees(shape, clip_margin, n_outputs):
    weight = np.random.default_rng(1).uniform(0.5, 2, 50)
    given = evidence(n_outputs, weight)
    for seed in range(3):
        tree = build_tree(SHAPES[shape], seed, clip_margin, n_outputs)
        best = min(error_of(subtree, given.held_out) for subtree in subtrees(tree))
        pruned, error, fold_trees, _ = HoldOut()(tree, given)
        assert error == pytest.approx(best, rel=1e-4)
        assert error_of(pruned, given.held_out) == pytest.approx(best, rel=1e-4)
        assert fold_trees == ()


@pytest.mark.parametrize("configuration", ["default", "paper"])
def test_a_pruned_model_is_a_subtree_of_the_grown_one(configuration):
    X, y = crease()
    # The noise by which equations are shortened is that of the pruned tree.
    full = {"oblique": True, "equation_tolerance": 0}
    whole = regressor(configuration, prune=None, **full).fit(X, y).tree_
    model = regressor(configuration, prune=HoldOut(refit=False), **full)
    part = model.fit(X, y, eval_set=crease(seed=7)).tree_
    assert part.n_leaves < whole.n_leaves == model.n_leaves_grown_
    pairs = [(0, 0)]
    for one, other in pairs:
        names = ["coefficient", "weight"]
        if part.is_leaf[one]:
            cut = not whole.is_leaf[other]
            expected = StopReason.PRUNED if cut else whole.stop_reason[other]
            assert part.stop_reason[one] == expected
            assert part.kind[one] == SplitKind.LEAF
        else:
            names += ["kind", "direction", "threshold"]
            pairs.append((part.left[one], whole.left[other]))
            pairs.append((part.right[one], whole.right[other]))
        for name in names:
            own, grown = getattr(part, name)[one], getattr(whole, name)[other]
            assert np.array_equal(own, grown), name


def test_a_tie_goes_to_the_smaller_tree_and_without_rows_the_tree_stays():
    tree = build_tree(SHAPES["bushy"], seed=0)
    same = dataclasses.replace(tree, coefficient=np.ones_like(tree.coefficient))
    assert HoldOut()(same, evidence()).tree.n_nodes == 1
    pruned = HoldOut()(tree, evidence()._replace(held_out=None))
    assert pruned == (tree, 0.0, (), None)


@pytest.mark.parametrize("rule", [HoldOut(), CrossValidation()], ids=str)
def test_a_page_says_what_a_longer_tree_would_err(rule, tmp_path):
    X, y = make_3dsin(1500, random_state=0)
    page = regressor("default", prune=rule, pruning_tolerance=9.0).fit(X, y)
    accurate = regressor("default", prune=rule, pruning_tolerance=0.0).fit(X, y)
    longer = page.tree_.longer
    assert longer.error < longer.error_of_chosen
    assert page.n_leaves_ < accurate.n_leaves_
    assert accurate.tree_.longer is None
    assert f"a longer tree, of {longer.numbers} numbers in splits" in " ".join(
        page.export_text().split()
    )
    page.save(tmp_path / "page.npz")
    assert SecretRegressor.load(tmp_path / "page.npz").tree_.longer == longer
    assert compact(page.tree_, page.tree_.is_leaf).longer is None
    assert page.tree_.output(0).longer == longer
    again = page.set_params(loss="absolute").refit(X, y)
    assert again.tree_.longer is None  # those were squared errors


def test_the_longer_tree_is_the_subtree_of_least_error(monkeypatch):
    monkeypatch.setattr(interface, "_AT_A_GLANCE", 1e-9)  # these trees are small
    given = evidence(weight=np.random.default_rng(1).uniform(0.5, 2, 50))
    given = given._replace(tolerance=1e9)
    tree = build_tree(SHAPES["bushy"], seed=0)
    found = HoldOut()(tree, given)
    best = HoldOut()(tree, given._replace(tolerance=0.0))
    weight = given.held_out.weight.sum()
    assert best.tree.n_leaves > found.tree.n_leaves
    assert found.longer.error == pytest.approx(best.value / weight)
    held_out = error_of(found.tree, given.held_out)
    assert found.longer.error_of_chosen == pytest.approx(held_out / weight)


@pytest.mark.parametrize("penalty", [0.0, 0.5, 2.0, 1e6])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_penalised_tree_is_the_cheapest_subtree(penalty, n_outputs):
    random, tree = np.random.default_rng(3), build_tree(BUSHY, 0, n_outputs=n_outputs)
    weight = np.where(tree.is_leaf, 20.0, 0.0)
    for node in range(tree.n_nodes - 1, 0, -1):
        weight[tree.parent[node]] += weight[node]
    error = random.uniform(0.9, 1.1, (tree.n_nodes, n_outputs))
    error += 0.1 / (1 + tree.depth[:, None])
    degrees = random.uniform(1, 2, tree.n_nodes)
    tree = dataclasses.replace(tree, weight=weight, degrees=degrees, train_error=error)
    leaf = tree.is_leaf
    spent = degrees[leaf].sum() + tree.n_leaves - 1
    noise = (weight[:, None] * error)[leaf].sum() / (weight[0] - spent)

    def cost(tree):
        leaf = tree.is_leaf
        parameters = tree.degrees[leaf].sum() + tree.n_leaves - 1
        squares = (tree.weight[:, None] * tree.train_error)[leaf].sum()
        return squares + penalty * noise * parameters

    cut = penalised(tree, penalty)
    assert cost(cut) == pytest.approx(min(map(cost, subtrees(tree))))
    assert penalty < 1e6 or cut.n_leaves == 1


def leaf_sums(tree):
    """Of what the leaves of these trees keep in ``train_error``."""
    return tree.train_error[tree.is_leaf].sum(axis=0)


def with_errors(shape, seed):
    """A tree whose nodes carry random errors; children may err more than parents."""
    tree = build_tree(SHAPES[shape], seed)
    error = np.random.default_rng(seed).uniform(0, 10, tree.n_nodes) / (1 + tree.depth)
    return dataclasses.replace(tree, train_error=error[:, None])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sizes", [(1.0, 1.0), (2.0, 9.0), (2.0, 4.0)], ids=str)
def test_every_subtree_is_the_best_at_its_penalty(shape, sizes):
    tree = with_errors(shape, 3)
    size, error = np.where(tree.is_leaf, *sizes), tree.train_error[:, 0]
    path = weakest_links(tree, error, None if sizes[1] == 1 else size)
    # A node that spends more than the leaves below it counts as if only its split was
    # saved: by these sizes the path is right.
    for node in np.flatnonzero(~tree.is_leaf)[::-1]:
        below = size[tree.left[node]] + size[tree.right[node]] - 1
        size[node] = min(size[node], below)
    both = dataclasses.replace(tree, train_error=np.column_stack([error, size]))
    sums = [leaf_sums(subtree) for subtree in subtrees(both)]
    assert path.alphas[0] == 0
    assert (np.diff(path.alphas) > 0).all()
    upper = np.append(path.alphas[1:], path.alphas[-1] + 1)
    for index, (low, high) in enumerate(zip(path.alphas, upper, strict=True)):
        found = leaf_sums(path.subtree(both, index))
        for penalty in (low, 0.5 * (low + high)):
            least = min(error + penalty * spent for error, spent in sums)
            assert found @ [1, penalty] == pytest.approx(least)
        assert path.totals(error)[index] == pytest.approx(found[0])
    assert path.subtree(tree, len(path.alphas) - 1).n_leaves == 1


@pytest.mark.parametrize("configuration", ["default", "paper"])
def test_each_penalty_of_the_path_gives_its_error(configuration):
    X, y = crease()
    model = regressor(
        configuration, prune=None, equation_tolerance=0
    )  # the path is of full models
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
        model.set_params(prune=CostComplexity(alpha=float(alpha))).fit(X, y)
        assert np.mean((model.predict(X) - y) ** 2) == pytest.approx(impurity, rel=1e-4)
        assert model.n_leaves_grown_ == grown
        sizes.append(model.n_leaves_)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1


@pytest.mark.parametrize("rule", ["cross-validation", "aic", "bic", "caic", "icomp"])
def test_nothing_is_left_of_noise_and_constants(rule):
    X, _ = crease()
    y = np.random.default_rng(3).normal(size=len(X))
    # The criteria know nothing of the search, so they are given a small one.
    few = {"max_depth": 1, "oblique": False, "splits": "secret"}
    model = regressor("default", prune=rule, **few).fit(X, y)
    assert model.n_leaves_ == 1
    if rule in ("cross-validation", "aic", "icomp"):
        model = regressor("paper", prune=rule).fit(X, np.full(len(X), 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0)
        assert regressor("paper", prune=rule).fit(X[:1], [2.0]).predict(X[:1]) == [2.0]


@pytest.mark.parametrize("n_repeats", [1, 2, 3])
def test_parts_have_like_weight_and_hold_every_row_once_a_time(n_repeats):
    weight = np.random.default_rng(0).integers(1, 5, 1000).astype(float)
    parts = np.array(parts_of(weight, 5, n_repeats))
    assert parts.shape == (5 * n_repeats, 1000)
    rounds = parts.reshape(n_repeats, 5, 1000)
    assert (rounds.sum(axis=1) == 1).all()
    # A part is made of so many runs of rows, each off by one row at most.
    for repeat, these in enumerate(rounds):
        runs = 5**repeat
        np.testing.assert_allclose(
            these @ weight, weight.sum() / 5, atol=runs * weight.max()
        )
    # The first time the rows are cut in order.
    assert (np.diff(np.argmax(rounds[0], axis=0)) >= 0).all()


def test_parts_share_their_rows_evenly_the_next_time_and_are_never_empty():
    """Trees that were grown without the same rows would say the same twice."""
    parts = np.array(parts_of(np.ones(1000), 5, 2)).astype(int)
    np.testing.assert_array_equal(parts[:5] @ parts[5:].T, np.full((5, 5), 40))
    for n_rows in range(1, 12):
        for part in parts_of(np.ones(n_rows), 5, 2):
            assert 0 < part.sum() < n_rows or n_rows == 1
    assert parts_of(np.ones(1), 5, 2) == []


@functools.cache
def fitted_tree(n_outputs=1, **changes):
    """A grown tree, and the rows that it was grown on."""
    X, y = shop()
    targets = np.stack([y, X["width"] * X["height"] - y / 9], axis=1)[:, :n_outputs]
    model = regressor("default", prune=None, oblique=True, **changes)
    tree = model.fit(X, targets if n_outputs > 1 else y).tree_
    targets = tree.schema.scale_targets(targets)
    return tree, Rows(encode(tree.schema, X), targets, np.ones(len(y)))


@pytest.mark.parametrize("criterion", ["aic", "bic", "caic"])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_criterion_equals_its_definition(criterion, n_outputs):
    tree, rows = fitted_tree(n_outputs)
    rule = InformationCriterion(criterion=criterion)
    pruned, value, fold_trees, _ = rule(tree, Evidence(rows))
    residual = (rows.targets - values(pruned, rows.table)).ravel()
    n = rows.n_rows * n_outputs
    degrees = n_outputs * model_degrees(pruned)[pruned.is_leaf].sum()
    k = degrees + split_degrees(pruned).sum() + 1
    penalty = {"aic": 2.0 * n / (n - k - 1), "bic": np.log(n)}
    penalty["caic"] = np.log(n) + 1
    expected = n * np.log(residual @ residual / n) + penalty[criterion] * k
    assert value == pytest.approx(expected, rel=1e-4)
    assert fold_trees == ()
    root = compact(tree, np.zeros(tree.n_nodes, bool))
    assert value < rule(root, Evidence(rows)).value


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_complexity_is_that_of_the_whole_covariance_matrix(rng, n_outputs):
    # A stump: the path has the two leaves and the root.
    tree = with_errors("stump", 0)
    path = weakest_links(tree, np.array([3.0, 1.0, 1.0]))
    p, weight = 2, np.array([30.0, 10.0, 20.0])
    width = p + n_outputs
    roots = rng.normal(size=(3, width, width))
    scatter = roots @ roots.transpose(0, 2, 1)
    unused = np.zeros((3, n_outputs))
    mean = np.zeros((3, width))
    rounding = np.zeros(3)
    statistics = NodeStatistics(weight, mean, scatter, unused, unused, rounding)
    variance = np.array([0.3, 0.7])
    found = covariance_complexity(path, statistics, variance)

    def complexity(leaves, noise):
        # One variance for all outputs: so many more rows estimate it.
        blocks = [np.array([[2 * noise**2 / (n_outputs * weight[0])]])]
        for leaf in leaves:
            of_output = [
                np.array([[noise / weight[leaf]]]),
                noise * np.linalg.inv(scatter[leaf, :p, :p] + np.eye(p)),
            ]
            blocks += n_outputs * of_output
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


def test_the_path_of_several_outputs_is_in_units_of_the_targets():
    tree, rows = fitted_tree(2)
    path, errors = training_path(tree, rows)
    scale = np.array(tree.schema.target_scales)
    assert scale.max() > 2 * scale.min()
    for index in (0, len(path.alphas) // 2, len(path.alphas) - 1):
        subtree = path.subtree(tree, index)
        residual = (rows.targets - values(subtree, rows.table)) * scale
        expected = np.mean(np.sum(residual**2, axis=1))
        assert errors[index] == pytest.approx(expected, rel=1e-4)
        alpha = np.append(path.alphas, np.inf)[index : index + 2].mean()
        if np.isfinite(alpha):
            kept = CostComplexity(alpha=float(alpha))(tree, Evidence(rows)).tree
            assert np.array_equal(kept.left, subtree.left)


def test_cross_validation_adds_up_the_outputs():
    """The definition, by hand, for trees of two outputs."""
    tree, rows = fitted_tree(2)
    unseen = parts_of(rows.weight, 3)
    cut = weakest_links(tree, training_errors(tree), 1 + model_degrees(tree))
    # Any trees will do, of several sizes.
    fold_trees = [cut.subtree(tree, size) for size in range(3)]
    given = Evidence(rows, unseen=unseen, fold_trees=fold_trees)
    pruned = CrossValidation(n_folds=3)(tree, given)
    whole = weakest_links(tree, training_errors(tree), 1 + model_degrees(tree))
    alphas = np.append(whole.alphas, np.inf)
    typical = np.sqrt(alphas[:-1] * alphas[1:])
    error = np.zeros(len(typical))
    for part, own in zip(unseen, fold_trees, strict=True):
        path = weakest_links(own, training_errors(own), 1 + model_degrees(own))
        held_out = rows.take(part)
        for index, penalty in enumerate(typical):
            which = np.flatnonzero(path.alphas <= penalty)[-1]
            subtree = path.subtree(own, which)
            residual = held_out.targets - values(subtree, held_out.table)
            error[index] += np.sum(residual**2)
    assert pruned.value == pytest.approx(error.min(), rel=1e-4)
    best = len(error) - 1 - np.argmin(error[::-1])
    assert np.array_equal(pruned.tree.left, whole.subtree(tree, best).left)
    assert len(pruned.fold_trees) == 3


@pytest.mark.parametrize("n_repeats", [1, 2])
def test_a_larger_tolerance_never_keeps_more_leaves(n_repeats):
    tree, rows = fitted_tree(min_samples_leaf=3)
    unseen = parts_of(rows.weight, 2, n_repeats)
    given = Evidence(rows, unseen=unseen, fold_trees=[tree] * len(unseen))
    rule = CrossValidation(n_folds=2, n_repeats=n_repeats)
    sizes = [
        rule(tree, given._replace(tolerance=tolerance)).tree.n_leaves
        for tolerance in (0.0, 0.02, 0.1, 0.5, 5.0)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_degrees_of_least_squares_are_its_coefficients_and_shrinking_spends_less():
    tree, _ = fitted_tree(leaf="linear", min_samples_leaf=8)
    np.testing.assert_array_equal(model_degrees(tree), 1.0 + tree.schema.n_regressors)
    tree, _ = fitted_tree()
    degrees = model_degrees(tree)
    assert (degrees >= tree.degrees - 1e-9).all()
    assert (degrees <= 1.0 + tree.schema.n_regressors).all()
    assert degrees[0] == tree.degrees[0]
    tree, _ = fitted_tree(min_samples_leaf=3, leaf=Ridge(indicators=False))
    assert set(tree.kind) >= {SplitKind.LEAF, SplitKind.DISCRETE}
    expected = np.array([0, 1, 2, 3])  # leaves, on an axis, oblique, of four colours
    np.testing.assert_array_equal(split_degrees(tree), expected[tree.kind])
