"""The laws of reduced-error pruning, on hand-made and on fitted trees."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from configurations import crease, every_configuration, regressor, shop, tree_bytes
from handmade import SHAPES, build_tree, rows

from secret_jax.data.table import Table
from secret_jax.prune.reduced_error import pruning_errors, reduced_error
from secret_jax.tree.routing import predict, walk
from secret_jax.tree.structure import SplitKind, StopReason, Tree, compact


def outputs(n_rows: int = 50, seed: int = 9) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n_rows)


def error_of(tree: Tree, table: Table, y: np.ndarray, weight: np.ndarray) -> float:
    residual = tree.schema.scale_target(predict(tree, table)) - y
    return float(weight @ residual**2)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clip_margin", [None, 0.1])
def test_pruning_finds_the_best_of_all_subtrees(shape, clip_margin):
    table, y = rows(), outputs()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    for seed in range(3):
        tree = build_tree(SHAPES[shape], seed, clip_margin)
        inner = np.flatnonzero(~tree.is_leaf)
        best = np.inf
        for choice in itertools.product([False, True], repeat=len(inner)):
            keep = np.zeros(tree.n_nodes, bool)
            keep[inner] = choice
            best = min(best, error_of(compact(tree, keep), table, y, weight))
        pruned, error = reduced_error(tree, table, y, weight)
        assert error == pytest.approx(best, rel=1e-4)
        assert error_of(pruned, table, y, weight) == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("clip_margin", [None, 0.1])
def test_pruning_twice_is_pruning_once(clip_margin):
    table, y, weight = rows(), outputs(), np.ones(50)
    for seed in range(5):
        tree = build_tree(SHAPES["bushy"], seed, clip_margin)
        once, _ = reduced_error(tree, table, y, weight)
        twice, _ = reduced_error(once, table, y, weight)
        assert tree_bytes(twice) == tree_bytes(once)


def test_a_tie_goes_to_the_smaller_tree():
    tree = build_tree(SHAPES["bushy"], seed=0)
    same = dataclasses.replace(tree, coefficient=np.ones_like(tree.coefficient))
    pruned, _ = reduced_error(same, rows(), outputs(), np.ones(50))
    assert pruned.n_nodes == 1


def test_splits_that_no_pruning_row_reaches_are_cut():
    tree, table = build_tree(SHAPES["bushy"], seed=0), rows()
    goes_left = walk(tree, table)[0][1] == tree.left[0]
    left = Table(table.x[goes_left], table.codes[goes_left])
    as_predicted = tree.schema.scale_target(predict(tree, left))
    pruned, error = reduced_error(tree, left, as_predicted, np.ones(len(as_predicted)))
    assert error == pytest.approx(0, abs=1e-8)
    assert tree.left[tree.right[0]] >= 0
    assert not pruned.is_leaf[0]
    assert not pruned.is_leaf[pruned.left[0]]
    assert pruned.is_leaf[pruned.right[0]]


@pytest.mark.parametrize("shape", SHAPES)
def test_errors_from_statistics_equal_errors_along_the_paths(shape):
    table, y = rows(), outputs()
    weight = np.random.default_rng(2).uniform(0.5, 2, len(y))
    tree = build_tree(SHAPES[shape], seed=3)
    path, value = walk(tree, table)
    expected = np.zeros(tree.n_nodes)
    for row in range(len(y)):
        for node in np.unique(path[:, row]):
            at = np.flatnonzero(path[:, row] == node)[0]
            expected[node] += weight[row] * (value[at, row] - y[row]) ** 2
    by_statistics = pruning_errors(tree, table, y, weight)
    wide = dataclasses.replace(tree, clip_margin=1e6, upper=tree.lower + 1)
    by_paths = pruning_errors(wide, table, y, weight)
    np.testing.assert_allclose(by_statistics, expected, rtol=1e-4)
    np.testing.assert_allclose(by_paths, expected, rtol=1e-4)


@pytest.mark.parametrize("clip_margin", [None, 0.1])
def test_a_pruning_row_of_weight_two_is_two_rows(clip_margin):
    table, y = rows(), outputs()
    weight = np.random.default_rng(3).integers(0, 3, len(y))
    repeat = np.repeat(np.arange(len(y)), weight)
    tree = build_tree(SHAPES["bushy"], seed=1, clip_margin=clip_margin)
    np.testing.assert_allclose(
        pruning_errors(tree, table, y, weight.astype(float)),
        pruning_errors(
            tree,
            Table(table.x[repeat], table.codes[repeat]),
            y[repeat],
            np.ones(len(repeat)),
        ),
        rtol=1e-9,
    )


def pruning_set(make):
    return make(seed=7)


TABLES = {"numbers": crease, "with a colour": shop}


@pytest.mark.parametrize("table", TABLES)
@every_configuration
def test_a_pruned_model_is_never_worse_on_the_pruning_set(configuration, table):
    make = TABLES[table]
    X, y = pruning_set(make)
    # Refitted on the pruning rows, a model would no longer be the one that was pruned.
    model = regressor(configuration).set_params(refit=False, oblique=True)
    pruned = model.fit(*make(), prune_set=(X, y))
    error = np.mean((pruned.predict(X) - y) ** 2)
    for changes in ({"prune": None}, {"max_depth": 0}):
        other = regressor(configuration, refit=False, oblique=True, **changes)
        other.fit(*make())
        assert error <= np.mean((other.predict(X) - y) ** 2) * (1 + 1e-4)


@every_configuration
def test_a_pruned_model_is_a_subtree_of_the_grown_one(configuration):
    options = {"refit": False, "oblique": True}
    X, y = crease()
    grown = regressor(configuration, prune=None, **options).fit(X, y)
    pruned = regressor(configuration, **options).fit(
        X, y, prune_set=pruning_set(crease)
    )
    assert pruned.n_leaves_grown_ == grown.n_leaves_
    assert pruned.n_leaves_ < grown.n_leaves_
    whole, part = grown.tree_, pruned.tree_
    pairs = [(0, 0)]
    while pairs:
        one, other = pairs.pop()
        assert np.array_equal(part.coefficient[one], whole.coefficient[other])
        assert part.weight[one] == whole.weight[other]
        if part.left[one] < 0:
            cut = whole.left[other] >= 0
            expected = StopReason.PRUNED if cut else whole.stop_reason[other]
            assert part.stop_reason[one] == expected
            assert part.kind[one] == SplitKind.LEAF
            continue
        assert part.kind[one] == whole.kind[other]
        assert np.array_equal(part.direction[one], whole.direction[other])
        assert part.threshold[one] == whole.threshold[other]
        pairs += [
            (part.left[one], whole.left[other]),
            (part.right[one], whole.right[other]),
        ]


@every_configuration
def test_noise_is_pruned_to_a_single_leaf_or_close(configuration):
    X, _ = crease()
    noise = np.round(np.random.default_rng(5).normal(size=len(X)) * 64) / 64
    other = np.round(np.random.default_rng(6).normal(size=len(X)) * 64) / 64
    model = regressor(configuration).fit(X, noise, prune_set=(X, other))
    assert model.n_leaves_ <= 3
    assert model.score(X, other) < 0.2
