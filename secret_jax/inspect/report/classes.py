"""Content of a page about a tree that predicts classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.inspect.class_errors import calibration, class_errors, confusion, roc
from secret_jax.inspect.class_view import ClassView, percent
from secret_jax.inspect.coefficients import class_table, term_lines
from secret_jax.inspect.colors import ink_on
from secret_jax.inspect.importances import feature_importances
from secret_jax.inspect.printing import number, quoted
from secret_jax.inspect.report.drawing import calibration_chart, roc_chart
from secret_jax.inspect.report.held_out import (
    ErrorLine,
    Figure,
    HeldOut,
    compared_lines,
    lines_by_size,
)

_CHART = 260  # pixels
_MOST_TERMS = 24  # of a table
_LEAST_SHARE = 0.005  # of a class that a leaf's table of shares has
_STRANGERS = "classes never seen"


class ClassParts:
    """Parts of a page about classes; see `NumberParts`."""

    headings = ("right", "log-loss")

    def __init__(self, view: ClassView):
        self.view, self.tree = view, view.tree

    @property
    def key(self) -> dict[str, Any]:
        """Colours and names of the classes."""
        pairs = zip(self.view.colors, self.view.names, strict=True)
        return {"ends": [], "shades": [], "classes": list(pairs)}

    def color(self, node: int) -> str:
        """Colour of a leaf's card: of its most frequent class."""
        return self.view.colors[int(self.view.shares[node].argmax())]

    def facts(self, node: int) -> list[tuple[str, str]]:
        """Shares of the classes in a node, and the mean loss."""
        shares = [("", words) for words in self.view.share_words(node)]
        loss = number(self.view.loss_of(node), digits=3)
        return [*shares, (self.view.loss_name, loss)]

    def bar(self, node: int) -> list[tuple[float, str]]:
        """Shares of the classes, in their colours."""
        return self.view.bar(node)

    def bounds(self, node: int) -> str:
        """Range of the probabilities of a node."""
        return self.view.range_facts(node)

    def tiles(self, rows: HeldOut | None) -> list[tuple[str, str, str]]:
        """Figures of quality: label, value, remark."""
        if rows is None:
            leaf = self.tree.is_leaf
            weight = self.tree.weight[leaf]
            loss = weight @ self.tree.train_error[leaf].sum(axis=1) / weight.sum()
            value = number(float(loss), digits=3)
            name = f"training {self.view.loss_name}"
            return [(name, value, "no held-out rows were given")]
        (right, loss), _ = self._figures(rows.predicted, rows.actual)
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
        if self._has_roc(rows):
            area = roc(rows.predicted[:, 1], rows.actual == 1)[1]
            tiles.append(("held-out AUC", f"{area:.3f}", "area under the ROC"))
        return tiles

    def lines(
        self, rows: HeldOut | None, comparison: Mapping[str, Mapping[str, Any]] | None
    ) -> list[ErrorLine]:
        """The table of errors."""

        def of_score(score: Mapping[str, Any]) -> tuple[list[Figure], float]:
            right = Figure(_percent(1.0 - score["error"]))
            loss = Figure(number(score["log_loss"], digits=3))
            return [right, loss], score["log_loss"]

        root = "the shares of all rows"
        if self.tree.coefficient[0, :, 1:].any():
            name = self.tree.loss.name_of_regression(self.tree.n_outputs)
            root = f"one {name} regression"
        lines = []
        if rows is not None:
            lines = lines_by_size(self.view, rows, self._figures, root)
        return lines + compared_lines(comparison, of_score)

    def _figures(
        self, probability: np.ndarray, actual: np.ndarray
    ) -> tuple[list[Figure], float]:
        """Accuracy and log-loss, with their standard errors."""
        errors = class_errors(probability, self.view.chosen(probability), actual)
        around = [100 * errors.accuracy_error, errors.log_loss_error]
        values = [_percent(errors.accuracy), number(errors.log_loss, digits=3)]
        figures = [
            Figure(value, f"± {number(uncertainty, digits=2)}")
            for value, uncertainty in zip(values, around, strict=True)
        ]
        return figures, errors.log_loss

    def _has_roc(self, rows: HeldOut) -> bool:
        return self.view.of_two and 0 < (rows.actual == 1).mean() < 1

    def drawings(self, rows: HeldOut, max_points: int) -> dict[str, Any]:
        """Confusion, calibration, and of two classes the ROC."""
        del max_points
        view = self.view
        drawings: dict[str, Any] = {"confusion": self._confusion(rows)}
        likeliest = rows.predicted.argmax(axis=1)
        chance, true = rows.predicted.max(axis=1), likeliest == rows.actual
        name = "the likeliest class"
        if view.of_two:
            name, true = quoted(view.names[1]), rows.actual == 1
            chance = rows.predicted[:, 1]
            if self._has_roc(rows):
                drawings["roc"] = roc_chart(roc(chance, true)[0], _CHART, name)
        bins = calibration(chance, true)
        drawings["calibration"] = calibration_chart(bins, _CHART, name)
        return drawings

    def _confusion(self, rows: HeldOut) -> list[tuple[str, list[tuple], int]]:
        """Count rows by class and by predicted class: a line's name, cells, sum.

        A cell is a count, its colour by the share of the line, and what is read on it.
        """
        names = self.view.names
        predicted = self.view.chosen(rows.predicted)
        counts = confusion(predicted, rows.actual, len(names))
        lines = []
        for name, line in zip([*names, _STRANGERS], counts.tolist(), strict=True):
            n_rows = sum(line)
            if n_rows or name != _STRANGERS:
                shades = [_shade(n / max(n_rows, 1)) for n in line]
                cells = [(n, s, ink_on(s)) for n, s in zip(line, shades, strict=True)]
                lines.append((name, cells, n_rows))
        return lines

    def card(self, node: int, rows: HeldOut | None, max_points: int) -> dict[str, Any]:
        """Equations of a leaf, and its rows: probabilities beside their shares."""
        del max_points
        if len(self.view.equations) == 1:
            card: dict[str, Any] = term_lines(self.view.equations[0], node)
        else:
            table = class_table(self.view, node, _MOST_TERMS)
            lines = [("constant", [(number(float(c)), "") for c in table.constant])]
            terms = zip(table.names, table.factor, table.error, strict=True)
            for name, factors, errors in terms:
                cells = zip(factors.tolist(), errors.tolist(), strict=True)
                lines.append((name, [_cell(factor, error) for factor, error in cells]))
            card = {"n_hidden": table.n_hidden}
            card["table"] = {"classes": table.classes, "lines": lines}
        if rows is not None:
            names = self.view.names
            mean = rows.predicted.mean(axis=0)
            share = (rows.actual[:, None] == np.arange(len(names))).mean(axis=0)
            larger = np.maximum(mean, share)
            order = np.argsort(-larger, kind="stable").tolist()
            shown = [i for i in order if larger[i] >= _LEAST_SHARE]
            lines = [(names[i], percent(mean[i]), percent(share[i])) for i in shown]
            (right, loss), _ = self._figures(rows.predicted, rows.actual)
            head = f"{len(rows.actual):,} held-out rows: {right.value} right, "
            card["shares"] = {"head": f"{head}log-loss {loss.value}", "lines": lines}
        return card

    @property
    def importances(self) -> np.ndarray:
        """Shares of the columns in what the tree explains, the mean over classes."""
        outputs = [self.view.only] if self.view.only is not None else None
        outputs = outputs or range(self.tree.n_outputs)
        return np.mean([feature_importances(self.tree, i) for i in outputs], axis=0)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _cell(factor: float, error: float) -> tuple[str, str]:
    """Write a coefficient and its standard error; empty where there is none."""
    if not factor:
        return "", ""
    around = "" if error != error else f"± {number(error, digits=2)}"
    return number(factor), around


def _shade(share: float) -> str:
    """Colour of a cell by its share of the line."""
    part = round(255 * (1 - 0.75 * share))
    return f"#{part:02x}{round(255 - 0.35 * (255 - part)):02x}ff"
