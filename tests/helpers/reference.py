"""The method once more, in plain float64 NumPy and SciPy, by other formulas.

Nothing here imports the package. Where the package whitens, factorises, works with one
quadratic form or a closed formula, this works in the units it is given, with densities
from `scipy.stats`, root finding and exhaustive search.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import erf
from scipy.stats import multivariate_normal, norm


class Mixture(NamedTuple):
    """Two Gaussians: fractions (2,), means (2, d), covariances (2, d, d)."""

    fraction: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray


class Split(NamedTuple):
    """A threshold split: rows with ``direction @ x <= threshold`` go left."""

    gain: float
    direction: np.ndarray
    threshold: float


# The mixture


def joint_log_density(mixture: Mixture, z: np.ndarray) -> np.ndarray:
    """Log of fraction times density, shape (2, n_rows)."""
    return np.stack(
        [
            np.log(fraction) + multivariate_normal.logpdf(z, mean, covariance)
            for fraction, mean, covariance in zip(*mixture, strict=True)
        ]
    )


def objective(
    mixture: Mixture, z: np.ndarray, weight: np.ndarray, prior: np.ndarray
) -> float:
    """Log-likelihood per unit of weight, less half of the sum of tr(prior Σ⁻¹)."""
    log_likelihood = np.average(
        np.logaddexp(*joint_log_density(mixture, z)), weights=weight
    )
    penalty = sum(np.trace(prior @ np.linalg.inv(c)) for c in mixture.covariance)
    return log_likelihood - 0.5 * penalty


def maximise(
    z: np.ndarray, weight: np.ndarray, responsibility: np.ndarray, prior: np.ndarray
) -> Mixture:
    """Fractions, means and covariances from the responsibilities of component 1."""
    parts = []
    for share in (weight * responsibility, weight * (1 - responsibility)):
        fraction = share.sum() / weight.sum()
        spread = np.cov(z.T, aweights=share, ddof=0).reshape(prior.shape)
        mean = np.average(z, axis=0, weights=share)
        parts.append((fraction, mean, spread + prior / fraction))
    return Mixture(*(np.array(part) for part in zip(*parts, strict=True)))


def fit_mixture(
    z: np.ndarray,
    weight: np.ndarray,
    responsibility: np.ndarray,
    n_steps: int,
    prior: np.ndarray,
) -> Mixture:
    """A given number of EM steps."""
    mixture = maximise(z, weight, responsibility, prior)
    for _ in range(n_steps - 1):
        first, second = joint_log_density(mixture, z)
        responsibility = 1 / (1 + np.exp(np.clip(second - first, -700, 700)))
        mixture = maximise(z, weight, responsibility, prior)
    return mixture


def implied_regressor(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Intercept and slopes of E[last | others] under a Gaussian."""
    slopes = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
    return np.append(mean[-1] - slopes @ mean[:-1], slopes)


# Gini gain


def gini_gain(joint: np.ndarray) -> float:
    """Gini gain by its definition.

    Parameters
    ----------
    joint : ndarray of shape (n_classes, n_sides)
        Weight or probability of each class on each side of the split.
    """

    def gini(counts):
        return 1 - np.sum((counts / counts.sum()) ** 2)

    sides = [side for side in joint.T if side.sum() > 0]
    children = sum(side.sum() / joint.sum() * gini(side) for side in sides)
    return gini(joint.sum(axis=1)) - children


def all_subsets(n_categories: int) -> np.ndarray:
    """Every subset as a row of a mask, shape (2 ** n_categories, n_categories)."""
    return np.array(list(product([False, True], repeat=n_categories)))


# Discriminants


def equal_density_point(fraction, mean, variance) -> float | None:
    """Point between the means where the weighted densities are equal, if any."""
    deviation = np.sqrt(variance)

    def log_ratio(x):
        first, second = np.log(fraction) + norm.logpdf(x, mean, deviation)
        return first - second

    low, high = sorted(mean)
    if low == high or not log_ratio(low) * log_ratio(high) < 0:
        return None
    return brentq(log_ratio, low, high, xtol=1e-14 * (high - low), rtol=1e-15)


def pulled_point(fraction, mean, variance) -> float:
    """The point to take where no densities are equal between the means."""
    pull = fraction * np.sqrt(variance) if (variance > 0).all() else fraction
    return float(np.average(mean, weights=pull))


def threshold(fraction, mean, variance) -> float:
    """Threshold between two normal classes."""
    root = equal_density_point(fraction, mean, variance) if min(variance) > 0 else None
    return pulled_point(fraction, mean, variance) if root is None else root


def fisher_ratio(normal, fraction, mean, covariance) -> float:
    """Between-class over within-class variance of the projection."""
    between = np.prod(fraction) * (normal @ (mean[0] - mean[1])) ** 2
    within = normal @ np.einsum("i,ijk->jk", fraction, covariance) @ normal
    return between / within


def half_space_probability(mean, covariance, normal, point) -> float:
    """P[normal @ (x - point) >= 0], by the printed formula of Proposition 1.

    An orthogonal M turns the normal into the first axis; the inverse covariance there
    is [[s, w], [w, S]].
    """
    d = len(mean)
    normal = normal / np.linalg.norm(normal)
    rotation, _ = np.linalg.qr(np.column_stack([normal, np.eye(d)[:, : d - 1]]))
    rotation[:, 0] = normal
    precision = rotation.T @ np.linalg.inv(covariance) @ rotation
    s, w, S = precision[0, 0], precision[0, 1:], precision[1:, 1:]
    sigma = 1 / np.sqrt(s - w @ np.linalg.solve(S, w))
    moved = rotation.T @ (mean - point)
    prefactor = sigma / (2 * np.sqrt(np.linalg.det(covariance) * np.linalg.det(S)))
    return prefactor * (1 + erf(moved[0] / (sigma * np.sqrt(2))))


# A node


def principal_start(joint: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Responsibilities by the sign of the first principal component, (n_rows,)."""
    mean = np.average(joint, axis=0, weights=weight)
    deviation = np.sqrt(np.average((joint - mean) ** 2, axis=0, weights=weight))
    rows = (joint - mean) / deviation
    _, _, right = np.linalg.svd(np.sqrt(weight)[:, None] * rows, full_matrices=False)
    return (rows @ right[0] > 0).astype(float)


def random_start(
    joint: np.ndarray, weight: np.ndarray, randomness: np.ndarray
) -> np.ndarray:
    """Responsibilities of unit spheres about two rows drawn by weight, (n_rows,)."""
    covariance = np.atleast_2d(np.cov(joint.T, aweights=weight, ddof=0))
    deviation = np.sqrt(np.diag(covariance))
    bounds = np.cumsum(weight)
    centers = [joint[np.argmax(bounds > u * bounds[-1])] for u in randomness]
    first, second = (
        np.exp(-0.5 * np.sum(((joint - c) / deviation) ** 2, axis=1)) for c in centers
    )
    return first / (first + second)


def threshold_split(
    x: np.ndarray,
    is_first: np.ndarray,
    weight: np.ndarray,
    direction: np.ndarray,
    counted: bool,
) -> Split:
    """Discriminant threshold along a direction, and its gain."""
    projection = x @ direction
    shares = weight * is_first, weight * ~is_first
    fraction = np.array([share.sum() for share in shares]) / weight.sum()
    mean = np.array([np.average(projection, weights=share) for share in shares])
    variance = np.array(
        [
            np.average((projection - m) ** 2, weights=share)
            for m, share in zip(mean, shares, strict=True)
        ]
    )
    cut = threshold(fraction, mean, variance)
    if counted:
        left = np.array([share @ (projection <= cut) for share in shares])
        joint = np.stack([left, np.array([share.sum() for share in shares]) - left], 1)
    else:
        left = norm.cdf(cut, mean, np.sqrt(variance))
        joint = fraction[:, None] * np.stack([left, 1 - left], 1)
    return Split(gini_gain(joint), direction, cut)


def oblique_direction(
    x: np.ndarray, is_first: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Unit vector of linear discriminant analysis."""
    shares = weight * is_first, weight * ~is_first
    within = sum(share.sum() * np.cov(x.T, aweights=share, ddof=0) for share in shares)
    first, second = (np.average(x, axis=0, weights=share) for share in shares)
    normal = np.linalg.solve(within, first - second)
    return normal / np.linalg.norm(normal)
