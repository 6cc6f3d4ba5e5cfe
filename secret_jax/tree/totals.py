"""Nodes in order, and what they add up to: leaves, degrees of freedom, noise."""

from itertools import pairwise
from typing import Any, Literal

import numpy as np

from secret_jax.tree.structure import SplitKind, Tree

Side = Literal["left", "right"]

# Degrees of freedom for which the noise around a leaf counts in the leaf.
_BORROWED = 30.0
# A node that seems quieter than this share of the noise around it has too few rows.
_QUIETEST = 1e-3
# A deviation below this share of the target's is what float32 rounds away.
ROUNDING = 1e-6


def leaf_totals(tree: Tree, value: Any) -> np.ndarray:
    """Sum a quantity, (n_nodes, ...) or (), over the leaves below every node."""
    value = np.asarray(value)
    value = np.broadcast_to(value, (tree.n_nodes, *value.shape[1:]))
    total = value.copy()
    for node in reversed(levels_of_splits(tree)):
        total[node] = total[tree.left[node]] + total[tree.right[node]]
    return total


def levels_of_splits(tree: Tree) -> list[np.ndarray]:
    """List the split nodes of each depth, from the root down."""
    inner = np.flatnonzero(~tree.is_leaf)
    depth = tree.depth[inner]
    inner = inner[np.argsort(depth, kind="stable")]
    stops = np.cumsum(np.bincount(depth))
    return [inner[a:b] for a, b in pairwise([0, *stops.tolist()])]


def in_slices(
    tree: Tree, leaf: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order of rows, of given leaves, in which those of every node are a slice.

    Returns ``order`` (n_rows,), and where the slice of each node starts and stops,
    (n_nodes,); left sides come first, and rows of a leaf in the order they had.
    """
    inner = np.flatnonzero(~tree.is_leaf).tolist()
    left, right = tree.left.tolist(), tree.right.tolist()
    length = np.bincount(leaf, minlength=tree.n_nodes).tolist()
    start = [0] * tree.n_nodes
    for node in inner[::-1]:  # children come after their parents
        length[node] = length[left[node]] + length[right[node]]
    for node in inner:
        start[left[node]] = start[node]
        start[right[node]] = start[node] + length[left[node]]
    first = np.array(start)
    # Keys of two bytes are sorted by counting; no row is in a slice that starts last.
    key = first.astype(np.uint16 if len(leaf) <= 1 << 16 else np.int64)
    return np.argsort(key[leaf], kind="stable"), first, first + length


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


def model_degrees(tree: Tree) -> np.ndarray:
    """Effective degrees of freedom of every node's model, with its ancestors' share.

    A node's own correction spends ``tree.degrees``; what it corrects, its parent's
    model, was fitted on the parent's rows and brings along their share of its degrees,
    as far as the correction leaves it in place. Exact for least squares (one degree a
    coefficient) and for ridge without any shrinkage. Models that correct none, but may
    leave regressors out, spend their own.
    """
    most = 1.0 + tree.schema.n_regressors
    degrees = np.minimum(tree.degrees, most).astype(np.float64)
    if not tree.corrects_parent:
        return degrees
    above = tree.weight[tree.parent]
    share = np.where(above > 0, tree.weight / np.where(above > 0, above, 1.0), 0.0)
    inherits = np.maximum(1.0 - tree.degrees / most, 0.0) * share
    for node in levels_of_splits(tree):
        for child in (tree.left[node], tree.right[node]):
            degrees[child] += inherits[child] * degrees[node]
    return np.minimum(degrees, most)


def split_degrees(tree: Tree) -> np.ndarray:
    """Number of parameters of every node's split, zero in leaves, float64.

    A threshold is one; an oblique split is a direction up to its length, and a
    threshold; a set of categories is one yes or no per category up to its complement.
    Those of several comparisons add up.
    """
    categories = np.array([len(c) for c in tree.schema.categories] or [0])
    listed = categories[np.clip(tree.attribute, 0, len(categories) - 1)] - 1
    terms, none = np.count_nonzero(tree.direction, axis=1), np.zeros(len(tree.kind))
    of_kinds = [none, none + 1.0, terms, np.maximum(listed, 1)]  # as in `SplitKind`
    return np.bincount(tree.node_of, np.choose(tree.kind, of_kinds), tree.n_nodes)


def split_numbers(tree: Tree) -> np.ndarray:
    """Numbers in every node's split as it is read: thresholds, and factors of sums."""
    numbers = 1.0 * (tree.kind != SplitKind.LEAF)
    oblique = tree.kind == SplitKind.OBLIQUE
    numbers[oblique] += np.count_nonzero(tree.direction[oblique], axis=1)
    return np.bincount(tree.node_of, numbers, tree.n_nodes)


def noise_variance(tree: Tree) -> np.ndarray:
    """Estimate the variance of the outputs about the true mean in every node.

    The estimate is the squared error of the leaves below a node, per degree of freedom
    that their models did not spend. Its logarithm is averaged with that of the parent's
    noise, which counts as thirty degrees of freedom, so that a leaf with few rows
    borrows from the leaves around it. With a loss it is the variance of values that
    would cost as much as the tree errs on average; (n_nodes, n_outputs).
    """
    degrees = np.minimum(model_degrees(tree), tree.weight)
    error = leaf_totals(tree, tree.train_error * tree.weight[:, None])
    free = leaf_totals(tree, tree.weight - degrees)
    per_degree = error / np.maximum(free, 1.0)[:, None]
    own = np.maximum(per_degree, ROUNDING**2)
    share = (free / (free + _BORROWED))[:, None]
    for node in levels_of_splits(tree):
        for child in (tree.left[node], tree.right[node]):
            above = own[node]
            least = np.maximum(per_degree[child], _QUIETEST * above)
            noise = above * (least / above) ** share[child]
            own[child] = np.maximum(noise, ROUNDING**2)
    if tree.loss.least_squares:
        return own
    # Few rows say little of a loss: all nodes have that of the whole tree.
    noise = tree.loss.noise(np.broadcast_to(per_degree[0], own.shape), tree.mean)
    return np.maximum(noise, ROUNDING**2)
