"""Prediction with gates, against plain loops; what is written and saved of them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from handmade import (
    BUSHY,
    SHAPES,
    build_tree,
    goes_left,
    prediction_of,
    rows,
)
from random_trees import with_gates

from secret_jax.data.rows import Table
from secret_jax.tree.reshape import compact, hardened
from secret_jax.tree.routing import apply, leaf_shares_of, paths_of, predict
from secret_jax.tree.structure import Tree


def shares_of(tree: Tree, node: int, x, codes) -> dict[int, float]:
    """Share of every leaf below a node, by recursion in float64."""
    if tree.left[node] < 0:
        return {node: 1.0}
    if tree.gate_width[node] > 0:
        distance = tree.threshold[node] - tree.direction[node].astype(float) @ x
        left = 1 / (1 + math.exp(-distance / tree.gate_width[node]))
    else:
        left = float(goes_left(tree, node, x, codes))
    return {
        leaf: share * below
        for child, share in ((tree.left[node], left), (tree.right[node], 1 - left))
        for leaf, below in shares_of(tree, int(child), x, codes).items()
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clip_margin", [None, 0.25])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_predictions_mix_the_leaves_by_products_of_gates(shape, clip_margin, n_outputs):
    table = rows()
    for seed in range(3):
        hard = build_tree(SHAPES[shape], seed, clip_margin, n_outputs)
        tree = with_gates(hard, seed)
        leaf = np.flatnonzero(tree.is_leaf)
        shares = leaf_shares_of(tree, table)
        value = predict(tree, table).reshape(50, n_outputs)
        for row, (x, codes) in enumerate(zip(*table, strict=True)):
            expected = shares_of(tree, 0, x.astype(float), codes)
            np.testing.assert_allclose(
                shares[row], [expected[node] for node in leaf], rtol=2e-5, atol=1e-6
            )
            for output in range(n_outputs):
                mixed = sum(
                    share * prediction_of(tree, node, x, output)
                    for node, share in expected.items()
                )
                own = 10 + output + (2 + output) * mixed
                assert value[row, output] == pytest.approx(own, rel=1e-4, abs=1e-4)


def test_trained_leaves_may_overshoot_but_their_mixture_may_not():
    tree = with_gates(build_tree(BUSHY, seed=1, clip_margin=0.1))
    free = dataclasses.replace(tree, clip_leaves=False)
    table = rows(200)
    low, high = (10 + 2 * side[0, 0] for side in tree.clip_range())
    value = predict(free, table)
    assert ((low - 1e-4 <= value) & (value <= high + 1e-4)).all()
    assert np.ptp(value) > 0.99 * (high - low)
    assert not np.allclose(value, predict(tree, table))
    x = np.array([[3e38, -3e38], [-3e38, 3e38]], np.float32)
    assert np.isfinite(predict(free, Table(x, np.zeros((2, 1), np.int32)))).all()


def test_width_zero_is_the_hard_tree_and_small_widths_come_close():
    tree, table = build_tree(BUSHY, seed=1), rows()
    soft = with_gates(tree, hard_share=0)
    assert soft.is_soft
    assert not hardened(soft).is_soft
    assert np.array_equal(predict(hardened(soft), table), predict(tree, table))
    narrow = dataclasses.replace(soft, gate_width=soft.gate_width * np.float32(1e-6))
    np.testing.assert_allclose(predict(narrow, table), predict(tree, table), rtol=1e-5)


def test_the_way_of_a_row_is_that_of_the_larger_shares():
    tree, table = build_tree(BUSHY, seed=1), rows()
    soft = with_gates(tree)
    assert np.array_equal(apply(soft, table), apply(tree, table))
    assert np.array_equal(paths_of(soft, table), paths_of(tree, table))


def test_a_row_does_not_depend_on_the_others():
    tree, table = with_gates(build_tree(BUSHY, seed=1)), rows(200)
    together = predict(tree, table.take(slice(100)))
    np.testing.assert_allclose(predict(tree, table)[:100], together, rtol=2e-5)
    for row in (0, 63, 99):
        alone = predict(tree, table.take(slice(row, row + 1)))
        np.testing.assert_allclose(alone, together[row], rtol=1e-12)


def test_gates_that_are_kept_keep_their_widths_and_without_splits_a_tree_is_hard():
    tree = with_gates(build_tree(BUSHY, seed=1))
    kept = compact(tree, np.ones(tree.n_nodes, bool))
    assert np.array_equal(kept.gate_width, tree.gate_width)
    assert not compact(tree, np.zeros(tree.n_nodes, bool)).is_soft
