"""Stream as a source of rows: read and encoded again for sums over all rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from secret_jax.data.encoding import matched
from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.data.source import HostRows, hashed_columns
from secret_jax.data.validation import rounded_weight
from secret_jax.runtime.progress import Progress
from secret_jax.stream.batches import Batch, StreamError
from secret_jax.stream.chunks import chunks_of, reported
from secret_jax.stream.exchange import Exchange, of_all
from secret_jax.stream.first_pass import digest_of
from secret_jax.stream.layout import Layout
from secret_jax.stream.pool import Weights
from secret_jax.stream.sources import BatchSource

_Result = TypeVar("_Result")


@dataclass
class StreamRows:
    """Source of rows that are read anew for every pass."""

    schema: TableSchema
    source: BatchSource  # the rows of this process
    layout: Layout
    n_own: int  # rows of this process in the first pass
    digest: int  # checksum of those of positive weight
    weights: Weights  # of all processes
    first_sample: Rows  # the one that the first pass took
    exchange: Exchange
    progress: Progress

    @property
    def n_rows(self) -> int:
        """See `secret_jax.data.source.RowSource`."""
        return self.weights.n_used

    @property
    def total_weight(self) -> float:
        """See `secret_jax.data.source.RowSource`."""
        return self.weights.total * self.weights.factor

    def sample(self, n_wanted: int, seed: int) -> Rows:
        """Return the sample of the first pass, whatever the arguments."""
        return self.first_sample

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        """See `secret_jax.data.source.RowSource`; only rows of this process."""
        for rows in self._chunks():
            yield from rows.blocks(function, size)

    def add_up(
        self,
        function: Callable[[Rows], Any],
        size: int,
        sums: Any,
        add: Callable[..., None],
    ) -> None:
        """See `secret_jax.data.source.AddingSource`.

        Results are pairs of nodes and their statistics; ``sums`` are the statistics of
        all nodes. At the end they cover all processes.
        """
        empty = [array.copy() for array in sums]

        def own() -> list[np.ndarray]:
            for result in self.blocks(function, size):
                add(sums, *result)
            return list(sums)

        parts = of_all(self.exchange, own)
        if len(parts) == 1:
            return
        # Added up in the order of the processes, the same in each of them.
        for array, nothing in zip(sums, empty, strict=True):
            array[...] = nothing
        for part in parts:
            found = type(sums)(*part)
            node = np.flatnonzero(found[0])  # those of some weight
            if len(node):  # not where a process has no rows
                add(sums, node, found.take(node))

    def _chunks(self) -> Iterator[HostRows]:
        """Read the rows chunk by chunk; they must be those of the first pass."""
        n_rows, stop, digest = self.n_own, 0, 1
        chunks = chunks_of(self.source, self.layout)
        name = "fitting models on all rows"
        for chunk in reported(chunks, name, self.progress, n_rows):
            stop = chunk.stop
            if stop > n_rows:
                raise StreamError(
                    f"There are more rows in the second pass ({stop} or more) than in "
                    f"the first ({n_rows}): the source has changed. Fit it again when "
                    "nobody writes to it."
                )
            rows = self._encoded(chunk)
            content = hashed_columns(rows.columns, self.schema.categories, rows.targets)
            digest = digest_of(content, chunk.weight[chunk.weight > 0], digest)
            yield rows
        if stop < n_rows:
            raise StreamError(
                f"There are fewer rows in the second pass ({stop}) than in the first "
                f"({n_rows}): the source has changed, or is no longer complete."
            )
        if digest != self.digest:
            raise StreamError(
                "The rows of the second pass are others than those of the first: the "
                "source has changed. Fit it again when nobody writes to it."
            )

    def _encoded(self, chunk: Batch) -> HostRows:
        used = chunk.weight > 0
        with chunk.placing():
            found = matched(self.schema, chunk.table, used, asked=())
            unseen = (found.codes < 0).any(axis=0)
            if unseen.any():
                name = self.schema.names[self.schema.discrete[int(unseen.argmax())]]
                raise ValueError(
                    f"column {name!r} holds a category that the first pass did not "
                    "see: the source has changed. Fit it again."
                )
        targets, weight, factor = chunk.targets, chunk.weight, self.weights.factor
        if not used.all():
            targets, weight = targets[used], weight[used]
        weight = rounded_weight(weight * factor)
        return HostRows(self.schema, found, targets, weight)
