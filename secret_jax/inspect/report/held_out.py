"""Rows that the tree did not learn from, and how well it predicts them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.printing import number
from secret_jax.inspect.report.error_lines import (
    ErrorLine,
    Figure,
    compared_lines,
    lines_by_size,
)
from secret_jax.inspect.tree_view import NumberView
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.structure import Tree

_DIGITS = 3


class HeldOut(NamedTuple):
    """Rows with their outputs and predictions.

    Attributes
    ----------
    columns : list of ndarray of shape (n_rows,)
        As they were given.
    actual, prediction : ndarray of shape (n_rows,), float64
    leaf : ndarray of shape (n_rows,), int32
    """

    table: Table
    columns: list[np.ndarray]
    actual: np.ndarray
    prediction: np.ndarray
    leaf: np.ndarray

    @classmethod
    def of(
        cls, tree: Tree, table: Table, columns: list[np.ndarray], actual: np.ndarray
    ) -> HeldOut:
        """Rows through a tree of a single output."""
        prediction = np.asarray(predict(tree, table), np.float64)
        leaf = np.asarray(apply(tree, table))
        return cls(table, columns, actual, prediction, leaf)

    @property
    def variance(self) -> float:
        """Variance of the outputs, of which R² is a share."""
        return float(np.var(self.actual))

    @property
    def residual(self) -> np.ndarray:
        """Actual minus predicted, shape (n_rows,)."""
        return self.actual - self.prediction


def error_and_uncertainty(residual: np.ndarray) -> tuple[float, float]:
    """Root mean squared error, and its standard error (by the delta method)."""
    squares = np.square(residual)
    error = math.sqrt(squares.mean())
    if error == 0 or len(squares) < 2:
        return error, 0.0
    of_mean = squares.std(ddof=1) / math.sqrt(len(squares))
    return error, float(of_mean / (2 * error))


def errors_by_size(tree: Tree, rows: HeldOut) -> list[ErrorLine]:
    """Errors of the tree cut down to 1, 2, 4, 8 ... leaves, and of the whole tree.

    Parameters
    ----------
    tree : Tree
        Of a single output.

    Returns
    -------
    list of ErrorLine
        By size; see `secret_jax.inspect.report.error_lines.lines_by_size`.
    """

    def figures(cut: Tree) -> tuple[list[Figure], float]:
        error, uncertainty = error_and_uncertainty(
            rows.actual - predict(cut, rows.table)
        )
        return _figures(error, uncertainty, r_squared(error, rows.variance)), error

    view = NumberView(tree=tree, name=tree.schema.target_name)
    return lines_by_size(view, figures, "one linear model")


def compared(scores: Mapping[str, Mapping[str, Any]] | None) -> list[ErrorLine]:
    """Errors of other methods, named, by ``rmse``, ``r2`` and ``leaves``."""

    def figures(score: Mapping[str, Any]) -> tuple[list[Figure], float]:
        return _figures(score["rmse"], None, score.get("r2")), score["rmse"]

    return compared_lines(scores, figures)


def r_squared(error: float, variance: float) -> float | None:
    """R² of a root mean squared error; None if the outputs are constant."""
    return 1 - error**2 / variance if variance > 0 else None


def _figures(
    error: float, uncertainty: float | None, explained: float | None
) -> list[Figure]:
    around = "" if uncertainty is None else f"± {number(uncertainty, digits=2)}"
    share = "-" if explained is None else f"{explained:.3f}"
    return [Figure(number(error, digits=_DIGITS), around), Figure(share)]
