"""Leaves by tables, and sums of equations, against the walk down the tree."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from random_trees import random_tree

from secret_jax.data.rows import Table
from secret_jax.runtime.shapes import Scratch
from secret_jax.tree import equations, packed
from secret_jax.tree.equations import RowBlock, forest_of
from secret_jax.tree.packed import leaf_ids, packed_trees, programmed
from secret_jax.tree.walk import leaves_of, values_at

N_ROWS = 600


def table(spread=1.0):
    """Rows in a range of their own, with categories, some of them never seen."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-spread, spread, size=(N_ROWS, 5)).astype(np.float32)
    return Table(x, rng.integers(-1, 3, (N_ROWS, 2)).astype(np.int32))


@pytest.mark.parametrize("kinds", [(1,), (1, 3), (1, 2, 3)])
@pytest.mark.parametrize("many", [1 << 10, 8])
@pytest.mark.parametrize("n_leaves", [1, 2, 9, 10, 17, 18, 40, 120])
def test_tables_find_the_leaves_of_the_walk(n_leaves, many, kinds, monkeypatch):
    monkeypatch.setattr(packed, "_MANY", many)  # beyond it pieces are of four splits
    tree = random_tree(n_leaves, n_leaves, kinds=kinds)
    rows, trees = table(), packed_trees([tree])
    found = trees.node[trees.leaves(rows.x.T, rows.codes.T, np)[0]]
    assert np.array_equal(found, leaves_of(tree, rows))
    assert np.array_equal(found, leaf_ids(*rows, programmed(tree))[0])


def test_a_missing_value_counts_as_the_factor_of_its_indicator():
    tree = random_tree(3, 12, kinds=(1,))
    direction = tree.direction.copy()
    direction[~tree.is_leaf, 4] += np.float32(0.25)
    tree = dataclasses.replace(tree, direction=direction)
    rows = table()
    rows.x[::3, :4], rows.x[:, 4] = 0.0, np.arange(N_ROWS) % 3 == 0
    trees = packed_trees([tree])
    found = trees.node[trees.leaves(rows.x.T, rows.codes.T, np)[0]]
    assert np.array_equal(found, leaves_of(tree, rows))


@pytest.mark.parametrize("kinds", [(1,), (1, 2, 3)])
@pytest.mark.parametrize("spread", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("few", [0, N_ROWS])
def test_added_equations_are_clipped_where_a_leaf_clips(
    spread, kinds, few, monkeypatch
):
    monkeypatch.setattr(equations, "_FEW_ROWS", few)
    rows, steps = table(spread), np.array([1.0, -0.3, 0.2])
    trees = [random_tree(n, n, kinds=kinds, n_outputs=2) for n in (5, 14, 30)]
    each = [values_at(tree, rows, leaves_of(tree, rows)) for tree in trees]
    block, forest = RowBlock(rows, Scratch()), forest_of(trees, steps)
    assert len(forest.groups) == 3  # of 8, 16 and 32 comparisons
    expected = np.tensordot(steps, each, axes=1)
    np.testing.assert_allclose(forest.values(block).T, expected, rtol=2e-5, atol=2e-5)
    assert forest.bounds.may_clip(block.columns).any() == (spread > 0.01)
