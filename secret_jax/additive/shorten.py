"""Simplify curves: fewer points, nearly the same values."""

from __future__ import annotations

import numpy as np

from secret_jax.additive.basis import CurveTerms
from secret_jax.additive.stage import Curve
from secret_jax.data.rows import Table


def shortened(
    terms: CurveTerms,
    value: np.ndarray,
    missing: float,
    table: Table,
    weight: np.ndarray,
    budget: float,
) -> tuple[Curve | None, float, float]:
    """Simplify a curve and subtract its mean.

    Parameters
    ----------
    value : ndarray of shape (n_points,)
        Values of the curve at the points.
    missing : float
        Where a value is missing.
    weight : ndarray of shape (n_rows,)
    budget : float
        Greatest mean squared difference, over the rows, that is made; a curve whose own
        variance is less is left out.

    Returns
    -------
    mean, deviation : float
        Over the rows.
    """
    place = terms.column, terms.attribute, terms.indicator
    at = terms.at
    if terms.attribute < 0:
        there = weight
        if terms.indicator >= 0:  # the curve says nothing of the others
            there = np.where(table.x[:, terms.indicator] > 0, 0.0, weight)
        mass = _mass(at, table.x[:, terms.column], there)
        chosen = kept_points(at, value, mass / weight.sum(), budget)
        at, value = at[chosen], value[chosen]
    found = Curve(*place, at, value, missing).of_rows(table)
    mean = float(weight @ found / weight.sum())
    variance = float(weight @ (found - mean) ** 2 / weight.sum())
    if variance <= budget:
        return None, mean, 0.0
    if terms.attribute >= 0:
        # Rows of categories that are not listed stay at zero.
        mean *= float(np.isin(table.codes[:, terms.attribute], at).all())
    curve = Curve(*place, at, value - mean, missing - mean)
    return curve, mean, variance**0.5


def kept_points(
    at: np.ndarray, value: np.ndarray, mass: np.ndarray, budget: float
) -> np.ndarray:
    """Choose the points of a piecewise linear curve that are worth keeping.

    The inner point that changes the curve least is dropped repeatedly, while the mean
    squared change stays within the budget.

    Parameters
    ----------
    at, value, mass : ndarray of shape (n_points,)

    Returns
    -------
    ndarray of shape (n_kept,), int
        The first and the last are among them.

    Examples
    --------
    >>> at = np.arange(5.0)
    >>> kept_points(at, np.abs(at - 2), np.ones(5) / 5, 1e-9)
    array([0, 2, 4])
    """

    def change(chosen: np.ndarray) -> float:
        line = np.interp(at, at[chosen], value[chosen])
        return float(mass @ (line - value) ** 2)

    chosen = np.arange(len(at))
    while len(chosen) > 2:
        fewer = [np.delete(chosen, i) for i in range(1, len(chosen) - 1)]
        changes = [change(each) for each in fewer]
        best = int(np.argmin(changes))
        if changes[best] > budget:
            break
        chosen = fewer[best]
    return chosen


def _mass(at: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Distribute the rows' weight over the two points next to each row."""
    right = np.clip(np.searchsorted(at, x), 1, len(at) - 1)
    share = (x - at[right - 1]) / (at[right] - at[right - 1])
    share = np.clip(share, 0.0, 1.0)
    mass = np.bincount(right, share * weight, minlength=len(at))
    return mass + np.bincount(right - 1, (1.0 - share) * weight, minlength=len(at))
