"""What a turn of growth does with rows: the seam between the host's loop and devices.

The loop keeps the frontier and decides; an execution holds the rows of all nodes. In
`on_host` they are arrays of NumPy, in `on_device` they lie on an accelerator from the
root to the leaves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.fixed import FixedSplits
from secret_jax.fit.grow.frontier import Frontier
from secret_jax.models.statistics import NodeStatistics
from secret_jax.splits.interface import Comparison, Level, Split, SplitFinder
from secret_jax.tree.structure import SplitKind


@dataclass(frozen=True, kw_only=True)
class GrowOptions:
    """Options of tree growth, common to all trees."""

    finder: SplitFinder
    # Maximum number of rows of a node that the finder sees; None: all.
    sample: int | None = 2048
    # Minimum gain of a split, as a multiple of what chance alone would
    # (`secret_jax.splits.interface.Split`).
    min_gain: float = 1.5
    max_depth: int | None = None
    max_leaf_nodes: int | None = None
    # Attributes that every node draws, by its key and so by that of its root, to be
    # split on (`secret_jax.fit.grow.grower`); None: all.
    max_features: int | None = None
    # Whether trees of a most number of leaves make several of their best splits at a
    # time, not the best one first.
    in_batches: bool = False
    # Whether also models of nodes of many rows are of all of them.
    models_of_all: bool = False
    # Splits of the user, from the root of every tree down.
    fixed: FixedSplits | None = None
    # Accelerators that the rows of trees may be divided among.
    devices: tuple[Any, ...] = ()


class Found(NamedTuple):
    """Results of a search; arrays with a leading axis of nodes."""

    splits: Split
    # (n_nodes,), float64: share of the node's weight that the search saw.
    share: np.ndarray


class Division(NamedTuple):
    """How the rows of split nodes were divided."""

    # (n_nodes,), int: where in the order the rows of the right child begin.
    middle: np.ndarray
    left_weight: np.ndarray  # (n_nodes,), float64
    right_weight: np.ndarray


class Execution(ABC):
    """Rows of growing trees, on one kind of device, and what is done with them.

    Every node has a slice of one order of all rows (`Frontier.start`, `stop`), in which
    its rows stay in shuffled order; it keeps it when it is divided.
    """

    counts_all: ClassVar[bool]
    """Whether statistics are always of all rows of a node."""
    order: np.ndarray | None = None
    """(n_places,), int: the order, each a place of the roots; None if nobody keeps it.
    """

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


def no_splits(n_nodes: int, schema: TableSchema, finder: SplitFinder) -> Split:
    """Leaves, to be filled in."""
    n_categories = max([1, *map(len, schema.categories)])
    child_models = None
    if finder.implies_models:
        shape = (n_nodes, 2, schema.n_outputs, 1 + schema.n_regressors)
        child_models = np.zeros(shape, np.float32)
    own, *further = (
        Comparison(
            kind=np.zeros(n_nodes, np.int32),
            attribute=np.full(n_nodes, -1, np.int32),
            direction=np.zeros((n_nodes, schema.n_columns), np.float32),
            threshold=np.zeros(n_nodes, np.float32),
            goes_left=np.zeros((n_nodes, n_categories), bool),
        )
        for _ in range(finder.max_comparisons)
    )
    return Split(
        *own,
        gain=np.zeros(n_nodes, np.float32),
        chance_gain=np.zeros(n_nodes, np.float32),
        pure=np.zeros(n_nodes, bool),
        child_models=child_models,
        further=tuple(further),
    )


def checked_splits(finder: SplitFinder, level: Level) -> Split:
    """What a finder finds; refused if that is no split of every node."""
    found, name = finder.find(level), type(finder).__name__
    if not isinstance(found, Split):
        raise TypeError(
            f"{name} returned {type(found).__name__}. Return a Split of "
            "secret_jax.splits.interface."
        )
    if (found.child_models is None) == finder.implies_models:
        raise TypeError(
            f"{name} should give child_models if, and only if, implies_models is True."
        )
    n_columns, nodes = level.x.shape[-2], (level.n_nodes,)
    own = {"direction": (*nodes, n_columns), "goes_left": (*nodes, level.n_categories)}
    for field in (
        "kind",
        "attribute",
        "threshold",
        "gain",
        "chance_gain",
        "pure",
        *own,
    ):
        given, wanted = np.shape(getattr(found, field)), own.get(field, nodes)
        if given != wanted:
            raise ValueError(
                f"{name} returned {field} of shape {given} for {nodes[0]} nodes. "
                f"Return {wanted}: nodes first, see secret_jax.splits.interface.Split."
            )
    if isinstance(found.kind, np.ndarray):  # not while a program is traced
        on_column = found.kind == SplitKind.AXIS
        attribute, direction = found.attribute[on_column], found.direction[on_column]
        known = (attribute >= 0) & (attribute < n_columns)
        factor = direction[np.arange(len(known)), np.where(known, attribute, 0)]
        if not (known & (factor != 0)).all():
            raise ValueError(
                f"{name} returned an axis split whose direction is zero at its "
                f"attribute, or that is on none of the {n_columns} columns. Give it "
                "the direction 1 at its attribute and 0 at others."
            )
    return found
