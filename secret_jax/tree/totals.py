"""Sums over the leaves below each node."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.tree.structure import Tree


def leaf_totals(tree: Tree, value: Any) -> np.ndarray:
    """Sum a quantity over the leaves below every node; a leaf has its own value.

    Parameters
    ----------
    value : array-like of shape (n_nodes, ...) or ()
        Values at inner nodes are not used.

    Returns
    -------
    ndarray of shape (n_nodes, ...), of the dtype of ``value``
    """
    value = np.asarray(value)
    value = np.broadcast_to(value, (tree.n_nodes, *value.shape[1:]))
    total = value.copy()
    total[~tree.is_leaf] = 0
    for node in range(tree.n_nodes - 1, 0, -1):  # children come after their parents
        total[tree.parent[node]] += total[node]
    return total


def leaves_below(tree: Tree) -> np.ndarray:
    """Number of leaves below every node, 1 for a leaf; shape (n_nodes,), int64."""
    return leaf_totals(tree, np.int64(1))
