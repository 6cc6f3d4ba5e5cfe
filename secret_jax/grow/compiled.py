"""The search of levels by compiled programs.

Nodes of like size go together in batches of a few padded shapes. Programs take the
nodes of a batch one after the other on processors, side by side on accelerators.
"""

from collections.abc import Hashable, Iterator

import jax
import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.grow.frontier import Level, Places
from secret_jax.grow.padding import Padding
from secret_jax.grow.program import FIRST, LENGTH, PLACE, Held, Strip, find_splits
from secret_jax.grow.samples import Sample, SampleRows, of_one_kind
from secret_jax.grow.search import BATCH_ROWS, BatchSearch, GrowOptions
from secret_jax.runtime.devices import on_accelerator, rows_at_once
from secret_jax.runtime.parallel import N_WORKERS
from secret_jax.runtime.shapes import bucket, padded, slice_positions
from secret_jax.splits.interface import Columns, Node, Roles, Split

# Side by side padding is computed: batches have a power of four times so many nodes.
_FEWEST_TOGETHER = 4

# The smallest nodes of a batch have a quarter of their padded rows.
_FEWEST_ROWS = 4
# So many rows of padding are the most that a strip should hold.
_MOST_IN_FEW_SIZES = 1 << 17

# Searches whose programs were compiled side by side before.
_PREPARED: set[Hashable] = set()


class CompiledSearch(BatchSearch):
    """Finds the splits of levels by compiled programs, whatever the finder."""

    def __init__(self, places: Places, schema: TableSchema, options: GrowOptions):
        padding = Padding.of(schema, oblique=options.oblique)
        super().__init__(places, schema, options, padding)
        self._together, self._smallest = on_accelerator(), options.smallest_sample
        # Whether smaller nodes than those of the first level will come.
        self._deep = options.max_depth is None or options.max_depth > 1
        if self._together:
            self._batch_rows = BATCH_ROWS
        # Processors read the rows where they are.
        self._held = None
        if self._together:
            self._held = Held.of(places, self._x, self._codes)

    def _found(self, batch: Node, n_inside: int, rows: SampleRows) -> Split:
        return find_splits(
            batch, n_inside, rows.source, finder=self._finder, together=self._together
        )

    def _samples(self, level: Level, n_rows: np.ndarray) -> Iterator[Sample]:
        yield from self._programs_to_come(level, n_rows)
        few = self._are_few(level, n_rows)
        alike = self._alike(level, n_rows)
        for size, nodes in self._joined(alike) if self._together else alike:
            yield from self._in_batches(size, nodes, n_rows[nodes], few)

    def _alike(self, level: Level, n_rows: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Nodes of one kind and like padded size; what takes longest first."""
        width = np.array([self._n_padded_rows(n) for n in n_rows.tolist()])
        return [
            (size, np.flatnonzero(chosen & (width == size)))
            for chosen in (level.oblique, ~level.oblique)
            for size in np.unique(width[chosen])[::-1].tolist()
        ]

    def _joined(
        self, alike: list[tuple[int, np.ndarray]]
    ) -> list[tuple[int, np.ndarray]]:
        """Nodes of several kinds and sizes together, where no more rows are computed.

        An accelerator waits for the start of a program longer than it computes.
        """
        joined: list[tuple[int, np.ndarray]] = []
        for size, nodes in alike:
            apart = size * self._nodes_at_once(size, len(nodes))
            for i, (other, before) in enumerate(joined):
                wider, both = max(other, size), np.append(before, nodes)
                n_padded = self._nodes_at_once(wider, len(both))
                computed = apart + other * self._nodes_at_once(other, len(before))
                if len(both) <= n_padded and wider * n_padded <= computed:
                    joined[i] = wider, both
                    break
            else:
                joined.append((size, nodes))
        return joined

    def _in_batches(
        self, size: int, nodes: np.ndarray, n_rows: np.ndarray, few: bool
    ) -> Iterator[Sample]:
        """Nodes of a padded size in batches, each with a prefix of its rows.

        ``few``: one thread searches them.
        """
        n_padded = self._nodes_at_once(size, len(nodes))
        last = np.cumsum(n_rows)
        most = n_padded * size if self._together else self._rows_at_once(size)
        if not (few or self._together):
            # Every processor gets its share, even of few nodes.
            most = min(most, max(-(-int(last[-1]) // N_WORKERS), size))
        first = 0
        while first < len(nodes):
            before = last[first - 1] if first else 0
            fitting = int(np.searchsorted(last, before + most, side="right"))
            stop = min(max(fitting, first + 1), first + n_padded)
            yield Sample(nodes[first:stop], size, n_padded)
            first = stop

    def _n_padded_rows(self, n_rows: int) -> int:
        """Rows of a node with padding; what else is searched changes nothing."""
        if not self._together:
            ratio = self._finder.padding_ratio
            size = bucket(n_rows, smallest=self._smallest, apart=ratio)
            if size <= _MOST_IN_FEW_SIZES:
                return size
        return bucket(n_rows, smallest=self._smallest)

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

    def _rows(self, level: Level, sample: Sample, n_rows: np.ndarray) -> SampleRows:
        held, extra = self._held, {}
        needs_inputs = self._finder.needs_host_inputs(self._padding.n_columns)
        if held is None and not needs_inputs:
            return self._strip(level, sample, n_rows)
        place = self._places_of(level, sample, n_rows)
        if held is not None:
            extra[PLACE] = padded(place.astype(np.int32), sample.n_padded, -1)
            if not needs_inputs:
                place = place[:, :0]
        arrays = [padded(each, sample.n_padded) for each in self._rows_at(place)]
        if place.shape[1]:
            columns = self._columns_of(level, sample)
            extra |= self._finder.host_inputs(arrays[0], arrays[3], columns)
        return SampleRows(arrays, extra, held)

    def _places_of(
        self, level: Level, sample: Sample, n_rows: np.ndarray
    ) -> np.ndarray:
        """Places of nodes, shape (n_nodes, n_rows), -1 for padding."""
        column, index = np.arange(sample.n_rows), sample.index[:, None]
        inside = column < n_rows[index]
        position = np.where(inside, level.start[index] + column, 0)
        return np.where(inside, self._places.order[position], -1)

    def _strip(self, level: Level, sample: Sample, n_rows: np.ndarray) -> SampleRows:
        """Rows of nothing but a shape, the rows, and where each node finds its own."""
        places, index = self._places, sample.index
        length, start = n_rows[index], level.start[index]
        place = places.order[slice_positions(start, start + length)]
        row = places.row[place]
        # A node is cut out as long as it is with its padding.
        n_held = self._rows_at_once(sample.n_rows) + sample.n_rows
        sources = (
            *((self._x, row), (self._codes, row)),
            *((places.targets, place), (self._weight, place)),
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
        return SampleRows(rows, where, Strip(*arrays))
