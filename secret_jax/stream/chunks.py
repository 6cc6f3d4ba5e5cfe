"""Chunks of one size made of batches of any size, read ahead by a thread.

Sums over rows come out the same to the bit however the rows are cut into batches, since
every chunk begins at a multiple of the blocks in which they are added up.
"""

from __future__ import annotations

import queue
import re
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import numpy as np

from secret_jax.data.columns import OrderedText
from secret_jax.runtime.parallel import ROW_BLOCK
from secret_jax.stream.batches import Batch, Layout, StreamError, conformed
from secret_jax.stream.sources import BatchSource

# Rows of a chunk: a few for each processor, and little memory.
CHUNK_ROWS = 16 * ROW_BLOCK
# Chunks that wait to be looked at.
_AHEAD = 1

_Item = TypeVar("_Item")


class Chunk(NamedTuple):
    """Consecutive rows of a stream; all chunks but the last have one size.

    Attributes
    ----------
    columns : dict of str to ndarray of shape (n_rows,)
    targets : ndarray of shape (n_rows, n_outputs), float64
    weight : ndarray of shape (n_rows,), float64
    start : int
        Row of the stream where it begins.
    marks : tuple of (int, str)
        Rows of the stream at which files or batches begin, and these in words.
    """

    columns: dict[str, np.ndarray]
    targets: np.ndarray
    weight: np.ndarray
    start: int
    marks: tuple[tuple[int, str], ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weight)

    @property
    def stop(self) -> int:
        """Index in the stream of the row after the last one."""
        return self.start + self.n_rows

    def digest(self, before: int) -> int:
        """Update a running checksum with the targets and weights of the rows.

        It does not depend on how the rows are cut into chunks.
        """
        rows = np.column_stack([self.targets, self.weight])
        return zlib.crc32(rows.tobytes(), before)

    def take(self, index: np.ndarray) -> Chunk:
        """Select rows."""
        columns = {name: column[index] for name, column in self.columns.items()}
        return self._replace(
            columns=columns, targets=self.targets[index], weight=self.weight[index]
        )

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Rewrite row numbers in error messages to positions in the stream."""
        try:
            yield
        except StreamError:
            raise
        except ValueError as error:
            message = re.sub(r"\brow (\d+)", self._place, str(error))
            where = f"rows {self.start} to {self.stop - 1} of the stream"
            raise StreamError(f"In {where}: {message}") from None

    def _place(self, match: re.Match[str]) -> str:
        row = self.start + int(match[1])
        begin, where = max(mark for mark in self.marks if mark[0] <= row)
        return f"row {row} (row {row - begin} of {where})"


class Chunks:
    """Iterator over the chunks of a source from a row on; a thread reads ahead.

    Parameters
    ----------
    size : int
        Rows of a chunk, if it is more than `CHUNK_ROWS`.
    layout : Layout, optional
        Layout that all batches must have; by default that of the first one.
    targets : bool
        Whether targets are read.

    Attributes
    ----------
    layout : Layout or None
        None before the first batch was read.
    """

    def __init__(
        self,
        source: BatchSource,
        start: int = 0,
        size: int = 0,
        layout: Layout | None = None,
        targets: bool = True,
    ):
        self.layout = layout
        self._source, self._start = source, start
        self._size = max(size, CHUNK_ROWS)
        self._targets = targets

    def __iter__(self) -> Iterator[Chunk]:
        return ahead(self._made())

    def _made(self) -> Iterator[Chunk]:
        waiting: list[Batch] = []
        start, n_waiting = self._start, 0
        for batch in self._source.batches(start, self._targets):
            if self.layout is None:
                self.layout = Layout.of(batch)
            batch = conformed(batch, self.layout)
            if batch.n_rows == 0:
                continue
            waiting.append(batch)
            n_waiting += batch.n_rows
            while n_waiting >= self._size:
                rest = n_waiting - self._size
                last = waiting.pop()
                cut = last.n_rows - rest
                yield _joined([*waiting, last.take(slice(cut))], start)
                start += self._size
                waiting = [last.take(slice(cut, None))] if rest else []
                n_waiting = rest
        if waiting:
            yield _joined(waiting, start)


def _joined(batches: list[Batch], start: int) -> Chunk:
    begins = start + np.cumsum([0, *(batch.n_rows for batch in batches[:-1])])
    begins -= [batch.offset for batch in batches]
    columns = {
        name: _concatenated([batch.columns[name] for batch in batches])
        for name in batches[0].columns
    }
    return Chunk(
        columns,
        np.concatenate([batch.targets for batch in batches]),
        np.concatenate([batch.weight for batch in batches]),
        start,
        tuple(
            (int(row), batch.where) for row, batch in zip(begins, batches, strict=True)
        ),
    )


def _concatenated(parts: list[np.ndarray]) -> np.ndarray:
    whole = np.concatenate(parts)
    ordered = next((part for part in parts if isinstance(part, OrderedText)), None)
    if ordered is not None:
        whole = np.asarray(whole, object).view(OrderedText)
        whole.levels = ordered.levels
    return whole


def ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """Iterate in a background thread, one item ahead; errors are raised here."""
    done = object()
    waiting: queue.Queue = queue.Queue(_AHEAD)
    stop = threading.Event()

    def put(item: object) -> None:
        while not stop.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((item, None))
                if stop.is_set():
                    return
            put((done, None))
        except BaseException as error:
            put((done, error))

    reader = threading.Thread(target=work, daemon=True)
    reader.start()
    try:
        while True:
            item, error = waiting.get()
            if error is not None:
                raise error
            if item is done:
                return
            yield item
            del item  # not held while the next one is waited for
    finally:
        stop.set()
        reader.join()
