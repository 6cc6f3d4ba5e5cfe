"""Content of a page about a tree that predicts classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.inspect.class_errors import (
    calibration,
    class_errors,
    confusion,
    roc,
    shares_beside,
)
from secret_jax.inspect.class_view import percent
from secret_jax.inspect.coefficients import around, class_table, term_lines
from secret_jax.inspect.colors import ink_on
from secret_jax.inspect.printing import number, quoted
from secret_jax.inspect.report.drawing import calibration_chart, roc_chart
from secret_jax.inspect.report.parts import MOST_TERMS, Figures, Parts
from secret_jax.inspect.tree_view import Rows

_CHART = 260  # pixels
_STRANGERS = "classes never seen"


class ClassParts(Parts):
    headings = ("right", "log-loss")

    @property
    def root(self) -> str:
        if not self.tree.coefficient[0, :, 1:].any():
            return "the shares of all rows"
        return (
            f"one {self.tree.loss.name_of_regression(self.tree.n_outputs)} regression"
        )

    @property
    def key(self) -> dict[str, Any]:
        pairs = zip(self.view.colors, self.view.names, strict=True)
        return {"ends": [], "shades": [], "classes": list(pairs)}

    def color(self, node: int) -> str:
        return self.view.colors[int(self.view.shares[node].argmax())]

    def facts(self, node: int) -> list[tuple[str, str]]:
        shares = [("", words) for words in self.view.share_words(node)]
        loss = number(self.view.loss_of(node), digits=3)
        return [*shares, (self.view.loss_name, loss)]

    def bar(self, node: int) -> list[tuple[float, str]]:
        return self.view.bar(node)

    def tiles(self) -> list[tuple[str, str, str]]:
        rows = self.rows
        if rows is None:
            leaf = self.tree.is_leaf
            weight = self.tree.weight[leaf]
            loss = weight @ self.tree.train_error[leaf].sum(axis=1) / weight.sum()
            value = number(float(loss), digits=3)
            name = f"training {self.view.loss_name}"
            return [(name, value, "no held-out rows were given")]
        (right, loss), _ = self.figures(rows.predicted, rows.actual)
        always = float((rows.actual == self.view.shares[0].argmax()).mean())
        remark = f"{len(rows.actual):,} rows; always the most frequent class: "
        tiles = [
            ("held-out rows right", " ".join(right), f"{remark}{percent(always)}"),
            ("held-out log-loss", " ".join(loss), "nats a row"),
        ]
        if self._has_roc(rows):
            area = roc(rows.predicted[:, 1], rows.actual == 1)[1]
            tiles.append(("held-out AUC", f"{area:.3f}", "area under the ROC"))
        return tiles

    def figures(
        self, predicted: np.ndarray, actual: np.ndarray
    ) -> tuple[Figures, float]:
        errors = class_errors(predicted, self.view.chosen(predicted), actual)
        right, loss = 100 * errors.accuracy, errors.log_loss
        figures = [
            (f"{right:.1f} %", f"± {number(100 * errors.accuracy_error, digits=2)}"),
            (number(loss, digits=3), f"± {number(errors.log_loss_error, digits=2)}"),
        ]
        return figures, loss

    def figures_of_score(self, score: Mapping[str, Any]) -> tuple[Figures, float]:
        right, loss = 1.0 - score["error"], score["log_loss"]
        return [(f"{100 * right:.1f} %", ""), (number(loss, digits=3), "")], loss

    def _has_roc(self, rows: Rows) -> bool:
        return self.view.of_two and 0 < (rows.actual == 1).mean() < 1

    def drawings(self) -> dict[str, Any]:
        """Confusion, calibration, and of two classes the ROC."""
        rows, view = self.rows, self.view
        assert rows is not None
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

    def _confusion(self, rows: Rows) -> list[tuple[str, list[tuple], int]]:
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

    def card(self, node: int, rows: Rows | None) -> dict[str, Any]:
        """Equations of a leaf, and its rows: probabilities beside their shares."""
        if len(self.view.equations) == 1:
            card: dict[str, Any] = term_lines(self.view.equations[0], node)
        else:
            table = class_table(self.view, node, MOST_TERMS)
            lines = [("constant", [(number(float(c)), "") for c in table.constant])]
            terms = zip(table.names, table.factor, table.error, strict=True)
            for name, factors, errors in terms:
                cells = zip(factors.tolist(), errors.tolist(), strict=True)
                words = [(number(f), around(e)) if f else ("", "") for f, e in cells]
                lines.append((name, words))
            card = {"n_hidden": table.n_hidden}
            card["table"] = {"classes": table.classes, "lines": lines}
        if rows is not None:
            order, mean, share = shares_beside(rows.predicted, rows.actual)
            names = self.view.names
            lines = [(names[i], percent(mean[i]), percent(share[i])) for i in order]
            (right, loss), _ = self.figures(rows.predicted, rows.actual)
            head = f"{len(rows.actual):,} held-out rows: {right[0]} right, "
            card["shares"] = {"head": f"{head}log-loss {loss[0]}", "lines": lines}
        return card


def _shade(share: float) -> str:
    """Colour of a cell by its share of the line."""
    part = round(255 * (1 - 0.75 * share))
    return f"#{part:02x}{round(255 - 0.35 * (255 - part)):02x}ff"
