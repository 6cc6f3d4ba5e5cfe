"""The search of levels by NumPy: nothing is compiled, and columns need no padding.

For processors, and finders that need no program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.grow.batches import Sample, Search, of_one_kind
from secret_jax.grow.frontier import Level, Places
from secret_jax.grow.padding import Padding
from secret_jax.grow.program import Held, Strip
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.shapes import next_power_of_two
from secret_jax.splits.interface import Columns, Node, Roles, Split, SplitFinder

# Fewest rows of a node, with padding,
_FEWEST_ROWS = 64
# and rows that are worth the calls of NumPy for a batch.
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

    def _n_padded_rows(self, n_rows: int) -> int:
        # By the node alone, whatever else is in its batch: sums of other lengths would
        # round in other ways.
        return max(next_power_of_two(n_rows), _FEWEST_ROWS)

    def _least_share(self, size: int) -> int:
        return max(size, _FEWEST_TOGETHER)

    def _nodes_at_once(self, size: int, n_nodes: int) -> int:
        return min(self._rows_at_once(size) // size, n_nodes)

    def _samples(
        self, level: Level, chosen: np.ndarray, n_rows: np.ndarray
    ) -> Iterator[Sample]:
        for sample in super()._samples(level, chosen, n_rows):
            yield sample._replace(n_padded=len(sample.index))  # padding takes its time

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
        rows = self._rows_at(self._places_of(level, sample, n_rows))
        columns = self._columns_of(level, sample)
        return rows, None, self._finder.host_inputs(rows[0], rows[3], columns)
