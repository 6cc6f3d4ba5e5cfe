"""The level loop: frontier, batches, stable partition and the stopping ladder.

The host keeps the frontier; everything numeric happens in a split finder, on batches
whose shapes come from a short list, so that a fit compiles a handful of programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from secret_jax.mixture import MixtureStatus
from secret_jax.options import GrowOptions
from secret_jax.rows import (
    bucket,
    mix,
    next_power_of_two,
    partition,
    slice_positions,
    uniform,
)
from secret_jax.splits import NodeBatch, NodeSplits
from secret_jax.splits.secret import SecretSettings, find_splits
from secret_jax.table import Table, TableSchema
from secret_jax.tree import SplitKind, StopReason

# Most padded rows of one batch, unless a single node has more.
_BATCH_ROWS = 1 << 15
_SMALLEST_SAMPLE = 64


class GrownTree(NamedTuple):
    """Structure of a tree before it has models; arrays of shape (n_nodes, ...).

    The fields are those of `secret_jax.tree.Tree`, and the regressors that the mixtures
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


class _Level(NamedTuple):
    """The frontier: nodes of one depth, their rows a slice of the row order each."""

    node: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    weight: np.ndarray
    key: np.ndarray  # uint64; a node's randomness, whatever else is in its batch


Progress = Callable[[str], None]


def grow(
    table: Table,
    y: np.ndarray,
    weight: np.ndarray,
    schema: TableSchema,
    options: GrowOptions,
    seed: int,
    progress: Progress | None = None,
) -> GrownTree:
    """Grow a tree level by level.

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
    progress : callable, optional
        Called with one line per level.

    Returns
    -------
    GrownTree
        Parents before children, root first.
    """
    settings = _settings(schema, options)
    builder = _Builder(schema, options)
    order = np.arange(len(y))
    key = mix(np.array([seed], np.uint64))
    level = _Level(
        node=builder.add(parent=np.array([-1]), depth=0),
        start=np.array([0]),
        stop=np.array([len(y)]),
        weight=np.array([weight.sum(dtype=np.float64)]),
        key=key,
    )
    while len(level.node):
        reason = _stop_before_search(level, builder.current_depth, options)
        searched = np.flatnonzero(reason == StopReason.SPLIT)
        splits = _search(
            _take(level, searched), order, table, y, weight, options, settings
        )
        reason[searched] = np.select(
            [splits.kind != SplitKind.LEAF, splits.pure],
            [StopReason.SPLIT, StopReason.PURE],
            StopReason.NO_USABLE_SPLIT,
        )
        room = math.inf
        if options.max_leaf_nodes is not None:
            room = options.max_leaf_nodes - builder.n_leaves
        split = np.flatnonzero(reason[searched] == StopReason.SPLIT)
        if len(split) > room:  # the most promising first
            promise = splits.gain[split] * level.weight[searched[split]]
            ranked = split[np.argsort(-promise, kind="stable")]
            reason[searched[ranked[int(room) :]]] = StopReason.MAX_LEAF_NODES
            split = np.sort(ranked[: int(room)])
        builder.stop(level.node, reason)
        chosen = NodeSplits(*(np.asarray(array)[split] for array in splits))
        parents = _take(level, searched[split])
        if progress is not None:
            progress(
                f"level {builder.current_depth}: {len(level.node)} nodes, "
                f"{len(split)} split"
            )
        level = _descend(parents, chosen, order, table, weight, builder)
    return builder.finish()


def _settings(schema: TableSchema, options: GrowOptions) -> SecretSettings:
    largest = max((len(c) for c in schema.categories), default=0)
    return SecretSettings(
        n_regressors=schema.n_regressors,
        n_categories=next_power_of_two(max(largest, 1)),
        oblique=options.split.oblique,
        counted_gain=options.split.gini_gain == "counted",
        child_models=options.keep_mixture_models,
        max_iter=options.mixture.max_iter,
        tolerance=options.mixture.tolerance,
        floor=options.mixture.floor,
    )


def _take(level: _Level, index: np.ndarray) -> _Level:
    return _Level(*(array[index] for array in level))


def _stop_before_search(level: _Level, depth: int, options: GrowOptions) -> np.ndarray:
    """The stopping ladder: the first rule that holds names the reason."""
    rules = [
        (level.weight < options.min_samples_split, StopReason.MIN_SAMPLES_SPLIT),
        (level.weight < 2 * options.min_samples_leaf, StopReason.MIN_SAMPLES_LEAF),
        (
            np.full(
                len(level.node),
                options.max_depth is not None and depth >= options.max_depth,
            ),
            StopReason.MAX_DEPTH,
        ),
    ]
    conditions, reasons = zip(*rules, strict=True)
    return np.select(conditions, reasons, StopReason.SPLIT)


def _search(
    level: _Level,
    order: np.ndarray,
    table: Table,
    y: np.ndarray,
    weight: np.ndarray,
    options: GrowOptions,
    settings: SecretSettings,
) -> NodeSplits:
    """One split per node; nodes without a usable one try again with new starts."""
    n_nodes = len(level.node)
    found = _no_splits(n_nodes, table.x.shape[1], settings)
    waiting = np.arange(n_nodes)
    for attempt in range(options.mixture.n_attempts):
        for index, batch in _batches(
            level, waiting, order, table, y, weight, options, attempt
        ):
            splits = find_splits(batch, settings=settings)
            for target, source in zip(found, splits, strict=True):
                target[index] = np.asarray(source)[: len(index)]
        hopeless = found.pure | (found.status == MixtureStatus.TOO_FEW_ROWS)
        waiting = np.flatnonzero((found.kind == SplitKind.LEAF) & ~hopeless)
    return found


def _no_splits(n_nodes: int, n_continuous: int, settings: SecretSettings) -> NodeSplits:
    return NodeSplits(
        kind=np.zeros(n_nodes, np.int32),
        attribute=np.full(n_nodes, -1, np.int32),
        direction=np.zeros((n_nodes, n_continuous), np.float32),
        threshold=np.zeros(n_nodes, np.float32),
        goes_left=np.zeros((n_nodes, settings.n_categories), bool),
        gain=np.zeros(n_nodes, np.float32),
        status=np.zeros(n_nodes, np.int32),
        pure=np.zeros(n_nodes, bool),
        child_model=np.zeros((n_nodes, 2, 1 + settings.n_regressors), np.float32),
    )


def _batches(
    level: _Level,
    waiting: np.ndarray,
    order: np.ndarray,
    table: Table,
    y: np.ndarray,
    weight: np.ndarray,
    options: GrowOptions,
    attempt: int,
) -> Iterator[tuple[np.ndarray, NodeBatch]]:
    """Nodes of like size together, each with a prefix sample of its rows."""
    mixture = options.mixture
    n_rows = level.stop - level.start
    n_sample = n_rows if mixture.sample is None else np.minimum(n_rows, mixture.sample)
    size = np.array([bucket(n, smallest=_SMALLEST_SAMPLE) for n in n_sample[waiting]])
    # One number of nodes for each number of rows: a fit compiles one program for each.
    n_batch_rows = min(_BATCH_ROWS, 2 * bucket(len(y), smallest=_SMALLEST_SAMPLE))
    for rows in np.unique(size):
        alike = waiting[size == rows]
        n_padded = max(1, n_batch_rows // int(rows))
        for first in range(0, len(alike), n_padded):
            index = alike[first : first + n_padded]
            sample = np.zeros(n_padded, np.int64)
            sample[: len(index)] = n_sample[index]
            start = np.zeros(n_padded, np.int64)
            start[: len(index)] = level.start[index]
            column = np.arange(rows)
            inside = column < sample[:, None]
            row = order[np.where(inside, start[:, None] + column, 0)]
            share = sample[: len(index)] / n_rows[index]
            min_weight = np.full(n_padded, np.inf, np.float32)
            min_weight[: len(index)] = options.min_samples_leaf * share
            key = np.zeros(n_padded, np.uint64)
            key[: len(index)] = level.key[index]
            yield (
                index,
                NodeBatch(
                    x=table.x[row],
                    codes=np.maximum(table.codes[row], 0),
                    y=np.where(inside, y[row], 0).astype(np.float32),
                    weight=np.where(inside, weight[row], 0).astype(np.float32),
                    min_weight=min_weight,
                    randomness=_randomness(key, mixture.n_starts, attempt),
                    from_component=np.broadcast_to(
                        (np.arange(mixture.n_starts) == 0)
                        & (attempt == 0)
                        & (mixture.start == "component"),
                        (n_padded, mixture.n_starts),
                    ),
                ),
            )


def _randomness(key: np.ndarray, n_starts: int, attempt: int) -> np.ndarray:
    """Two numbers in [0, 1) per node and start, float32."""
    counter = np.arange(2 * n_starts) + 2 * n_starts * attempt
    numbers = uniform(mix(key[:, None]) ^ counter.astype(np.uint64))
    below_one = np.minimum(numbers.astype(np.float32), np.float32(1 - 2**-24))
    return below_one.reshape(len(key), n_starts, 2)


def _descend(
    parents: _Level,
    splits: NodeSplits,
    order: np.ndarray,
    table: Table,
    weight: np.ndarray,
    builder: _Builder,
) -> _Level:
    """Partition the rows of the split nodes; the children are the next frontier."""
    n_split = len(parents.node)
    row = order[slice_positions(parents.start, parents.stop)]
    slot = np.repeat(np.arange(n_split), parents.stop - parents.start)
    go_left = _goes_left(splits, slot, table.x[row], table.codes[row])
    row_weight = weight[row].astype(np.float64)
    left_weight = np.bincount(slot, row_weight * go_left, n_split)
    middle = partition(order, parents.start, parents.stop, go_left)

    def interleave(left, right):
        return np.stack([left, right], axis=1).reshape(2 * n_split, *left.shape[1:])

    node = builder.split(parents.node, splits, left_weight >= 0.5 * parents.weight)
    return _Level(
        node=node,
        start=interleave(parents.start, middle),
        stop=interleave(middle, parents.stop),
        weight=interleave(left_weight, parents.weight - left_weight),
        key=interleave(mix(parents.key), mix(parents.key ^ np.uint64(1))),
    )


def _goes_left(
    splits: NodeSplits, slot: np.ndarray, x: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    projection = np.einsum("ij,ij->i", x, splits.direction[slot])
    left = projection <= splits.threshold[slot]
    if codes.shape[1]:
        attribute = np.maximum(splits.attribute[slot], 0)
        discrete = splits.kind[slot] == SplitKind.DISCRETE
        code = codes[np.arange(len(codes)), np.where(discrete, attribute, 0)]
        left = np.where(discrete, splits.goes_left[slot, code], left)
    return left


class _Builder:
    """Grows the flat arrays of a tree, one level at a time."""

    def __init__(self, schema: TableSchema, options: GrowOptions):
        n_categories = max((len(c) for c in schema.categories), default=0)
        self._blank = {
            "left": np.int32(-1),
            "right": np.int32(-1),
            "parent": np.int32(-1),
            "depth": np.int32(0),
            "kind": np.int32(SplitKind.LEAF),
            "attribute": np.int32(-1),
            "direction": np.zeros(len(schema.continuous), np.float32),
            "threshold": np.float32(0),
            "goes_left": np.zeros(n_categories, bool),
            "larger_left": np.bool_(True),
            "gain": np.float32(0),
            "stop_reason": np.int32(StopReason.SPLIT),
            "mixture_model": np.zeros(1 + schema.n_regressors, np.float32),
        }
        self._arrays = {
            name: np.empty((0, *np.shape(value)), np.asarray(value).dtype)
            for name, value in self._blank.items()
        }
        self._n_categories = n_categories
        self.current_depth = 0

    @property
    def n_leaves(self) -> int:
        """Leaves if the tree stopped here."""
        return int((self._arrays["left"] < 0).sum())

    def add(self, parent: np.ndarray, depth: int) -> np.ndarray:
        """Append blank nodes and return their ids."""
        first = len(self._arrays["left"])
        for name, value in self._blank.items():
            new = np.broadcast_to(value, (len(parent), *np.shape(value)))
            self._arrays[name] = np.concatenate([self._arrays[name], new])
        node = np.arange(first, first + len(parent))
        self._arrays["parent"][node] = parent
        self._arrays["depth"][node] = depth
        self.current_depth = depth
        return node

    def stop(self, node: np.ndarray, reason: np.ndarray) -> None:
        """Note why nodes are not split further."""
        self._arrays["stop_reason"][node] = reason

    def split(
        self, node: np.ndarray, splits: NodeSplits, larger_left: np.ndarray
    ) -> np.ndarray:
        """Give nodes their splits and two children each; return the children's ids."""
        child = self.add(np.repeat(node, 2), self.current_depth + 1)
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

    def finish(self) -> GrownTree:
        """The arrays grown so far."""
        return GrownTree(**self._arrays)
