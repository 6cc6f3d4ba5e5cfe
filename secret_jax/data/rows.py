"""The order of rows: shuffling, stable partition, prefix samples, padded batches.

Rows are shuffled once, by a hash of their content. Ties are identical rows, so nothing
that follows depends on the order in which the rows were given, and a row of weight two
lands where two copies of it would.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from secret_jax.runtime.devices import same_device

# Rows that are looked at together: what is computed from them stays in a cache.
ROW_BLOCK = 16384
# Array operations let other threads run.
N_WORKERS = min(os.cpu_count() or 1, 8)

_Result = TypeVar("_Result")


def in_blocks(
    function: Callable[[slice], _Result], n_rows: int, block: int = ROW_BLOCK
) -> Iterator[_Result]:
    """Results of a function of a slice of rows, for slices that cover all rows.

    The processors share the slices; the results come in the order of the rows, and no
    more than a few wait to be taken.

    Examples
    --------
    >>> list(in_blocks(lambda rows: (rows.start, rows.stop), 5, block=2))
    [(0, 2), (2, 4), (4, 5)]
    """
    starts = range(0, max(n_rows, 1), block)
    slices = (slice(start, min(start + block, n_rows)) for start in starts)
    if len(starts) == 1:
        yield function(next(slices))
        return
    function = same_device(function)
    with ThreadPoolExecutor(N_WORKERS) as pool:
        waiting: collections.deque[Future[_Result]] = collections.deque()
        try:
            for rows in slices:
                if len(waiting) == 2 * N_WORKERS:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(function, rows))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def next_power_of_two(n: int) -> int:
    """Smallest power of two that is at least ``n``.

    Examples
    --------
    >>> [next_power_of_two(n) for n in (1, 3, 64, 65)]
    [1, 4, 64, 128]
    """
    return 1 << max(n - 1, 0).bit_length()


def bucket(n: int, *, smallest: int) -> int:
    """Smallest power of four times ``smallest`` that is at least ``n``.

    Few sizes mean few compiled programs.

    Examples
    --------
    >>> [bucket(n, smallest=64) for n in (3, 64, 65, 1000)]
    [64, 64, 256, 1024]
    """
    size = smallest
    while size < n:
        size *= 4
    return size


_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(value: np.ndarray | np.uint64) -> np.ndarray:
    """One round of the splitmix64 finaliser (Steele, Lea & Flood 2014), uint64."""
    with np.errstate(over="ignore"):
        value = np.asarray(value, np.uint64) + _GOLDEN
        value = (value ^ (value >> np.uint64(30))) * _M1
        value = (value ^ (value >> np.uint64(27))) * _M2
        return value ^ (value >> np.uint64(31))


def uniform(key: np.ndarray) -> np.ndarray:
    """Numbers in [0, 1) from uint64 keys; equal keys give equal numbers, float64."""
    return (mix(key) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def content_hash(columns: list[np.ndarray], seed: int) -> np.ndarray:
    """Hash of every row's content.

    Parameters
    ----------
    columns : list of ndarray of shape (n_rows,)
        Float or integer columns.
    seed : int
        Non-negative; another seed gives another shuffle.

    Returns
    -------
    ndarray of shape (n_rows,), uint64
    """
    state = np.broadcast_to(mix(np.uint64(seed)), columns[0].shape)
    for column in columns:
        # + 0.0 turns -0.0 into 0.0, which compares equal and must hash equal.
        bits = (np.asarray(column, np.float64) + 0.0).view(np.uint64)
        state = mix(state ^ bits)
    return state


def sampling_hash(x: np.ndarray, more: list[np.ndarray], seed: int) -> np.ndarray:
    """A cheaper hash of rows for choosing some of very many.

    A sum of the columns' bits, each times an odd number of its own, mixed once.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_columns), float32
    more : list of ndarray of shape (n_rows,)
        Further columns.
    seed : int

    Returns
    -------
    ndarray of shape (n_rows,), uint64
    """
    n_columns = x.shape[1]
    factors = np.arange(n_columns + len(more), dtype=np.uint64) + mix(np.uint64(seed))
    factors = mix(factors) | np.uint64(1)
    state = np.einsum("ij,j->i", _bits(x), factors[:n_columns])
    for column, factor in zip(more, factors[n_columns:], strict=True):
        state += _bits(column) * factor
    return mix(state)


def _bits(values: np.ndarray) -> np.ndarray:
    # + 0.0 turns -0.0 into 0.0, which compares equal and must hash equal.
    return (np.asarray(values, np.float32) + np.float32(0)).view(np.uint32)


def hold_out(sorted_hash: np.ndarray, weight: np.ndarray, fraction: float) -> int:
    """Where to cut rows in hash order so that the rest is a hold-out part.

    Parameters
    ----------
    sorted_hash : ndarray of shape (n_rows,), uint64
    weight : ndarray of shape (n_rows,)
    fraction : float
        Share of the weight to hold out.

    Returns
    -------
    int
        Rows ``[:cut]`` train, rows ``[cut:]`` are held out. Identical rows are never
        put apart.
    """
    share = np.cumsum(weight) / np.sum(weight)
    cut = int(np.searchsorted(share, 1.0 - fraction - 1e-9)) + 1
    while cut < len(share) and sorted_hash[cut] == sorted_hash[cut - 1]:
        cut += 1
    return min(cut, len(share))


def partition(
    order: np.ndarray, starts: np.ndarray, stops: np.ndarray, go_left: np.ndarray
) -> np.ndarray:
    """Stable two-way partition of the rows of several nodes, in place.

    Parameters
    ----------
    order : ndarray of shape (n_rows,), int64
        Row ids, contiguous for each node; changed in place.
    starts, stops : ndarray of shape (n_nodes,)
        Slices of the nodes in ``order``.
    go_left : ndarray of shape (sum of the slices' lengths,), bool
        For the rows of the nodes, one slice after the other.

    Returns
    -------
    ndarray of shape (n_nodes,), int64
        Where the right child of each node begins.
    """
    position = slice_positions(starts, stops)
    node = np.repeat(np.arange(len(starts)), stops - starts)
    # Keys of two bytes are sorted by counting.
    narrow = np.uint16 if len(starts) < 1 << 15 else np.int64
    ranked = np.argsort((2 * node + ~go_left).astype(narrow), kind="stable")
    order[position] = order[position[ranked]]
    return starts + np.bincount(node[go_left], minlength=len(starts))


def slice_positions(starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Positions covered by several slices, one slice after the other, int64.

    Examples
    --------
    >>> slice_positions(np.array([2, 7]), np.array([4, 10]))
    array([2, 3, 7, 8, 9])
    """
    length = stops - starts
    offset = np.cumsum(length) - length
    return np.arange(length.sum()) + np.repeat(starts - offset, length)
