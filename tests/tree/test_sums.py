"""Trees and sums of trees in all ways of computing them, against each tree's walk."""

from __future__ import annotations

import dataclasses
import inspect

import chex
import numpy as np
import pytest
from random_trees import random_tree

from secret_jax.data.rows import Table
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import Scratch
from secret_jax.tree import equations, packed, routing
from secret_jax.tree.equations import RowBlock, forest_of
from secret_jax.tree.packed import leaf_ids, packed_trees, programmed, sum_of_trees
from secret_jax.tree.routing import TreeSum
from secret_jax.tree.walk import descend, values_at

N_ROWS, N_CATEGORIES = 700, 70


def table(spread: float = 1.0, n_categories: int = 3) -> Table:
    """Rows in a range of their own, with categories, some of them never seen."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-spread, spread, size=(N_ROWS, 5)).astype(np.float32)
    return Table(x, rng.integers(-1, n_categories, (N_ROWS, 2)).astype(np.int32))


@pytest.mark.parametrize("kinds", [(1,), (1, 3), (1, 2, 3)])
@pytest.mark.parametrize("many", [1 << 10, 8])
@pytest.mark.parametrize("n_leaves", [1, 2, 9, 10, 17, 18, 40, 120])
def test_tables_find_the_leaves_of_the_walk(n_leaves, many, kinds, monkeypatch):
    monkeypatch.setattr(packed, "_MANY", many)  # beyond it pieces are of four splits
    tree = random_tree(n_leaves, n_leaves, kinds=kinds)
    rows, trees = table(), packed_trees([tree])
    found = trees.node[trees.leaves(rows.x.T, rows.codes.T, np)[0]]
    assert np.array_equal(found, descend(tree, rows))
    assert np.array_equal(found, leaf_ids(*rows, programmed(tree))[0])


def test_tables_of_large_trees_take_64_bytes_a_leaf():
    assert programmed(random_tree(0, 200), n=4096).following.nbytes <= 64 * 4096


def test_a_missing_value_counts_as_the_factor_of_its_indicator():
    tree = random_tree(3, 12, kinds=(1,))
    direction = tree.direction.copy()
    direction[~tree.is_leaf, 4] += np.float32(0.25)
    tree, rows = dataclasses.replace(tree, direction=direction), table()
    rows.x[::3, :4], rows.x[:, 4] = 0.0, np.arange(N_ROWS) % 3 == 0
    trees = packed_trees([tree])
    found = trees.node[trees.leaves(rows.x.T, rows.codes.T, np)[0]]
    assert np.array_equal(found, descend(tree, rows))


@pytest.mark.parametrize("kinds", [(1,), (1, 2, 3)])
@pytest.mark.parametrize("spread", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("few", [0, N_ROWS])
def test_added_equations_are_clipped_where_a_leaf_clips(
    spread, kinds, few, monkeypatch
):
    monkeypatch.setattr(equations, "_FEW_ROWS", few)
    rows, steps = table(spread), np.array([1.0, -0.3, 0.2])
    trees = [random_tree(n, n, kinds=kinds, n_outputs=2) for n in (5, 14, 30)]
    each = [values_at(tree, rows, descend(tree, rows)) for tree in trees]
    block, forest = RowBlock(rows, Scratch()), forest_of(trees, steps)
    assert len(forest.groups) == 3  # of 8, 16 and 32 comparisons
    expected = np.tensordot(steps, each, axes=1)
    np.testing.assert_allclose(forest.values(block).T, expected, rtol=2e-5, atol=2e-5)
    assert forest.bounds.may_clip(block.columns).any() == (spread > 0.01)


def many_categories(seed, n_leaves):
    """A tree whose categories fill more than two words."""
    tree = random_tree(seed, n_leaves, n_outputs=2)
    rng = np.random.default_rng(seed)
    goes_left = rng.random((tree.n_nodes, N_CATEGORIES)) < 0.5
    return dataclasses.replace(tree, goes_left=goes_left)


@pytest.mark.parametrize("n_leaves", [(1, 2, 16, 9), (40, 3, 33, 8), (70, 3, 1, 8)])
def test_a_sum_is_what_its_trees_say_one_by_one(n_leaves, monkeypatch):
    trees = [many_categories(seed, n) for seed, n in enumerate(n_leaves)]
    rows, steps = table(1.7, N_CATEGORIES), np.array([1.0, 0.5, -0.25, 0.2])
    each = [values_at(tree, rows, descend(tree, rows)) for tree in trees]
    total = TreeSum(trees, steps)
    for most, compiled in ((1 << 20, False), (0, False), (0, True)):
        monkeypatch.setattr(routing, "FEW_PAIRS", most)
        monkeypatch.setattr(routing, "on_accelerator", lambda own=compiled: own)
        for first, last in ((0, None), (1, 3)):
            expected = np.tensordot(steps[first:last], each[first:last], axes=1)
            found = total.values(rows, first, last)
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
        found = TreeSum(trees).values(rows)
        np.testing.assert_allclose(found, sum(each), rtol=2e-5, atol=2e-5)


def test_sums_of_one_size_are_one_program(monkeypatch):
    counted = program()(chex.assert_max_traces(inspect.unwrap(sum_of_trees), n=1))
    monkeypatch.setattr(routing, "sum_of_trees", counted)
    monkeypatch.setattr(routing, "on_accelerator", lambda: True)
    monkeypatch.setattr(routing, "FEW_PAIRS", 0)
    for n_trees, n_rows in ((4, 700), (3, 650), (2, 20)):
        trees = [many_categories(seed, 9) for seed in range(n_trees)]
        rows = table(1.7, N_CATEGORIES).take(slice(n_rows))
        TreeSum(trees, np.ones(n_trees)).values(rows)
    assert counted.n_compiled == 1
