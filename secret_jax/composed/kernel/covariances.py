"""Smoothed covariances of few rows, in one table, and coordinates made of them."""

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from secret_jax.tree.file import recorded

# Least variance along any direction, in units of the table's columns: rows of a leaf
# may coincide.
_LEAST_VARIANCE = 1e-3
# A correlation matrix of a lower eigenvalue has no inverse to speak of.
_SINGULAR = 1e-10
# Standardised values that differ in later decimals alone are equal but for rounding.
_DECIMALS = 9


def without_rounding(x: np.ndarray) -> np.ndarray:
    """Values by which rows are put in order: means of rows in another order round
    otherwise, and part what is equal.
    """
    return np.round(x, _DECIMALS)


def _likelihood(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Equation (3.37)."""
    center = weight @ x / weight.sum()
    return (weight[:, None] * (x - center)).T @ (x - center) / weight.sum()


def _entropy(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Equation (3.38): covariance of secondary midpoints, and variances inside.

    The density of maximum entropy is uniform between midpoints of the sorted values,
    with exponential tails (Fiebig 1982; Theil & Fiebig 1984). The mean of its interval
    takes a value's place, and the variance in the interval goes to the diagonal.
    """
    if len(x) < 2:
        return np.zeros((x.shape[1], x.shape[1]))
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
