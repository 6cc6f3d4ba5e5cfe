"""Routing and prediction against plain loops over hand-made trees."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from handmade import (
    BUSHY,
    SHAPES,
    build_tree,
    goes_left,
    path_of,
    prediction_of,
    rows,
)

from secret_jax.data.rows import Table
from secret_jax.tree import routing
from secret_jax.tree.reshape import compact
from secret_jax.tree.routing import apply, paths_of, predict, values
from secret_jax.tree.structure import StopReason, flaw_of
from secret_jax.tree.walk import descend, left_of, values_at


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clip_margin", [None, 0.25])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_apply_walk_and_predict_follow_the_splits(shape, clip_margin, n_outputs):
    table, close = rows(), {"rtol": 1e-5, "atol": 1e-5}
    for seed in range(3):
        tree = build_tree(SHAPES[shape], seed, clip_margin, n_outputs)
        paths = [path_of(tree, *row) for row in zip(*table, strict=True)]
        assert apply(tree, table).tolist() == [path[-1] for path in paths]
        path = paths_of(tree, table)
        assert path.shape == (tree.max_depth + 1, 50)
        length = tree.max_depth + 1
        padded = [own + own[-1:] * (length - len(own)) for own in paths]
        assert path.T.tolist() == padded
        value = np.stack([values_at(tree, table, node) for node in path], axis=1)
        expected = np.array(
            [
                [
                    [prediction_of(tree, node, x, o) for o in range(n_outputs)]
                    for node in own
                ]
                for own, x in zip(padded, table.x, strict=True)
            ]
        )
        np.testing.assert_allclose(value, expected, **close)
        np.testing.assert_allclose(values(tree, table), expected[:, -1], **close)
        found = predict(tree, table)
        assert found.dtype == np.float64
        # Output o is 10 + o + (2 + o) times its standardised value.
        output = np.arange(n_outputs)
        own = 10 + output + (2 + output) * expected[:, -1]
        wanted = own[:, 0] if n_outputs == 1 else own
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, **close)


@pytest.mark.parametrize("shape", SHAPES)
def test_descents_begin_and_end_where_they_are_told(shape):
    tree, table = build_tree(SHAPES[shape], seed=1), rows()
    rng = np.random.default_rng(0)
    start = rng.integers(0, tree.n_nodes, 50)
    n_moves = rng.integers(0, 4)
    found = descend(tree, table, start, int(n_moves))
    for row, (x, codes) in enumerate(zip(*table, strict=True)):
        node = start[row]
        for _ in range(n_moves):
            if tree.left[node] >= 0:
                left = goes_left(tree, node, x, codes)
                node = tree.left[node] if left else tree.right[node]
        assert found[row] == node
    assert not np.shares_memory(found, start)


def test_rows_at_splits_of_their_own():
    table, order = rows(500), np.random.default_rng(0).permutation(500)
    tree = build_tree(BUSHY, 1)
    at = np.random.default_rng(1).choice(np.flatnonzero(~tree.is_leaf), 500)
    larger = tree.larger_left[tree.node_of]
    expected = [
        goes_left(tree, node, x, codes)
        for node, x, codes in zip(at, *table, strict=True)
    ]
    assert left_of(tree, larger, table, at).tolist() == expected
    moved = left_of(tree, larger, table, at[order], order)
    assert moved.tolist() == np.array(expected)[order].tolist()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("width", [0.0, 0.3])
def test_many_rows_agree_with_few_whatever_the_blocks(compiled, width, monkeypatch):
    tree, table = build_tree(BUSHY, seed=1), rows(3000)
    gates = np.where(tree.is_leaf, 0.0, width).astype(np.float32)
    tree = dataclasses.replace(tree, gate_width=gates)
    expected, leaf = predict(tree, table), apply(tree, table)
    monkeypatch.setattr(routing, "on_accelerator", lambda: compiled)
    monkeypatch.setattr(routing, "FEW_PAIRS", 0)
    monkeypatch.setattr(routing, "_SMALLEST_BLOCK", 256)
    found = predict(tree, table)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert np.array_equal(apply(tree, table), leaf)
    for name in ("ROW_BLOCK", "_HOST_ROWS"):
        monkeypatch.setattr(routing, name, 256)
    assert np.array_equal(predict(tree, table), found)
    one = table.take(slice(7, 8))
    np.testing.assert_allclose(predict(tree, one), found[7:8], rtol=1e-4, atol=1e-4)


def test_huge_rows_get_finite_predictions():
    tree = build_tree(BUSHY, seed=2, clip_margin=0.1)
    x = np.array([[1e30, -1e30], [-1e30, 1e30]], np.float32)
    assert np.isfinite(predict(tree, Table(x, np.zeros((2, 1), np.int32)))).all()


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 6])
def test_a_cut_tree_predicts_what_the_new_leaf_would_have_predicted(cut):
    tree, table = build_tree(BUSHY, seed=1, clip_margin=0.1), rows()
    smaller = compact(tree, np.arange(tree.n_nodes) != cut)
    assert flaw_of(smaller) == ""
    assert (smaller.stop_reason == StopReason.PRUNED).sum() == 1
    assert not smaller.gain[smaller.is_leaf].any()
    path = paths_of(tree, table)
    value = np.stack([values_at(tree, table, node).T for node in path])
    below = (path == cut).any(axis=0)
    assert below.any()
    depth = np.where(below, tree.depth[cut], tree.max_depth)
    expected = value[depth, 0, np.arange(len(depth))]
    np.testing.assert_allclose(predict(smaller, table), 10 + 2 * expected, rtol=1e-5)
