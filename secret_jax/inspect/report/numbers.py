"""Content of a page about a tree that predicts a number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.inspect.coefficients import term_lines
from secret_jax.inspect.colors import Scale
from secret_jax.inspect.importances import feature_importances
from secret_jax.inspect.printing import number
from secret_jax.inspect.report.drawing import fit_chart, residual_chart
from secret_jax.inspect.report.held_out import (
    ErrorLine,
    Figure,
    HeldOut,
    compared_lines,
    lines_by_size,
)
from secret_jax.inspect.rounding import in_steps
from secret_jax.inspect.tree_view import NumberView
from secret_jax.losses.numbers import SquaredError

# Pixels.
_CARD_CHART, _LARGE_CHART = 150, 300


class NumberParts:
    """Parts of a page about a number: key, tiles, errors, cards."""

    headings = ("error", "R²")

    def __init__(self, view: NumberView):
        self.view, self.tree = view, view.tree
        self.squared = isinstance(view.tree.loss, SquaredError)

    @property
    def key(self) -> dict[str, Any]:
        """The scale of colours."""
        scale, unit = Scale(self.view.means.tolist()), self.tree.schema.target_scale
        ends = [in_steps(end, unit) for end in (scale.low, scale.high)]
        return {"ends": ends if ends[0] != ends[1] else [], "shades": scale.shades}

    def color(self, node: int) -> str:
        """Colour of a leaf's card."""
        return self.view.fills[node]

    def facts(self, node: int) -> list[tuple[str, str]]:
        """Mean, deviation and error of a node, with their names."""
        tree = self.tree
        unit = tree.schema.target_scale
        deviation = float(tree.deviation[node, 0])
        squared_error = max(float(tree.train_error[node, 0]), 0.0)
        known = [
            ("mean", in_steps(float(self.view.means[node]), unit)),
            ("sd", number(deviation * unit, digits=3)),
        ]
        if not self.squared:
            return [*known, ("loss", number(squared_error, digits=3))]
        error = number(math.sqrt(squared_error) * unit, digits=3)
        known.append(("error", error))
        if deviation > 0:
            known.append(("R²", f"{1 - squared_error / deviation**2:.2f}"))
        return known

    def bar(self, node: int) -> list[tuple[float, str]]:
        """Share of the rows that are in a node, in its colour."""
        weight = self.tree.weight
        share = float(weight[node] / weight[0]) if weight[0] > 0 else 0.0
        return [(share, self.view.fills[node])]

    def bounds(self, node: int) -> str:
        """Range of the predictions of a node."""
        return self.view.bounds(node)

    def tiles(self, rows: HeldOut | None) -> list[tuple[str, str, str]]:
        """Figures of quality: label, value, remark."""
        if rows is None:
            tree, leaf = self.tree, self.tree.is_leaf
            total = max(float(tree.weight[leaf].sum()), 1e-300)
            error = float(tree.weight[leaf] @ tree.train_error[leaf, 0]) / total
            if self.squared:
                error = math.sqrt(max(error, 0.0)) * tree.schema.target_scale
            what = "training error" if self.squared else "training loss"
            return [(what, number(error, digits=3), "no held-out rows were given")]
        (error, explained), _ = figures_of(rows.predicted, rows.actual)
        words, n_rows = (
            f"{error.value} {error.uncertainty}",
            f"{len(rows.actual):,} rows",
        )
        tiles = [("held-out error", words, n_rows)]
        if explained.value != "-":
            tiles.append(("held-out R²", explained.value, "share of the variance"))
        return tiles

    def lines(
        self, rows: HeldOut | None, comparison: Mapping[str, Mapping[str, Any]] | None
    ) -> list[ErrorLine]:
        """The table of errors."""

        def of_score(score: Mapping[str, Any]) -> tuple[list[Figure], float]:
            r2 = score.get("r2")
            share = "-" if r2 is None else f"{r2:.3f}"
            error = score["rmse"]
            return [Figure(number(error, digits=3)), Figure(share)], error

        lines = []
        if rows is not None:
            lines = lines_by_size(self.view, rows, figures_of, "one linear model")
        return lines + compared_lines(comparison, of_score)

    def drawings(self, rows: HeldOut, max_points: int) -> dict[str, Any]:
        """Predicted against actual values, and residuals."""
        most = max(10 * max_points, 1)
        predicted, residual = rows.predicted, rows.actual - rows.predicted
        return {
            "fit": fit_chart(predicted, rows.actual, _LARGE_CHART, most),
            "residuals": residual_chart(predicted, residual, _LARGE_CHART, most),
        }

    def card(self, node: int, rows: HeldOut | None, max_points: int) -> dict[str, Any]:
        """Terms of a leaf, and its rows as points."""
        card = term_lines(self.tree, node)
        if rows is not None and max_points:
            size = _CARD_CHART
            card["fit"] = fit_chart(rows.predicted, rows.actual, size, max_points)
        return card

    @property
    def importances(self) -> np.ndarray:
        """Shares of the columns in what the tree explains."""
        return feature_importances(self.tree)


def figures_of(predicted: np.ndarray, actual: np.ndarray) -> tuple[list[Figure], float]:
    """Root mean squared error, with its standard error by the delta method, and R²."""
    squares = np.square(actual - predicted)
    error, uncertainty = math.sqrt(squares.mean()), 0.0
    if error > 0 and len(squares) > 1:
        of_mean = squares.std(ddof=1) / math.sqrt(len(squares))
        uncertainty = float(of_mean / (2 * error))
    variance = float(np.var(actual))
    share = f"{1 - error**2 / variance:.3f}" if variance > 0 else "-"
    around = f"± {number(uncertainty, digits=2)}"
    return [Figure(number(error, digits=3), around), Figure(share)], error
