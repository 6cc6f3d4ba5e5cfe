"""Exchange of values between processes, each of which receives those of all."""

import pickle
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np

from secret_jax.stream.batches import StreamError

# Gives the bytes of every process, by rank; every process has to call it. None: there
# is one process.
Exchange: TypeAlias = Callable[[bytes], list[bytes]] | None

_Value = TypeVar("_Value")


def among_jax_processes(content: bytes) -> list[bytes]:
    """Exchange bytes between what ``jax.distributed.initialize`` connected."""
    from jax.experimental.multihost_utils import process_allgather

    lengths = np.ravel(process_allgather(np.array([len(content)], np.int32)))
    padded = np.zeros(lengths.max(), np.uint8)
    padded[: len(content)] = np.frombuffer(content, np.uint8)
    found = np.reshape(process_allgather(padded), (len(lengths), -1))
    return [row[:n].tobytes() for row, n in zip(found, lengths, strict=True)]


def of_all(exchange: Exchange, work: Callable[[], _Value]) -> list[_Value]:
    """Run a piece of work and collect its results from all processes.

    An error is raised in all of them, so that none waits in vain.
    """
    if exchange is None:
        return [work()]
    failure: Exception | None = None
    try:
        content = pickle.dumps((None, work()))
    except Exception as error:
        failure, content = error, pickle.dumps((str(error), None))
    found = [pickle.loads(part) for part in exchange(content)]
    if failure is not None:
        raise failure
    for rank, (message, _) in enumerate(found):
        if message is not None:
            raise StreamError(f"In process {rank}: {message}")
    return [value for _, value in found]
