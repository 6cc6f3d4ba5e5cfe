"""Progress estimate for tree growth."""

from __future__ import annotations

import threading

import numpy as np

from secret_jax.grow.frontier import Level
from secret_jax.runtime.progress import Stage


class Way:
    """Progress estimate for growing trees down to nodes too light to split.

    From a node of weight w down about ``1 + log2(w / least)`` levels are searched,
    where ``least`` is the weight below which nodes are not split; each search reads
    all rows of the node. The work left is estimated as that of the present level,
    relative to that of the roots.

    Parameters
    ----------
    roots : Level
        The first level.
    """

    def __init__(self, roots: Level, stage: Stage, max_depth: int | None):
        self._stage = stage
        # Python's integers may be larger than NumPy's.
        self._max_depth = None if max_depth is None else min(max_depth, (1 << 31) - 1)
        self._total = max(self._before(roots, np.zeros(len(roots.node), int)), 1e-9)
        self._done = 0.0
        self._lock = threading.Lock()

    def _before(self, level: Level, depth: np.ndarray) -> float:
        least = np.maximum(level.min_split_weight, 1e-9)
        ratio = np.maximum(level.weight / least, 1e-9)
        levels = np.where(ratio >= 1.0, 1.0 + np.log2(np.maximum(ratio, 1.0)), 0.0)
        if self._max_depth is not None:
            levels = np.minimum(levels, np.maximum(self._max_depth - depth, 0))
        return float(np.sum(level.weight * levels))

    def enter(self, level: Level, depth: np.ndarray) -> None:
        """Report that the search of nodes at a depth begins."""
        self._left = self._before(level, depth)
        self._detail = f"level {depth.max() + 1}"
        self._tell()

    def searched(self, weight: float) -> None:
        """Report that nodes of a total weight were searched; from any thread."""
        with self._lock:
            self._left -= weight
            self._tell()

    def _tell(self) -> None:
        # A split into unlike parts shortens the way by less than a level.
        self._done = max(self._done, min(1.0 - self._left / self._total, 1.0))
        self._stage.at(self._done, 1.0, self._detail)
