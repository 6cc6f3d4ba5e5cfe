"""Routing, prediction and cutting, against plain loops over hand-made trees."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from handmade import BUSHY, CHAIN, LEAF, SHAPES, STUMP, UNSEEN, build_tree, rows

from secret_jax.data.table import Table
from secret_jax.tree import routing
from secret_jax.tree.routing import apply, predict, walk
from secret_jax.tree.structure import ARRAY_FIELDS, SplitKind, StopReason, Tree, compact


def goes_left(tree: Tree, node: int, x: np.ndarray, codes: np.ndarray) -> bool:
    if tree.kind[node] == SplitKind.DISCRETE:
        code = codes[tree.attribute[node]]
        return tree.larger_left[node] if code < 0 else tree.goes_left[node, code]
    return float(tree.direction[node] @ x) <= tree.threshold[node]


def path_of(tree: Tree, x: np.ndarray, codes: np.ndarray) -> list[int]:
    path = [0]
    while tree.left[path[-1]] >= 0:
        node = path[-1]
        side = tree.left if goes_left(tree, node, x, codes) else tree.right
        path.append(int(side[node]))
    return path


def prediction_of(tree: Tree, node: int, x: np.ndarray) -> float:
    value = tree.coefficient[node] @ [1.0, x[0]]
    low, high = tree.lower[node], tree.upper[node]
    if tree.clip_margin is not None:
        margin = tree.clip_margin * (high - low)
        value = min(max(value, low - margin), high + margin)
    return value


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clip_margin", [None, 0.25])
def test_apply_walk_and_predict_follow_the_splits(shape, clip_margin):
    table = rows()
    for seed in range(3):
        tree = build_tree(SHAPES[shape], seed, clip_margin)
        paths = [path_of(tree, *row) for row in zip(*table, strict=True)]
        assert apply(tree, table).tolist() == [path[-1] for path in paths]
        path, value = walk(tree, table)
        assert path.shape == value.shape == (tree.max_depth + 1, 50)
        for row, expected in enumerate(paths):
            padded = expected + [expected[-1]] * (len(path) - len(expected))
            assert path[:, row].tolist() == padded
            np.testing.assert_allclose(
                value[:, row],
                [prediction_of(tree, node, table.x[row]) for node in padded],
                rtol=1e-5,
                atol=1e-5,
            )
        leaf_value = [
            prediction_of(tree, path[-1], x)
            for path, x in zip(paths, table.x, strict=True)
        ]
        found = predict(tree, table)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, 10 + 2 * np.array(leaf_value), rtol=1e-5)


def test_a_row_on_the_threshold_goes_left():
    tree = build_tree(STUMP, seed=0)
    tree = dataclasses.replace(
        tree,
        kind=np.array([SplitKind.AXIS, 0, 0], np.int32),
        direction=np.array([[1, 0], [0, 0], [0, 0]], np.float32),
        threshold=np.array([0.1, 0, 0], np.float32),
    )
    at = np.float32(0.1)
    x = np.array([[at, 0], [np.nextafter(at, np.float32(1)), 0]], np.float32)
    assert apply(tree, Table(x, np.zeros((2, 1), np.int32))).tolist() == [1, 2]


@pytest.mark.parametrize("larger_left", [True, False])
def test_an_unseen_category_goes_to_the_larger_child(larger_left):
    tree = dataclasses.replace(
        build_tree(STUMP, seed=0),
        kind=np.array([SplitKind.DISCRETE, 0, 0], np.int32),
        attribute=np.array([0, -1, -1], np.int32),
        goes_left=np.array([[True, False, True], [0, 0, 0], [0, 0, 0]], bool),
        larger_left=np.array([larger_left, False, False]),
    )
    codes = np.array([[0], [1], [2], [UNSEEN]], np.int32)
    found = apply(tree, Table(np.zeros((4, 2), np.float32), codes))
    assert found.tolist() == [1, 2, 1, 1 if larger_left else 2]


def test_a_row_depends_neither_on_the_other_rows_nor_on_the_blocks(monkeypatch):
    tree, table = build_tree(BUSHY, seed=1), rows(3000)
    expected, leaf = predict(tree, table), apply(tree, table)
    monkeypatch.setattr(routing, "_SMALLEST_BLOCK", 256)
    monkeypatch.setattr(routing, "ROW_BLOCK", 256)
    assert np.array_equal(predict(tree, table), expected)
    path, values = walk(tree, table)
    assert np.array_equal(path[-1], leaf)
    assert np.array_equal(tree.schema.restore_target(values[-1]), expected)


@pytest.mark.parametrize("shape", [BUSHY, CHAIN, STUMP])
@pytest.mark.parametrize("width", [0.0, 0.3])
def test_few_rows_take_the_same_ways_on_the_host(shape, width):
    tree, table = build_tree(shape, seed=1), rows(200)
    gates = np.where(tree.is_leaf, 0.0, width).astype(np.float32)
    tree = dataclasses.replace(tree, gate_width=gates)
    expected, leaf = predict(tree, table), apply(tree, table)
    for part in (slice(0, 1), slice(63, 66), slice(100, 200)):
        few = Table(table.x[part], table.codes[part])
        assert np.array_equal(apply(tree, few), leaf[part])
        np.testing.assert_allclose(
            predict(tree, few), expected[part], rtol=1e-5, atol=1e-5
        )


def test_the_arrays_of_a_tree_cannot_be_written_to():
    tree = build_tree(STUMP, seed=0)
    with pytest.raises(ValueError, match="read-only"):
        tree.threshold[0] = 1.0


def test_huge_rows_get_finite_predictions():
    tree = build_tree(BUSHY, seed=2, clip_margin=0.1)
    x = np.array([[1e30, -1e30], [-1e30, 1e30]], np.float32)
    assert np.isfinite(predict(tree, Table(x, np.zeros((2, 1), np.int32)))).all()


def test_the_clipping_range_is_widened_by_the_margin():
    tree = build_tree(STUMP, seed=3, clip_margin=0.5)
    low, high = tree.clip_range()
    np.testing.assert_allclose(high - low, 2 * (tree.upper - tree.lower))
    np.testing.assert_allclose(low + high, tree.lower + tree.upper)
    low, high = dataclasses.replace(tree, clip_margin=None).clip_range()
    assert np.isneginf(low).all()
    assert np.isposinf(high).all()


def test_counts_and_depth():
    tree = build_tree(CHAIN, seed=0)
    assert (tree.n_nodes, tree.n_leaves, tree.max_depth) == (9, 5, 4)
    assert (build_tree([LEAF], 0).n_leaves, build_tree([LEAF], 0).max_depth) == (1, 0)


def test_a_tree_is_an_immutable_pytree_of_its_arrays():
    tree = build_tree(BUSHY, seed=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        tree.left = tree.right  # type: ignore[misc]
    assert len(jax.tree.leaves(tree)) == len(ARRAY_FIELDS)
    same = jax.tree.map(np.asarray, tree)
    assert isinstance(same, Tree)
    assert same.schema is tree.schema
    assert same.clip_margin == tree.clip_margin


@pytest.mark.parametrize("shape", SHAPES)
def test_keeping_every_split_changes_nothing(shape):
    tree = build_tree(SHAPES[shape], seed=0)
    kept = compact(tree, np.ones(tree.n_nodes, bool))
    for name in ARRAY_FIELDS:
        assert np.array_equal(getattr(kept, name), getattr(tree, name)), name
        assert getattr(kept, name).dtype == getattr(tree, name).dtype, name


def test_keeping_no_split_leaves_the_root():
    tree = build_tree(BUSHY, seed=0)
    root = compact(tree, np.zeros(tree.n_nodes, bool))
    assert (root.n_nodes, root.left[0], root.parent[0]) == (1, -1, -1)
    assert root.kind[0] == SplitKind.LEAF
    assert root.stop_reason[0] == StopReason.PRUNED
    assert root.gain[0] == 0
    assert np.array_equal(root.coefficient[0], tree.coefficient[0])


@pytest.mark.parametrize("cut", [1, 2, 3, 6])
def test_a_cut_tree_predicts_what_the_new_leaf_would_have_predicted(cut):
    tree, table = build_tree(BUSHY, seed=1, clip_margin=0.1), rows()
    keep = np.arange(tree.n_nodes) != cut
    smaller = compact(tree, keep)
    assert (smaller.parent[1:] < np.arange(1, smaller.n_nodes)).all()
    for node in np.flatnonzero(~smaller.is_leaf):
        assert smaller.parent[smaller.left[node]] == node
        assert smaller.parent[smaller.right[node]] == node

    path, value = walk(tree, table)
    below = (path == cut).any(axis=0)
    assert below.any()
    depth = np.where(below, tree.depth[cut], tree.max_depth)
    expected = value[depth, np.arange(len(depth))]
    np.testing.assert_allclose(predict(smaller, table), 10 + 2 * expected, rtol=1e-5)


def test_every_stop_reason_has_a_sentence_of_its_own():
    sentences = {reason.sentence for reason in StopReason}
    assert len(sentences) == len(StopReason)
