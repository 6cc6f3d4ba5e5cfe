"""Growth loop: frontier, stable partition and stopping rules.

The host keeps the frontier; what is done with rows happens where they lie
(`execution`), and splits are found by a split finder. A level does not care which tree
its nodes belong to, so several trees grow at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import jax
import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.best_first import BestFirst
from secret_jax.fit.grow.builder import Builder
from secret_jax.fit.grow.execution import (
    Division,
    Execution,
    Found,
    GrowOptions,
    no_splits,
)
from secret_jax.fit.grow.frontier import Frontier, Places, Root
from secret_jax.fit.grow.on_device import OnDevice
from secret_jax.fit.grow.on_host import OnHost
from secret_jax.models.fitting import FittedNodes, NodeSummary, summary_of
from secret_jax.models.interface import Models
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.hashing import mix, random_numbers
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.shapes import slice_positions
from secret_jax.splits.interface import Split, write_nodes
from secret_jax.tree.structure import SplitKind, StopReason, Tree

# A node of more rows gets its model from those that are searched.
_MOST_ROWS = 1 << 16
# Attributes are drawn by other random numbers than those of the finder, of one key.
_OF_DRAWS = np.uint64(0x61747472)


class Grown(NamedTuple):
    """A grown tree."""

    # Without models but those that the finder implied. Parents come before children and
    # the root is first.
    tree: Tree
    # Its nodes with the models that the finder asks for, if these are of all rows.
    fitted: FittedNodes | None
    # Of its nodes, if the root is measured, and growth has summed all of their rows.
    statistics: NodeStatistics | None
    find_leaf: Callable[[], np.ndarray] | None

    @property
    def leaf(self) -> np.ndarray | None:
        """Leaf of every row, (n_rows,), int64, in the order of the root.

        None where growth has not kept the order of the rows.
        """
        return None if self.find_leaf is None else self.find_leaf()


# The trees so far, and for every node, by the order of creation, its number in them.
SoFar: TypeAlias = Callable[[], tuple[list[Grown], np.ndarray]]
Enough: TypeAlias = Callable[[int, SoFar], np.ndarray]


def grown(
    rows: Rows,
    schema: TableSchema,
    options: GrowOptions,
    roots: Sequence[Root],
    stage: Stage = UNTOLD,
    enough: Enough | None = None,
) -> list[Grown]:
    """Grow several trees, level-wise, or best-first if `max_leaf_nodes` is set.

    For best-first growth see `secret_jax.fit.grow.best_first`.

    ``rows``: encoded training rows of all trees, shuffled; ``roots``: one for every
    tree; ``stage``: receives the progress; ``enough``: maps the number of iterations,
    each of one level of searches, and a function that gives the present trees, to the
    nodes, by the order of creation, that need not be split.
    """
    growth, n_turns = _Growth(rows, schema, options, roots, enough is not None), 0
    while True:
        if len(growth.level.node):
            growth.search(stage)
        if not growth.divide():
            break
        n_turns += 1
        if enough is not None and len(growth.level.node):
            growth.end(enough(n_turns, growth.so_far))
    growth.stop(growth.waiting.level, StopReason.MAX_LEAF_NODES)
    return growth.so_far()[0]


class _Growth:
    """Trees that grow: nodes of the level, those that wait to be split, and leaves."""

    def __init__(
        self,
        rows: Rows,
        schema: TableSchema,
        options: GrowOptions,
        roots: Sequence[Root],
        eager: bool,
    ):
        def own(name: str) -> list[int | None]:
            usual, several = getattr(options, name), (getattr(r, name) for r in roots)
            return [usual if each is None else each for each in several]

        self._options, self._limits = options, own("max_leaf_nodes")
        deepest = [np.inf if most is None else most for most in own("max_depth")]
        self._deepest, self._n_rows = np.array(deepest), [len(r.rows) for r in roots]
        places = Places.of(rows, roots)
        level = Frontier.of(roots, places, schema)
        self._rows: Execution
        if options.finder.compiled and on_accelerator():
            self._rows = OnDevice(places, schema, options, level)
        else:
            self._rows = OnHost(places, schema, options)
        self._models = NodeModels(self._rows, options, roots)
        self._drawn = AttributeDraw(self._rows, schema, options.max_features)
        self._builder = Builder(schema, len(roots))
        self._room = BestFirst(self._limits, eager=eager, in_batches=options.in_batches)
        # Of the nodes so far: positions among the fixed ones, -1 for none.
        self._given = np.full(len(roots), -1 if options.fixed is None else 0)
        self.level = self._models.fitted(level)
        # Whether the tree of each node of the level may have no more leaves.
        self._full = np.array([most == 1 for most in self._limits])
        self.waiting = _Waiting(
            level.take(np.zeros(0, int)), no_splits(0, schema, options.finder)
        )
        self._leaves: list[Frontier] = []

    def search(self, stage: Stage) -> None:
        """Find splits of the nodes of the level; those that have none are leaves."""
        level, options = self.level, self._options
        depth = self._builder.arrays["depth"][level.node]
        stage.at(detail=f"level {depth.max() + 1}")
        why_not = {
            StopReason.MIN_SAMPLES_SPLIT: level.weight < level.min_split_weight,
            StopReason.MIN_SAMPLES_LEAF: level.weight < 2 * level.min_leaf_weight,
            StopReason.MAX_DEPTH: depth >= self._deepest[level.tree],
            StopReason.MAX_LEAF_NODES: self._full,
        }
        reason = _first_that_holds(why_not, len(depth))
        searched = reason == StopReason.SPLIT
        open_nodes = level.take(searched)
        splits, share = self._drawn.find(open_nodes)
        if options.fixed is not None:
            splits = options.fixed.put(splits, self._given[open_nodes.node])
        least = options.min_gain * splits.chance_gain
        why_not = {
            StopReason.PURE: splits.pure,
            StopReason.NO_USABLE_SPLIT: splits.kind == SplitKind.LEAF,
            StopReason.MIN_GAIN: splits.gain <= least,
        }
        why = _first_that_holds(why_not, len(least))
        reason[searched] = why
        self._builder.arrays["stop_reason"][level.node] = reason
        self._leaves.append(level.take(reason != StopReason.SPLIT))
        # The rows that the search saw stand for all rows of the node.
        gain = (splits.gain / share).astype(np.float32)
        new = _Waiting(open_nodes, splits._replace(gain=gain))
        new = new.take(why == StopReason.SPLIT)
        parent = self._builder.arrays["parent"][new.level.node]
        about = new.level.tree, parent, new.level.node, new.splits.gain
        self._room.found(*(array.tolist() for array in about))
        if len(self.waiting.level.node):
            new = jax.tree.map(lambda *a: np.concatenate(a), self.waiting, new)
        self.waiting = new

    def divide(self) -> bool:
        """Split the best of the nodes that wait; their children are the next level."""
        chosen, last = self._room.chosen()
        if not chosen:
            return False
        builder, fixed = self._builder, self._options.fixed
        now = builder.among(self.waiting.level.node, chosen)
        going, self.waiting = self.waiting.take(now), self.waiting.take(~now)
        sides = self._rows.divide(going.level, going.splits, self.waiting.level)
        # A search that saw a sample of the rows may have misjudged the sides.
        least = np.minimum(sides.left_weight, sides.right_weight)
        light = least < going.level.min_leaf_weight
        if light.any():
            few, going = going.level.take(light), going.take(~light)
            self.stop(few, StopReason.MIN_SAMPLES_LEAF)
            self._room.drop(few.tree.tolist(), few.node.tolist())
            sides = Division(*(array[~light] for array in sides))
        (parents, splits), (middle, left, right) = going, sides
        child = builder.split(parents, splits, left >= right)
        weight = np.stack([left, right], axis=1).ravel()
        self.level = self._models.fitted(parents.children(child, middle, weight))
        self._full = builder.among(parents.node, last).repeat(2)
        if fixed is not None:
            own = self._given[parents.node]
            below = np.where(own[:, None] >= 0, fixed.below[own], -1)
            self._given = np.append(self._given, below)
        return True

    def end(self, nodes: np.ndarray) -> None:
        """Leave nodes of the level unsplit."""
        ended = self._builder.among(self.level.node, nodes)
        self.stop(self.level.take(ended), StopReason.PRUNED)
        self.level, self._full = self.level.take(~ended), self._full[~ended]

    def stop(self, level: Frontier, why: StopReason) -> None:
        """Make leaves of nodes."""
        self._builder.arrays["stop_reason"][level.node] = why
        self._leaves.append(level)

    def so_far(self) -> tuple[list[Grown], np.ndarray]:
        """The trees, and by the order of creation the number of every node in them."""
        trees, number = self._builder.finish(self._limits)
        size = [tree.n_nodes for tree in trees]
        known = self._models.of_trees(number, size)
        ends = [*self._leaves, self.level, self.waiting.level]
        order, n_rows = self._rows.order, self._n_rows

        @cache
        def leaves() -> list[np.ndarray]:
            assert order is not None
            leaf = np.zeros(sum(n_rows), np.int64)
            for part in ends:
                place = order[slice_positions(part.start, part.stop)]
                leaf[place] = np.repeat(part.node, part.stop - part.start)
            leaf = number[leaf]
            leaf -= np.repeat(np.cumsum(size) - size, n_rows)
            return np.split(leaf, np.cumsum(n_rows)[:-1])

        found = [
            Grown(tree, *own, None if order is None else lambda i=i: leaves()[i])
            for i, (tree, own) in enumerate(zip(trees, known, strict=True))
        ]
        return found, number


def _first_that_holds(why_not: dict[StopReason, np.ndarray], n: int) -> np.ndarray:
    """Why each node is a leaf; SPLIT for those of which nothing holds."""
    found = np.full(n, StopReason.SPLIT)
    for reason, mask in reversed(why_not.items()):
        found[mask] = reason
    return found


class _Waiting(NamedTuple):
    """Nodes with a known split that is not applied yet."""

    level: Frontier
    splits: Split

    def take(self, chosen: np.ndarray) -> _Waiting:
        """Select nodes by a mask."""
        if chosen.all():
            return self
        return _Waiting(self.level.take(chosen), self.splits.take(chosen))


class AttributeDraw:
    """Searches every node on a few attributes, drawn for it alone, as forests do.

    A node in which none of them gives a split is searched on all others: an attribute
    that is constant in a node should not make it a leaf.

    ``max_features``: attributes of a draw, of those that the root allows; None: all of
    them.
    """

    def __init__(self, rows: Execution, schema: TableSchema, max_features: int | None):
        self._rows, self._most = rows, max_features
        # A column goes along with the indicators of its missing values or categories.
        inputs = np.array([*schema.input_columns, *schema.discrete], int)
        self._input = np.unique(inputs, return_inverse=True)[1]
        self._n_inputs = n_inputs(schema)

    def find(self, level: Frontier) -> Found:
        """Splits of the nodes of a level; see `Execution.find`."""
        if self._most is None or self._most >= self._n_inputs or not len(level.node):
            return self._rows.find(level)
        member = self._input[:, None] == np.arange(self._n_inputs)
        number = random_numbers(mix(level.key ^ _OF_DRAWS), self._n_inputs)
        number = np.where(level.allowed @ member, number, np.inf)
        order = np.argsort(number, axis=1, kind="stable")
        drawn = (np.argsort(order, axis=1) < self._most)[:, self._input]
        found = self._rows.find(level._replace(allowed=level.allowed & drawn))
        others = level.allowed & ~drawn
        without = (found.splits.kind == SplitKind.LEAF) & ~found.splits.pure
        without &= others.any(axis=1)
        if without.any():
            again = self._rows.find(level._replace(allowed=others).take(without))
            write_nodes(found.splits, without, again.splits)
        return found


def n_inputs(schema: TableSchema) -> int:
    """Input columns that trees may split on; a date is as many as it has parts."""
    return len({*schema.input_columns, *schema.discrete})


class NodeModels:
    """Fits the nodes of each level, if the finder asks for it; keeps statistics."""

    def __init__(self, rows: Execution, options: GrowOptions, roots: Sequence[Root]):
        self._rows, self._model = rows, options.finder.node_model
        self._sample = np.inf if options.sample is None else options.sample
        everything = options.models_of_all or rows.counts_all
        self._most = np.inf if everything else max(_MOST_ROWS, self._sample)
        # Of each level: models, summaries, and whether they are of all rows.
        self._parts: list[tuple[Models, NodeSummary, np.ndarray]] = []
        # Of each level: nodes of measured roots, and their statistics.
        self._measured = np.array([root.measured for root in roots])
        self._measured &= rows.counts_all or self._model is not None
        self._kept: list[tuple[np.ndarray, NodeStatistics]] = []

    def fitted(self, level: Frontier) -> Frontier:
        """Fit the nodes of a level."""
        measured = self._measured[level.tree]
        if not len(level.node) or (self._model is None and not measured.any()):
            return level
        length = level.stop - level.start
        searched = np.minimum(length, self._sample)
        whole = length <= self._most
        n_rows = np.where(whole, length, searched).astype(int)
        statistics = self._rows.statistics(level, n_rows)
        if measured.any():
            self._kept.append((level.node[measured], statistics.take(measured)))
        if self._model is None:
            return level
        models = self._model.fit(statistics, level.model)
        summary = summary_of(statistics, models.coefficient)
        self._parts.append((models, summary, whole))
        degrees = models.degrees * searched / n_rows
        return level._replace(model=models.coefficient, degrees=degrees)

    def of_trees(
        self, number: np.ndarray, sizes: Sequence[int]
    ) -> list[tuple[FittedNodes | None, NodeStatistics | None]]:
        """Fitted nodes and statistics of each tree; None if not of all their rows."""
        # Nodes come after those above them: the first of a number is the one that
        # stayed.
        stayed = np.unique(number, return_index=True)[1]
        each = np.split(stayed, np.cumsum(sizes)[:-1])
        fitted: list[FittedNodes | None] = [None] * len(sizes)
        whole = [True] * len(sizes)
        if self._parts:
            models, summaries, wholes = zip(*self._parts, strict=True)
            coefficient, degrees, corrects = zip(*models, strict=True)
            parts = wholes, coefficient, degrees, *zip(*summaries, strict=True)
            of_all, *arrays = (np.concatenate(part) for part in parts)
            whole = [bool(of_all[node].all()) for node in each]
            for i in np.flatnonzero(whole).tolist():
                coefficient, degrees, *summary = (array[each[i]] for array in arrays)
                own = Models(coefficient, degrees, corrects[0])
                fitted[i] = FittedNodes(own, NodeSummary(*summary))
        statistics: list[NodeStatistics | None] = [None] * len(sizes)
        if self._kept:
            nodes, kept = zip(*self._kept, strict=True)
            parts = nodes, *zip(*kept, strict=True)
            rising, *arrays = (np.concatenate(part) for part in parts)
            for i in np.flatnonzero(self._measured & whole).tolist():
                place = np.searchsorted(rising, each[i])
                statistics[i] = NodeStatistics(*(array[place] for array in arrays))
        return list(zip(fitted, statistics, strict=True))
