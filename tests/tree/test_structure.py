"""The arrays of a tree: counted, cut, joined, taken apart, and never changed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from configurations import refusal, tree_bytes
from handmade import BUSHY, SHAPES, STUMP, build_tree, rows

from secret_jax.tree.reshape import compact, joined, separated
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.walk import descend


def test_a_tree_cannot_be_changed():
    tree = build_tree(BUSHY, seed=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        tree.left = tree.right  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        tree.threshold[0] = 1.0


@pytest.mark.parametrize("shape", SHAPES)
def test_keeping_every_split_changes_nothing(shape):
    tree = build_tree(SHAPES[shape], seed=0)
    assert tree_bytes(compact(tree, np.ones(tree.n_nodes, bool))) == tree_bytes(tree)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("shapes", [[*SHAPES], ["bushy"], ["root", "root", "stump"]])
def test_joined_trees_come_apart_as_they_were(shapes, n_outputs):
    trees = [
        build_tree(SHAPES[shape], seed, 0.1, n_outputs)
        for seed, shape in enumerate(shapes)
    ]
    forest = joined(trees)
    assert forest.n_nodes == sum(tree.n_nodes for tree in trees)
    apart = separated(forest, [tree.n_nodes for tree in trees])
    for found, expected in zip(apart, trees, strict=True):
        assert tree_bytes(found) == tree_bytes(expected)


def test_joined_trees_stand_side_by_side():
    trees, table = (
        [build_tree(SHAPES[s], 0) for s in ("chain", "root", "bushy")],
        rows(),
    )
    forest = joined(trees)
    start = np.cumsum([0] + [tree.n_nodes for tree in trees])
    assert np.flatnonzero(forest.parent < 0).tolist() == start[:-1].tolist()
    # A row that begins at a root goes the way of that tree alone.
    for tree, root in zip(trees, start[:-1], strict=True):
        found = descend(forest, table, np.full(50, root), forest.max_depth)
        assert np.array_equal(found - root, apply(tree, table))


@pytest.mark.parametrize("clip_margin", [None, 0.25])
@pytest.mark.parametrize("n_rows", [50, 300])
@pytest.mark.parametrize("width", [0.0, 0.5])
def test_one_output_is_the_tree_that_predicts_it(clip_margin, n_rows, width):
    tree = build_tree(BUSHY, seed=1, clip_margin=clip_margin, n_outputs=3)
    gates = np.where(tree.is_leaf, 0.0, width).astype(np.float32)
    tree, table = dataclasses.replace(tree, gate_width=gates), rows(n_rows)
    whole = predict(tree, table)
    assert whole.shape == (n_rows, 3)
    assert tree.schema.target_names == ("y", "y1", "y2")
    for which, name in enumerate(tree.schema.target_names):
        one = tree.output(which)
        assert one.n_outputs == 1
        assert one.schema.target_name == name
        found = predict(one, table)
        assert found.shape == (n_rows,)
        np.testing.assert_allclose(found, whole[:, which], rtol=1e-6)
        assert np.array_equal(apply(one, table), apply(tree, table))
        assert np.array_equal(predict(tree.output(name), table), found)
        assert tree_bytes(one.output(0)) == tree_bytes(one)
        assert np.array_equal(one.lower[:, 0], tree.lower[:, which])


@pytest.mark.parametrize("which", ["y3", "", -1, 3, 1.5, True, None, "0"])
def test_an_output_that_is_not_there_is_refused(which):
    tree = build_tree(STUMP, seed=0, n_outputs=3)
    with refusal(f"output={which!r}", "'y', 'y1', 'y2'", "below 3"):
        tree.output(which)
    with pytest.raises(ValueError, match="output="):
        build_tree(STUMP, seed=0).output(which)
