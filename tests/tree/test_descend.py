"""Going down a tree some steps at a time."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import SHAPES, build_tree, rows

from secret_jax.tree.routing import apply, descend


@pytest.mark.parametrize("shape", SHAPES)
def test_descending_from_the_root_reaches_the_leaf(shape):
    tree, table = build_tree(SHAPES[shape], 0), rows()
    start = np.zeros(len(table.x), np.int64)
    assert np.array_equal(descend(tree, table, start, 10), apply(tree, table))
    if tree.n_nodes > 1:
        # The children of the root, and from there on: the same leaf.
        first = descend(tree, table, start, 1)
        assert set(first) <= {tree.left[0], tree.right[0]}
        assert np.array_equal(descend(tree, table, first, 9), apply(tree, table))
