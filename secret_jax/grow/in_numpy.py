"""The search of levels by NumPy: nothing is compiled, and columns need no padding.

For processors, and finders that need no program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.grow.batches import Sample, Search, of_one_kind
from secret_jax.grow.frontier import Level, Places
from secret_jax.grow.padding import Padding
from secret_jax.grow.program import Held, Strip
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.parallel import N_WORKERS
from secret_jax.runtime.pieces import Pieces, piece_lengths
from secret_jax.splits.interface import Columns, Node, Roles, Split, SplitFinder

# Rows that are worth the calls of NumPy for a batch.
_FEWEST_TOGETHER = 1 << 13


def search_by(
    finder: SplitFinder, places: Places, schema: TableSchema, **options: Any
) -> Search:
    """The search of a finder on the device that computes; see `Search`."""
    compiled = on_accelerator() or finder.needs_program
    return (Search if compiled else SearchInNumpy)(finder, places, schema, **options)


class SearchInNumpy(Search):
    """Finds the splits of levels, many nodes at once."""

    @staticmethod
    def _padding_of(schema: TableSchema, *, oblique: bool) -> Padding:
        return Padding.none(schema, oblique=oblique)

    def _found(self, batch: Node, n_inside: int, held: Held | Strip | None) -> Split:
        del n_inside, held
        # As in JAX, what a division by zero leads to is sorted out afterwards.
        with np.errstate(all="ignore"):
            return self._finder(batch)

    def _pieces(self, n_rows: np.ndarray) -> Pieces:
        return Pieces.of(n_rows, int(piece_lengths(n_rows[0])))

    def _samples(
        self, level: Level, chosen: np.ndarray, n_rows: np.ndarray
    ) -> Iterator[Sample]:
        """Nodes of all sizes together whose pieces are of one length; large first."""
        lengths = piece_lengths(n_rows)
        for length in np.unique(lengths[chosen])[::-1].tolist():
            index = np.flatnonzero(chosen & (lengths == length))
            index = index[np.argsort(-n_rows[index], stable=True)]
            last = np.cumsum(n_rows[index])
            most = self._rows_at_once(length)
            if not self._are_few(level, n_rows):  # every processor gets its share
                most = min(most, max(-(-int(last[-1]) // N_WORKERS), _FEWEST_TOGETHER))
            cuts = np.flatnonzero(np.diff((last - 1) // most)) + 1
            for part in np.split(index, cuts):
                yield Sample(part, length, len(part))

    def _programs_to_come(self, level: Level, n_rows: np.ndarray) -> Iterator[Sample]:
        del level, n_rows
        return iter(())

    def _columns_of(self, level: Level, sample: Sample) -> Columns:
        return of_one_kind(self._padding.columns, level, sample)

    def _roles(self, n_padded: int) -> Roles:
        del n_padded
        return self._padding.roles

    def _rows(
        self, level: Level, sample: Sample, n_rows: np.ndarray
    ) -> tuple[list[np.ndarray], None, dict[str, np.ndarray]]:
        index = sample.index
        pieces = self._pieces(n_rows[index])
        before = np.arange(len(pieces.node)) - pieces.first[pieces.node]
        row = sample.n_rows * before[:, None] + np.arange(sample.n_rows)
        inside = row < n_rows[index][pieces.node, None]
        position = np.where(inside, level.start[index][pieces.node, None] + row, 0)
        rows = self._rows_at(np.where(inside, self._places.order[position], -1))
        extra = {}
        if self._finder.needs_host_inputs(self._padding.n_columns):
            columns = self._columns_of(level, sample)
            of_nodes = [
                self._finder.host_inputs(
                    *(
                        array[part].reshape(1, -1, *array.shape[2:])
                        for array in rows[::3]
                    ),
                    columns,
                )
                for part in map(slice, pieces.first, [*pieces.first[1:], len(inside)])
            ]
            extra = jax.tree.map(lambda *some: np.concatenate(some), *of_nodes)
        return rows, None, extra
