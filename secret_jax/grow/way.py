"""How far the growth of trees has come, before anybody knows how large they will be."""

from __future__ import annotations

import threading

import numpy as np

from secret_jax.grow.frontier import Level
from secret_jax.runtime.progress import Stage


class Way:
    """The way of the rows from the roots down to nodes that are too light to split.

    A node of weight w has some ``1 + log2(w / least)`` levels of searches before it,
    least the weight below which nodes are not split; each of them looks at all its
    rows. What a level still has before it, as a share of what the roots had, is what
    is left to do.

    Parameters
    ----------
    roots : Level
        The first level.
    stage : Stage
    max_depth : int or None
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
        """Nodes below so many splits are about to be searched."""
        self._left = self._before(level, depth)
        self._detail = f"level {depth.max() + 1}"
        self._tell()

    def searched(self, weight: float) -> None:
        """Nodes of that weight together have been searched, in whatever thread."""
        with self._lock:
            self._left -= weight
            self._tell()

    def _tell(self) -> None:
        # A split into unlike parts shortens the way by less than a level.
        self._done = max(self._done, min(1.0 - self._left / self._total, 1.0))
        self._stage.at(self._done, 1.0, self._detail)
