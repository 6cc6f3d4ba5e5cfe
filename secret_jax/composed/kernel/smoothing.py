"""Head of kernel-weighted means or linear models of the rows of a leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import StrOptions

from secret_jax.composed.kernel.interface import Head, HeadFit, Regions
from secret_jax.composed.kernel.kernels import (
    KERNELS,
    SMOOTHERS,
    WEIGHING,
    Metric,
    blocks,
    products,
)
from secret_jax.tree.file import recorded

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


@dataclass(frozen=True, kw_only=True)
class Smoothing(Head):
    """Weighted means, or linear models, of what the tree leaves of near rows.

    Rows of the same leaf count, by a kernel of their distance. Each leaf has one
    bandwidth: that of least leave-one-out error, over up to 512 of its rows.

    Attributes
    ----------
    linear : bool, default=False
        A weighted linear model about each predicted row (Cleveland & Devlin 1988) in
        place of the weighted mean (Nadaraya 1964; Watson 1964): it has no bias at the
        borders of a leaf. Both are Torgo's (1997).
    smoother : str, default="identity"
        Distances are Mahalanobis's, with the leaf's smoothed covariance.
    """

    linear: bool = False
    smoother: Annotated[str, StrOptions(set(SMOOTHERS))] = "identity"

    kernels: ClassVar[tuple[str, ...]] = tuple(WEIGHING)
    needs: ClassVar[str] = "it weighs rows, so the kernel must fall with the distance"
    corrects_constants: ClassVar[bool] = True

    def fit(self, rows: Regions) -> HeadFit:
        leaves, known, fitted, left_out = {}, [], [], []
        for leaf, part in rows.parts():
            x, weight, base = rows.x[part], rows.weight[part], rows.base[part]
            metric = Metric.of_rows(x, weight, self.smoother)
            rest = rows.target[part] - base
            nothing = 0.0, np.zeros(rest.shape[1])
            kept = LeafRows(metric, metric(x), rest, weight, *nothing)
            leaves[leaf], chosen, without = kept.with_bandwidth(self)
            known.append(part.start + chosen)
            left_out.append(base[chosen] + without)
            fitted.append(base[chosen] + leaves[leaf].predict(x[chosen], self))
        model = FittedSmoothing(leaves, self)
        return HeadFit(model, *map(np.concatenate, (known, fitted, left_out)))


@recorded
class LeafRows(NamedTuple):
    """Rows of one leaf, in the coordinates of its metric."""

    metric: Metric
    z: np.ndarray  # (n_rows, n_columns), float64
    target: np.ndarray  # (n_rows, n_outputs), float64: what the tree leaves
    weight: np.ndarray  # (n_rows,), float64
    bandwidth: float  # of the kernel, in units of distance; 0 until it is chosen
    # (n_outputs,), float64: root mean squared leave-one-out error.
    deviation: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        """Variance of every coordinate, shape (n_columns,)."""
        return self.weight @ self.z**2 / self.weight.sum()

    def _blocks(self, n_rows: int) -> list[slice]:
        return blocks(n_rows, max(len(self.weight), self.z.shape[1] ** 2))

    def predict(self, x: np.ndarray, how: Smoothing) -> np.ndarray:
        """Smooth the targets at other rows, shape (n_others, n_outputs).

        What lines say far from all rows stays within the range of the targets.
        """
        prediction, place = np.empty((len(x), self.target.shape[1])), self.metric(x)
        for block in self._blocks(len(x)):
            square, _ = products(place[block], self.z)
            prediction[block] = self._smoothed(place[block], square, how)
        return np.clip(prediction, self.target.min(axis=0), self.target.max(axis=0))

    def with_bandwidth(self, how: Smoothing) -> tuple[LeafRows, np.ndarray, np.ndarray]:
        """Choose the bandwidth of least leave-one-out error, the widest of ties.

        Returns also the rows that were left out, (n_chosen,), and what the others say
        of each, (n_chosen, n_outputs); nothing if there are no others.
        """
        bandwidths = _BANDWIDTHS * (np.sqrt(2.0 * self.variance.sum()) or 1.0)
        n_rows = len(self.weight)
        chosen = np.linspace(0, n_rows - 1, min(n_rows, _MOST_LEFT_OUT)).astype(int)
        without = np.zeros((len(bandwidths), len(chosen), self.target.shape[1]))
        for block in self._blocks(len(chosen)) if n_rows > 1 else []:
            row = chosen[block]
            square, _ = products(self.z[row], self.z)
            square[np.arange(len(row)), row] = np.inf
            for i, bandwidth in enumerate(bandwidths.tolist()):
                one = self._replace(bandwidth=bandwidth)
                without[i, block] = one._smoothed(self.z[row], square, how)
        weight = self.weight[chosen]
        errors = weight @ (self.target[chosen] - without) ** 2
        best = int(np.argmin(errors.sum(axis=1))) if n_rows > 1 else 0
        deviation = np.sqrt(errors[best] / weight.sum())
        kept = self._replace(bandwidth=float(bandwidths[best]), deviation=deviation)
        return kept, chosen, without[best]

    def _smoothed(
        self, place: np.ndarray, square: np.ndarray, how: Smoothing
    ) -> np.ndarray:
        """Weighted means, or linear models, at places of known squared distances."""
        log = KERNELS[how.kernel].log
        assert log is not None, "`Head.check` has seen to it"
        log_weight = log(square, self.bandwidth)
        # Far from all rows the nearest ones count: only ratios of weights matter.
        share = self.weight * np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        value = share @ self.target
        n_columns = self.z.shape[1]
        if not how.linear or n_columns == 0:
            return value
        mean = share @ self.z
        # Column by column: all products of two columns would not fit into memory.
        columns = [share @ (self.z * column[:, None]) for column in self.z.T]
        scatter = np.stack(columns, axis=1) - mean[:, :, None] * mean[:, None, :]
        outputs = [share @ (self.z * column[:, None]) for column in self.target.T]
        moment = np.stack(outputs, axis=2) - mean[:, :, None] * value[:, None, :]
        reach = min(self.bandwidth**2, float(self.variance.mean()))
        penalty = _SHRINKAGE * reach + _NO_VARIANCE
        slope = np.linalg.solve(scatter + penalty * np.eye(n_columns), moment)
        return value + np.einsum("qi,qio->qo", place - mean, slope)


@recorded
class FittedSmoothing(NamedTuple):
    """Kept rows of every leaf, by its node id."""

    leaves: dict[int, LeafRows]
    how: Smoothing

    def predict(
        self, x: np.ndarray, leaf: np.ndarray, base: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `HeadFit`; the deviation is the leave-one-out error of the leaf."""
        value, deviation = base.copy(), np.empty_like(base)
        for node in np.unique(leaf).tolist():
            here = leaf == node
            value[here] += self.leaves[node].predict(x[here], self.how)
            deviation[here] = self.leaves[node].deviation
        return value, deviation
