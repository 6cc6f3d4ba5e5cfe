"""The laws of pruning on held-out rows, and by a penalty, on trees of all kinds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from configurations import regressor
from handmade import BUSHY, SHAPES, build_tree, rows, subtrees

from secret_jax import CrossValidation, HoldOut, SecretRegressor
from secret_jax.data.rows import Rows
from secret_jax.datasets import make_3dsin
from secret_jax.fit import interface
from secret_jax.fit.interface import Evidence
from secret_jax.fit.prune.path import penalised
from secret_jax.models.errors import node_errors, total_error
from secret_jax.tree.reshape import compact
from secret_jax.tree.routing import paths_of, values
from secret_jax.tree.structure import Tree
from secret_jax.tree.walk import values_at


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


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_errors_from_statistics_equal_errors_along_the_paths(shape, n_outputs):
    weight = np.random.default_rng(2).uniform(0.5, 2, 50)
    part = evidence(n_outputs, weight).held_out
    tree = build_tree(SHAPES[shape], seed=3, n_outputs=n_outputs)
    path = paths_of(tree, part.table)
    value = np.stack([values_at(tree, part.table, node).T for node in path])
    expected = np.zeros((tree.n_nodes, n_outputs))
    for row in range(part.n_rows):
        for node in np.unique(path[:, row]):
            at = np.flatnonzero(path[:, row] == node)[0]
            error = value[at, :, row] - part.targets[row]
            expected[node] += weight[row] * error**2
    wide = dataclasses.replace(tree, clip_margin=1e6, upper=tree.lower + 1)
    for output_weight in (np.ones(n_outputs), np.arange(3.0, 3.0 + n_outputs)):
        wanted = expected @ output_weight
        by_statistics = node_errors(tree, part, output_weight)
        by_paths = node_errors(wide, part, output_weight)
        np.testing.assert_allclose(by_statistics, wanted, rtol=1e-4)
        np.testing.assert_allclose(by_paths, wanted, rtol=1e-4)
    for by_default in (node_errors(tree, part), node_errors(wide, part)):
        np.testing.assert_allclose(by_default, expected.sum(axis=1), rtol=1e-4)
    leaves = node_errors(tree, part)[tree.is_leaf]
    assert total_error(tree, part) == pytest.approx(leaves.sum(), rel=1e-4)


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
