"""Flat arrays of trees while they grow."""

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.frontier import Frontier
from secret_jax.splits.interface import Comparison, Split
from secret_jax.tree.reshape import compact, place_in
from secret_jax.tree.structure import (
    AXES,
    LEAF_FIELDS,
    TYPES,
    SplitKind,
    StopReason,
    Tree,
    lengths_of,
)

# Nodes of each tree that there is room for at first: small trees need no more.
_FIRST_ROOM = 32


class Builder:
    """Builder of the flat ``arrays`` of several trees, which begin as single leaves."""

    def __init__(self, schema: TableSchema, n_trees: int):
        self._schema = schema
        lengths = lengths_of(schema)
        self._n_categories = lengths["categories"]
        start = LEAF_FIELDS | {"parent": -1, "stop_reason": StopReason.SPLIT}
        start |= {"larger_left": True, "standard_error": np.nan}
        self._blank = {
            name: (start.get(name, 0), [lengths[axis] for axis in axes])
            for name, (_, *axes) in AXES.items()
            if name != "further"
        }
        self._further: list[dict[str, np.ndarray]] = []
        self._n_nodes = 0
        self._room: dict[str, np.ndarray] = {
            name: np.empty((0, *shape), TYPES[name])
            for name, (_, shape) in self._blank.items()
        }
        self._tree = np.arange(n_trees)
        self._add(n_trees)

    def among(self, node: np.ndarray, some: Any) -> np.ndarray:
        """Which of the nodes are among some others."""
        chosen = np.zeros(self._n_nodes, bool)
        chosen[some] = True
        return chosen[node]

    def split(
        self, parents: Frontier, splits: Split, larger_left: np.ndarray
    ) -> np.ndarray:
        """Split nodes in two children each; return the children's ids."""
        node = parents.node
        child = self._add(2 * len(node))
        self._tree = np.append(self._tree, np.repeat(parents.tree, 2))
        arrays = self.arrays
        arrays["parent"][child] = np.repeat(node, 2)
        arrays["depth"][child] = np.repeat(arrays["depth"][node] + 1, 2)
        arrays["left"][node] = child[0::2]
        arrays["right"][node] = child[1::2]
        own, *further = map(self._fitting, splits.comparisons)
        for name, array in own.items():
            arrays[name][node] = array
        for one in further:
            there = one["kind"] != SplitKind.LEAF
            one |= {"further": node}
            self._further.append({name: array[there] for name, array in one.items()})
        arrays["larger_left"][node] = larger_left
        arrays["gain"][node] = splits.gain
        if splits.child_models is not None:
            shape = arrays["coefficient"].shape[1:]
            arrays["coefficient"][child] = splits.child_models.reshape(-1, *shape)
        return child

    def _fitting(self, one: Comparison) -> dict[str, np.ndarray]:
        """Arrays of comparisons, as those of a tree."""
        discrete, oblique = (
            one.kind == k for k in (SplitKind.DISCRETE, SplitKind.OBLIQUE)
        )
        subset = one.goes_left[:, : self._n_categories] & discrete[:, None]
        attribute = np.where(oblique, -1, one.attribute)
        return one._replace(attribute=attribute, goes_left=subset)._asdict()

    def finish(
        self, max_leaf_nodes: Sequence[int | None]
    ) -> tuple[list[Tree], np.ndarray]:
        """Make trees of the arrays; models are those implied by the finder, or zero.

        ``max_leaf_nodes``: maximum number of leaves of every tree. Returns ``number``
        (n_nodes,), int64: final number of every node: its own, or that of the leaf that
        replaced its ancestor. Numbers continue from tree to tree.
        """
        order = self._in_breadth()
        order = order[np.argsort(self._tree[order], kind="stable")]
        size = np.bincount(self._tree)
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
        trees, n_before = [], 0
        parts = np.split(order, np.cumsum(size)[:-1])
        for mine, most in zip(parts, max_leaf_nodes, strict=True):
            arrays: dict[str, Any] = {
                name: own[mine] for name, own in self.arrays.items()
            } | {"further": np.zeros(0, np.int32)}
            for one in self._further:
                here = self._tree[one["further"]] == self._tree[mine[0]]
                for name, array in one.items():
                    more = array[here].astype(arrays[name].dtype)
                    arrays[name] = np.concatenate([arrays[name], more])
            for name in ("left", "right", "parent", "further"):
                ids = arrays[name]
                arrays[name] = np.where(ids >= 0, number[ids], -1).astype(np.int32)
            tree = Tree(**arrays, schema=self._schema)
            kept = _best_first(tree, most)
            trees.append(tree)
            number[mine] = n_before + np.arange(tree.n_nodes)
            if not kept.all():
                trees[-1] = compact(tree, kept, StopReason.MAX_LEAF_NODES)
                number[mine] = n_before + place_in(tree, trees[-1])
            n_before += trees[-1].n_nodes
        return trees, number

    def _in_breadth(self) -> np.ndarray:
        """Nodes in breadth-first order, whatever the order of their creation."""
        parent, depth = self.arrays["parent"], self.arrays["depth"]
        order = [np.flatnonzero(depth == 0)]
        place = np.arange(len(depth))
        for level in range(1, depth.max() + 1):
            node = np.flatnonzero(depth == level)
            # A left child has the number before that of its sibling.
            node = node[np.argsort(place[parent[node]], kind="stable")]
            place[node] = np.arange(len(node))
            order.append(node)
        return np.concatenate(order)

    def _add(self, n_nodes: int) -> np.ndarray:
        first, self._n_nodes = self._n_nodes, self._n_nodes + n_nodes
        if self._n_nodes > len(self._room["left"]):  # at least twice as much room
            more = max(self._n_nodes, _FIRST_ROOM * len(self._tree))
            for name, (value, shape) in self._blank.items():
                old = self._room[name]
                self._room[name] = new = np.empty((len(old) + more, *shape), old.dtype)
                new[: len(old)], new[len(old) :] = old, value
        self.arrays = {name: own[: self._n_nodes] for name, own in self._room.items()}
        return np.arange(first, self._n_nodes)


def _best_first(tree: Tree, max_leaf_nodes: int | None) -> np.ndarray:
    """Mask of nodes that best-first growth to a number of leaves would split."""
    # A node's split does not depend on when it is made: trees are cut afterwards.
    inner = ~tree.is_leaf
    if max_leaf_nodes is None or inner.sum() < max_leaf_nodes:
        return np.ones(tree.n_nodes, bool)
    kept = np.zeros(tree.n_nodes, bool)
    heap = [(-float(tree.gain[0]), 0)]
    n_kept = 0
    while heap and n_kept < max_leaf_nodes - 1:
        _, node = heapq.heappop(heap)
        kept[node] = True
        n_kept += 1
        for child in (tree.left[node], tree.right[node]):
            if inner[child]:
                heapq.heappush(heap, (-float(tree.gain[child]), int(child)))
    return kept
