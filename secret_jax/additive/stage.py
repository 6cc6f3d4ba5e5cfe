"""Fitted sum of one-column curves, as flat arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema


class StageError(ValueError):
    """Error of a request that would ignore the curves in front of a tree."""


class Curve(NamedTuple):
    """Curve of one column, in standardised units.

    Attributes
    ----------
    column : int
        Encoded continuous column; -1 of a discrete attribute.
    attribute : int
        Discrete attribute; -1 of a continuous column.
    indicator : int
        Encoded indicator of missing values; -1: none.
    at : ndarray of shape (n_points,), float64
        Encoded values, rising, between which the curve is straight and beyond which it
        is constant; or codes of categories.
    value : ndarray of shape (n_points,), float64
        0 is the mean of the training rows; so is every category that is not listed.
    missing : float
        Value where the indicator is set.
    """

    column: int
    attribute: int
    indicator: int
    at: np.ndarray
    value: np.ndarray
    missing: float

    def input_column(self, schema: TableSchema) -> int:
        """Position of the curve's column among the attributes of a table."""
        if self.attribute >= 0:
            return schema.discrete[self.attribute]
        return schema.input_columns[self.column]

    def of_rows(self, table: Table) -> np.ndarray:
        """Evaluate the curve at rows, shape (n_rows,), float64."""
        if self.attribute >= 0:
            codes = table.codes[:, self.attribute]
            place = np.minimum(np.searchsorted(self.at, codes), len(self.at) - 1)
            return np.where(self.at[place] == codes, self.value[place], 0.0)
        found = np.interp(table.x[:, self.column], self.at, self.value)
        if self.indicator < 0:
            return found
        return np.where(table.x[:, self.indicator] > 0, self.missing, found)


@dataclass(frozen=True, eq=False, kw_only=True)
class AdditiveStage:
    """Sum of curves in front of a tree, which is fitted to its residuals.

    Numbers are in standardised units: of the encoded columns, and of the target.

    Attributes
    ----------
    column, attribute, indicator : ndarray of shape (n_curves,), int32
        See `Curve`.
    missing : ndarray of shape (n_curves,), float64
    first : ndarray of shape (n_curves + 1,), int32
        The points of a curve are those from its number here up to the next one's.
    at, value : ndarray of shape (n_points,), float64
    deviation : ndarray of shape (n_curves,), float64
        Standard deviation of the curve's values at the training rows.
    degrees : float
        Effective degrees of freedom.
    """

    intercept: float
    column: np.ndarray
    attribute: np.ndarray
    indicator: np.ndarray
    missing: np.ndarray
    first: np.ndarray
    at: np.ndarray
    value: np.ndarray
    deviation: np.ndarray
    degrees: float

    def __post_init__(self) -> None:
        for name in STAGE_ARRAYS:
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def n_curves(self) -> int:
        """Number of curves."""
        return len(self.column)

    def curve(self, which: int) -> Curve:
        """Curve at a position in the sum."""
        part = slice(self.first[which], self.first[which + 1])
        return Curve(
            int(self.column[which]),
            int(self.attribute[which]),
            int(self.indicator[which]),
            self.at[part],
            self.value[part],
            float(self.missing[which]),
        )

    @property
    def curves(self) -> list[Curve]:
        """All curves, in the order of the sum."""
        return [self.curve(which) for which in range(self.n_curves)]

    def contributions(self, table: Table) -> np.ndarray:
        """Contribution of every curve to the prediction of rows.

        Parameters
        ----------
        table : Table
            Rows encoded with the schema of the tree.

        Returns
        -------
        ndarray of shape (n_rows, n_curves), float64
        """
        table = table.on_host()
        found = np.zeros((len(table.codes), self.n_curves))
        for which, curve in enumerate(self.curves):
            found[:, which] = curve.of_rows(table)
        return found

    def predict(self, table: Table) -> np.ndarray:
        """Predict the sum of the curves, in standardised units of the target.

        Parameters
        ----------
        table : Table
            Rows encoded with the schema of the tree.

        Returns
        -------
        ndarray of shape (n_rows,), float64
        """
        table = table.on_host()
        found = np.full(len(table.codes), self.intercept)
        for curve in self.curves:
            found += curve.of_rows(table)
        return found


STAGE_ARRAYS = (
    *("column", "attribute", "indicator", "missing"),
    *("first", "at", "value", "deviation"),
)


def refuse_stage(stage: AdditiveStage | None, what: str, instead: str) -> None:
    """Raise a `StageError` if there is an additive stage in front of a tree.

    Parameters
    ----------
    what : str
        Feature that would ignore them, as the beginning of a sentence.
    instead : str
        Remedy, in the imperative.
    """
    if stage is not None:
        raise StageError(
            f"{what} would leave out the additive stage in front of this tree. "
            f"{instead}, or fit with additive=None."
        )
