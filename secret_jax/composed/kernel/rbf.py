"""Head that is a network of radial basis functions, one for each leaf."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions

from secret_jax.composed.kernel.interface import Head, HeadFit, Regions
from secret_jax.composed.kernel.kernels import KERNELS, Metric, blocks
from secret_jax.tree.file import recorded

# Bandwidths that are compared, in units of the root mean square distance of a row of
# a leaf from its center.
_BANDWIDTHS = 2.0 ** np.arange(-2.0, 5.0)
# Penalties that are compared, for bases of unit variance and one row.
_PENALTIES = 10.0 ** np.arange(-6.0, 3.0)
# Weight of a degree of freedom in generalised cross-validation, as of the leaf models.
_GCV_FACTOR = 1.2
# Relative to its mean: a basis of a lower deviation is constant but for rounding.
_NO_SPREAD = 1e-7
# Directions in which bases of unit variance vary less are rounding.
_ROUNDING = 1e-11


@dataclass(frozen=True, kw_only=True)
class RadialBasis(Head):
    """Ridge regression on one basis function for each leaf.

    Center and covariance of a basis are the mean and the smoothed covariance of the
    rows of its leaf (Kubat 1998; Orr 1999), so that the tree says where bases are, and
    the network predicts without the jumps of the tree. One bandwidth for all bases and
    the penalty are those of least generalised cross-validation.

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
        widths, value = (typical * _BANDWIDTHS).tolist(), KERNELS[self.kernel].value
        sums = [_Sums.nothing(len(metrics), rest.shape[1]) for _ in widths]
        for block in blocks(len(rest), 8 * len(metrics)):
            square, inner = _products(metrics, rows.x[block])
            for i, width in enumerate(widths):
                basis = value(square, inner, width)
                sums[i] = sums[i].with_rows(basis, rest[block], weight[block])
        spread = weight @ rest**2
        ridges = [one.ridge(spread, n) for one in sums]
        best = int(np.argmin([error for error, _ in ridges]))
        (vectors, factor, moment), mean = ridges[best][1], sums[best].mean
        fitted, left_out = np.empty_like(rest), np.empty_like(rest)
        for block in blocks(len(rest), 8 * len(metrics)):
            basis = value(*_products(metrics, rows.x[block]), widths[best])
            basis = (basis - mean) @ vectors
            fitted[block] = rows.base[block] + level + basis @ moment
            leverage = weight[block] * ((basis**2 * factor).sum(axis=1) + 1.0 / n)
            target = rows.target[block]
            left_out[block] = without_own(fitted[block], target, leverage)
        square = weight[:, None] * (rows.target - left_out) ** 2
        means = [square[part].sum(axis=0) / weight[part].sum() for _, part in parts]
        weights, leaf = vectors @ moment, np.array([leaf for leaf, _ in parts])
        model = FittedBases(
            *(leaf, metrics, self.kernel, widths[best], level - mean @ weights),
            *(weights, np.sqrt(np.array(means))),
        )
        return HeadFit(model, np.arange(len(rest)), fitted, left_out)


def without_own(
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


class _Sums(NamedTuple):
    """Weight, means and products of bases and targets, which are centered."""

    weight: float
    mean: np.ndarray
    gram: np.ndarray
    moment: np.ndarray

    @classmethod
    def nothing(cls, n_bases: int, n_outputs: int) -> Self:
        zeros = np.zeros((n_bases, n_bases)), np.zeros((n_bases, n_outputs))
        return cls(0.0, np.zeros(n_bases), *zeros)

    def with_rows(self, basis: np.ndarray, rest: np.ndarray, weight: np.ndarray):
        """Add rows; about means as they come (Chan, Golub & LeVeque 1983)."""
        total = weight.sum()
        mean = weight @ basis / total
        off, step = basis - mean, mean - self.mean
        both = self.weight + total
        between = self.weight * total / both * np.outer(step, step)
        weighted = weight[:, None] * off
        return _Sums(
            both,
            self.mean + step * (total / both),
            self.gram + weighted.T @ off + between,
            self.moment + basis.T @ (weight[:, None] * rest),
        )

    def ridge(
        self, spread: np.ndarray, n: float
    ) -> tuple[float, tuple[np.ndarray, ...]]:
        """Choose the penalty of least generalised cross-validation.

        Returns its error, eigenvectors of the bases, and factors and moments along
        these.
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
