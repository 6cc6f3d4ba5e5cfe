"""Tables of kernels and smoothed covariances of few rows, and coordinates by these."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from secret_jax.tree.file import recorded

# Exponent of the power exponential kernel, between exponential and Gaussian ones.
_POWER, _DEGREE = 0.75, 2
# Numbers in the largest array of a block of rows: 32 MiB.
BLOCK_NUMBERS = 1 << 22
# Least variance along any direction, in units of the table's columns: rows of a leaf
# may coincide.
_LEAST_VARIANCE = 1e-3
# A correlation matrix of a lower eigenvalue has no inverse to speak of.
_SINGULAR = 1e-10
# Standardised values that differ in later decimals alone are equal but for rounding.
_DECIMALS = 9


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


def without_rounding(x: np.ndarray) -> np.ndarray:
    """Values by which rows are put in order: means in another order round otherwise."""
    return np.round(x, _DECIMALS)


def _likelihood(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Equation (3.37)."""
    center = weight @ x / weight.sum()
    return (weight[:, None] * (x - center)).T @ (x - center) / weight.sum()


def _entropy(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Equation (3.38): covariance of secondary midpoints, and variances inside."""
    if len(x) < 2:
        return np.zeros((x.shape[1], x.shape[1]))
    # The density of maximum entropy is uniform between midpoints of the sorted values,
    # with exponential tails (Fiebig 1982; Theil & Fiebig 1984). The mean of an interval
    # takes a value's place, and the variance in it goes to the diagonal.
    # Of equal values, the first and the last row have other midpoints than the rest.
    order = np.argsort(without_rounding(x), axis=0, kind="stable")
    value = np.take_along_axis(x, order, axis=0)
    around = np.pad(value, [(1, 1), (0, 0)], mode="edge")
    inside = (around[2:] - around[:-2]) ** 2 / 48.0
    inside[[0, -1]] *= 3.0  # of the exponential tails: a sixteenth
    middle = np.empty_like(value)
    secondary = (around[:-2] + 2.0 * value + around[2:]) / 4.0
    np.put_along_axis(middle, order, secondary, axis=0)
    variance = (weight[order] * inside).sum(axis=0) / weight.sum()
    return _likelihood(middle, weight) + np.diag(variance)


def _with_ridge(covariance: np.ndarray, above: float, below: float) -> np.ndarray:
    """Add the identity, ``above`` times over ``below`` times the trace."""
    p, trace = len(covariance), np.trace(covariance)
    return covariance + np.eye(p) * (above / (below * trace) if trace > 0 else 0.0)


def _stipulated_diagonal(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Equations (3.41) and (3.42); of a singular correlation the diagonal alone."""
    covariance, p = _likelihood(x, weight), x.shape[1]
    deviation = np.sqrt(np.diag(covariance))
    scale = np.where(deviation > 0, deviation, 1.0)
    values = np.linalg.eigvalsh(covariance / scale / scale[:, None])
    share = 1.0
    if p > 0 and values[0] > _SINGULAR:
        excess = (1.0 / values).sum() - p
        share = p * (p - 1) / (2.0 * weight.sum() * excess) if excess > 0 else 1.0
    share = min(share, 1.0)
    return (1.0 - share) * covariance + share * np.diag(np.diag(covariance))


def _convex_sum(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Equations (3.43) to (3.45), m in the middle of its interval."""
    covariance, p, n = _likelihood(x, weight), x.shape[1], weight.sum()
    trace, square = np.trace(covariance), np.sum(covariance**2)
    if p < 2 or square <= 0:
        return covariance
    beta = trace**2 / square
    # Eigenvalues that are all equal are shrunk toward themselves.
    m = (p * (1.0 + beta) - 2.0) / max(p - beta, _SINGULAR)
    return (n * covariance + m * (trace / p) * np.eye(p)) / (n + m)


def _ledoit_wolf(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Ledoit & Wolf (2004): a convex sum, its share estimated from fourth moments."""
    covariance, n, p = _likelihood(x, weight), weight.sum(), x.shape[1]
    if p == 0:
        return covariance
    mean = np.trace(covariance) / p
    spread = np.sum(covariance**2) - p * mean**2
    fourth = weight @ ((x - weight @ x / n) ** 2).sum(axis=1) ** 2 / n
    noise = (fourth - np.sum(covariance**2)) / n
    share = min(max(noise, 0.0) / spread, 1.0) if spread > 0 else 0.0
    return (1.0 - share) * covariance + share * mean * np.eye(p)


SMOOTHERS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "none": lambda x, w: (
        _likelihood(x, w) * (w.sum() / (w.sum() - 1.0) if w.sum() > 1.0 else 1.0)
    ),
    "mle": _likelihood,
    "me": _entropy,
    "mleeb": lambda x, w: _with_ridge(_likelihood(x, w), x.shape[1] - 1, w.sum()),
    "meeb": lambda x, w: _with_ridge(_entropy(x, w), x.shape[1] - 1, w.sum()),
    "sdce": _stipulated_diagonal,
    "srce": lambda x, w: _with_ridge(
        _likelihood(x, w), x.shape[1] * (x.shape[1] - 1), 2.0 * w.sum()
    ),
    "csce": _convex_sum,
    "ledoit_wolf": _ledoit_wolf,
    "identity": lambda x, w: np.eye(x.shape[1]),
}
"""Estimates of a covariance of rows (n_rows, n_columns) with weights (n_rows,) > 0,
after Lanning (2008, section 3.2.3); his "None", which must differ from (3.37), divides
by n - 1. Empirical Bayes (3.39, 3.40) and Shurygin's stipulated ridge (1983; Bozdogan
2005) add to the diagonal. "identity": distances of the columns as they are."""


@recorded
class Metric(NamedTuple):
    """Coordinates in which a Mahalanobis distance is the ordinary one."""

    center: np.ndarray  # (n_columns,), float64
    root: np.ndarray  # (n_columns, n_columns), float64: root of the inverse covariance

    @classmethod
    def of_rows(cls, x: np.ndarray, weight: np.ndarray, smoother: str) -> Self:
        """Center rows on their mean, and take a covariance of theirs."""
        return cls.of(weight @ x / weight.sum(), SMOOTHERS[smoother](x, weight))

    @classmethod
    def of(cls, center: np.ndarray, covariance: np.ndarray) -> Self:
        """Invert a covariance; directions without variance get a little of it."""
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, _LEAST_VARIANCE)
        return cls(center, vectors / np.sqrt(values))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of rows, shape (n_rows, n_columns)."""
        return (x - self.center) @ self.root
