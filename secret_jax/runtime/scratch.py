"""Scratch arrays in memory that a thread keeps: new pages cost as much as the work."""

import math
import threading
from typing import Any

import numpy as np

_KEPT = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Return an uninitialised array, in memory that this thread keeps under a name.

    The next one of that name overwrites it: use it up before. The memory stays for as
    long as the thread; give none that grows with all rows of a table.

    Examples
    --------
    >>> scratch("an example", (2, 3)).shape
    (2, 3)
    """
    kept: dict[str, np.ndarray] = _KEPT.__dict__
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if name not in kept or len(kept[name]) < size:
        kept[name] = np.empty(size + size // 4, np.uint8)
    return kept[name][:size].view(dtype).reshape(shape)
