"""The level loop: frontier, stable partition and the stopping ladder.

The host keeps the frontier; everything numeric happens in a search
(`secret_jax.grow.batches`). A level does not care which tree its nodes belong to, so several
trees grow side by side.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import in_blocks, mix, partition, slice_positions
from secret_jax.data.table import Table, TableSchema
from secret_jax.grow.batches import SEARCHES, Level, TrainingRows
from secret_jax.options import GrowOptions
from secret_jax.splits.interface import NodeSplits
from secret_jax.tree.structure import SplitKind, StopReason

Progress = Callable[[str], None]


class GrownTree(NamedTuple):
    """Structure of a tree before it has models; arrays of shape (n_nodes, ...).

    The fields are those of `secret_jax.tree.structure.Tree`, and the regressors that the mixtures
    imply (zero where they were not asked for).
    """

    left: np.ndarray
    right: np.ndarray
    parent: np.ndarray
    depth: np.ndarray
    kind: np.ndarray
    attribute: np.ndarray
    direction: np.ndarray
    threshold: np.ndarray
    goes_left: np.ndarray
    larger_left: np.ndarray
    gain: np.ndarray
    stop_reason: np.ndarray
    mixture_model: np.ndarray


class Root(NamedTuple):
    """Where a tree begins.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,), int
        Rows of the table that train the tree, in shuffled order.
    oblique : bool
        Whether it may split obliquely.
    """

    rows: np.ndarray
    oblique: bool


def grow(
    table: Table,
    y: np.ndarray,
    weight: np.ndarray,
    schema: TableSchema,
    options: GrowOptions,
    seed: int,
    roots: Sequence[Root],
    progress: Progress | None = None,
) -> list[GrownTree]:
    """Grow trees side by side, level by level.

    Parameters
    ----------
    table : Table
        Encoded training rows, shuffled.
    y : ndarray of shape (n_rows,), float32
        Output in standardised units.
    weight : ndarray of shape (n_rows,), float32
        Positive.
    schema : TableSchema
    options : GrowOptions
    seed : int
    roots : sequence of Root
        One for every tree.
    progress : callable, optional
        Called with one line per level.

    Returns
    -------
    list of GrownTree
        One for every root. In each, parents come before children and the root is first.
    """
    rows = TrainingRows(table, y, weight)
    search = SEARCHES[options.split.criterion](rows, schema, options)
    n_trees = len(roots)
    builder = _Builder(schema)
    order = np.concatenate([root.rows for root in roots])
    stop = np.cumsum([len(root.rows) for root in roots])
    level = Level(
        node=builder.add(parent=np.full(n_trees, -1)),
        parent=np.full(n_trees, -1),
        start=np.append(0, stop[:-1]),
        stop=stop,
        weight=np.array([weight[root.rows].sum(dtype=np.float64) for root in roots]),
        key=np.repeat(mix(np.array([seed], np.uint64)), n_trees),
        oblique=np.array([root.oblique for root in roots]),
    )
    depth = 0
    while len(level.node):
        reason = _stop_before_search(level, depth, options)
        searched = np.flatnonzero(reason == StopReason.SPLIT)
        splits, reason[searched] = search.find(level.take(searched), order)
        splittable = np.flatnonzero(reason[searched] == StopReason.SPLIT)
        division = _divide(
            level.take(searched[splittable]),
            NodeSplits(*(array[splittable] for array in splits)),
            order,
            rows,
        )
        # A search that saw a sample of the rows may have misjudged the sides.
        least = np.minimum(division.left_weight, division.right_weight)
        narrow = least < options.min_samples_leaf * (1 - 1e-6)
        reason[searched[splittable[narrow]]] = StopReason.MIN_SAMPLES_LEAF
        builder.stop(level.node, reason)
        if progress is not None:
            progress(f"level {depth}: {len(level.node)} nodes, {(~narrow).sum()} split")
        level = _descend(division.take(~narrow), order, builder)
        depth += 1
    return [
        _best_first(tree, options.max_leaf_nodes) for tree in builder.finish(n_trees)
    ]


def _stop_before_search(level: Level, depth: int, options: GrowOptions) -> np.ndarray:
    """The stopping ladder: the first rule that holds names the reason."""
    too_deep = options.max_depth is not None and depth >= options.max_depth
    return np.select(
        [
            level.weight < options.min_samples_split,
            level.weight < 2 * options.min_samples_leaf,
            np.full(len(level.node), too_deep),
        ],
        [
            StopReason.MIN_SAMPLES_SPLIT,
            StopReason.MIN_SAMPLES_LEAF,
            StopReason.MAX_DEPTH,
        ],
        StopReason.SPLIT,
    )


class _Division(NamedTuple):
    """Nodes, their splits, and which way their rows go."""

    parents: Level
    splits: NodeSplits
    go_left: np.ndarray  # (sum of the nodes' rows,), one node after the other
    left_weight: np.ndarray
    right_weight: np.ndarray

    def take(self, chosen: np.ndarray) -> _Division:
        """Some of the nodes, by a mask."""
        length = self.parents.stop - self.parents.start
        return _Division(
            parents=self.parents.take(chosen),
            splits=NodeSplits(*(array[chosen] for array in self.splits)),
            go_left=self.go_left[np.repeat(chosen, length)],
            left_weight=self.left_weight[chosen],
            right_weight=self.right_weight[chosen],
        )


def _divide(
    parents: Level, splits: NodeSplits, order: np.ndarray, rows: TrainingRows
) -> _Division:
    """Send the rows of nodes to their sides."""
    n_nodes = len(parents.node)
    row = order[slice_positions(parents.start, parents.stop)]
    slot = np.repeat(np.arange(n_nodes), parents.stop - parents.start)

    def sides(block: slice) -> tuple[np.ndarray, np.ndarray]:
        x, codes = rows.table.x[row[block]], rows.table.codes[row[block]]
        return _goes_left(splits, slot[block], x, codes)

    parts = zip(*in_blocks(sides, len(row)), strict=True)
    go_left, known = (np.concatenate(part) for part in parts)
    weight = rows.weight[row].astype(np.float64)
    if not known.all():
        # Categories that only pruning rows have go to the larger side, as in the tree.
        left = np.bincount(slot, weight * (go_left & known), n_nodes)
        right = np.bincount(slot, weight * (~go_left & known), n_nodes)
        go_left = np.where(known, go_left, (left >= right)[slot])
    return _Division(
        parents=parents,
        splits=splits,
        go_left=go_left,
        left_weight=np.bincount(slot, weight * go_left, n_nodes),
        right_weight=np.bincount(slot, weight * ~go_left, n_nodes),
    )


def _descend(division: _Division, order: np.ndarray, builder: _Builder) -> Level:
    """Partition the rows of the split nodes; the children are the next frontier."""
    parents, splits, go_left, left_weight, right_weight = division
    middle = partition(order, parents.start, parents.stop, go_left)

    def interleave(left, right):
        return np.stack([left, right], axis=1).reshape(2 * len(parents.node))

    return Level(
        node=builder.split(parents.node, splits, left_weight >= right_weight),
        parent=np.repeat(parents.node, 2),
        start=interleave(parents.start, middle),
        stop=interleave(middle, parents.stop),
        weight=interleave(left_weight, right_weight),
        key=interleave(mix(parents.key), mix(parents.key ^ np.uint64(1))),
        oblique=np.repeat(parents.oblique, 2),
    )


def _goes_left(
    splits: NodeSplits, slot: np.ndarray, x: np.ndarray, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows go left, and which rows have categories that say so."""
    projection = np.einsum("ij,ij->i", x, splits.direction[slot])
    left = projection <= splits.threshold[slot]
    known = np.ones(len(left), bool)
    if codes.shape[1]:
        attribute = np.maximum(splits.attribute[slot], 0)
        discrete = splits.kind[slot] == SplitKind.DISCRETE
        code = codes[np.arange(len(codes)), np.where(discrete, attribute, 0)]
        left = np.where(discrete, splits.goes_left[slot, code], left)
        known = ~discrete | (code >= 0)
    return left, known


def _best_first(tree: GrownTree, max_leaf_nodes: int | None) -> GrownTree:
    """The tree that best-first growth with at most so many leaves would have given.

    A node's split does not depend on when it is made, so the full tree can be cut
    afterwards: the largest gain is split first.
    """
    inner = tree.left >= 0
    if max_leaf_nodes is None or inner.sum() < max_leaf_nodes:
        return tree
    kept = np.zeros(len(tree.left), bool)
    heap = [(-float(tree.gain[0]), 0)]
    while heap and kept.sum() < max_leaf_nodes - 1:
        _, node = heapq.heappop(heap)
        kept[node] = True
        for child in (tree.left[node], tree.right[node]):
            if inner[child]:
                heapq.heappush(heap, (-float(tree.gain[child]), int(child)))
    return _cut(tree, kept)


def _cut(tree: GrownTree, kept: np.ndarray) -> GrownTree:
    """The tree in which only the ``kept`` nodes are split."""
    reachable = (tree.parent < 0) | kept[np.maximum(tree.parent, 0)]
    number = np.where(reachable, np.cumsum(reachable) - 1, -1)
    stopped = ~kept & (tree.left >= 0)
    arrays = tree._asdict()
    for name in ("left", "right", "parent"):
        ids = arrays[name]
        arrays[name] = np.where(ids >= 0, number[ids], -1).astype(np.int32)
    arrays["stop_reason"] = np.where(
        stopped, StopReason.MAX_LEAF_NODES, tree.stop_reason
    ).astype(np.int32)
    for name in ("left", "right", *_SPLIT_FIELDS):
        blank = _blank_value(name, arrays[name])
        shape = (-1,) + (1,) * (arrays[name].ndim - 1)
        arrays[name] = np.where(stopped.reshape(shape), blank, arrays[name])
    return GrownTree(**{name: array[reachable] for name, array in arrays.items()})


_SPLIT_FIELDS = ("kind", "attribute", "direction", "threshold", "goes_left", "gain")


def _blank_value(name: str, array: np.ndarray) -> np.generic:
    """What a leaf holds in a field that describes a split."""
    blank = -1 if name in ("left", "right", "attribute") else 0
    return array.dtype.type(blank)


class _Builder:
    """Grows the flat arrays of one or more trees, one level at a time."""

    def __init__(self, schema: TableSchema):
        self._n_categories = max((len(c) for c in schema.categories), default=0)
        self._blank = {
            "left": np.int32(-1),
            "right": np.int32(-1),
            "parent": np.int32(-1),
            "depth": np.int32(0),
            "kind": np.int32(SplitKind.LEAF),
            "attribute": np.int32(-1),
            "direction": np.zeros(schema.n_columns, np.float32),
            "threshold": np.float32(0),
            "goes_left": np.zeros(self._n_categories, bool),
            "larger_left": np.bool_(True),
            "gain": np.float32(0),
            "stop_reason": np.int32(StopReason.SPLIT),
            "mixture_model": np.zeros(1 + schema.n_regressors, np.float32),
        }
        self._arrays = {
            name: np.empty((0, *np.shape(value)), np.asarray(value).dtype)
            for name, value in self._blank.items()
        }

    def add(self, parent: np.ndarray) -> np.ndarray:
        """Append blank nodes and return their ids."""
        first = len(self._arrays["left"])
        depth = np.where(parent < 0, 0, 1)
        if first:
            depth = self._arrays["depth"][parent] + 1
        for name, value in self._blank.items():
            new = np.broadcast_to(value, (len(parent), *np.shape(value)))
            self._arrays[name] = np.concatenate([self._arrays[name], new])
        node = np.arange(first, first + len(parent))
        self._arrays["parent"][node] = parent
        self._arrays["depth"][node] = depth
        return node

    def stop(self, node: np.ndarray, reason: np.ndarray) -> None:
        """Note why nodes are not split further."""
        self._arrays["stop_reason"][node] = reason

    def split(
        self, node: np.ndarray, splits: NodeSplits, larger_left: np.ndarray
    ) -> np.ndarray:
        """Give nodes their splits and two children each; return the children's ids."""
        child = self.add(np.repeat(node, 2))
        arrays = self._arrays
        arrays["left"][node] = child[0::2]
        arrays["right"][node] = child[1::2]
        arrays["kind"][node] = splits.kind
        discrete_or_axis = splits.kind != SplitKind.OBLIQUE
        arrays["attribute"][node] = np.where(discrete_or_axis, splits.attribute, -1)
        arrays["direction"][node] = splits.direction
        arrays["threshold"][node] = splits.threshold
        discrete = splits.kind == SplitKind.DISCRETE
        subset = splits.goes_left[:, : self._n_categories] & discrete[:, None]
        arrays["goes_left"][node] = subset
        arrays["larger_left"][node] = larger_left
        arrays["gain"][node] = splits.gain
        arrays["mixture_model"][child] = splits.child_model.reshape(
            len(child), splits.child_model.shape[-1]
        )
        return child

    def finish(self, n_trees: int) -> list[GrownTree]:
        """The trees grown so far: the first nodes are their roots."""
        parent = self._arrays["parent"]
        tree = np.arange(len(parent))
        for node in range(n_trees, len(parent)):  # parents come before children
            tree[node] = tree[parent[node]]
        grown = []
        for root in range(n_trees):
            mine = tree == root
            number = np.where(mine, np.cumsum(mine) - 1, -1)
            arrays = {name: array[mine] for name, array in self._arrays.items()}
            for name in ("left", "right", "parent"):
                ids = arrays[name]
                arrays[name] = np.where(ids >= 0, number[ids], -1).astype(np.int32)
            grown.append(GrownTree(**arrays))
        return grown
