"""Stream as a source of rows: read and encoded again for sums over all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from secret_jax.data.encoding import matched
from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.data.source import HostRows
from secret_jax.runtime.progress import Progress
from secret_jax.stream.batches import Layout, StreamError
from secret_jax.stream.checkpoint import Checkpoint
from secret_jax.stream.chunks import Chunk, Chunks
from secret_jax.stream.exchange import Exchange, from_bytes, to_bytes, told
from secret_jax.stream.learning import Weights
from secret_jax.stream.rates import Rate
from secret_jax.stream.sources import BatchSource

_Result = TypeVar("_Result")


class _Seen(NamedTuple):
    """Progress of a pass over the rows.

    Attributes
    ----------
    digest : int
        Checksum of the targets and weights of these rows.
    """

    n_rows: int
    digest: int


_NOTHING = _Seen(0, 0)


class StreamRows:
    """Source of rows that are read anew for every pass.

    Parameters
    ----------
    source : BatchSource
        The rows of this process.
    identity : str
        Description of the source before the first pass.
    own, whole : Weights
        Weights of this process, and of all processes, in the first pass.
    digest : int
        Checksum of the targets and weights of this process in the first pass.
    sample : Rows
        The one that the first pass took.
    progress : callable
    """

    def __init__(
        self,
        schema: TableSchema,
        source: BatchSource,
        identity: str,
        layout: Layout,
        own: Weights,
        digest: int,
        whole: Weights,
        sample: Rows,
        checkpoint: Checkpoint,
        exchange: Exchange,
        progress: Progress,
    ):
        self.schema, self._source, self._layout = schema, source, layout
        self._identity, self._digest = identity, digest
        self._own, self._whole, self._sample = own, whole, sample
        self._checkpoint, self._exchange = checkpoint, exchange
        self._progress, self._n_passes = progress, 0

    @property
    def n_rows(self) -> int:
        """See `secret_jax.data.source.RowSource`."""
        return self._whole.n_used

    @property
    def total_weight(self) -> float:
        """See `secret_jax.data.source.RowSource`."""
        return self._whole.total * self._whole.factor

    def sample(self, n_wanted: int, seed: int) -> Rows:
        """Return the sample of the first pass, whatever the arguments."""
        del n_wanted, seed
        return self._sample

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        """See `secret_jax.data.source.RowSource`; only rows of this process."""
        for results, _ in self._chunks(function, size, _NOTHING):
            yield from results

    def blocks_into(
        self, function: Callable[[Rows], _Result], size: int, sums: Any
    ) -> Iterator[Any]:
        """See `secret_jax.data.source.AddingSource`.

        Results are pairs of nodes and their statistics; ``sums`` are the statistics of
        all nodes. At the end they cover all processes.
        """
        self._n_passes += 1
        empty = [array.copy() for array in sums]
        failure: Exception | None = None
        try:
            yield from self._own_results(function, size, sums)
        except (ValueError, OSError) as error:
            failure = error

        def own() -> bytes:
            if failure is not None:
                raise failure
            return to_bytes({}, {str(i): array for i, array in enumerate(sums)})

        contents = told(self._exchange, own)
        if self._exchange.n_processes == 1:
            return
        # Added up in the order of the processes, the same in each of them.
        for array, nothing in zip(sums, empty, strict=True):
            array[...] = nothing
        for content in contents:
            _, arrays = from_bytes(content)
            found = type(sums)(*(arrays[str(i)] for i in range(len(sums))))
            node = np.flatnonzero(found[0])  # those of some weight
            if len(node):  # not where a process has no rows
                yield node, found.take(node)

    def _own_results(
        self, function: Callable[[Rows], _Result], size: int, sums: Any
    ) -> Iterator[_Result]:
        name = f"sums-{self._n_passes}"
        start = seen = self._restored(name, sums)
        for results, seen in self._chunks(function, size, start):
            yield from results
            if self._checkpoint.is_due():
                self._save(name, sums, seen)
        self._save(name, sums, seen)

    def _restored(self, name: str, sums: Any) -> _Seen:
        """Restore the sums of an interrupted pass, and return how far it came."""
        state = self._checkpoint.load(name)
        if state is None:
            return _NOTHING
        header, arrays = state
        if any(arrays[str(i)].shape != array.shape for i, array in enumerate(sums)):
            return _NOTHING  # of another tree: the sample grew it with other programs
        for i, array in enumerate(sums):
            array[...] = arrays[str(i)]
        return _Seen(**header)

    def _save(self, name: str, sums: Any, seen: _Seen) -> None:
        arrays = {str(i): array for i, array in enumerate(sums)}
        self._checkpoint.save(name, seen._asdict(), arrays)

    def _chunks(
        self, function: Callable[[Rows], _Result], size: int, seen: _Seen
    ) -> Iterator[tuple[Iterator[_Result], _Seen]]:
        """Results for the blocks of each chunk, with the progress after it."""
        n_rows, start = self._own.n_rows, seen.n_rows
        rate = Rate("fitting models on all rows", self._progress, n_rows, start)
        chunks = Chunks(self._source, start, size, self._layout)
        stop = start
        for chunk in chunks if start < n_rows or not start else ():
            stop = chunk.stop
            seen = _Seen(stop, chunk.digest(seen.digest))
            if stop > n_rows:
                raise StreamError(
                    f"There are more rows in the second pass ({stop} or more) than in "
                    f"the first ({n_rows}): the source has changed. Fit it again when "
                    "nobody writes to it."
                )
            yield self._encoded(chunk).blocks(function, size), seen
            rate.at(stop)
        if stop < n_rows:
            raise StreamError(
                f"There are fewer rows in the second pass ({stop}) than in the first "
                f"({n_rows}): the source has changed, or is no longer complete."
            )
        if seen.digest != self._digest or self._source.identity != self._identity:
            raise StreamError(
                "The rows of the second pass are others than those of the first: the "
                "source has changed. Fit it again when nobody writes to it, in an "
                "empty checkpoint folder."
            )

    def _encoded(self, chunk: Chunk) -> HostRows:
        named = self._layout.named
        columns = chunk.columns if named else list(chunk.columns.values())
        used = chunk.weight > 0
        with chunk.placing():
            found = matched(self.schema, columns, used, asked=())
            if (found.codes < 0).any():
                attribute = int(np.flatnonzero((found.codes < 0).any(axis=0))[0])
                name = self.schema.names[self.schema.discrete[attribute]]
                raise ValueError(
                    f"column {name!r} holds a category that the first pass did not "
                    "see: the source has changed. Fit it again."
                )
        targets, weight = chunk.targets, chunk.weight
        if not used.all():
            targets, weight = targets[used], weight[used]
        return HostRows(self.schema, found, targets, weight * self._whole.factor)
