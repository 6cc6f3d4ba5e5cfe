"""Growth on processors: rows in arrays of NumPy, divided where they lie.

A prefix of every node's rows is a sample. The rows of many nodes are looked at
together, as many as a cache holds, and threads keep the processors busy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from secret_jax.data.ragged import RaggedRows
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.execution import (
    Division,
    Execution,
    Found,
    GrowOptions,
    checked_splits,
    no_splits,
)
from secret_jax.fit.grow.frontier import Frontier, Places, partition
from secret_jax.models.statistics import NodeStatistics, slice_statistics
from secret_jax.runtime.hashing import random_numbers
from secret_jax.runtime.parallel import in_blocks, side_by_side
from secret_jax.runtime.shapes import slice_positions
from secret_jax.splits.interface import Level, Roles, Split, write_nodes
from secret_jax.tree.structure import SplitKind
from secret_jax.tree.walk import left_of

# More rows than the first number are searched in an even number of parts, each of
# about the second number of rows: enough for a thread of its own. The same on every
# machine, as who is together may round otherwise.
_SHARED, _TOGETHER = 1 << 14, 3 << 13
# Rows of a sample on each side of a threshold between which all rows of a node are
# looked at, and most of these.
_FEW_BESIDE, _MOST_NEAR = 16, 2048


class OnHost(Execution):
    """Rows of growing trees in the host's memory."""

    counts_all = False
    order: np.ndarray

    def __init__(self, places: Places, schema: TableSchema, options: GrowOptions):
        places = places._replace(targets=places.targets.astype(np.float32, copy=False))
        self._places, self._schema, self._finder = places, schema, options.finder
        self._most = len(places.row) if options.sample is None else options.sample
        # A permutation of the places, which changes as nodes are split. Within a node
        # rows stay in shuffled order: a prefix is a sample.
        self.order = np.arange(len(places.row))
        (x, codes), self._row = places.table.on_host(), places.row
        if 2 * len(places.row) < len(x):  # trees of few of many rows
            some, self._row = np.unique(places.row, return_inverse=True)
            x, codes = x[some], codes[some]
        # Columns first: to turn the rows of a search takes longer, with many columns.
        self._x = np.ascontiguousarray(x.T)
        self._codes = np.ascontiguousarray(np.maximum(codes, 0).T)
        self._targets = np.ascontiguousarray(places.targets.T)
        self._roles = Roles.of(schema)
        self._n_categories = max([1, *map(len, schema.categories)])

    def find(self, frontier: Frontier) -> Found:
        """The best splits of nodes, of the rows that the finder sees."""
        n_nodes = len(frontier.node)
        splits = no_splits(n_nodes, self._schema, self._finder)
        if n_nodes == 0:
            return Found(splits, np.zeros(0))
        n_rows = np.minimum(frontier.stop - frontier.start, self._most)
        share = self._shares(frontier, n_rows)
        least = share * frontier.searched_leaf_weight
        seen = frontier._replace(stop=frontier.start + n_rows, min_leaf_weight=least)

        def search(index: np.ndarray) -> None:
            # What a division by zero leads to is sorted out afterwards.
            some = seen.take(index)
            place = self.order[slice_positions(some.start, some.stop)]
            level = self._level(some, n_rows[index], place, self._weight_of(place))
            with np.errstate(all="ignore"):
                found = checked_splits(self._finder, level)
            write_nodes(splits, index, found)

        side_by_side(search, _parts(n_rows, frontier.oblique))
        self._look_between(frontier, n_rows, splits)
        return Found(splits, share)

    def _look_between(
        self, frontier: Frontier, n_rows: np.ndarray, splits: Split
    ) -> None:
        """Move thresholds of samples to where all rows of the node near them say."""
        index, places, weights = [], [], []
        is_threshold = np.isin(splits.kind, [SplitKind.AXIS, SplitKind.OBLIQUE])
        sampled = n_rows < frontier.stop - frontier.start
        for node in np.flatnonzero(sampled & is_threshold).tolist():
            place = self.order[frontier.start[node] : frontier.stop[node]]
            value, n = self._along(splits, node, place), n_rows[node]
            near = _near(value, n, splits.threshold[node])
            if not 0 < near.sum() <= _MOST_NEAR:
                continue
            here, others = place[near], place[:n][~near[:n]]
            inside, outside = self._weight_of(here), self._weight_of(others)
            rest = frontier.weight[node] - inside.sum(dtype=np.float64)
            outside *= np.float32(rest / max(outside.sum(dtype=np.float64), 1e-30))
            index.append(node)
            places.append(np.append(here, others))
            weights.append(np.append(inside, outside))
        if not index:
            return
        some, length = np.array(index), np.array(list(map(len, places)))
        arrays = np.concatenate(places), np.concatenate(weights)
        level = self._level(frontier.take(some), length, *arrays)
        with np.errstate(all="ignore"):
            found = self._finder.find_near(level, splits.take(some))
        write_nodes(splits, some, found)

    def _along(self, splits: Split, node: int, place: np.ndarray) -> np.ndarray:
        """Rows along the split of a node; missing values are not a number."""
        row, direction = self._row.take(place), splits.direction[node]
        used = np.flatnonzero(direction)
        value = direction[used] @ self._x[used[:, None], row]
        for column, indicator in self._roles.missing:
            if splits.attribute[node] == column:
                value[self._x[indicator].take(row) > 0] = np.nan
        return value

    def _weight_of(self, place: np.ndarray) -> np.ndarray:
        return self._places.weight.take(place).astype(np.float32)

    def _level(
        self,
        frontier: Frontier,
        length: np.ndarray,
        place: np.ndarray,
        weight: np.ndarray,
    ) -> Level:
        """Nodes with some of their rows, as a finder sees them."""
        row = self._row.take(place)
        n_random = self._finder.n_random(len(self._x))
        return Level(
            rows=RaggedRows(length),
            x=self._x.take(row, axis=1),
            codes=self._codes.take(row, axis=1),
            targets=self._targets.take(place, axis=1),
            weight=weight,
            min_weight=frontier.min_leaf_weight.astype(np.float32),
            random=random_numbers(frontier.key, n_random),
            model=frontier.model.astype(np.float32),
            degrees=frontier.degrees.astype(np.float32),
            oblique=frontier.oblique,
            allowed=frontier.allowed,
            roles=self._roles,
            n_regressors=self._schema.n_regressors,
            n_categories=self._n_categories,
            any_oblique=bool(frontier.oblique.any()) and len(self._x) > 1,
        )

    def _shares(self, frontier: Frontier, n_rows: np.ndarray) -> np.ndarray:
        """Share of the nodes' weight in the rows that are looked at."""
        weight, share = self._places.weight, np.ones(len(frontier.node))
        for i in np.flatnonzero(n_rows < frontier.stop - frontier.start):
            head = self.order[frontier.start[i] : frontier.start[i] + n_rows[i]]
            share[i] = weight[head].sum(dtype=np.float64) / frontier.weight[i]
        return share

    def statistics(self, level: Frontier, n_rows: np.ndarray) -> NodeStatistics:
        """Statistics of the first rows of nodes, in float64."""
        table, row, _, targets, weight = self._places
        some = level.start, level.start + n_rows
        n = self._schema.n_regressors
        return slice_statistics(table.x, row, targets, weight, n, self.order, *some)

    def divide(self, parents: Frontier, splits: Split, others: Frontier) -> Division:
        """Divide the rows of nodes, in place."""
        del others  # their rows stay where they are
        slices = parents.start, parents.stop
        place = self.order[slice_positions(*slices)]
        go_left, *weights = _decided(parents, splits, self._places, place)
        return Division(partition(self.order, *slices, go_left), *weights)


def _near(value: np.ndarray, n_seen: int, threshold: float) -> np.ndarray:
    """Which rows lie among few of a sample, the first ones, beside a threshold."""
    rising = np.sort(value[:n_seen][np.isfinite(value[:n_seen])])
    at, few = np.searchsorted(rising, threshold, side="right"), _FEW_BESIDE
    few = min(max(_MOST_NEAR * n_seen // (4 * len(value)), 1), few)
    low, high = rising[max(at - few, 0)], rising[min(at + few, len(rising)) - 1]
    return (value >= low) & (value <= high)


def _decided(
    parents: Frontier, splits: Split, places: Places, place: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether rows go left, one node after the other, and the weights of the sides."""
    n_nodes = len(parents.node)
    row, weight = places.row[place], places.weight[place].astype(np.float64)
    slot = np.repeat(np.arange(n_nodes), parents.stop - parents.start)

    def sides(larger_left: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        def left(block: slice) -> np.ndarray:
            here = places.table, slot[block], row[block]
            every = [left_of(one, larger_left, *here) for one in splits.comparisons]
            return np.logical_and.reduce(every)

        go_left = np.concatenate(list(in_blocks(left, len(row))))
        left_weight = np.bincount(slot, weight * go_left, n_nodes)
        return go_left, left_weight, np.bincount(slot, weight * ~go_left, n_nodes)

    found = sides(np.zeros(n_nodes, bool))
    if (places.table.codes < 0).any():
        # Categories that only pruning rows have go to the larger side, as in the tree:
        # to the one that is larger without them.
        with_unseen_left = sides(np.ones(n_nodes, bool))[1]
        unseen = with_unseen_left - found[1]
        found = sides(found[1] >= found[2] - unseen)
    return found


def _parts(n_rows: np.ndarray, oblique: np.ndarray) -> Iterator[np.ndarray]:
    """Nodes searched together: of like numbers of rows, those without oblique apart."""
    for index in filter(len, (np.flatnonzero(~oblique), np.flatnonzero(oblique))):
        index = index[np.argsort(n_rows[index], kind="stable")]
        last = np.cumsum(n_rows[index])
        pairs = -(-last[-1] // (2 * _TOGETHER))
        n_parts = 2 * pairs if last[-1] > _SHARED else 1
        cuts = np.flatnonzero(np.diff((last - 1) * n_parts // last[-1])) + 1
        yield from np.split(index, cuts)
