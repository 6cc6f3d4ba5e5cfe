"""What the page has where classes are predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.class_errors import calibration, class_errors, roc
from secret_jax.inspect.class_table import class_table
from secret_jax.inspect.class_view import ClassView, percent
from secret_jax.inspect.colors import ink_on
from secret_jax.inspect.importances import feature_importances
from secret_jax.inspect.printing import number, quoted
from secret_jax.inspect.report.class_rows import (
    ClassRows,
    class_lines,
    compared_classifiers,
    confusion_lines,
    figures_of,
)
from secret_jax.inspect.report.class_ways import class_ways
from secret_jax.inspect.report.drawing import calibration_chart, roc_chart
from secret_jax.inspect.report.error_lines import ErrorLine
from secret_jax.inspect.report.of_numbers import STANDARD_ERRORS
from secret_jax.inspect.report.terms import term_lines

_CHART = 260  # pixels
_MOST_TERMS = 24  # of a table
_LEAST_SHARE = 0.005  # of a class that a leaf's table of shares has


class ClassParts:
    """The parts of a page about classes; see `NumberParts`."""

    headings = ("right", "log-loss")

    def __init__(self, view: ClassView):
        self.view, self.tree = view, view.tree

    def rows(
        self, table: Table, columns: list[np.ndarray], X: Any, y: Any
    ) -> ClassRows:
        """Rows through the tree."""
        actual = self.view.targets(table, X, y)
        return ClassRows.of(self.view, table, columns, actual)

    @property
    def line_words(self) -> str:
        """What stands in every line of the tree."""
        return (
            "training rows, shares of the classes among them (also the bar), and mean "
            f"{self.view.loss_name} of the node's own equations"
        )

    @property
    def error_words(self) -> str:
        """What the figures in the table of errors are."""
        return (
            "Right: rows whose class is predicted. Log-loss: mean of minus the "
            "logarithm of the probability of the row's class (bars). "
            "±: one standard error."
        )

    @property
    def explained(self) -> str:
        """What columns have shares in."""
        of_each = "" if self.view.of_two else " (the mean of the classes' shares)"
        return f"{self.view.loss_name} that the tree saves{of_each}"

    @property
    def terms_words(self) -> str:
        """What the tables of terms say."""
        if len(self.view.equations) == 1:
            what = self.view.equations[0].schema.target_name
            return (
                "Moves: what one standard deviation of the column among the leaf's "
                f"rows adds to {what}. {STANDARD_ERRORS}"
            )
        what = "a class's probability is in proportion to the exponential of its score"
        if not self.view.says_log_odds:
            what = "they are the shares of the classes"
        return (
            f"A column of the table is the equation of a class; {what}. The pointer "
            f"over a number shows its standard error. {STANDARD_ERRORS}"
        )

    @property
    def key(self) -> dict[str, Any]:
        """Colours and names of the classes."""
        pairs = zip(self.view.colors, self.view.names, strict=True)
        return {"ends": [], "shades": [], "classes": list(pairs)}

    def color(self, node: int) -> str:
        """Of a leaf's card: its most frequent class."""
        return self.view.colors[int(self.view.shares[node].argmax())]

    def tiles(self, rows: ClassRows | None) -> list[tuple[str, str, str]]:
        """Figures of quality: label, value, remark."""
        if rows is None:
            leaf = self.tree.is_leaf
            weight = self.tree.weight[leaf]
            loss = weight @ self.tree.train_error[leaf].sum(axis=1) / weight.sum()
            value = number(float(loss), digits=3)
            return [
                (
                    f"training {self.view.loss_name}",
                    value,
                    "no held-out rows were given",
                )
            ]
        right, loss = figures_of(rows.errors)
        always = float((rows.actual == self.view.shares[0].argmax()).mean())
        tiles = [
            (
                "held-out rows right",
                f"{right.value} {right.uncertainty}",
                f"{len(rows.actual):,} rows; always the most frequent class: "
                f"{percent(always)}",
            ),
            ("held-out log-loss", f"{loss.value} {loss.uncertainty}", "nats a row"),
        ]
        area = rows.area_under_curve
        if area is not None:
            tiles.append(("held-out AUC", f"{area:.3f}", "area under the ROC"))
        return tiles

    def lines(
        self, rows: ClassRows | None, comparison: Mapping[str, Mapping[str, Any]] | None
    ) -> list[ErrorLine]:
        """The table of errors."""
        own = [] if rows is None else class_lines(self.view, rows)
        return own + compared_classifiers(comparison)

    def drawings(self, rows: ClassRows, max_points: int) -> dict[str, Any]:
        """Confusion, calibration, and of two classes the ROC."""
        del max_points
        view = self.view
        found: dict[str, Any] = {
            "confusion": confusion_lines(view, rows),
            "names": view.names,
            "roc": None,
        }
        if view.of_two:
            said, true, name = rows.probability[:, 1], rows.actual == 1, view.names[1]
            if rows.area_under_curve is not None:
                found["roc"] = roc_chart(roc(said, true)[0], _CHART, quoted(name))
        else:
            likeliest = rows.probability.argmax(axis=1)
            said, true = rows.probability.max(axis=1), likeliest == rows.actual
            name = "the likeliest class"
        bins = calibration(said, true)
        found["calibration"] = calibration_chart(bins, _CHART, name)
        return found

    def card(
        self, node: int, rows: ClassRows | None, max_points: int
    ) -> dict[str, Any]:
        """Equations of a leaf, and its rows: what was said and what they are."""
        del max_points
        found: dict[str, Any] = {"terms": [], "n_hidden": 0, "scatter": None}
        if len(self.view.equations) == 1:
            (tree,) = self.view.equations
            found["terms"], found["n_hidden"] = term_lines(tree, node)
        else:
            found["table"], found["n_hidden"] = self._table(node)
        if rows is not None and (rows.leaf == node).any():
            found["shares"] = self._shares(rows, rows.leaf == node)
        return found

    def _table(self, node: int) -> tuple[dict[str, Any], int]:
        """Coefficients with a column for each class, with their standard errors."""
        table = class_table(self.view, node, _MOST_TERMS)
        lines = [("constant", [(number(float(c)), "") for c in table.constant])]
        for name, factors, errors in zip(
            table.names, table.factor, table.error, strict=True
        ):
            cells = [
                (number(float(f)), f"± {number(float(e), digits=2)}" if e == e else "")
                if f
                else ("", "")
                for f, e in zip(factors, errors, strict=True)
            ]
            lines.append((name, cells))
        return {"classes": table.classes, "lines": lines}, table.n_hidden

    def _shares(self, rows: ClassRows, here: np.ndarray) -> dict[str, Any]:
        """Mean probabilities of a leaf's rows beside their shares."""
        view = self.view
        said, actual = rows.probability[here], rows.actual[here]
        mean = said.mean(axis=0)
        share = (actual[:, None] == np.arange(len(view.names))).mean(axis=0)
        order = np.argsort(-np.maximum(mean, share), kind="stable").tolist()
        lines = [
            (view.names[i], percent(mean[i]), percent(share[i]))
            for i in order
            if max(mean[i], share[i]) >= _LEAST_SHARE
        ]
        right, loss = figures_of(class_errors(said, rows.predicted[here], actual))
        head = (
            f"{len(actual):,} held-out rows: {right.value} right, log-loss {loss.value}"
        )
        return {"head": head, "lines": lines}

    @property
    def importances(self) -> np.ndarray:
        """Shares of the columns in what the tree explains, the mean over classes."""
        outputs = [self.view.only] if self.view.only is not None else None
        outputs = outputs or range(self.tree.n_outputs)
        return np.mean([feature_importances(self.tree, i) for i in outputs], axis=0)

    def ways(self, rows: ClassRows) -> list[dict[str, Any]]:
        """Ways of some rows through the tree."""
        return class_ways(self.view, rows)


def shade(share: float) -> tuple[str, str]:
    """Colour of a cell by its share of the line, and what is read on it."""
    part = round(255 * (1 - 0.75 * share))
    color = f"#{part:02x}{round(255 - 0.35 * (255 - part)):02x}ff"
    return color, ink_on(color)
