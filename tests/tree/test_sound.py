"""Trees whose arrays do not fit each other are refused when a file is read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from handmade import SHAPES, build_tree, load_tree, save_tree
from random_trees import random_tree, with_gates

from secret_jax.tree.file import ModelFileError, flaw_of
from secret_jax.tree.structure import SplitKind, Tree


def changed(tree: Tree, name: str, node: int, value: int) -> Tree:
    array = getattr(tree, name).copy()
    array[node] = value
    return dataclasses.replace(tree, **{name: array})


def test_trees_that_were_built_or_fitted_are_sound():
    for seed in range(3):
        for tree in (random_tree(seed, 9), random_tree(seed, 1, n_outputs=2)):
            assert flaw_of(tree) == flaw_of(with_gates(tree)) == ""
    for shape in SHAPES.values():
        assert flaw_of(build_tree(shape, 0)) == ""


def nodes_of(tree: Tree, kind: SplitKind) -> int:
    return int(np.flatnonzero(tree.kind == kind)[0])


@pytest.mark.parametrize(
    ("name", "kind", "value", "flaw"),
    [
        ("left", SplitKind.AXIS, 10**6, "make no tree"),
        ("left", SplitKind.AXIS, 0, "make no tree"),  # walks round and round
        ("right", SplitKind.AXIS, -1, "make no tree"),
        ("right", SplitKind.LEAF, 3, "make no tree"),
        ("parent", SplitKind.LEAF, 10**6, "make no tree"),
        ("depth", SplitKind.LEAF, 10**6, "make no tree"),
        ("kind", SplitKind.AXIS, SplitKind.LEAF, "kind of split"),
        ("kind", SplitKind.AXIS, 9, "of no node or kind"),
        ("attribute", SplitKind.AXIS, 5, "attribute that is not there"),
        ("attribute", SplitKind.AXIS, -1, "attribute that is not there"),
        ("attribute", SplitKind.DISCRETE, 2, "attribute that is not there"),
    ],
)
def test_an_index_that_points_nowhere_is_found(tmp_path, name, kind, value, flaw):
    tree = random_tree(5, 12)
    tree = changed(tree, name, nodes_of(tree, kind), value)
    assert flaw in flaw_of(tree)
    save_tree(tree, tmp_path / "crafted")  # with a checksum of its own
    with pytest.raises(ModelFileError, match=f"crafted' holds no sound tree: .*{flaw}"):
        load_tree(tmp_path / "crafted")


@pytest.mark.parametrize(
    "name",
    [
        *("direction", "coefficient", "goes_left", "lower", "threshold", "left"),
        *("mean", "deviation", "center", "spread", "standard_error"),
    ],
)
def test_an_array_of_another_shape_is_found(name):
    tree = random_tree(5, 12)
    array = getattr(tree, name)
    for other in (array[..., :-1], array[:-1]):
        assert flaw_of(dataclasses.replace(tree, **{name: other}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("continuous", (0, 2, 3, 6, 99)),
        ("discrete", (1, -1)),
        ("categories", (("F",),)),
        ("indicators", ((0, 3),)),
        ("n_regressors", 9),
        ("center", np.zeros(2)),
        ("target_scales", ()),
        ("missing_split", (1,)),
        ("whole", (7,)),
        ("roles", ()),
    ],
)
def test_a_schema_that_does_not_fit_is_found(field, value):
    tree = random_tree(5, 12)
    schema = dataclasses.replace(tree.schema, **{field: value})
    assert flaw_of(dataclasses.replace(tree, schema=schema))
