"""Threads for array operations and compiled programs."""

import collections
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from secret_jax.runtime.devices import carried

# Rows that are looked at together: what is computed from them stays in a cache.
ROW_BLOCK = 16384
# More threads than eight wait for memory, not for processors.
N_WORKERS = min(os.cpu_count() or 1, 8)

_Result = TypeVar("_Result")
# Threads of threads would only get in each other's way.
_THREAD = threading.local()
_POOLS: dict[int, ThreadPoolExecutor] = {}
# Libraries with threads of their own; to find them takes some milliseconds.
_LIBRARIES = cache(ThreadpoolController)
# The limit of products, and a None for every block that is inside it as well.
_LIMITS: list[Any] = []
_LIMITING = threading.Lock()


@contextmanager
def one_thread_for_products() -> Iterator[None]:
    """Limit NumPy's matrix products to one thread inside a with block.

    Beside our own threads more would be in the way: a table of a hundred columns took
    six times as long. Threads of Python may be in such blocks at once: the last one to
    leave gives the products their threads back.
    """
    with _LIMITING:
        limit = _LIBRARIES().limit
        _LIMITS.append(None if _LIMITS else limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _LIMITING:
            last = _LIMITS.pop()
            if last is not None:
                last.restore_original_limits()


def in_blocks(
    function: Callable[[slice], _Result], n_rows: int, block: int = ROW_BLOCK
) -> Iterator[_Result]:
    """Apply a function to slices of rows in parallel; a few results come ahead."""
    starts = range(0, max(n_rows, 1), block)
    slices = (slice(start, min(start + block, n_rows)) for start in starts)
    if len(starts) == 1 or getattr(_THREAD, "works", False):
        yield from map(function, slices)
        return
    function, pool = carried(function), _pool()
    waiting: collections.deque[Future[_Result]] = collections.deque()
    try:
        for rows in slices:
            if len(waiting) == 2 * N_WORKERS:
                yield waiting.popleft().result()
            waiting.append(pool.submit(function, rows))
        while waiting:
            yield waiting.popleft().result()
    finally:
        # Nobody works on for a caller that has gone.
        wait([future for future in waiting if not future.cancel()])


def side_by_side(function: Callable[[Any], None], jobs: Iterable[Any]) -> None:
    """Call a function for every job in threads, and raise its errors here."""
    jobs = list(jobs)

    def done(rows: slice) -> None:
        collections.deque(map(function, jobs[rows]), maxlen=0)

    collections.deque(in_blocks(done, len(jobs), 1), maxlen=0)


def shared(function: Callable[[Any], _Result], jobs: Sequence[Any]) -> list[_Result]:
    """Results of a function of NumPy, in order, under the caller's `numpy.errstate`."""

    def some(part: Sequence[Any]) -> list[_Result]:
        return list(map(function, part))

    if getattr(_THREAD, "works", False):
        return some(jobs)
    share = -(-len(jobs) // N_WORKERS)
    parts = [jobs[i : i + share] for i in range(0, len(jobs), share)]
    pool = _pool()
    futures = [pool.submit(copy_context().run, some, part) for part in parts]
    wait(futures)
    return [result for future in futures for result in future.result()]


def _pool() -> ThreadPoolExecutor:
    """Persistent thread pool of this process: threads keep their memory."""
    process = os.getpid()
    if process not in _POOLS:  # threads do not survive a fork
        _POOLS.clear()
        begin = partial(setattr, _THREAD, "works", True)
        _POOLS[process] = ThreadPoolExecutor(N_WORKERS, initializer=begin)
    return _POOLS[process]
