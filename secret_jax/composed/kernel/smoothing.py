"""Kernel-weighted means and linear models of the rows of one leaf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from secret_jax.tree.state import recorded

# Numbers in the largest array of a block of rows to predict: 32 MiB.
_BLOCK_NUMBERS = 1 << 22
# Bandwidths that are compared, the widest first, in units of the root mean square
# distance of two rows of the leaf: from nearly equal weights to the next neighbours.
_BANDWIDTHS = 2.0 ** np.arange(2.0, -5.5, -0.5)
# Number of rows of a leaf that are left out one at a time to choose the bandwidth.
_MOST_LEFT_OUT = 512
# Slopes are shrunk by this share where rows spread as far as the kernel reaches; more
# where they lie along fewer directions, without information on the others.
_SHRINKAGE = 0.01
# A variance that is never reached: rows in one place have no slope.
_NO_VARIANCE = 1e-12


@recorded
class LeafRows(NamedTuple):
    """Rows of one leaf, centered at their weighted mean.

    Attributes
    ----------
    center : ndarray of shape (n_columns,), float64
    x : ndarray of shape (n_rows, n_columns), float64
        Less the center.
    target : ndarray of shape (n_rows, n_outputs), float64
    weight : ndarray of shape (n_rows,), float64
    bandwidth : float
        Deviation of the Gaussian kernel; 0 until it is chosen.
    deviation : ndarray of shape (n_outputs,), float64
        Root mean squared error of rows that were left out one at a time.
    """

    center: np.ndarray
    x: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    bandwidth: float
    deviation: np.ndarray

    @classmethod
    def of(
        cls, x: np.ndarray, target: np.ndarray, weight: np.ndarray, *, linear: bool
    ) -> LeafRows:
        """Center the rows (at least one) and choose the bandwidth."""
        center = weight @ x / weight.sum()
        nothing = np.zeros(target.shape[1])
        rows = cls(center, x - center, target, weight, 0.0, nothing)
        return rows._with_bandwidth(linear)

    @property
    def variance(self) -> np.ndarray:
        """Variance of every column, shape (n_columns,)."""
        return self.weight @ self.x**2 / self.weight.sum()

    def predict(self, x: np.ndarray, *, linear: bool) -> np.ndarray:
        """Smooth the targets at other rows, shape (n_others, n_outputs).

        What lines say far from all rows stays within the range of the targets.
        """
        found = np.empty((len(x), self.target.shape[1]))
        for block in self._blocks(len(x)):
            place = x[block] - self.center
            square = self._squared_distances(place)
            found[block] = self._smoothed(place, square, self.bandwidth, linear)
        return np.clip(found, self.target.min(axis=0), self.target.max(axis=0))

    def _with_bandwidth(self, linear: bool) -> LeafRows:
        """Choose the bandwidth of least leave-one-out error, the widest of ties."""
        bandwidths = _BANDWIDTHS * (np.sqrt(2.0 * self.variance.sum()) or 1.0)
        n_rows = len(self.weight)
        if n_rows < 2:
            return self._replace(bandwidth=float(bandwidths[0]))
        chosen = np.linspace(0, n_rows - 1, min(n_rows, _MOST_LEFT_OUT)).astype(int)
        errors = np.zeros((len(bandwidths), self.target.shape[1]))
        for block in self._blocks(len(chosen)):
            row = chosen[block]
            square = self._squared_distances(self.x[row])
            square[np.arange(len(row)), row] = np.inf
            for i, bandwidth in enumerate(bandwidths):
                found = self._smoothed(self.x[row], square, float(bandwidth), linear)
                errors[i] += self.weight[row] @ (self.target[row] - found) ** 2
        best = int(np.argmin(errors.sum(axis=1)))
        deviation = np.sqrt(errors[best] / self.weight[chosen].sum())
        return self._replace(bandwidth=float(bandwidths[best]), deviation=deviation)

    def _blocks(self, n_rows: int) -> Iterator[slice]:
        """Slices of rows to predict whose distances fit into memory."""
        width = max(len(self.weight), len(self.center) ** 2)
        size = max(_BLOCK_NUMBERS // width, 1)
        return (slice(first, first + size) for first in range(0, n_rows, size))

    def _squared_distances(self, place: np.ndarray) -> np.ndarray:
        """Squared distances of centered rows to these, shape (n_others, n_rows)."""
        square = (place**2).sum(axis=1)[:, None] + (self.x**2).sum(axis=1)
        return np.maximum(square - 2.0 * (place @ self.x.T), 0.0)

    def _smoothed(
        self, place: np.ndarray, square: np.ndarray, bandwidth: float, linear: bool
    ) -> np.ndarray:
        """Weighted means, or weighted linear models, at other rows.

        Far from all rows the nearest ones count: only ratios of weights matter.

        Parameters
        ----------
        place : ndarray of shape (n_others, n_columns), float64
            Centered.
        square : ndarray of shape (n_others, n_rows), float64
            Squared distances; infinite where a row is not to count.
        """
        nearest = square.min(axis=1, keepdims=True)
        share = self.weight * np.exp((nearest - square) / (2.0 * bandwidth**2))
        share /= share.sum(axis=1, keepdims=True)
        value = share @ self.target
        n_columns = len(self.center)
        if not linear or n_columns == 0:
            return value
        mean = share @ self.x
        # Column by column: all products of two columns would not fit into memory.
        columns = [share @ (self.x * column[:, None]) for column in self.x.T]
        scatter = np.stack(columns, axis=1) - mean[:, :, None] * mean[:, None, :]
        outputs = [share @ (self.x * column[:, None]) for column in self.target.T]
        moment = np.stack(outputs, axis=2) - mean[:, :, None] * value[:, None, :]
        reach = min(bandwidth**2, float(self.variance.mean()))
        penalty = _SHRINKAGE * reach + _NO_VARIANCE
        slope = np.linalg.solve(scatter + penalty * np.eye(n_columns), moment)
        return value + np.einsum("qi,qio->qo", place - mean, slope)
