"""From a frontier to one split per node: the one driver of all split finders.

A prefix of every node's rows is a sample; nodes go together in batches, and threads
keep the processors busy. `secret_jax.grow.compiled` searches them by programs; what
needs none is searched by `secret_jax.grow.in_numpy` on processors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.grow.fixed import FixedSplits
from secret_jax.grow.frontier import Level, Places
from secret_jax.grow.padding import Padding
from secret_jax.grow.samples import Sample, SampleRows
from secret_jax.runtime.devices import is_out_of_memory, rows_at_once
from secret_jax.runtime.hashing import random_numbers
from secret_jax.runtime.parallel import side_by_side
from secret_jax.runtime.shapes import padded
from secret_jax.splits.interface import (
    Columns,
    Conditions,
    Node,
    Roles,
    Split,
    SplitFinder,
)

# Nodes of so few rows together are searched by the thread that asks; an oblique search
# of a row takes as long as several others.
_FEW_TOGETHER, _OBLIQUE_ROWS = 1 << 15, 4


# Most padded rows of one batch, unless a single node has more: eight nodes of the
# default sample are enough to make a call of a program cheap.
BATCH_ROWS = 1 << 14
# Padded size of small nodes, unless a growth asks for another: one program more would
# cost seconds to compile.
SMALLEST_SAMPLE = 512


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
    # split on (`secret_jax.grow.attributes`); None: all.
    max_features: int | None = None
    # Whether trees of a most number of leaves make several of their best splits at a
    # time, not the best one first.
    in_batches: bool = False
    # Whether programs can split obliquely even where no root asks for it: trees that
    # follow each other then share them.
    oblique: bool = False
    smallest_sample: int = SMALLEST_SAMPLE  # smaller nodes are padded to this size
    # Maximum number of padded rows of nodes searched together on a processor.
    batch_rows: int = BATCH_ROWS
    # Splits of the user, from the root of every tree down.
    fixed: FixedSplits | None = None


class Found(NamedTuple):
    """Results of a search; arrays with a leading axis of nodes."""

    splits: Split
    # (n_nodes,), float64: share of the node's weight that the search saw.
    share: np.ndarray


class Search(ABC):
    """Finds the splits of levels."""

    def __init__(
        self,
        places: Places,
        schema: TableSchema,
        options: GrowOptions,
        n_categories: int,
    ):
        self._places, self._schema, self._finder = places, schema, options.finder
        self._n_categories = n_categories
        self._most = len(places.row) if options.sample is None else options.sample

    @abstractmethod
    def find(self, level: Level) -> Found:
        """Splits of the nodes of a level."""

    def _no_splits(self, n_nodes: int) -> Split:
        """Leaves, to be filled in."""
        schema = self._schema
        n_outputs = self._places.targets.shape[1]
        child_models = None
        if self._finder.implies_models:
            shape = (n_nodes, 2, n_outputs, 1 + schema.n_regressors)
            child_models = np.zeros(shape, np.float32)
        conditions, n_conditions = None, self._finder.n_conditions
        if n_conditions:
            shape = n_nodes, n_conditions
            conditions = Conditions(
                kind=np.zeros(shape, np.int32),
                attribute=np.full(shape, -1, np.int32),
                direction=np.zeros((*shape, schema.n_columns), np.float32),
                threshold=np.zeros(shape, np.float32),
                goes_left=np.zeros((*shape, self._n_categories), bool),
            )
        return Split(
            kind=np.zeros(n_nodes, np.int32),
            attribute=np.full(n_nodes, -1, np.int32),
            direction=np.zeros((n_nodes, schema.n_columns), np.float32),
            threshold=np.zeros(n_nodes, np.float32),
            goes_left=np.zeros((n_nodes, self._n_categories), bool),
            gain=np.zeros(n_nodes, np.float32),
            chance_gain=np.zeros(n_nodes, np.float32),
            pure=np.zeros(n_nodes, bool),
            child_models=child_models,
            conditions=conditions,
        )

    def _shares(self, level: Level, n_rows: np.ndarray) -> np.ndarray:
        """Share of the nodes' weight in the rows that are looked at."""
        places = self._places
        share = np.ones(len(level.node))
        for i in np.flatnonzero(n_rows < level.stop - level.start):
            head = places.order[level.start[i] : level.start[i] + n_rows[i]]
            share[i] = places.weight[head].sum(dtype=np.float64) / level.weight[i]
        return share


class BatchSearch(Search):
    """Finds the splits of levels in batches of nodes, whatever the finder.

    ``padding``: of the columns.
    """

    def __init__(
        self,
        places: Places,
        schema: TableSchema,
        options: GrowOptions,
        padding: Padding,
    ):
        super().__init__(places, schema, options, padding.columns.n_categories)
        self._padding, self._batch_rows = padding, options.batch_rows
        x, codes = places.table.on_host()
        self._x = padding.wider(x)
        self._codes = padding.wider_codes(np.maximum(codes, 0))
        self._weight = places.weight.astype(np.float32)
        # Products of the columns, and what the finder holds of every attribute.
        width = padding.n_columns + 1 + places.targets.shape[1]
        n_attributes = width + padding.n_discrete
        held = n_attributes * self._finder.numbers_per_cell
        numbers = width * (width + 1) // 2 + held
        self._row_bytes = 4 * numbers

    def find(self, level: Level) -> Found:
        """Splits of the nodes of a level."""
        n_nodes = len(level.node)
        if n_nodes == 0:
            return Found(self._no_splits(0), np.zeros(0))
        n_rows = np.minimum(level.stop - level.start, self._most)
        splits = self._no_splits(n_nodes)

        def search(sample: Sample) -> None:
            try:
                search_at_once(sample)
            except jax.errors.JaxRuntimeError as error:
                if not is_out_of_memory(error) or sample.n_padded == 1:
                    raise
                for half in sample.halves():
                    search(half)

        def search_at_once(sample: Sample) -> None:
            n_inside = len(sample.index)
            rows = self._rows(level, sample, n_rows)
            batch = self._batch(level, sample, rows, share)
            found = self._found(batch, n_inside, rows)
            if (found.child_models is None) == self._finder.implies_models:
                raise TypeError(
                    f"{type(self._finder).__name__} should give child_models if, and "
                    "only if, implies_models is True."
                )
            found = jax.tree.map(lambda some: np.asarray(some)[:n_inside], found)
            found = self._padding.narrower(found, self._schema.n_regressors)
            for every, some in zip(
                jax.tree.leaves(splits), jax.tree.leaves(found), strict=True
            ):
                every[sample.index] = some

        share = self._shares(level, n_rows)
        samples = self._samples(level, n_rows)
        if self._are_few(level, n_rows):
            for sample in samples:
                search(sample)
        else:
            side_by_side(search, samples)
        return Found(splits, share)

    @abstractmethod
    def _samples(self, level: Level, n_rows: np.ndarray) -> Iterator[Sample]:
        """Nodes that are searched together, each with a prefix of its rows."""

    @abstractmethod
    def _rows(self, level: Level, sample: Sample, n_rows: np.ndarray) -> SampleRows:
        """Rows of the nodes of a sample."""

    @abstractmethod
    def _columns_of(self, level: Level, sample: Sample) -> Columns:
        """Columns as the nodes of a sample see them."""

    @abstractmethod
    def _roles(self, n_padded: int) -> Roles:
        """Roles of the columns, for the nodes of a batch."""

    @abstractmethod
    def _found(self, batch: Node, n_inside: int, rows: SampleRows) -> Split:
        """Splits of the nodes of a batch; those after the first ones are padding."""

    def _are_few(self, level: Level, n_rows: np.ndarray) -> bool:
        """Whether searching takes too short for threads to be of use."""
        each = np.where(level.oblique, _OBLIQUE_ROWS * n_rows, n_rows)
        return int(each.sum()) <= _FEW_TOGETHER

    def _batch(
        self, level: Level, sample: Sample, rows: SampleRows, share: np.ndarray
    ) -> Node:
        """The nodes of a sample as the finder takes them."""
        index, padding = sample.index, self._padding

        def pad(values: np.ndarray, fill: float = 0) -> np.ndarray:
            return padded(values, sample.n_padded, fill)

        n_random = self._finder.n_random(padding.n_columns)
        min_weight = (level.min_leaf_weight[index] * share[index]).astype(np.float32)
        x, codes, targets, weight = rows.arrays
        return Node(
            x=x,
            codes=codes,
            targets=targets,
            weight=weight,
            min_weight=pad(min_weight, np.inf),
            random=pad(random_numbers(level.key[index], n_random)),
            coefficient=pad(
                padding.wider_models(level.model[index].astype(np.float32))
            ),
            degrees=pad(level.degrees[index].astype(np.float32)),
            oblique=pad(level.oblique[index]),
            allowed=pad(padding.wider_allowed(level.allowed[index])),
            extra=rows.extra,
            columns=self._columns_of(level, sample),
            roles=self._roles(sample.n_padded),
            pieces=rows.pieces,
        )

    def _rows_at(self, at: np.ndarray) -> list[np.ndarray]:
        """Columns, codes, targets and weights of places; of padding without weight."""
        inside, place = at >= 0, np.maximum(at, 0)
        row = self._places.row[place]
        targets, weight = self._places.targets.take(place, axis=0), self._weight[place]
        return [
            self._x.take(row, axis=0),
            self._codes.take(row, axis=0),
            np.where(inside[..., None], targets, np.float32(0)),
            np.where(inside, weight, np.float32(0)),
        ]

    def _rows_at_once(self, size: int) -> int:
        """Most rows of a batch of nodes of a size."""
        return max(rows_at_once(self._row_bytes, self._batch_rows), size)
