"""A fitted curve of one column, and its simplification."""

from typing import NamedTuple

import numpy as np

from secret_jax.composed.additive.basis import CurveTerms
from secret_jax.data.rows import Table
from secret_jax.tree.state import recorded

recorded(CurveTerms)


@recorded
class Curve(NamedTuple):
    """Fitted curve of one column, in units of the target.

    Its terms are a single one, the curve itself: a line between its points, the same
    beyond them; 0 is the mean of the training rows, and so is a category not listed.
    ``missing`` is the value where the indicator of missing values is set, ``deviation``
    the standard deviation of the values at the training rows.
    """

    terms: CurveTerms
    missing: float
    deviation: float

    @property
    def value(self) -> np.ndarray:
        """Values at the points, shape (n_points,)."""
        return self.terms.values[:, 0]

    def of_rows(self, table: Table) -> np.ndarray:
        """Evaluate the curve at rows, shape (n_rows,), float64."""
        columns = self.terms.of_rows(table)
        return columns @ np.array([1.0, self.missing])[: columns.shape[1]]


def shortened(
    terms: CurveTerms,
    slopes: np.ndarray,
    table: Table,
    weight: np.ndarray,
    budget: float,
) -> tuple[Curve | None, float]:
    """Simplify a curve and subtract its mean over the rows, which is returned as well.

    The budget is the greatest mean squared difference, over the rows, that is made; a
    curve whose own variance is less is left out (None).
    """
    at, value = terms.at, terms.values @ slopes[: terms.values.shape[1]]
    missing = float(slopes[-1]) if terms.indicator >= 0 else 0.0
    if terms.attribute < 0:
        there = weight
        if terms.indicator >= 0:  # the curve says nothing of the others
            there = np.where(table.x[:, terms.indicator] > 0, 0.0, weight)
        mass = _mass(at, table.x[:, terms.column], there)
        chosen = kept_points(at, value, mass / weight.sum(), budget)
        at, value = at[chosen], value[chosen]
    simple = terms._replace(at=at, values=value[:, None])
    said = Curve(simple, missing, 0.0).of_rows(table)
    mean = float(np.average(said, weights=weight))
    variance = float(np.average((said - mean) ** 2, weights=weight))
    if variance <= budget:
        return None, mean
    if terms.attribute >= 0:
        # Rows of categories that are not listed stay at zero.
        mean *= float(np.isin(table.codes[:, terms.attribute], at).all())
    simple = terms._replace(at=at, values=value[:, None] - mean)
    return Curve(simple, missing - mean, variance**0.5), mean


def kept_points(
    at: np.ndarray, value: np.ndarray, mass: np.ndarray, budget: float
) -> np.ndarray:
    """Choose the points of a piecewise linear curve that are worth keeping.

    The inner point that changes the curve least is dropped repeatedly, while the mean
    squared change stays within the budget; the first and the last stay.

    Examples
    --------
    >>> at = np.arange(5.0)
    >>> kept_points(at, np.abs(at - 2), np.ones(5) / 5, 1e-9)
    array([0, 2, 4])
    """
    chosen = np.arange(len(at))
    while len(chosen) > 2:
        fewer = [np.delete(chosen, i) for i in range(1, len(chosen) - 1)]
        lines = np.stack([np.interp(at, at[some], value[some]) for some in fewer])
        changes = (lines - value) ** 2 @ mass
        best = int(np.argmin(changes))
        if changes[best] > budget:
            break
        chosen = fewer[best]
    return chosen


def _mass(at: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Distribute the rows' weight over the two points next to each row."""
    right = np.clip(np.searchsorted(at, x), 1, len(at) - 1)
    share = np.clip((x - at[right - 1]) / (at[right] - at[right - 1]), 0.0, 1.0)
    mass = np.bincount(right, share * weight, minlength=len(at))
    return mass + np.bincount(right - 1, (1.0 - share) * weight, minlength=len(at))
