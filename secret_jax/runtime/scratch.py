"""Memory that steps use again: new pages cost as much as a step."""

import math
import threading
from typing import Any

import numpy as np


class Scratch(threading.local):
    """Named memory of each thread, for arrays that are used up before the next one.

    Examples
    --------
    >>> Scratch().array("sums", (2, 3), np.float32).shape
    (2, 3)
    """

    def __init__(self) -> None:
        self._kept: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Take the memory of a name for an array of any content."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if name not in self._kept or self._kept[name].nbytes < n_bytes:
            self._kept[name] = np.empty(n_bytes, np.uint8)
        return self._kept[name][:n_bytes].view(dtype).reshape(shape)
