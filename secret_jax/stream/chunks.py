"""Chunks of one size made of batches of any size, read ahead by a thread.

Sums over rows come out the same to the bit however the rows are cut into batches, since
every chunk begins at a multiple of the blocks in which they are added up.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

from secret_jax.runtime.parallel import ROW_BLOCK
from secret_jax.runtime.progress import Progress, Stage
from secret_jax.runtime.scratch import Scratch
from secret_jax.stream.batches import Batch, joined
from secret_jax.stream.layout import Layout, conformed
from secret_jax.stream.sources import BatchSource

# Rows of a chunk: a few for each processor, and little memory.
CHUNK_ROWS = 16 * ROW_BLOCK
# Chunks whose memory is kept: one that is read while the other is looked at.
_KEPT = 2

_Item = TypeVar("_Item")


def chunks_of(
    source: BatchSource, layout: Layout | None = None, *, targets: bool = True
) -> Iterator[Batch]:
    """Read the chunks of a source; a thread reads ahead.

    A chunk lasts until the next one is asked for: its memory is used again.
    """
    return _ahead(_chunks_of(source, layout, targets))


def _chunks_of(
    source: BatchSource, layout: Layout | None, targets: bool
) -> Iterator[Batch]:
    waiting: list[Batch] = []
    start = n_waiting = 0
    scratch = Scratch()

    def chunk(batches: list[Batch]) -> Batch:
        return joined(batches, start, scratch, f"{start // CHUNK_ROWS % _KEPT}")

    for batch in source.batches(targets):
        layout = layout or Layout.of(batch)
        if not targets:  # which are told by their names
            layout = layout._replace(levels=())
        if batch.n_rows == 0:
            conformed(batch, layout)
            continue
        waiting.append(conformed(batch, layout))
        n_waiting += batch.n_rows
        while n_waiting >= CHUNK_ROWS:
            rest = n_waiting - CHUNK_ROWS
            last = waiting.pop()
            cut = last.n_rows - rest
            yield chunk([*waiting, last.take(slice(0, cut))])
            start += CHUNK_ROWS
            waiting = [last.take(slice(cut, None))] if rest else []
            n_waiting = rest
    if waiting:
        yield chunk(waiting)


def _ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """Iterate in a background thread, one item ahead; errors are raised here."""
    end = object()
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(next, items, end)
        while (item := waiting.result()) is not end:
            waiting = reader.submit(next, items, end)
            yield item  # pyright: ignore[reportReturnType]
            del item  # not held while the next one is waited for


def reported(
    chunks: Iterator[Batch], name: str, progress: Progress, n_rows: int | None
) -> Iterator[Batch]:
    """Report the rows that were looked at, and how many a second."""
    stage, began = Stage(name, progress), monotonic()
    stage.at(0, n_rows)
    for chunk in chunks:
        yield chunk
        rate = chunk.stop / max(monotonic() - began, 1e-9) / 1e6
        detail = f"{chunk.stop:,} rows, {rate:.2f} million a second"
        stage.at(chunk.stop, n_rows, detail)
