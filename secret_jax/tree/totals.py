"""Sums over the leaves below each node, their levels, ways to them, and their order."""

from typing import Any, Literal

import numpy as np

from secret_jax.tree.structure import Tree

Side = Literal["left", "right"]


def leaf_totals(tree: Tree, value: Any) -> np.ndarray:
    """Sum a quantity over the leaves below every node; a leaf has its own value.

    ``value`` (n_nodes, ...) or (): values at inner nodes are not used. Returns
    (n_nodes, ...), of the dtype of ``value``.
    """
    value = np.asarray(value)
    value = np.broadcast_to(value, (tree.n_nodes, *value.shape[1:]))
    total = value.copy()
    for node in reversed(levels_of_splits(tree)):
        total[node] = total[tree.left[node]] + total[tree.right[node]]
    return total


def levels_of_splits(tree: Tree) -> list[np.ndarray]:
    """List the split nodes of each depth, from the root down."""
    inner = np.flatnonzero(~tree.is_leaf)
    inner = inner[np.argsort(tree.depth[inner], kind="stable")]
    return np.split(inner, np.cumsum(np.bincount(tree.depth[inner]))[:-1])


def leaves_below(tree: Tree) -> np.ndarray:
    """Number of leaves below every node, 1 for a leaf; shape (n_nodes,), int64."""
    return leaf_totals(tree, np.int64(1))


def way_to(tree: Tree, node: int) -> list[tuple[int, Side]]:
    """List the nodes above a node from the root on, each with the side to go to."""
    way: list[tuple[int, Side]] = []
    while node:
        parent = int(tree.parent[node])
        way.append((parent, "left" if tree.left[parent] == node else "right"))
        node = parent
    return way[::-1]


def in_order(tree: Tree, max_depth: int | None = None) -> list[int]:
    """List the nodes down to a level, the left side of each before the right."""
    order, stack = [], [0]
    while stack:
        node = stack.pop()
        order.append(node)
        if not tree.is_leaf[node] and tree.depth[node] != max_depth:
            stack += [int(tree.right[node]), int(tree.left[node])]
    return order
