"""What the page has where numbers are predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.colors import Scale
from secret_jax.inspect.importances import feature_importances
from secret_jax.inspect.printing import number
from secret_jax.inspect.report.drawing import histogram, scatter
from secret_jax.inspect.report.error_lines import ErrorLine
from secret_jax.inspect.report.held_out import (
    HeldOut,
    compared,
    error_and_uncertainty,
    errors_by_size,
    r_squared,
)
from secret_jax.inspect.report.terms import term_lines
from secret_jax.inspect.report.ways import example_ways
from secret_jax.inspect.report.words import in_steps
from secret_jax.inspect.tree_view import NumberView
from secret_jax.losses.numbers import SquaredError

_BINS = 41  # odd: one of them is around zero
STANDARD_ERRORS = (
    "Standard errors are those of the leaf's model, the tree taken as given."
)
# Pixels.
_CARD_SCATTER, _LARGE_SCATTER = 150, 300
_HISTOGRAM = 460, 220


class NumberParts:
    """The parts of a page about a number.

    Attributes
    ----------
    headings : list of str
        Of the figures in the table of errors.
    """

    headings = ("error", "R²")

    def __init__(self, view: NumberView):
        self.view, self.tree = view, view.tree

    def rows(self, table: Table, columns: list[np.ndarray], X: Any, y: Any) -> HeldOut:
        """Rows through the tree."""
        return HeldOut.of(self.tree, table, columns, self.view.targets(table, X, y))

    @property
    def line_words(self) -> str:
        """What stands in every line of the tree."""
        return (
            "training rows (length of the bar: their share), mean and standard "
            f"deviation of {self.view.target} (colour of the bar: the mean), "
            + (
                "error and R² of the node's own equation on them"
                if isinstance(self.tree.loss, SquaredError)
                else "mean loss of the node's own equation on them"
            )
        )

    @property
    def error_words(self) -> str:
        """What the figures in the table of errors are."""
        return (
            f"Error: root mean squared error in units of {self.view.target}; "
            "±: one standard error of it."
        )

    @property
    def explained(self) -> str:
        """What columns have shares in."""
        return "variance that the tree explains"

    @property
    def terms_words(self) -> str:
        """What the tables of terms say."""
        return (
            "Moves: what one standard deviation of the column among the leaf's rows "
            f"adds to the prediction. {STANDARD_ERRORS}"
        )

    @property
    def key(self) -> dict[str, Any]:
        """The scale of colours."""
        scale, unit = Scale(self.view.means.tolist()), self.tree.schema.target_scale
        ends = [in_steps(end, unit) for end in (scale.low, scale.high)]
        return {"ends": ends if ends[0] != ends[1] else [], "shades": scale.shades}

    def color(self, node: int) -> str:
        """Of a leaf's card."""
        return self.view.fills[node]

    def tiles(self, rows: HeldOut | None) -> list[tuple[str, str, str]]:
        """Figures of quality: label, value, remark."""
        if rows is None:
            error = max(_training_error(self.view), 0.0)
            loss = self.tree.loss
            what = f"training {loss.error_name.split()[-1]}"
            error = loss.reported(error, self.tree.schema.target_scale)
            return [(what, number(error, digits=3), "no held-out rows were given")]
        error, uncertainty = error_and_uncertainty(rows.residual)
        explained = r_squared(error, rows.variance)
        words = f"{number(error, digits=3)} ± {number(uncertainty, digits=2)}"
        tiles = [("held-out error", words, f"{len(rows.actual):,} rows")]
        if explained is not None:
            tiles.append(("held-out R²", f"{explained:.3f}", "share of the variance"))
        return tiles

    def lines(
        self, rows: HeldOut | None, comparison: Mapping[str, Mapping[str, Any]] | None
    ) -> list[ErrorLine]:
        """The table of errors."""
        own = [] if rows is None else errors_by_size(self.tree, rows)
        return own + compared(comparison)

    def drawings(self, rows: HeldOut, max_points: int) -> dict[str, Any]:
        """Predicted against actual, and residuals."""
        most = max(10 * max_points, 1)
        return {
            "fit": scatter(rows.prediction, rows.actual, _LARGE_SCATTER, most),
            "residuals": histogram(rows.residual, *_HISTOGRAM, _BINS),
        }

    def card(self, node: int, rows: HeldOut | None, max_points: int) -> dict[str, Any]:
        """Terms of a leaf, and its rows as points."""
        lines, n_hidden = term_lines(self.tree, node)
        points = None
        if rows is not None and max_points and (rows.leaf == node).any():
            here = rows.leaf == node
            said, actual = rows.prediction[here], rows.actual[here]
            points = scatter(said, actual, _CARD_SCATTER, max_points)
        return {"terms": lines, "n_hidden": n_hidden, "scatter": points}

    @property
    def importances(self) -> np.ndarray:
        """Shares of the columns in what the tree explains."""
        return feature_importances(self.tree)

    def ways(self, rows: HeldOut) -> list[dict[str, Any]]:
        """Ways of some rows through the tree."""
        return example_ways(self.tree, rows)


def _training_error(view: NumberView) -> float:
    tree, leaf = view.tree, view.tree.is_leaf
    total = max(float(tree.weight[leaf].sum()), 1e-300)
    return float(tree.weight[leaf] @ tree.train_error[leaf, 0]) / total
