"""Sizes of arrays, padded so that few programs are compiled, and their memory."""

import math
import threading
from typing import Any

import numpy as np

# Rows that programs of a whole table have room for: powers of two up to the second
# number, then also eighths of them, as padding takes time.
_FEWEST_ROWS, _FEW_ROWS = 1 << 16, 1 << 17


def next_power_of_two(n: int) -> int:
    """Smallest power of two that is at least ``n``."""
    return 1 << max(n - 1, 0).bit_length()


def bucket(n: int, *, smallest: int) -> int:
    """Smallest power of four times ``smallest`` that is at least ``n``."""
    size = smallest
    while size < n:
        size *= 4
    return size


def room_for(n_rows: int, fewest: int = _FEWEST_ROWS) -> int:
    """Number of rows that programs have room for, at least ``n_rows``."""
    size = next_power_of_two(max(n_rows, fewest))
    if size <= _FEW_ROWS:
        return size
    step = size // 8
    return -(-n_rows // step) * step


def padded(
    values: np.ndarray, n: int, fill: float = 0, *, dtype: Any = None
) -> np.ndarray:
    """Pad values to ``n`` entries along the first axis with ``fill``."""
    # Zeros are not written: padding that nobody reads costs nothing.
    longer = np.zeros((n, *values.shape[1:]), dtype or values.dtype)
    longer[: len(values)] = values
    if fill:
        longer[len(values) :] = fill
    return longer


def slice_positions(starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Concatenate the positions covered by several slices, int64."""
    length = stops - starts
    offset = np.cumsum(length) - length
    return np.arange(length.sum()) + np.repeat(starts - offset, length)


class Scratch(threading.local):
    """Named memory of each thread, for arrays that are used up before the next one.

    It is used again: new pages cost as much as a step.
    """

    def __init__(self) -> None:
        self._kept: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Take the memory of a name for an array of any content."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if name not in self._kept or self._kept[name].nbytes < n_bytes:
            self._kept[name] = np.empty(n_bytes, np.uint8)
        return self._kept[name][:n_bytes].view(dtype).reshape(shape)
