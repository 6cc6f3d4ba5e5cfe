"""What a turn of growth does with rows: the seam between the host's loop and devices.

The loop keeps the frontier and decides; an execution holds the rows of all nodes. In
`on_host` they are arrays of NumPy, in `on_device` they lie on an accelerator from the
root to the leaves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from secret_jax.fit.grow.frontier import Frontier
from secret_jax.models.statistics import NodeStatistics
from secret_jax.splits.interface import Split


class Found(NamedTuple):
    """Results of a search; arrays with a leading axis of nodes."""

    splits: Split
    # (n_nodes,), float64: share of the node's weight that the search saw.
    share: np.ndarray


class Division(NamedTuple):
    """How the rows of split nodes were divided.

    Attributes
    ----------
    middle : ndarray of shape (n_nodes,), int
        Where in the order the rows of the right child begin.
    left_weight, right_weight : ndarray of shape (n_nodes,), float64
    """

    middle: np.ndarray
    left_weight: np.ndarray
    right_weight: np.ndarray

    def take(self, chosen: np.ndarray) -> Division:
        """Select nodes by a mask."""
        return Division(*(array[chosen] for array in self))


class Execution(ABC):
    """Rows of growing trees, on one kind of device, and what is done with them.

    Every node has a slice of one order of all rows (`Frontier.start`, `stop`), in which
    its rows stay in shuffled order.
    """

    counts_all: ClassVar[bool]
    """Whether statistics are always of all rows of a node."""

    @abstractmethod
    def find(self, level: Frontier) -> Found:
        """The best splits of nodes."""

    @abstractmethod
    def statistics(self, level: Frontier, n_rows: np.ndarray) -> NodeStatistics:
        """Sufficient statistics of the first rows of nodes, so many of each.

        The nodes are roots, or children of the last division.
        """

    @abstractmethod
    def divide(self, parents: Frontier, splits: Split, others: Frontier) -> Division:
        """Divide the rows of nodes by their splits, stably, each within its slice.

        ``others``: nodes that may be divided later; no more is asked of the rest.
        """

    @abstractmethod
    def order(self) -> np.ndarray:
        """The order of all rows, (n_places,), int: each a place of the roots."""
