"""Exchange of bytes between processes, each of which receives those of all."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from secret_jax.stream.batches import StreamError


class Exchange(Protocol):
    """Group of processes that run one script, each on rows of its own."""

    @property
    def n_processes(self) -> int:
        """Number of processes."""
        ...

    @property
    def rank(self) -> int:
        """Index of this process, counted from 0."""
        ...

    def gathered(self, content: bytes) -> list[bytes]:
        """Collect the bytes of every process, by rank; every process has to call it."""
        ...


class Alone:
    """Group of a single process."""

    n_processes, rank = 1, 0

    def gathered(self, content: bytes) -> list[bytes]:
        """See `Exchange`."""
        return [content]


class JaxProcesses:
    """Group of the processes that ``jax.distributed.initialize`` connected."""

    @property
    def n_processes(self) -> int:
        """See `Exchange`."""
        import jax

        return jax.process_count()

    @property
    def rank(self) -> int:
        """See `Exchange`."""
        import jax

        return jax.process_index()

    def gathered(self, content: bytes) -> list[bytes]:
        """See `Exchange`."""
        from jax.experimental.multihost_utils import process_allgather

        length = np.array([len(content) >> 16, len(content) & 0xFFFF], np.int32)
        high, low = np.asarray(process_allgather(length)).reshape(-1, 2).T.astype(int)
        lengths = (high << 16) + low
        padded = np.zeros(max(int(lengths.max()), 1), np.uint8)
        padded[: len(content)] = np.frombuffer(content, np.uint8)
        found = np.asarray(process_allgather(padded)).reshape(len(lengths), -1)
        return [
            row[:n].tobytes() for row, n in zip(found, lengths.tolist(), strict=True)
        ]


def told(exchange: Exchange, work: Callable[[], bytes]) -> list[bytes]:
    """Run a piece of work and collect its results from all processes.

    Raises
    ------
    StreamError
        In all processes, if the rows of one of them cannot be used, so that none waits
        in vain.
    """
    if exchange.n_processes == 1:
        return [work()]
    failure: Exception | None = None
    try:
        content = b"\1" + work()
    except Exception as error:
        failure, content = error, b"\0" + str(error).encode()
    found = exchange.gathered(content)
    if failure is not None:
        raise failure
    for rank, its in enumerate(found):
        if its[:1] == b"\0":
            raise StreamError(f"In process {rank}: {its[1:].decode()}")
    return [its[1:] for its in found]


def to_bytes(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """Serialise a JSON header and arrays to bytes."""
    file = io.BytesIO()
    members: dict[str, Any] = {"header": np.array(json.dumps(header)), **arrays}
    np.savez(file, **members)
    return file.getvalue()


def from_bytes(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the header and arrays that `to_bytes` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files if key != "header"}
        return json.loads(archive["header"].item()), arrays
