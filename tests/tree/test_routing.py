"""Ways and predictions of trees, and of sums of them, by every means of computing."""

from __future__ import annotations

import dataclasses
import inspect
import re

import chex
import jax
import jax.numpy as jnp
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
from random_trees import random_tree

from secret_jax.data.rows import Table
from secret_jax.runtime.packing import Packed
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import Scratch
from secret_jax.tree import equations, packed, routing
from secret_jax.tree.equations import RowBlock, forest_of
from secret_jax.tree.functions import predicted, raw_values, weighted_trees
from secret_jax.tree.packed import leaf_ids, packed_trees, programmed
from secret_jax.tree.reshape import compact
from secret_jax.tree.routing import TreeSum, apply, paths_of, predict, values
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


N_ROWS, N_CATEGORIES = 700, 70


def uneven(spread: float = 1.0, n_categories: int = 3) -> Table:
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
    rows, trees = uneven(), packed_trees([tree])
    found = trees.node[trees.leaves(rows.x.T, rows.codes.T, np)[0]]
    assert np.array_equal(found, descend(tree, rows))
    assert np.array_equal(found, leaf_ids(*rows, Packed.of([programmed(tree)]))[0])


def test_tables_of_large_trees_take_64_bytes_a_leaf():
    assert programmed(random_tree(0, 200), n=4096).following.nbytes <= 64 * 4096


def test_a_missing_value_counts_as_the_factor_of_its_indicator():
    tree = random_tree(3, 12, kinds=(1,))
    direction = tree.direction.copy()
    direction[~tree.is_leaf, 4] += np.float32(0.25)
    tree, rows = dataclasses.replace(tree, direction=direction), uneven()
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
    rows, steps = uneven(spread), np.array([1.0, -0.3, 0.2])
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
    rows, steps = uneven(1.7, N_CATEGORIES), np.array([1.0, 0.5, -0.25, 0.2])
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


def test_blocks_of_a_table_on_a_device_stay_there(monkeypatch):
    tree, (x, codes) = build_tree(BUSHY, seed=1), rows(3000)
    table = Table(jnp.asarray(x), jnp.asarray(codes))
    whole = TreeSum([tree]).where_they_lie(table)
    monkeypatch.setattr(routing, "rows_at_once", lambda *_: 1024)
    for each in (whole, found := TreeSum([tree]).where_they_lie(table)):
        assert isinstance(each, jax.Array)
    np.testing.assert_array_equal(found, whole)
    np.testing.assert_allclose(found.T, values(tree, Table(x, codes)), rtol=1e-5)


def test_sums_of_one_size_are_one_program(monkeypatch):
    counted = program()(chex.assert_max_traces(inspect.unwrap(predicted), n=1))
    monkeypatch.setattr(routing, "predicted", counted)
    monkeypatch.setattr(routing, "on_accelerator", lambda: True)
    monkeypatch.setattr(routing, "FEW_PAIRS", 0)
    for n_trees, n_rows in ((4, 700), (3, 650), (2, 20)):
        trees = [many_categories(seed, 9) for seed in range(n_trees)]
        rows = uneven(1.7, N_CATEGORIES).take(slice(n_rows))
        TreeSum(trees, np.ones(n_trees)).values(rows)
    assert counted.n_compiled == 1


def test_programs_number_no_places_beyond_int32():
    tree = random_tree(0, 200)
    model = jax.tree.map(jnp.asarray, weighted_trees([tree], np.ones(1), 1))
    widths = tree.schema.n_columns, len(tree.schema.discrete)
    x, codes = (
        jax.ShapeDtypeStruct((1 << 28, width), dtype)
        for width, dtype in zip(widths, ("f4", "i4"), strict=True)
    )
    program_text = str(jax.make_jaxpr(lambda *rows: raw_values(model, *rows))(x, codes))
    shapes = re.findall(r"[a-z]+[0-9]+\[([0-9,]+)\]", program_text)
    sizes = {int(size) for shape in shapes for size in shape.split(",")}
    assert 1 << 28 in sizes
    assert max(sizes) < 1 << 31
