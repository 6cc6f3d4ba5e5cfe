"""How good a tree is on rows that it did not learn from, of numbers and of classes."""

import base64
import io
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay, PredictionErrorDisplay

from secret_jax.fit.prune.path import of_size
from secret_jax.inspect.printing import counted_leaves, number
from secret_jax.inspect.view import Rows, View
from secret_jax.runtime.optional import imported

_LEAST_PROBABILITY = 1e-15  # of a class that none was given to
_MOST_CLASSES = 20  # of a picture
_OF_CLASSES = {"cmap": "Blues", "colorbar": False, "xticks_rotation": "vertical"}
_OF_NUMBERS = {"kind": "actual_vs_predicted", "random_state": 0}
_OF_NUMBERS |= {"scatter_kwargs": {"s": 10, "alpha": 0.5, "color": "#21709a"}}


def scores(view: View, actual: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Measure predictions: root mean squared error and R², or errors and log-loss."""
    if view.classes:
        own = predicted[np.arange(len(actual)), np.maximum(actual, 0)]
        chance = np.where(actual < 0, 0.0, own).clip(_LEAST_PROBABILITY)
        wrong = view.chosen(predicted) != actual
        return {"error": wrong.mean(), "log_loss": -np.log(chance).mean()}
    square, variance = np.square(actual - predicted[:, 0]).mean(), np.var(actual)
    share = 1.0 - square / variance if variance > 0 else None
    return {"rmse": math.sqrt(square), "r2": share}


def in_words(score: Mapping[str, Any]) -> list[str]:
    """Write scores as they are told: the error and R², or accuracy and log-loss."""
    if "rmse" in score:
        share = "-" if score.get("r2") is None else f"{score['r2']:.3f}"
        return [number(score["rmse"], digits=3), share]
    right = f"{100 * (1.0 - score['error']):.1f} %"
    return [right, number(score["log_loss"], digits=3)]


def error_lines(
    view: View, rows: Rows | None, comparison: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Measure the tree cut down to 1, 2, 4, 8 ... leaves, and other methods.

    The subtrees are those of the weakest-link path (`secret_jax.fit.prune.path`), whose
    leaves predict with the models that the inner nodes have.
    """
    lines, tree = [], view.tree
    if rows is not None:
        cuts = [of_size(tree, 2**k) for k in range(tree.n_leaves.bit_length())]
        for n, cut in {one.n_leaves: one for one in (*cuts, tree)}.items():
            name = "the whole tree" if cut is tree else f"a tree of {counted_leaves(n)}"
            seen = replace(view, tree=cut)
            score = scores(view, rows.actual, seen.predict(rows.table))
            lines.append((name, score | {"leaves": n, "numbers": seen.n_numbers()}))
    sizes = {"leaves": None, "numbers": None}
    return [
        {**sizes, **score, "name": name, "figures": in_words(score)}
        for name, score in (*lines, *comparison.items())
    ]


def picture(view: View, rows: Rows) -> str:
    """Draw all held-out rows by a display of scikit-learn: the address of an image.

    Of numbers actual over predicted ones, of classes the confusion matrix; empty where
    these are too many.
    """
    display, options = PredictionErrorDisplay, _OF_NUMBERS
    given = rows.actual, rows.predicted[:, 0]
    if view.classes:
        names = np.array([*view.names, "never seen"])
        if len(view.names) > _MOST_CLASSES:
            return ""
        given = names[rows.actual], names[view.chosen(rows.predicted)]
        labels = names if (rows.actual < 0).any() else names[:-1]
        display, options = ConfusionMatrixDisplay, {**_OF_CLASSES, "labels": labels}
    figure = imported("matplotlib.figure", "Pages", "plot").Figure
    figure = figure(figsize=(5, 5), layout="constrained")
    axes = figure.add_subplot()
    display.from_predictions(*given, ax=axes, **options)
    if display is PredictionErrorDisplay:  # its marks are no round numbers
        axes.set(xscale="linear", yscale="linear")
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
