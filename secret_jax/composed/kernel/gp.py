"""Head that is a Gaussian process of what a network of basis functions leaves."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.utils._param_validation import StrOptions

from secret_jax.composed.kernel.interface import Head, HeadFit, Regions
from secret_jax.composed.kernel.kernels import (
    DEFINITE,
    KERNELS,
    SMOOTHERS,
    Metric,
    blocks,
    products,
)
from secret_jax.composed.kernel.rbf import FittedBases, RadialBasis, without_own
from secret_jax.runtime.values import at_least
from secret_jax.tree.file import recorded

# Bandwidths that are compared, in units of the typical distance within a leaf, and
# noise, as shares of the variance of the process.
_BANDWIDTHS = 2.0 ** np.arange(-1.0, 5.0)
_NOISES = 10.0 ** np.arange(-4.0, 2.1, 0.5)
# Rows by which these are chosen.
_MOST_ROWS = 512
# Relative to the variance of the process: a covariance has an inverse. The first one
# that suffices; distances that are rounding count most where a kernel falls at once.
_JITTERS = (1e-9, 1e-7, 1e-5)


@dataclass(frozen=True, kw_only=True)
class GaussianProcess(Head):
    """Kernel regularised least squares on what a `RadialBasis` network leaves.

    The network is the mean of the process; the kernel, in a Mahalanobis distance by
    the smoothed covariance of rows within leaves, its covariance (Lanning 2008,
    equations 4.54 and 4.55). What the network leaves of a row is what it leaves when
    fitted without that row. Bandwidth and noise are those of the greatest likelihood,
    over up to 512 rows. With more than ``max_centers`` rows the process is projected
    on so many of them (Csato & Opper 2002; Seeger 2003): the memory is bounded.

    Attributes
    ----------
    max_centers : int, default=1000
    """

    kernel: Annotated[str, StrOptions(set(KERNELS))] = "cauchy"
    max_centers: Annotated[int, at_least(1)] = 1000

    kernels: ClassVar[tuple[str, ...]] = tuple(DEFINITE)
    needs: ClassVar[str] = "it is a covariance, so its matrices must be semi-definite"

    def fit(self, rows: Regions) -> HeadFit:
        network = RadialBasis(kernel=self.kernel, smoother=self.smoother).fit(rows)
        rest = rows.target - network.left_out
        process, noise = self._likeliest(rows, rest)
        covariance, weight = process.covariance, rows.weight
        gram = covariance(process.z, process.z)
        root = _root(gram)
        inner, moment = noise * np.eye(len(root)), np.zeros((len(root), rest.shape[1]))
        for block in blocks(len(rest), len(root)):
            basis = _solved(root, covariance(process.metric(rows.x[block]), process.z))
            inner += (weight[block, None] * basis).T @ basis
            moment += basis.T @ (weight[block, None] * rest[block])
        second = np.linalg.cholesky(inner)
        half = solve_triangular(second, moment, lower=True)
        scale = (weight @ rest**2 - (half**2).sum(axis=0)) / (weight.sum() * noise)
        weights = solve_triangular(second, half, lower=True, trans=1)
        model = FittedProcess(
            network.model, process, root, second, weights, noise, np.maximum(scale, 0.0)
        )
        fitted, leverage = np.empty_like(rest), np.empty(len(rest))
        for block in blocks(len(rest), 2 * len(root)):
            basis, inverse = model.halves(rows.x[block])
            fitted[block] = basis @ weights
            leverage[block] = weight[block] * (inverse**2).sum(axis=1)
        left_out = network.left_out + without_own(fitted, rest, leverage)
        return HeadFit(model, network.row, network.fitted + fitted, left_out)

    def _likeliest(self, rows: Regions, rest: np.ndarray) -> tuple[Process, float]:
        """Process, and noise as a share of its variance, of the greatest likelihood."""
        # About the means of their leaves: columns that tell leaves apart vary little
        # there, and count the more.
        inside, n = rows.x.copy(), len(rest)
        for _, part in rows.parts():
            share = rows.weight[part]
            inside[part] -= share @ rows.x[part] / share.sum()
        center = rows.weight @ rows.x / rows.weight.sum()
        metric = Metric.of(center, SMOOTHERS[self.smoother](inside, rows.weight))
        chosen = np.linspace(0, n - 1, min(n, self.max_centers)).astype(int)
        subset = np.linspace(0, n - 1, min(n, _MOST_ROWS)).astype(int)
        z, weight = metric(rows.x[subset]), np.sqrt(rows.weight[subset])
        best = None
        for width in (_BANDWIDTHS * np.sqrt(max(rows.x.shape[1], 1))).tolist():
            process = Process(metric, metric(rows.x[chosen]), self.kernel, width)
            gram = weight[:, None] * process.covariance(z, z) * weight
            values, vectors = np.linalg.eigh(gram)
            share = vectors.T @ (weight[:, None] * rest[subset])
            total = np.maximum(values, 0.0) + _NOISES[:, None]
            scale = np.mean(share[:, :, None] ** 2 / total.T[:, None, :], axis=0)
            size = np.maximum(scale, np.finfo(float).tiny)
            deviance = np.log(size).sum(axis=0) * len(z)
            deviance += rest.shape[1] * np.log(total).sum(axis=1)
            i = int(np.argmin(deviance))
            if best is None or deviance[i] < best[0]:
                best = float(deviance[i]), process, float(_NOISES[i])
        assert best is not None
        return best[1:]


def _root(gram: np.ndarray) -> np.ndarray:
    """Cholesky factor of a covariance that may be singular."""
    for jitter in _JITTERS[:-1]:
        with suppress(np.linalg.LinAlgError):
            return np.linalg.cholesky(gram + jitter * np.eye(len(gram)))
    return np.linalg.cholesky(gram + _JITTERS[-1] * np.eye(len(gram)))


def _solved(root: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Rows of covariances with the centers in units in which these are independent."""
    return solve_triangular(root, covariance.T, lower=True).T


@recorded
class Process(NamedTuple):
    """Covariance function of a process, and rows that it is projected on."""

    metric: Metric
    z: np.ndarray  # (n_centers, n_columns), float64: in coordinates of the metric
    kernel: str
    bandwidth: float

    def covariance(self, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Covariances of all pairs, 1 of a center with itself on average."""
        value = KERNELS[self.kernel].value(*products(z, other), self.bandwidth)
        return value / self._unit

    def variance(self, z: np.ndarray) -> np.ndarray:
        """Variance of every row, shape (n_rows,)."""
        return self._own(z) / self._unit

    def _own(self, z: np.ndarray) -> np.ndarray:
        square, kernel = (z**2).sum(axis=1), KERNELS[self.kernel]
        value = kernel.value(np.zeros_like(square), square, self.bandwidth)
        return np.broadcast_to(value, square.shape)

    @property
    def _unit(self) -> float:
        return float(self._own(self.z).mean())


@recorded
class FittedProcess(NamedTuple):
    """Network of basis functions, and a process of what it leaves."""

    network: FittedBases
    process: Process
    # (n_centers, n_centers), float64: Cholesky factor of the covariance of the centers.
    root: np.ndarray
    # (n_centers, n_centers), float64: of the precision of the centers' values given the
    # rows, in units of the noise.
    second: np.ndarray
    weights: np.ndarray  # (n_centers, n_outputs), float64
    noise: float  # variance of the noise as a share of that of the process
    scale: np.ndarray  # (n_outputs,), float64: variance of the process

    def halves(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Roots of the covariance that the centers explain, and of what is left."""
        z = self.process.metric(x)
        basis = _solved(self.root, self.process.covariance(z, self.process.z))
        return basis, _solved(self.second, basis)

    def predict(
        self, x: np.ndarray, leaf: np.ndarray, base: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `HeadFit`; the deviation is that of a new target, noise included."""
        prediction, _ = self.network.predict(x, leaf, base)
        variance = np.empty(len(x))
        for block in blocks(len(x), 3 * len(self.root)):
            basis, inverse = self.halves(x[block])
            prediction[block] += basis @ self.weights
            left = self.process.variance(self.process.metric(x[block]))
            left = left - (basis**2).sum(axis=1)
            left += self.noise * (inverse**2).sum(axis=1)
            variance[block] = np.maximum(left, 0.0) + self.noise
        return prediction, np.sqrt(variance[:, None] * self.scale)
