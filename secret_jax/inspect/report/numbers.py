"""Content of a page about a tree that predicts a number."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.inspect.coefficients import term_lines
from secret_jax.inspect.colors import Scale
from secret_jax.inspect.printing import number
from secret_jax.inspect.report.drawing import fit_chart, residual_chart
from secret_jax.inspect.report.parts import Figures, Parts
from secret_jax.inspect.rounding import in_steps
from secret_jax.inspect.tree_view import Rows

# Pixels, and most points.
_CARD_CHART, _LARGE_CHART = (150, 300), (300, 3000)


class NumberParts(Parts):
    headings = ("error", "R²")

    @property
    def root(self) -> str:
        return "one linear model"

    @property
    def key(self) -> dict[str, Any]:
        scale, unit = Scale(self.view.means.tolist()), self.tree.schema.target_scale
        ends = [in_steps(end, unit) for end in (scale.low, scale.high)]
        return {"ends": ends if ends[0] != ends[1] else [], "shades": scale.shades}

    def color(self, node: int) -> str:
        return self.view.fills[node]

    def facts(self, node: int) -> list[tuple[str, str]]:
        tree, unit, loss = self.tree, self.tree.schema.target_scale, self.tree.loss
        deviation = float(tree.deviation[node, 0])
        mean_loss = max(float(tree.train_error[node, 0]), 0.0)
        known = [
            ("mean", in_steps(float(self.view.means[node]), unit)),
            ("sd", number(deviation * unit, digits=3)),
        ]
        error = number(loss.reported(mean_loss, unit), digits=3)
        known.append((loss.error_word, error))
        explained = loss.explained(mean_loss, deviation**2)
        return known if explained is None else [*known, ("R²", f"{explained:.2f}")]

    def bar(self, node: int) -> list[tuple[float, str]]:
        weight = self.tree.weight
        share = float(weight[node] / weight[0]) if weight[0] > 0 else 0.0
        return [(share, self.view.fills[node])]

    def tiles(self) -> list[tuple[str, str, str]]:
        if self.rows is None:
            tree, leaf = self.tree, self.tree.is_leaf
            total = max(float(tree.weight[leaf].sum()), 1e-300)
            error = float(tree.weight[leaf] @ tree.train_error[leaf, 0]) / total
            error = tree.loss.reported(error, tree.schema.target_scale)
            what = f"training {tree.loss.error_word}"
            return [(what, number(error, digits=3), "no held-out rows were given")]
        (error, (r2, _)), _ = self.figures(self.rows.predicted, self.rows.actual)
        tiles = [("held-out error", " ".join(error), f"{len(self.rows.actual):,} rows")]
        return tiles + [("held-out R²", r2, "share of the variance")] * (r2 != "-")

    def figures(
        self, predicted: np.ndarray, actual: np.ndarray
    ) -> tuple[Figures, float]:
        """Root mean squared error, its standard error by the delta method, and R²."""
        squares = np.square(actual - predicted)
        error, uncertainty = math.sqrt(squares.mean()), 0.0
        if error > 0 and len(squares) > 1:
            of_mean = squares.std(ddof=1) / math.sqrt(len(squares))
            uncertainty = float(of_mean / (2 * error))
        variance = float(np.var(actual))
        share = f"{1 - error**2 / variance:.3f}" if variance > 0 else "-"
        around = f"± {number(uncertainty, digits=2)}"
        return [(number(error, digits=3), around), (share, "")], error

    def figures_of_score(self, score: Mapping[str, Any]) -> tuple[Figures, float]:
        r2, error = score.get("r2"), score["rmse"]
        share = "-" if r2 is None else f"{r2:.3f}"
        return [(number(error, digits=3), ""), (share, "")], error

    def drawings(self) -> dict[str, Any]:
        """Predicted against actual values, and residuals."""
        assert self.rows is not None
        predicted, actual = self.rows.predicted, self.rows.actual
        return {
            "fit": fit_chart(predicted, actual, *_LARGE_CHART),
            "residuals": residual_chart(predicted, actual - predicted, *_LARGE_CHART),
        }

    def card(self, node: int, rows: Rows | None) -> dict[str, Any]:
        """Terms of a leaf, and its rows as points."""
        card = term_lines(self.tree, node)
        if rows is not None:
            card["fit"] = fit_chart(rows.predicted, rows.actual, *_CARD_CHART)
        return card
