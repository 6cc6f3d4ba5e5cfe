"""Division of the rows of split nodes between their children."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from secret_jax.grow.builder import Builder
from secret_jax.grow.frontier import Frontier, Places, partition
from secret_jax.runtime.parallel import in_blocks
from secret_jax.runtime.shapes import slice_positions
from secret_jax.splits.interface import Conditions, Split
from secret_jax.tree.walk import left_of_splits


class Division(NamedTuple):
    """Nodes, their splits, and the sides that their rows go to."""

    parents: Frontier
    splits: Split
    go_left: np.ndarray  # (sum of the nodes' rows,), one node after the other
    left_weight: np.ndarray
    right_weight: np.ndarray

    def take(self, chosen: np.ndarray) -> Division:
        """Select nodes by a mask."""
        length = self.parents.stop - self.parents.start
        return Division(
            parents=self.parents.take(chosen),
            splits=self.splits.take(chosen),
            go_left=self.go_left[np.repeat(chosen, length)],
            left_weight=self.left_weight[chosen],
            right_weight=self.right_weight[chosen],
        )


def divide(parents: Frontier, splits: Split, places: Places) -> Division:
    """Decide the side of every row of the nodes."""
    n_nodes = len(parents.node)
    place = places.order[slice_positions(parents.start, parents.stop)]
    row, weight = places.row[place], places.weight[place].astype(np.float64)
    slot = np.repeat(np.arange(n_nodes), parents.stop - parents.start)

    def sides(larger_left: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        compared: list[Split | Conditions] = [splits]
        if splits.conditions is not None:
            axes = [np.moveaxis(each, 1, 0) for each in splits.conditions]
            compared += map(Conditions, *axes)
        decisions = [
            SimpleNamespace(**each._asdict(), larger_left=larger_left)
            for each in compared
        ]

        def left(block: slice) -> np.ndarray:
            here = places.table, slot[block], row[block]
            every = [left_of_splits(one, *here) for one in decisions]
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
    return Division(parents, splits, *found)


def descend(division: Division, places: Places, builder: Builder) -> Frontier:
    """Partition the rows of split nodes; return the children as the next frontier."""
    parents, splits, go_left, left_weight, right_weight = division
    middle = partition(places.order, parents.start, parents.stop, go_left)
    child = builder.split(parents, splits, left_weight >= right_weight)
    weight = np.stack([left_weight, right_weight], axis=1).ravel()
    return parents.children(child, middle, weight)
