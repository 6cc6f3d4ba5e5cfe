"""From a frontier to one split per node: the one driver of all split finders.

A prefix of every node's rows is a sample; nodes of like size go together in batches of
a few padded shapes, and threads keep the processors busy. Programs take the nodes of a
batch one after the other on processors, side by side on accelerators. What needs no
program is searched by `secret_jax.grow.in_numpy` on processors.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import jax
import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.grow.frontier import Level, Places
from secret_jax.grow.padding import Padding
from secret_jax.grow.program import FIRST, LENGTH, PLACE, Held, Strip, find_splits
from secret_jax.models.statistics import NodeStatistics, slice_statistics
from secret_jax.runtime.devices import (
    is_out_of_memory,
    on_accelerator,
    rows_at_once,
)
from secret_jax.runtime.hashing import random_numbers
from secret_jax.runtime.parallel import N_WORKERS, side_by_side
from secret_jax.runtime.pieces import Pieces
from secret_jax.runtime.shapes import bucket, padded
from secret_jax.runtime.slices import slice_positions
from secret_jax.splits.interface import Columns, Node, Roles, Split, SplitFinder

# Most padded rows of one batch, unless a single node has more: eight nodes of the
# default sample are enough to make a call of a program cheap.
BATCH_ROWS = 1 << 14
# Nodes of so few rows together are searched by the thread that asks; an oblique search
# of a row takes as long as several others.
_FEW_TOGETHER, _OBLIQUE_ROWS = 1 << 14, 4
# Padded size of small nodes, unless a growth asks for another.
SMALLEST_SAMPLE = 512

# Side by side padding is computed: batches have a power of four times so many nodes.
_FEWEST_TOGETHER = 4

# The smallest nodes of a batch have a quarter of their padded rows.
_FEWEST_ROWS = 4
# Where padding costs little, sizes are powers of sixteen apart: so many rows of padding
# are the most that a strip should hold.
_FEW_SIZES, _MOST_IN_FEW_SIZES = 16, 1 << 17

# Searches whose programs were compiled side by side before.
_PREPARED: set[Hashable] = set()

_NOTHING: Mapping[str, np.ndarray] = MappingProxyType({})


class Found(NamedTuple):
    """Results of a search; arrays with a leading axis of nodes.

    Attributes
    ----------
    share : ndarray of shape (n_nodes,), float64
        Share of the node's weight that the search saw.
    coefficient : ndarray of shape (n_nodes, n_outputs, 1 + n_regressors), float64
        Models of the nodes, if the finder asks for them.
    degrees : ndarray of shape (n_nodes,), float64
        Their degrees of freedom.
    statistics : NodeStatistics or None
        Of the rows that the search saw, where it fitted models to them.
    """

    splits: Split
    share: np.ndarray
    coefficient: np.ndarray
    degrees: np.ndarray
    statistics: NodeStatistics | None = None


class Sample(NamedTuple):
    """Several nodes in one padded shape."""

    index: np.ndarray  # which nodes
    n_rows: int  # of each, with padding
    n_padded: int  # nodes of the batch, with empty ones

    def halves(self) -> Iterator[Sample]:
        """The same nodes in batches of half the size."""
        size = -(-self.n_padded // 2)
        for first in range(0, max(len(self.index), 1), size):
            part = slice(first, first + size)
            yield Sample(self.index[part], self.n_rows, size)


def of_one_kind(columns: Columns, level: Level, sample: Sample) -> Columns:
    """Columns as the nodes of one batch see them: all oblique, or none."""
    oblique = columns.oblique and bool(level.oblique[sample.index[0]])
    return replace(columns, oblique=oblique)


class Search:
    """Finds the splits of levels by compiled programs, whatever the finder.

    Parameters
    ----------
    oblique : bool
        Whether any tree may split obliquely.
    sample : int or None
        Most rows of a node that are looked at; None: all.
    deep : bool
        Whether smaller nodes than those of the first level will come.
    smallest : int, optional
        Smaller nodes are padded to this size: one program more would cost seconds to
        compile.
    batch_rows : int, optional
        Most padded rows of one batch on a processor.
    """

    def __init__(
        self,
        finder: SplitFinder,
        places: Places,
        schema: TableSchema,
        *,
        oblique: bool,
        sample: int | None,
        deep: bool = True,
        smallest: int = SMALLEST_SAMPLE,
        batch_rows: int = BATCH_ROWS,
    ):
        self._finder, self._places, self._schema = finder, places, schema
        self._padding = self._padding_of(schema, oblique=oblique)
        x, codes = places.table.on_host()
        self._x = self.wider(x)
        self._codes = self._padding.wider_codes(np.maximum(codes, 0))
        self._together, self._deep = on_accelerator(), deep
        self._smallest = smallest
        self._batch_rows = BATCH_ROWS if self._together else batch_rows
        # Processors read the rows where they are.
        self._held = None
        if self._together:
            self._held = Held.of(places, self._x, self._codes)
        self._most = len(places.row) if sample is None else sample
        # Products of the columns, and what the finder holds of every attribute.
        width = self._padding.n_columns + 1 + places.targets.shape[1]
        n_attributes = width + self._padding.n_discrete
        numbers = width * (width + 1) // 2 + n_attributes * finder.numbers_per_cell
        self._row_bytes = 4 * numbers

    @staticmethod
    def _padding_of(schema: TableSchema, *, oblique: bool) -> Padding:
        return Padding.of(schema, oblique=oblique)

    def wider(self, values: np.ndarray) -> np.ndarray:
        """Values with the columns along their last axis, padded as nodes have them."""
        return self._padding.wider(values)

    def find(
        self,
        level: Level,
        given: Mapping[str, np.ndarray] = _NOTHING,
    ) -> Found:
        """Splits of the nodes of a level.

        Parameters
        ----------
        given : dict of str to ndarray with a leading axis of nodes
            What nodes find in their ``extra`` beside the finder's own inputs; what is
            of every column made `wider` before.
        """
        n_nodes = len(level.node)
        if n_nodes == 0:
            nothing = np.zeros(0)
            return Found(self._no_splits(0), nothing, level.base, nothing)
        n_rows = np.minimum(level.stop - level.start, self._most)
        coefficient, degrees, statistics = self._models(level, n_rows)
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
            batch, held = self._batch(
                level, sample, n_rows, coefficient, degrees, share, given
            )
            found = self._found(batch, n_inside, held)
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

        def jobs() -> Iterator[Sample]:
            yield from self._programs_to_come(level, n_rows)
            for oblique in (True, False):  # what takes longest first
                yield from self._samples(level, level.oblique == oblique, n_rows)

        share = self._shares(level, n_rows)
        if self._are_few(level, n_rows):
            for job in jobs():
                search(job)
        else:
            side_by_side(search, jobs())
        return Found(splits, share, coefficient, degrees, statistics)

    def _found(self, batch: Node, n_inside: int, held: Held | Strip | None) -> Split:
        """Splits of the nodes of a batch; those after the first ones are padding."""
        return find_splits(
            batch, n_inside, held, finder=self._finder, together=self._together
        )

    def _no_splits(self, n_nodes: int) -> Split:
        """Leaves, to be filled in."""
        schema, columns = self._schema, self._padding.columns
        n_outputs = self._places.targets.shape[1]
        child_models = None
        if self._finder.implies_models:
            shape = (n_nodes, 2, n_outputs, 1 + schema.n_regressors)
            child_models = np.zeros(shape, np.float32)
        return Split(
            kind=np.zeros(n_nodes, np.int32),
            attribute=np.full(n_nodes, -1, np.int32),
            direction=np.zeros((n_nodes, schema.n_columns), np.float32),
            threshold=np.zeros(n_nodes, np.float32),
            goes_left=np.zeros((n_nodes, columns.n_categories), bool),
            gain=np.zeros(n_nodes, np.float32),
            chance_gain=np.zeros(n_nodes, np.float32),
            pure=np.zeros(n_nodes, bool),
            child_models=child_models,
        )

    def _shares(self, level: Level, n_rows: np.ndarray) -> np.ndarray:
        """Share of the nodes' weight in the rows that are looked at."""
        places = self._places
        share = np.ones(len(level.node))
        for i in np.flatnonzero(n_rows < level.stop - level.start):
            head = places.order[level.start[i] : level.start[i] + n_rows[i]]
            share[i] = places.weight[head].sum(dtype=np.float64) / level.weight[i]
        return share

    def _models(
        self, level: Level, n_rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, NodeStatistics | None]:
        """The nodes' models, each shrunk toward its parent's, and what they are of."""
        model, places = self._finder.node_model, self._places
        if model is None:
            return level.base, np.zeros(len(level.node)), None
        statistics = slice_statistics(
            places.table.x,
            places.row,
            places.targets,
            places.weight,
            self._schema.n_regressors,
            places.order,
            level.start,
            level.start + n_rows,
        )
        models = model.fit(statistics, level.base)
        return models.coefficient, models.degrees, statistics

    def _are_few(self, level: Level, n_rows: np.ndarray) -> bool:
        """Whether searching takes too short for threads to be of use."""
        each = np.where(level.oblique, _OBLIQUE_ROWS * n_rows, n_rows)
        return int(each.sum()) <= _FEW_TOGETHER

    def _samples(
        self, level: Level, chosen: np.ndarray, n_rows: np.ndarray
    ) -> Iterator[Sample]:
        """Nodes of like size together, each with a prefix of its rows; large first."""
        width = np.array([self._n_padded_rows(n) for n in n_rows.tolist()])
        few = self._are_few(level, n_rows)
        for size in np.unique(width[chosen])[::-1].tolist():
            alike = np.flatnonzero(chosen & (width == size))
            n_padded = self._nodes_at_once(size, len(alike))
            last = np.cumsum(n_rows[alike])
            most = n_padded * size if self._together else self._rows_at_once(size)
            if not (few or self._together):
                # Every processor gets its share, even of few nodes.
                least = self._least_share(size)
                most = min(most, max(-(-int(last[-1]) // N_WORKERS), least))
            first = 0
            while first < len(alike):
                before = last[first - 1] if first else 0
                fitting = int(np.searchsorted(last, before + most, side="right"))
                stop = min(max(fitting, first + 1), first + n_padded)
                yield Sample(alike[first:stop], size, n_padded)
                first = stop

    def _n_padded_rows(self, n_rows: int) -> int:
        """Rows of a node with padding; what else is searched changes nothing."""
        if self._finder.skips_padding and not self._together:
            size = bucket(n_rows, smallest=self._smallest, apart=_FEW_SIZES)
            if size <= _MOST_IN_FEW_SIZES:
                return size
        return bucket(n_rows, smallest=self._smallest)

    def _least_share(self, size: int) -> int:
        """Rows that make a batch of their own, where processors share nodes."""
        return size

    def _rows_at_once(self, size: int) -> int:
        """Rows of a strip, without the padding after the last node."""
        return max(rows_at_once(self._row_bytes, self._batch_rows), size)

    def _nodes_at_once(self, size: int, n_nodes: int) -> int:
        """Nodes of a batch, of which some may be padding."""
        if not self._together:
            # Padding is never computed: one program for all levels.
            return _FEWEST_ROWS * (self._rows_at_once(size) // size)
        most = max(1, rows_at_once(self._row_bytes, self._batch_rows) // size)
        return min(most, bucket(n_nodes, smallest=_FEWEST_TOGETHER))

    def _programs_to_come(self, level: Level, n_rows: np.ndarray) -> Iterator[Sample]:
        """Batches of padding at the first level: all programs compile side by side."""
        if self._together or level.node[0] != 0:
            return
        # The smallest nodes that may come to be searched, at their lightest.
        heaviest = self._places.weight.max(initial=1.0)
        smallest = max(level.min_split_weight.min() / heaviest, 1.0)
        largest = int(n_rows.max())
        padding, n_outputs = self._padding, self._places.targets.shape[1]
        shape = padding.n_columns, padding.n_discrete, n_outputs, self._smallest
        known = self._finder, padding.columns, shape, largest.bit_length()
        if known in _PREPARED:
            return
        _PREPARED.add(known)
        smallest = min(int(smallest), largest) if self._deep else largest
        between = [smallest << i for i in range((largest // smallest).bit_length())]
        sizes = {self._n_padded_rows(n) for n in (*between, largest)}
        for size in sorted(sizes, reverse=True):
            nothing = np.zeros(0, np.int64)
            yield Sample(nothing, size, self._nodes_at_once(size, 0))

    def _batch(
        self,
        level: Level,
        sample: Sample,
        n_rows: np.ndarray,
        coefficient: np.ndarray,
        degrees: np.ndarray,
        share: np.ndarray,
        given: Mapping[str, np.ndarray],
    ) -> tuple[Node, Held | Strip | None]:
        """The nodes of a sample as the program takes them, and where their rows are."""
        index, padding = sample.index, self._padding

        def pad(values: np.ndarray, fill: float = 0) -> np.ndarray:
            return padded(values, sample.n_padded, fill)

        columns = self._columns_of(level, sample)
        n_random = self._finder.n_random(padding.n_columns)
        min_weight = (level.min_leaf_weight[index] * share[index]).astype(np.float32)
        rows, held, extra = self._rows(level, sample, n_rows)
        extra |= {name: pad(values[index]) for name, values in given.items()}
        x, codes, targets, weight = rows
        node = Node(
            x=x,
            codes=codes,
            targets=targets,
            weight=weight,
            min_weight=pad(min_weight, np.inf),
            random=pad(random_numbers(level.key[index], n_random)),
            coefficient=pad(
                padding.wider_models(coefficient[index].astype(np.float32))
            ),
            degrees=pad(degrees[index].astype(np.float32)),
            oblique=pad(level.oblique[index]),
            allowed=pad(padding.wider_allowed(level.allowed[index])),
            extra=extra,
            columns=columns,
            roles=self._roles(sample.n_padded),
            pieces=self._pieces(n_rows[index]),
        )
        return node, held

    def _pieces(self, n_rows: np.ndarray) -> Pieces | None:
        """Pieces of the rows of nodes, where these do not have an axis of their own."""
        del n_rows
        return None

    def _columns_of(self, level: Level, sample: Sample) -> Columns:
        columns = self._padding.columns
        if not (self._together and len(sample.index)):
            return columns
        return of_one_kind(columns, level, sample)

    def _roles(self, n_padded: int) -> Roles:
        """Repeat the table's roles for every node, as programs map over them."""
        return jax.tree.map(
            lambda a: np.broadcast_to(a, (n_padded, *a.shape)), self._padding.roles
        )

    def _rows(
        self, level: Level, sample: Sample, n_rows: np.ndarray
    ) -> tuple[list[np.ndarray], Held | Strip | None, dict[str, np.ndarray]]:
        """The rows of nodes, or where they are; the finder's own inputs."""
        held, extra = self._held, {}
        needs_inputs = self._finder.needs_host_inputs(self._padding.n_columns)
        if held is None and not needs_inputs:
            return self._strip(level, sample, n_rows)
        place = self._places_of(level, sample, n_rows)
        if held is not None:
            extra[PLACE] = padded(place.astype(np.int32), sample.n_padded, -1)
            if not needs_inputs:
                place = place[:, :0]
        rows = [padded(each, sample.n_padded) for each in self._rows_at(place)]
        if place.shape[1]:
            columns = self._columns_of(level, sample)
            extra |= self._finder.host_inputs(rows[0], rows[3], columns)
        return rows, held, extra

    def _places_of(
        self, level: Level, sample: Sample, n_rows: np.ndarray
    ) -> np.ndarray:
        """Places of nodes, shape (n_nodes, n_rows), -1 for padding."""
        column, index = np.arange(sample.n_rows), sample.index[:, None]
        inside = column < n_rows[index]
        position = np.where(inside, level.start[index] + column, 0)
        return np.where(inside, self._places.order[position], -1)

    def _rows_at(self, at: np.ndarray) -> list[np.ndarray]:
        """Columns, codes, targets and weights of places; of padding without weight."""
        inside, place = at >= 0, np.maximum(at, 0)
        row = self._places.row[place]
        return [
            self._x[row],
            self._codes[row],
            np.where(inside[..., None], self._places.targets[place], np.float32(0)),
            np.where(inside, self._places.weight[place], np.float32(0)),
        ]

    def _strip(
        self, level: Level, sample: Sample, n_rows: np.ndarray
    ) -> tuple[list[np.ndarray], Strip, dict[str, np.ndarray]]:
        """Rows of nothing but a shape, the rows, and where each node finds its own."""
        places, index = self._places, sample.index
        length, start = n_rows[index], level.start[index]
        place = places.order[slice_positions(start, start + length)]
        row = places.row[place]
        # A node is cut out as long as it is with its padding.
        n_held = self._rows_at_once(sample.n_rows) + sample.n_rows
        sources = (
            *((self._x, row), (self._codes, row)),
            *((places.targets, place), (places.weight, place)),
        )
        arrays = []
        for source, chosen in sources:
            held = np.empty((n_held, *source.shape[1:]), source.dtype)
            np.take(source, chosen, axis=0, out=held[: len(chosen)], mode="clip")
            held[len(chosen) :] = 0
            arrays.append(held)
        shape = sample.n_padded, sample.n_rows
        nothing = [np.zeros((*shape, 0), a.dtype) for a in arrays[:3]]
        rows = [*nothing, np.zeros((sample.n_padded, 0), np.float32)]
        first = np.cumsum(length) - length
        where = {
            FIRST: padded(first.astype(np.int32), sample.n_padded),
            LENGTH: padded(length.astype(np.int32), sample.n_padded),
        }
        return rows, Strip(*arrays), where
