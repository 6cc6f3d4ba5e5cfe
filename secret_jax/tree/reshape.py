"""Trees made of other trees: cut back, concatenated, taken apart, without gates."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from secret_jax.tree.structure import (
    ARRAY_FIELDS,
    COMPARISON_FIELDS,
    LEAF_FIELDS,
    StopReason,
    Tree,
)
from secret_jax.tree.totals import levels_of_splits

_LINKS = ("left", "right", "parent", "further")  # node ids


def _of_nodes(
    arrays: dict[str, np.ndarray], node: np.ndarray, further: np.ndarray
) -> dict[str, np.ndarray]:
    """Take the arrays of some nodes and of some further comparisons."""
    compared = np.append(node, len(arrays["left"]) + further)
    place = dict.fromkeys(COMPARISON_FIELDS, compared) | {"further": further}
    return {name: array[place.get(name, node)] for name, array in arrays.items()}


def compact(
    tree: Tree, keep_children: np.ndarray, reason: StopReason = StopReason.PRUNED
) -> Tree:
    """Turn the nodes outside ``keep_children`` (n_nodes,), bool, into leaves.

    Nodes that can no longer be reached are gone, the others renumbered in order.
    """
    kept = ~tree.is_leaf & keep_children
    pruned = np.flatnonzero(~tree.is_leaf & ~kept)
    reachable = remaining(tree, kept)
    arrays = {name: getattr(tree, name) for name in ARRAY_FIELDS}
    for name, blank in {**LEAF_FIELDS, "stop_reason": reason}.items():
        arrays[name] = arrays[name].copy()
        arrays[name][pruned] = blank
    further = np.flatnonzero((reachable & kept)[tree.further])
    arrays = _of_nodes(arrays, np.flatnonzero(reachable), further)
    number = np.cumsum(reachable) - 1
    for name in _LINKS:
        ids = arrays[name]
        arrays[name] = np.where(ids >= 0, number[ids], -1).astype(np.int32)
    return replace(tree, longer=None, **arrays)


def remaining(tree: Tree, keep_children: np.ndarray) -> np.ndarray:
    """Mask of the nodes that are in the result of `compact`, in order."""
    reachable = np.ones(tree.n_nodes, bool)
    for node in levels_of_splits(tree):
        stays = reachable[node] & keep_children[node]
        reachable[tree.left[node]] = reachable[tree.right[node]] = stays
    return reachable


def place_in(tree: Tree, subtree: Tree) -> np.ndarray:
    """Nodes of a pruned tree, (n_nodes,), int: each, or the leaf that replaced it."""
    left, parent = tree.left.tolist(), tree.parent.tolist()
    children = list(zip(subtree.left.tolist(), subtree.right.tolist(), strict=True))
    place = [0] * tree.n_nodes
    for node in range(1, tree.n_nodes):  # parents come first
        above = place[parent[node]]
        left_child, right_child = children[above]
        child = left_child if left[parent[node]] == node else right_child
        place[node] = child if child >= 0 else above
    return np.array(place)


def nodes_kept(tree: Tree, subtree: Tree) -> np.ndarray | None:
    """Nodes of a tree that a tree cut from it has; None if it splits otherwise."""
    node = np.unique(place_in(tree, subtree), return_index=True)[1]
    if len(node) != subtree.n_nodes:
        return None
    inner = np.flatnonzero(~subtree.is_leaf)
    more = np.flatnonzero(np.isin(tree.further, node[inner]))
    own = np.append(inner, subtree.n_nodes + np.arange(len(subtree.further)))
    there = np.append(node[inner], tree.n_nodes + more)
    alike = len(own) == len(there) and all(
        np.array_equal(getattr(subtree, name)[own], getattr(tree, name)[there])
        for name in COMPARISON_FIELDS
    )
    return node if alike else None


def joined(trees: Sequence[Tree]) -> Tree:
    """Concatenate trees of one schema into one set of arrays, with several roots."""
    if len(trees) == 1:
        return trees[0]
    arrays = {
        name: np.concatenate([getattr(tree, name) for tree in trees])
        for name in ARRAY_FIELDS
    }
    size, n_further = zip(*((t.n_nodes, len(t.further)) for t in trees), strict=True)
    start = np.cumsum(size) - size
    for name in _LINKS:
        shift = np.repeat(start, n_further if name == "further" else size)
        shifted = np.where(arrays[name] >= 0, arrays[name] + shift, -1)
        arrays[name] = shifted.astype(np.int32)
    is_further = np.repeat([False, True] * len(trees), np.c_[size, n_further].ravel())
    order = np.argsort(is_further, kind="stable")
    arrays |= {name: arrays[name][order] for name in COMPARISON_FIELDS}
    return replace(trees[0], **arrays)


def separated(forest: Tree, sizes: Sequence[int]) -> list[Tree]:
    """Split arrays that `joined` made back into trees, given their sizes."""
    arrays, trees = {name: getattr(forest, name) for name in ARRAY_FIELDS}, []
    for stop, size in zip(np.cumsum(sizes).tolist(), sizes, strict=True):
        node = np.arange(stop - size, stop)
        further = np.flatnonzero(np.isin(forest.further, node))
        taken = _of_nodes(arrays, node, further)
        for name in _LINKS:
            shifted = np.where(taken[name] >= 0, taken[name] + size - stop, -1)
            taken[name] = shifted.astype(np.int32)
        trees.append(replace(forest, **taken))
    return trees


def hardened(tree: Tree) -> Tree:
    """Replace gates by thresholds; models that were trained to be mixed err more."""
    width = np.zeros_like(tree.gate_width)
    return replace(tree, gate_width=width, clip_leaves=True)
