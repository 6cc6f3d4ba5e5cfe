"""Sums of trees in all ways of computing them, against each tree."""

from __future__ import annotations

import dataclasses
import inspect

import chex
import numpy as np
import pytest
from random_trees import random_tree

from secret_jax.data.rows import Table
from secret_jax.runtime.programs import program
from secret_jax.tree import sums
from secret_jax.tree.packed import sum_of_trees
from secret_jax.tree.sums import TreeSum
from secret_jax.tree.walk import descend, values_at

N_ROWS, N_CATEGORIES = 700, 70


@pytest.fixture(scope="module")
def table():
    """Rows of categories that fill more than two words, some of them never seen."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
    return Table(x, rng.integers(-1, N_CATEGORIES, (N_ROWS, 2)).astype(np.int32))


def many_categories(seed, n_leaves):
    tree = random_tree(seed, n_leaves, n_outputs=2)
    rng = np.random.default_rng(seed)
    goes_left = rng.random((tree.n_nodes, N_CATEGORIES)) < 0.5
    return dataclasses.replace(tree, goes_left=goes_left)


@pytest.mark.parametrize("n_leaves", [(1, 2, 16, 9), (40, 3, 33, 8), (70, 3, 1, 8)])
def test_a_sum_is_what_its_trees_say_one_by_one(table, n_leaves, monkeypatch):
    trees = [many_categories(seed, n) for seed, n in enumerate(n_leaves)]
    steps = np.array([1.0, 0.5, -0.25, 0.2])
    root = np.zeros(N_ROWS, int)
    leaves = [descend(tree, table, root, tree.max_depth) for tree in trees]
    each = [values_at(t, table, own) for t, own in zip(trees, leaves, strict=True)]
    total = TreeSum(trees, steps)
    for most, compiled in ((1 << 20, False), (0, False), (0, True)):
        monkeypatch.setattr(sums, "FEW_PAIRS", most)
        monkeypatch.setattr(sums, "on_accelerator", lambda own=compiled: own)
        for first, last in ((0, 4), (1, 3)):
            expected = np.tensordot(steps[first:last], each[first:last], axes=1)
            found = total.values(table, first, last)
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_sums_of_one_size_are_one_program(table, monkeypatch):
    counted = program()(chex.assert_max_traces(inspect.unwrap(sum_of_trees), n=1))
    monkeypatch.setattr(sums, "sum_of_trees", counted)
    monkeypatch.setattr(sums, "on_accelerator", lambda: True)
    monkeypatch.setattr(sums, "FEW_PAIRS", 0)
    for n_trees, n_rows in ((4, 700), (3, 650), (2, 20)):
        trees = [many_categories(seed, 9) for seed in range(n_trees)]
        TreeSum(trees, np.ones(n_trees)).values(table.take(slice(n_rows)))
    assert counted.n_compiled == 1
