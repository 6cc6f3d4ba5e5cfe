"""Rows of classes that the tree did not learn from, and how well it predicts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.class_errors import ClassErrors, class_errors, confusion, roc
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.printing import number
from secret_jax.inspect.report.error_lines import (
    ErrorLine,
    Figure,
    compared_lines,
    lines_by_size,
)
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import Tree

_STRANGERS = "classes never seen"


class ClassRows(NamedTuple):
    """Rows with their classes and probabilities.

    Attributes
    ----------
    columns : list of ndarray of shape (n_rows,)
        As they were given.
    actual : ndarray of shape (n_rows,), int
        Position of every row's class, -1 of one that training has not seen.
    probability : ndarray of shape (n_rows, n_classes), float64
    predicted : ndarray of shape (n_rows,), int
        Position of the class that is predicted.
    leaf : ndarray of shape (n_rows,), int32
    """

    table: Table
    columns: list[np.ndarray]
    actual: np.ndarray
    probability: np.ndarray
    predicted: np.ndarray
    leaf: np.ndarray

    @classmethod
    def of(
        cls,
        view: ClassView,
        table: Table,
        columns: list[np.ndarray],
        actual: np.ndarray,
    ) -> ClassRows:
        """Rows through a tree."""
        said, leaf = view.said(table), apply(view.tree, table)
        return cls(table, columns, actual, said, view.chosen(said), leaf)

    @property
    def errors(self) -> ClassErrors:
        """Accuracy and log-loss of the rows."""
        return class_errors(self.probability, self.predicted, self.actual)

    @property
    def area_under_curve(self) -> float | None:
        """Of two classes the area under the ROC; None if the rows are of one only."""
        true = self.actual == 1
        if self.probability.shape[1] > 2 or true.all() or not true.any():
            return None
        return roc(self.probability[:, 1], true)[1]


class ConfusionLine(NamedTuple):
    """Rows of one class: how many were taken for each, with shares of the line."""

    name: str
    cells: list[tuple[int, float]]
    n_rows: int


def confusion_lines(view: ClassView, rows: ClassRows) -> list[ConfusionLine]:
    """Rows by class, and by the class that is predicted for them."""
    counts = confusion(rows.predicted, rows.actual, len(view.names))
    lines = []
    for name, line in zip([*view.names, _STRANGERS], counts, strict=True):
        n_rows = int(line.sum())
        if n_rows or name != _STRANGERS:
            cells = [(n, n / max(n_rows, 1)) for n in line.tolist()]
            lines.append(ConfusionLine(name, cells, n_rows))
    return lines


def class_lines(view: ClassView, rows: ClassRows) -> list[ErrorLine]:
    """Accuracy and log-loss of the tree cut to several sizes, and as a whole."""

    def figures(cut: Tree) -> tuple[list[Figure], float]:
        said = view.of(cut).said(rows.table)
        errors = class_errors(said, view.chosen(said), rows.actual)
        return figures_of(errors), errors.log_loss

    root = "the shares of all rows"
    if view.tree.coefficient[0, :, 1:].any():
        kind = view.tree.loss.name_of_regression(view.tree.n_outputs)
        root = f"one {kind} regression"
    return lines_by_size(view, figures, root)


def compared_classifiers(
    scores: Mapping[str, Mapping[str, Any]] | None,
) -> list[ErrorLine]:
    """Lines of other methods, from names to ``error``, ``log_loss`` and ``leaves``."""

    def figures(score: Mapping[str, Any]) -> tuple[list[Figure], float]:
        right = Figure(_percent(1.0 - score["error"]))
        loss = Figure(number(score["log_loss"], digits=3))
        return [right, loss], score["log_loss"]

    return compared_lines(scores, figures)


def figures_of(errors: ClassErrors) -> list[Figure]:
    """Accuracy and log-loss in words, with their standard errors."""
    return [
        Figure(
            _percent(errors.accuracy),
            f"± {number(100 * errors.accuracy_error, digits=2)}",
        ),
        Figure(
            number(errors.log_loss, digits=3),
            f"± {number(errors.log_loss_error, digits=2)}",
        ),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
