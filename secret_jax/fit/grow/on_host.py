"""Growth on processors: rows in arrays of NumPy, divided where they lie."""

from __future__ import annotations

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.execution import Division, Execution, Found
from secret_jax.fit.grow.frontier import Frontier, Places, partition
from secret_jax.fit.grow.search import GrowOptions, Search
from secret_jax.models.statistics import NodeStatistics, slice_statistics
from secret_jax.runtime.parallel import in_blocks
from secret_jax.runtime.shapes import slice_positions
from secret_jax.splits.interface import Split
from secret_jax.tree.comparisons import left_of


class OnHost(Execution):
    """Rows of growing trees in the host's memory."""

    counts_all = False

    def __init__(self, places: Places, schema: TableSchema, options: GrowOptions):
        self._places, self._n_regressors = places, schema.n_regressors
        self.search = Search(places, schema, options)

    def find(self, level: Frontier) -> Found:
        """The best splits of nodes, of the rows that the finder sees."""
        return self.search.find(level)

    def statistics(self, level: Frontier, n_rows: np.ndarray) -> NodeStatistics:
        """Statistics of the first rows of nodes, in float64."""
        table, row, targets, weight, order = self._places
        some = level.start, level.start + n_rows
        n = self._n_regressors
        return slice_statistics(table.x, row, targets, weight, n, order, *some)

    def divide(self, parents: Frontier, splits: Split, others: Frontier) -> Division:
        """Divide the rows of nodes, in place."""
        del others  # their rows stay where they are
        go_left, left_weight, right_weight = _decided(parents, splits, self._places)
        slices = parents.start, parents.stop
        middle = partition(self._places.order, *slices, go_left)
        return Division(middle, left_weight, right_weight)

    def order(self) -> np.ndarray:
        """The order of all rows."""
        return self._places.order


def _decided(
    parents: Frontier, splits: Split, places: Places
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether rows go left, one node after the other, and the weights of the sides."""
    n_nodes = len(parents.node)
    place = places.order[slice_positions(parents.start, parents.stop)]
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
