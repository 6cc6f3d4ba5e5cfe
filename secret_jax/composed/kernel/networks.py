"""Heads that are networks of basis functions, and processes of what these leave."""

from __future__ import annotations

from collections.abc import Sequence
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
from secret_jax.runtime.values import at_least
from secret_jax.tree.file import recorded

# Of networks: bandwidths that are compared, in units of the root mean square distance
# of a row of a leaf from its center, and penalties, for bases of unit variance.
_WIDTHS, _PENALTIES = 2.0 ** np.arange(-2.0, 5.0), 10.0 ** np.arange(-6.0, 3.0)
# Weight of a degree of freedom in generalised cross-validation, as of the leaf models.
_GCV_FACTOR = 1.2
# Relative to its mean: a basis of a lower deviation is constant but for rounding.
_NO_SPREAD = 1e-7
# Directions in which bases of unit variance vary less are rounding.
_ROUNDING = 1e-11
# Of processes: bandwidths, in units of the typical distance within a leaf, and noise,
# as shares of the variance of the process, chosen by so many rows.
_BANDWIDTHS, _NOISES = 2.0 ** np.arange(-1.0, 5.0), 10.0 ** np.arange(-4.0, 2.1, 0.5)
_MOST_ROWS = 512
# Relative to the variance of the process: a covariance has an inverse. The first one
# that suffices; distances that are rounding count most where a kernel falls at once.
_JITTERS = (1e-9, 1e-7, 1e-5)


@dataclass(frozen=True, kw_only=True)
class RadialBasis(Head):
    """Ridge regression on one basis function for each leaf.

    Center and covariance of a basis are the mean and the smoothed covariance of the
    rows of its leaf (Kubat 1998; Orr 1999): the network predicts without the jumps of
    the tree. Bandwidth and penalty are those of least generalised cross-validation.

    References
    ----------
    M. J. L. Orr. Introducing Radial Basis Function Networks from Regression Trees.
    University of Edinburgh, 1999; and J. M. Lanning (2008), equations 2.1 and 2.23.
    """

    kernel: Annotated[str, StrOptions(set(KERNELS))] = "multiquadric"

    def fit(self, rows: Regions) -> HeadFit:
        weight, n, parts = rows.weight, rows.weight.sum(), rows.parts()
        level = weight @ (rows.target - rows.base) / n
        rest = rows.target - rows.base - level
        metrics = tuple(
            Metric.of_rows(rows.x[part], weight[part], self.smoother)
            for _, part in parts
        )
        typical = float(np.sqrt(max(rows.x.shape[1], 1)))  # the distance in a leaf
        widths, value = (typical * _WIDTHS).tolist(), KERNELS[self.kernel].value
        sums = [_Sums(len(metrics), rest.shape[1]) for _ in widths]
        for block in blocks(len(rest), 8 * len(metrics)):
            square, inner = _products(metrics, rows.x[block])
            for one, width in zip(sums, widths, strict=True):
                one.add(value(square, inner, width), rest[block], weight[block])
        ridges = [one.ridge(weight @ rest**2, n) for one in sums]
        best = int(np.argmin([error for error, _ in ridges]))
        (vectors, factor, moment), mean = ridges[best][1], sums[best].mean
        fitted, left_out = np.empty_like(rest), np.empty_like(rest)
        for block in blocks(len(rest), 8 * len(metrics)):
            basis = value(*_products(metrics, rows.x[block]), widths[best])
            basis = (basis - mean) @ vectors
            fitted[block] = rows.base[block] + level + basis @ moment
            leverage = weight[block] * ((basis**2 * factor).sum(axis=1) + 1.0 / n)
            left_out[block] = _without_own(fitted[block], rows.target[block], leverage)
        square = weight[:, None] * (rows.target - left_out) ** 2
        means = [square[part].sum(axis=0) / weight[part].sum() for _, part in parts]
        weights, leaf = vectors @ moment, np.array([leaf for leaf, _ in parts])
        model = FittedBases(
            *(leaf, metrics, self.kernel, widths[best], level - mean @ weights),
            *(weights, np.sqrt(np.array(means))),
        )
        return HeadFit(model, np.arange(len(rest)), fitted, left_out)


def _without_own(
    fitted: np.ndarray, target: np.ndarray, leverage: np.ndarray
) -> np.ndarray:
    """Predictions of a linear smoother without the row's own target (Allen 1974)."""
    leverage = np.minimum(leverage, 1.0 - 1e-6)[:, None]
    return (fitted - leverage * target) / (1.0 - leverage)


def _products(
    metrics: Sequence[Metric], x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances from the centers and inner products, (n_rows, n_bases)."""
    square, inner = np.empty((2, len(x), len(metrics)))
    for i, metric in enumerate(metrics):
        z, center = metric(x), metric.center @ metric.root
        square[:, i] = (z**2).sum(axis=1)
        inner[:, i] = (z + center) @ center
    return square, inner


class _Sums:
    """Weight, means and products of bases and targets, which are centered."""

    def __init__(self, n_bases: int, n_outputs: int):
        self.weight, self.mean = 0.0, np.zeros(n_bases)
        self.gram = np.zeros((n_bases, n_bases))
        self.moment = np.zeros((n_bases, n_outputs))

    def add(self, basis: np.ndarray, rest: np.ndarray, weight: np.ndarray) -> None:
        """Add rows; about means as they come (Chan, Golub & LeVeque 1983)."""
        total = weight.sum()
        mean = weight @ basis / total
        off, step, both = basis - mean, mean - self.mean, self.weight + total
        between = self.weight * total / both * np.outer(step, step)
        self.mean = self.mean + step * (total / both)
        self.gram = self.gram + (weight[:, None] * off).T @ off + between
        self.moment += basis.T @ (weight[:, None] * rest)
        self.weight = both

    def ridge(
        self, spread: np.ndarray, n: float
    ) -> tuple[float, tuple[np.ndarray, ...]]:
        """Choose the penalty of least generalised cross-validation.

        Returns its error, eigenvectors of the bases, and factors and moments of these.
        """
        scale = np.sqrt(np.diag(self.gram) / n)
        scale = np.where(scale > _NO_SPREAD * np.abs(self.mean), scale, np.inf)
        values, vectors = np.linalg.eigh(self.gram / scale / scale[:, None])
        kept = values > _ROUNDING * max(values[-1], n)
        values, vectors = values[kept], vectors[:, kept] / scale[:, None]
        moment = vectors.T @ self.moment
        share = values / (values + n * _PENALTIES[:, None])
        explained = (moment**2).sum(axis=1) / values
        left = spread.sum() - (2.0 * share - share**2) @ explained
        degrees = 1.0 + share.sum(axis=1)
        free = np.maximum(n - _GCV_FACTOR * degrees, 1e-9 * n)
        error = n * np.maximum(left, 0.0) / free**2
        best = int(np.argmin(error))
        factor = share[best] / values
        return float(error[best]), (vectors, factor, factor[:, None] * moment)


@recorded
class FittedBases(NamedTuple):
    """Network of basis functions, one for each leaf."""

    leaf: np.ndarray  # (n_bases,), int: node ids
    metrics: Sequence[Metric]
    kernel: str
    bandwidth: float
    level: np.ndarray  # (n_outputs,), float64
    weights: np.ndarray  # (n_bases, n_outputs), float64
    # (n_bases, n_outputs), float64: leave-one-out error of the rows of each leaf.
    deviation: np.ndarray

    def predict(
        self, x: np.ndarray, leaf: np.ndarray, base: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `HeadFit`; the deviation is the leave-one-out error of the leaf."""
        added, value = np.empty_like(base), KERNELS[self.kernel].value
        for block in blocks(len(x), 8 * len(self.weights)):
            products = _products(self.metrics, x[block])
            added[block] = value(*products, self.bandwidth) @ self.weights
        place = np.searchsorted(self.leaf, leaf)
        return base + self.level + added, self.deviation[place]


@dataclass(frozen=True, kw_only=True)
class GaussianProcess(Head):
    """Kernel regularised least squares on what a `RadialBasis` network leaves.

    The network is the mean of the process; the kernel, in a Mahalanobis distance by
    the smoothed covariance of rows within leaves, its covariance (Lanning 2008,
    equations 4.54 and 4.55), of what the network leaves when fitted without a row.
    Bandwidth and noise are those of the greatest likelihood over up to 512 rows. More
    than ``max_centers`` rows are projected on so many (Csato & Opper 2002).

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
        weight, root = rows.weight, _root(process.covariance(process.z, process.z))
        inner, moment = noise * np.eye(len(root)), np.zeros((len(root), rest.shape[1]))
        for block in blocks(len(rest), len(root)):
            basis = process.basis(process.metric(rows.x[block]), root)
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
            basis, inverse = model.halves(process.metric(rows.x[block]))
            fitted[block] = basis @ weights
            leverage[block] = weight[block] * (inverse**2).sum(axis=1)
        left_out = network.left_out + _without_own(fitted, rest, leverage)
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
        chosen, subset = (
            np.linspace(0, n - 1, min(n, most)).astype(int)
            for most in (self.max_centers, _MOST_ROWS)
        )
        z, weight = metric(rows.x[subset]), np.sqrt(rows.weight[subset])
        found = []
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
            found.append((float(deviance[i]), process, float(_NOISES[i])))
        return min(found, key=lambda one: one[0])[1:]


def _root(gram: np.ndarray) -> np.ndarray:
    """Cholesky factor of a covariance that may be singular."""
    for jitter in _JITTERS[:-1]:
        with suppress(np.linalg.LinAlgError):
            return np.linalg.cholesky(gram + jitter * np.eye(len(gram)))
    return np.linalg.cholesky(gram + _JITTERS[-1] * np.eye(len(gram)))


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
        return value / float(self._own(self.z).mean())

    def variance(self, z: np.ndarray) -> np.ndarray:
        """Variance of every row, shape (n_rows,)."""
        return self._own(z) / float(self._own(self.z).mean())

    def _own(self, z: np.ndarray) -> np.ndarray:
        square = (z**2).sum(axis=1)
        value = KERNELS[self.kernel].value(0.0 * square, square, self.bandwidth)
        return np.broadcast_to(value, square.shape)

    def basis(self, z: np.ndarray, root: np.ndarray) -> np.ndarray:
        """Covariances with the centers, in units in which these are independent."""
        return solve_triangular(root, self.covariance(z, self.z).T, lower=True).T


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

    def halves(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Roots of the covariance that the centers explain, and of what is left."""
        basis = self.process.basis(z, self.root)
        return basis, solve_triangular(self.second, basis.T, lower=True).T

    def predict(
        self, x: np.ndarray, leaf: np.ndarray, base: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `HeadFit`; the deviation is that of a new target, noise included."""
        prediction, _ = self.network.predict(x, leaf, base)
        variance = np.empty(len(x))
        for block in blocks(len(x), 3 * len(self.root)):
            z = self.process.metric(x[block])
            basis, inverse = self.halves(z)
            prediction[block] += basis @ self.weights
            left = self.process.variance(z) - (basis**2).sum(axis=1)
            left += self.noise * (inverse**2).sum(axis=1)
            variance[block] = np.maximum(left, 0.0) + self.noise
        return prediction, np.sqrt(variance[:, None] * self.scale)
