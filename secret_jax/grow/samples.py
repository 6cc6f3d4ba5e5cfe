"""Nodes that are searched together, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from secret_jax.grow.frontier import Level
from secret_jax.runtime.pieces import Pieces
from secret_jax.splits.interface import Columns


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


class SampleRows(NamedTuple):
    """Rows of the nodes of a sample."""

    arrays: list[np.ndarray]  # columns, codes, targets and weights
    extra: dict[str, np.ndarray]  # inputs of the finder's own
    # Where a program finds the rows, if ``arrays`` are nothing but their shapes.
    source: Any = None
    # Of the rows, where nodes do not have an axis of their own.
    pieces: Pieces | None = None


def of_one_kind(columns: Columns, level: Level, sample: Sample) -> Columns:
    """Columns as the nodes of one batch see them, of which oblique ones come first."""
    oblique = columns.oblique and bool(level.oblique[sample.index[0]])
    return replace(columns, oblique=oblique)
