"""Fit curves by joint ridge regression, to all rows and without each fold."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.composed.additive.basis import CurveTerms, design
from secret_jax.composed.additive.curve import Curve, shortened
from secret_jax.data.rows import Table

# Penalties that are compared, from a small part of a row to all rows ten times.
_N_PENALTIES = 50
_LEAST_PENALTY = 1e-4
# Weight of a degree of freedom in generalised cross-validation; 1 is the textbook's,
# more gives smoother curves.
_GCV_FACTOR = 1.2


class RidgeFit(NamedTuple):
    """Result of a ridge regression.

    ``noise`` is the variance of the residuals, for the degrees of freedom that were
    spent, ``explained`` the share of the variance that is no noise.
    """

    intercept: float
    slopes: np.ndarray
    penalty: float
    noise: float
    explained: float


def gram_of(terms: np.ndarray, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weighted sums of the products of [1, terms, target] over rows."""
    columns = np.column_stack([np.ones(len(terms)), terms, target])
    return columns.T @ (weight[:, None] * columns)


def ridge(gram: np.ndarray, gcv_factor: float = _GCV_FACTOR) -> RidgeFit:
    """Fit ridge regression to a Gram matrix with rows and columns [1, terms, target].

    The penalty is chosen by generalised cross-validation (Golub, Heath & Wahba 1979),
    for all penalties from one decomposition.
    """
    weight, mean = gram[0, 0], gram[0] / gram[0, 0]
    scatter = gram - weight * np.outer(mean, mean)
    size, axes = np.linalg.eigh(scatter[1:-1, 1:-1])
    size, along = np.maximum(size, 0.0), axes.T @ scatter[1:-1, -1]
    penalty = np.geomspace(10.0 * max(weight, 1.0), _LEAST_PENALTY, _N_PENALTIES)
    shrunk = size + penalty[:, None]
    degrees = 1.0 + (size / shrunk).sum(axis=1)
    explained = (along**2 * (2.0 / shrunk - size / shrunk**2)).sum(axis=1)
    total = max(scatter[-1, -1], 0.0)
    squares = np.maximum(total - explained, 0.0)
    # A penalty that leaves no degrees is no choice; if none does, it is the greatest.
    rest = np.maximum(weight - gcv_factor * degrees, 0.0)
    error = np.divide(squares, rest**2, out=np.full_like(rest, np.inf), where=rest > 0)
    best = int(np.argmin(error))
    slopes = axes @ (along / shrunk[best])
    noise = squares[best] / max(weight - degrees[best], 1e-9 * weight)
    share = max(1.0 - noise * weight / total, 0.0) if total > 0 else 0.0
    intercept = mean[-1] - mean[1:-1] @ slopes
    return RidgeFit(float(intercept), slopes, float(penalty[best]), float(noise), share)


def fit_curves(
    curves: Sequence[CurveTerms],
    table: Table,
    target: np.ndarray,
    weight: np.ndarray,
    fold: np.ndarray,
    tolerance: float,
) -> tuple[float, list[Curve], np.ndarray]:
    """Fit a sum of curves to rows, and without each fold.

    Returns the intercept; the curves, each with a mean of zero over the rows; and the
    residual of every row from curves fitted without its fold. The mean squared
    deviation of simplified curves from the best ones is at most ``tolerance`` of the
    noise variance, times the share of the variance that they explain.
    """
    terms, center = design(curves, table), np.average(target, weights=weight)
    target = target - center
    parts = [fold == part for part in np.unique(fold)]
    grams = [gram_of(terms[part], target[part], weight[part]) for part in parts]
    residual = np.zeros(len(target))
    for i, part in enumerate(parts if len(parts) > 1 else []):
        # Sums of the others are added: differences would be nearly zero, not zero.
        fit = ridge(np.sum([gram for j, gram in enumerate(grams) if j != i], axis=0))
        residual[part] = target[part] - fit.intercept - terms[part] @ fit.slopes
    fit = ridge(np.sum(grams, axis=0))
    intercept, shown = center + fit.intercept, []
    budget = tolerance * fit.explained * fit.noise / max(len(curves), 1)
    bounds = np.cumsum([0, *(curve.n_terms for curve in curves)])
    for curve, start, stop in zip(curves, bounds[:-1], bounds[1:], strict=True):
        short, mean = shortened(curve, fit.slopes[start:stop], table, weight, budget)
        intercept += mean
        if short is not None:
            shown.append(short)
    return float(intercept), shown, residual
