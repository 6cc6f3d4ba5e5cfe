"""Kernels of rows in whitened coordinates, in one table."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

# Exponent of the power exponential kernel, between exponential and Gaussian ones.
_POWER = 0.75
_DEGREE = 2
# Numbers in the largest array of a block of rows: 32 MiB.
BLOCK_NUMBERS = 1 << 22


class Kernel(NamedTuple):
    """Kernel as a function of squared distances, inner products and a bandwidth."""

    # From squared distances and inner products (arrays of one shape) and a bandwidth,
    # in units of distance, to values of the kernel.
    value: Callable[[Any, Any, float], Any]
    # From squared distances and a bandwidth to the logarithm of the kernel. None: it
    # does not fall with the distance, and cannot weigh rows.
    log: Callable[[Any, float], Any] | None = None
    # Whether its matrices are positive semi-definite (Mercer's condition): it can be
    # the covariance of a process.
    is_definite: bool = True


def _weighing(log: Callable[[Any, float], Any]) -> Kernel:
    return Kernel(lambda square, _, b: np.exp(log(square, b)), log)


KERNELS: dict[str, Kernel] = {
    "gaussian": _weighing(lambda square, b: -square / (2.0 * b**2)),
    "power": _weighing(lambda square, b: -((square / b**2) ** _POWER)),
    "exponential": _weighing(lambda square, b: -np.sqrt(square) / b),
    "cauchy": _weighing(lambda square, b: -np.log1p(square / b**2)),
    "inverse_multiquadric": _weighing(lambda square, b: -0.5 * np.log(square + b**2)),
    "multiquadric": Kernel(
        lambda square, _, b: np.sqrt(square + b**2), is_definite=False
    ),
    "polynomial": Kernel(lambda _, inner, b: (inner + b**2) ** _DEGREE),
    "sigmoid": Kernel(
        lambda _, inner, b: np.tanh(inner / b**2 - 1.0), is_definite=False
    ),
}
"""Kernels of Lanning (2008, section 3.2.3). Its width h is 2 b² of the Gaussian, b² of
the Cauchy and polynomial kernels and b of the others; the power is 3/4, the degree 2,
the sigmoid's slope 1 / b² and its shift -1."""

WEIGHING = [name for name, kernel in KERNELS.items() if kernel.log]
DEFINITE = [name for name, kernel in KERNELS.items() if kernel.is_definite]


def products(x: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances and inner products of all pairs, shape (n_rows, n_others)."""
    inner = x @ other.T
    square = (x**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2.0 * inner
    return np.maximum(square, 0.0), inner


def blocks(n_rows: int, width: int) -> list[slice]:
    """Slices of rows whose arrays of ``width`` numbers a row fit into memory."""
    size = max(BLOCK_NUMBERS // max(width, 1), 1)
    return [slice(first, first + size) for first in range(0, n_rows, size)]
