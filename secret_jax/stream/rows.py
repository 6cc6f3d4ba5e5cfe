"""Stream as a source of rows: read and encoded again for sums over all rows."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from secret_jax.data.encoding import matched
from secret_jax.data.rows import Rows
from secret_jax.data.scaling import joint_sums
from secret_jax.data.schema import TableSchema
from secret_jax.data.source import HostRows, RowSource
from secret_jax.data.validation import rounded_weight
from secret_jax.runtime.progress import Progress
from secret_jax.stream.batches import Batch, StreamError
from secret_jax.stream.exchange import Exchange, of_all
from secret_jax.stream.first_pass import FirstPass
from secret_jax.stream.sources import BatchSource

# Share by which sums of the targets of two passes may differ.
_ROUNDING = 1e-9

_Result = TypeVar("_Result")


@dataclass
class StreamRows(RowSource):
    """Source of rows that are read anew for every pass."""

    schema: TableSchema
    source: BatchSource  # the rows of this process
    own: FirstPass  # over these
    whole: FirstPass  # over the rows of all processes
    first_sample: Rows  # the one that the first pass took
    exchange: Exchange
    progress: Progress

    @property
    def n_rows(self) -> int:
        return self.whole.n_used

    @property
    def total_weight(self) -> float:
        return self.whole.weight * self.whole.factor

    def sample(self, n_wanted: int, seed: int) -> Rows:
        """Return the sample of the first pass, whatever the arguments."""
        return self.first_sample

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        """See `secret_jax.data.source.RowSource`; the results of all processes."""
        own = (found for rows in self._read() for found in rows.blocks(function, size))
        if self.exchange is None:
            return own
        every = of_all(self.exchange, lambda: list(own))
        return itertools.chain.from_iterable(every)

    def _read(self) -> Iterator[HostRows]:
        """Read the rows batch by batch; they must be those of the first pass."""
        n_rows, total = 0, np.zeros(self.schema.n_outputs)
        for batch in self.source.read("fitting models on all rows", self.progress):
            n_rows += batch.n_rows
            total += batch.weight @ batch.targets
            yield self._matched(batch)
        if n_rows != self.own.n_rows:
            raise StreamError(
                f"The second pass has read {n_rows} rows, and the first one "
                f"{self.own.n_rows}: the source has changed, or is not complete. Fit "
                "it again when nobody writes to it."
            )
        if not n_rows:  # those of other processes
            return
        known = joint_sums(self.own.learner.target_sums)
        change = np.abs(total - known.mass * known.mean)
        size = known.mass * np.abs(known.mean) + np.sqrt(known.mass * known.scatter)
        if (change > _ROUNDING * size).any():
            raise StreamError(
                "The targets of the second pass are others than those of the first: "
                "the source has changed. Give one that reads the same rows every time."
            )

    def _matched(self, batch: Batch) -> HostRows:
        used = batch.weight > 0
        with batch.placing():
            found = matched(self.schema, batch.table, used, asked=())
            unseen = (found.codes < 0).any(axis=0)
            if unseen.any():
                name = self.schema.names[self.schema.discrete[int(unseen.argmax())]]
                raise ValueError(
                    f"column {name!r} holds a category that the first pass did not "
                    "see: the source has changed. Fit it again."
                )
        weight = rounded_weight(batch.weight[used] * self.whole.factor)
        return HostRows(self.schema, found, batch.targets[used], weight)
