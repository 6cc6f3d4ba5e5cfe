"""Where a split on one column changes sides, to the last bit."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from secret_jax.data.device import FAR
from secret_jax.inspect.equations import LinearSplit
from secret_jax.tree.structure import Tree


def exact_threshold(tree: Tree, node: int, split: LinearSplit) -> float:
    """The last value of a split's one column, in float64, that the tree sends left."""
    (term,) = split.terms
    direction = tree.direction[node, term.position]

    def goes_left(value: float) -> bool:
        with np.errstate(over="ignore"):
            scaled = np.clip((value - term.center) / term.spread, -FAR, FAR)
            return bool(direction * np.float32(scaled) <= tree.threshold[node])

    if split.at_most:
        return _last(goes_left)
    return -_last(lambda value: goes_left(-value))


def _last(holds: Callable[[float], bool]) -> float:
    """Largest float for which a condition holds that holds for all smaller ones."""
    # The bits of a float, read as an integer, are in the order of its size.
    most = struct.unpack("<q", struct.pack("<d", np.finfo(np.float64).max))[0]
    low, high = -most, most
    while low < high:
        middle = (low + high + 1) // 2
        if holds(_float_of(middle)):
            low = middle
        else:
            high = middle - 1
    return _float_of(low)


def _float_of(rank: int) -> float:
    size = struct.unpack("<d", struct.pack("<q", abs(rank)))[0]
    return size if rank >= 0 else -size
