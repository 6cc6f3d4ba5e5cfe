"""The search of levels by NumPy: nothing is compiled, and columns need no padding.

For processors, and finders that need no program.
"""

from collections.abc import Iterator

import jax
import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.grow.frontier import Level, Places
from secret_jax.grow.padding import Padding
from secret_jax.grow.samples import Sample, SampleRows, of_one_kind
from secret_jax.grow.search import BatchSearch, GrowOptions
from secret_jax.runtime.arrays import rows_last
from secret_jax.runtime.parallel import N_WORKERS
from secret_jax.runtime.pieces import Pieces, piece_lengths
from secret_jax.splits.interface import Columns, Node, Roles, Split

# Rows that are worth the calls of NumPy for a batch: threads wait for each other while
# these are made, and two batches of fewer rows took longer than one of all of them.
_FEWEST_TOGETHER = 1 << 14


class NumpySearch(BatchSearch):
    """Finds the splits of levels, many nodes at once."""

    def __init__(self, places: Places, schema: TableSchema, options: GrowOptions):
        padding = Padding.none(schema, oblique=options.oblique)
        super().__init__(places, schema, options, padding)

    def _found(self, batch: Node, n_inside: int, rows: SampleRows) -> Split:
        # As in JAX, what a division by zero leads to is sorted out afterwards.
        with np.errstate(all="ignore"):
            return self._finder(batch)

    def _samples(self, level: Level, n_rows: np.ndarray) -> Iterator[Sample]:
        """Nodes of all sizes whose pieces are of one length together; large first."""
        lengths = piece_lengths(n_rows)
        kinds = np.unique(np.stack([level.oblique, lengths], axis=1), axis=0)
        for oblique, length in kinds[::-1].tolist():
            chosen = (level.oblique == oblique) & (lengths == length)
            index = np.flatnonzero(chosen)
            index = index[np.argsort(-n_rows[index], stable=True)]
            last = np.cumsum(n_rows[index])
            most = self._rows_at_once(length)
            if not self._are_few(level, n_rows):  # every processor gets its share
                most = min(most, max(-(-int(last[-1]) // N_WORKERS), _FEWEST_TOGETHER))
            cuts = np.flatnonzero(np.diff((last - 1) // most)) + 1
            for part in np.split(index, cuts):
                yield Sample(part, length, len(part))

    def _columns_of(self, level: Level, sample: Sample) -> Columns:
        return of_one_kind(self._padding.columns, level, sample)

    def _roles(self, n_padded: int) -> Roles:
        return self._padding.roles

    def _rows(self, level: Level, sample: Sample, n_rows: np.ndarray) -> SampleRows:
        index = sample.index
        pieces = Pieces.of(n_rows[index], sample.n_rows)
        before = np.arange(len(pieces.node)) - pieces.first[pieces.node]
        row = sample.n_rows * before[:, None] + np.arange(sample.n_rows)
        inside = row < n_rows[index][pieces.node, None]
        position = np.where(inside, level.start[index][pieces.node, None] + row, 0)
        rows = self._rows_at(np.where(inside, self._places.order[position], -1))
        extra = {}
        if self._finder.needs_host_inputs(self._padding.n_columns):
            columns, (x, _, _, weight) = self._columns_of(level, sample), rows
            last = np.append(pieces.first[1:], len(weight))
            of_nodes = [
                self._finder.host_inputs(
                    x[part].reshape(1, -1, x.shape[-1]),
                    weight[part].reshape(1, -1),
                    columns,
                )
                for part in map(slice, pieces.first, last)
            ]
            extra = jax.tree.map(lambda *some: np.concatenate(some), *of_nodes)
        rows[0], x = rows_last(rows[0].shape, rows[0].dtype), rows[0]
        rows[0][:] = x
        return SampleRows(rows, extra, pieces=pieces)
