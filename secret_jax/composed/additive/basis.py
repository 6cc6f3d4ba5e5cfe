"""Basis terms of curves: lines and hinges, cycles, indicators.

Every term is piecewise linear in one encoded column, or a number for each category of a
discrete one; it is given by its values at a few points.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema

# A column of no more values has a knot at each of them.
_MOST_LEVELS = 32
# More terms of numbers, or of categories, would make the small solves large: columns
# then have fewer knots each, and rare categories no number of their own.
_MOST_TERMS = 768
# Points of what comes again: parts of dates. Months and weekdays are whole numbers; the
# last hour is the first one again.
_CYCLES = {
    "month": np.arange(1.0, 13.0),
    "weekday": np.arange(1.0, 8.0),
    "hour": np.arange(0.0, 25.0, 2.0),
}
_CLOSED = 24.0
# Categories of less weight have no number of their own.
_LEAST_WEIGHT = 2.0 - 1e-6


class CurveTerms(NamedTuple):
    """Basis terms of the curve of one column, by their values at a few points."""

    position: int  # of the column among the attributes of the schema
    # column, attribute: encoded continuous column, or discrete attribute; -1 where it
    # is the other one.
    column: int
    attribute: int
    indicator: int  # encoded indicator of missing values; -1: none
    # (n_points,), float64: encoded values, rising, or codes of categories.
    at: np.ndarray
    values: np.ndarray  # (n_points, n_terms), float64

    @property
    def n_terms(self) -> int:
        """Number of coefficients, including the one for missing values."""
        return self.values.shape[1] + (self.indicator >= 0)

    def of_rows(self, table: Table) -> np.ndarray:
        """Evaluate the terms at rows, shape (n_rows, n_terms), float64."""
        if self.attribute >= 0:
            place = np.searchsorted(self.at, table.codes[:, self.attribute])
            place = np.minimum(place, len(self.at) - 1)
            known = self.at[place] == table.codes[:, self.attribute]
            return np.where(known[:, None], self.values[place], 0.0)
        x = table.x[:, self.column]
        terms = np.stack([np.interp(x, self.at, term) for term in self.values.T], 1)
        if self.indicator < 0:
            return terms
        missing = table.x[:, self.indicator : self.indicator + 1] > 0
        return np.concatenate([np.where(missing, 0.0, terms), missing], axis=1)


def curve_terms(
    schema: TableSchema, table: Table, weight: np.ndarray, n_knots: int
) -> list[CurveTerms]:
    """Make terms for every column that has at least two values, continuous ones first.

    Terms of numbers have unit deviation, and ``n_knots`` places where the slope may
    change; those of categories and of parts of dates that come again are indicators,
    which a common penalty shrinks the more the fewer rows they have. The target plays
    no part.
    """
    indicators = dict(schema.missing_columns)
    share = _MOST_TERMS // max(len(schema.continuous), 1) - 1
    n_knots = min(n_knots, max(share, 0))
    most_levels = min(_MOST_LEVELS, max(share, 0) + 2)
    curves: list[CurveTerms] = []
    positions = schema.continuous_positions
    for column, position in zip(schema.continuous, positions, strict=True):
        indicator = indicators.get(position, -1)
        there = weight > 0
        if indicator >= 0:
            there = table.x[:, indicator] <= 0
        x = table.x[there, position].astype(np.float64)
        if len(x) == 0 or x.min() == x.max():
            continue
        cycle = _CYCLES.get(schema.origin(column).part)
        if cycle is None:
            at, values = _line(x, weight[there], n_knots, most_levels)
        else:
            at = (cycle - schema.center[position]) / schema.scale[position]
            at, values = at.astype(np.float32).astype(np.float64), np.eye(len(cycle))
            if cycle[-1] == _CLOSED:
                values = values[:, :-1]
                values[-1] = values[0]
        curves.append(CurveTerms(column, position, -1, indicator, at, values))
    n_discrete = len(schema.discrete)
    for attribute, column in enumerate(schema.discrete):
        codes = table.codes[:, attribute]
        count = np.bincount(codes[codes >= 0], weight[codes >= 0])
        heaviest = np.argsort(-count, kind="stable")[: _MOST_TERMS // n_discrete]
        at = np.sort(heaviest[count[heaviest] >= _LEAST_WEIGHT]).astype(np.float64)
        if len(at) > 1:
            curves.append(CurveTerms(column, -1, attribute, -1, at, np.eye(len(at))))
    return curves


def design(terms: Sequence[CurveTerms], table: Table) -> np.ndarray:
    """Evaluate the terms of all curves at rows, shape (n_rows, n_terms), float64."""
    columns = [curve.of_rows(table) for curve in terms]
    return np.concatenate([np.zeros((len(table.codes), 0)), *columns], axis=1)


def _line(
    x: np.ndarray, weight: np.ndarray, n_knots: int, most_levels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Make a line and hinges between the smallest and the largest value."""
    at, place = np.unique(x, return_inverse=True)
    levels = at
    if len(levels) > (max(most_levels, n_knots + 2) if n_knots else 2):
        mass = np.bincount(place, weight)
        passed = (np.cumsum(mass) - 0.5 * mass) / weight.sum()
        wanted = np.arange(1, n_knots + 1) / (n_knots + 1)
        inner = levels[np.searchsorted(passed, wanted).clip(max=len(levels) - 1)]
        at = np.unique(np.r_[levels[0], inner, levels[-1]])
    hinges = np.maximum(at[:, None] - at[None, 1:-1], 0.0)
    values = np.concatenate([at[:, None], hinges], axis=1)
    rows = np.stack([np.interp(x, at, term) for term in values.T], axis=1)
    mean = weight @ rows / weight.sum()
    deviation = np.sqrt(weight @ (rows - mean) ** 2 / weight.sum())
    return at, (values - mean) / np.where(deviation > 0, deviation, 1.0)
