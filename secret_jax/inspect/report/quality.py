"""How good a tree is on rows that it did not learn from, of numbers and of classes."""

import base64
import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import ConfusionMatrixDisplay, PredictionErrorDisplay

from secret_jax.fit.prune.path import of_size
from secret_jax.inspect.class_view import ClassView, percent
from secret_jax.inspect.printing import counted_leaves, number, quoted
from secret_jax.inspect.tree_view import Rows, TreeView
from secret_jax.runtime.optional import imported

_LEAST_PROBABILITY = 1e-15  # of a class that none was given to
_KINDS = {"actual_vs_predicted": "actual"}
_KINDS |= {"residual_vs_predicted": "what the tree misses"}
_MOST_CLASSES = 20  # of a picture
_STYLE = {"font.size": 8, "axes.edgecolor": "#b8bec7", "text.color": "#57606a"}
_STYLE |= dict.fromkeys(("axes.labelcolor", "xtick.color", "ytick.color"), "#57606a")
_DOTS = {"s": 6, "alpha": 0.5, "color": "#21709a", "linewidth": 0}


def scores(view: TreeView, predicted: np.ndarray, actual: np.ndarray) -> dict[str, Any]:
    """Measure predictions: errors, and with a ± behind their names standard errors."""
    if isinstance(view, ClassView):
        own = predicted[np.arange(len(actual)), np.maximum(actual, 0)]
        chance = np.where(actual < 0, 0.0, own).clip(_LEAST_PROBABILITY)
        wrong = (view.chosen(predicted) != actual).astype(float)
        found = {"error": wrong, "log_loss": -np.log(chance)}
        means = {name: float(values.mean()) for name, values in found.items()}
        return means | {f"{name} ±": _of_mean(found[name]) for name in found}
    squares, variance = np.square(actual - predicted), float(np.var(actual))
    error = math.sqrt(squares.mean())
    share = 1.0 - error**2 / variance if variance > 0 else None
    around = _of_mean(squares) / (2.0 * error) if error > 0 else 0.0  # delta method
    return {"rmse": error, "rmse ±": around, "r2": share}


def _of_mean(values: np.ndarray) -> float:
    """Standard error of the mean of some values."""
    n_rows = len(values)
    return float(values.std(ddof=1)) / math.sqrt(n_rows) if n_rows > 1 else 0.0


def in_words(score: Mapping[str, Any]) -> list[str]:
    """Write scores as they are told: the error and R², or accuracy and log-loss."""

    def around(name: str, scale: float = 1.0) -> str:
        error = score.get(f"{name} ±")
        return "" if error is None else f" ± {number(scale * error, digits=2)}"

    if "rmse" in score:
        share = "-" if score.get("r2") is None else f"{score['r2']:.3f}"
        return [number(score["rmse"], digits=3) + around("rmse"), share]
    right = f"{100 * (1.0 - score['error']):.1f} %{around('error', 100.0)}"
    return [right, number(score["log_loss"], digits=3) + around("log_loss")]


def of_rows(view: TreeView, rows: Rows) -> list[str]:
    """Scores of a view's predictions for rows in words."""
    return in_words(scores(view, rows.predicted, rows.actual))


def remark(view: TreeView, rows: Rows) -> str:
    """Say how many rows there are, and of classes what is right without a tree."""
    words = f"{len(rows.actual):,} rows"
    if isinstance(view, ClassView):
        always = float((rows.actual == view.shares[0].argmax()).mean())
        words += f"; always the most frequent class: {percent(always)}"
        strangers = int((rows.actual < 0).sum())
        words += f"; {strangers:,} of classes never seen" * (strangers > 0)
    return words


def error_lines(
    view: TreeView, rows: Rows | None, comparison: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Measure the tree cut down to 1, 2, 4, 8 ... leaves, and other methods.

    The subtrees are those of the weakest-link path (`secret_jax.fit.prune.path`), whose
    leaves predict with the models that the inner nodes have.
    """
    lines, tree = [], view.tree
    if rows is not None:
        sizes = [2**k for k in range(tree.n_leaves.bit_length())]
        cuts = [of_size(tree, n) for n in sizes if n < tree.n_leaves]
        for n, cut in sorted({one.n_leaves: one for one in (*cuts, tree)}.items()):
            name = "the whole tree" if cut is tree else f"a tree of {counted_leaves(n)}"
            seen = view.of(cut)
            score = scores(view, seen.said(rows.table), rows.actual)
            lines.append((name, n, seen.n_numbers(), score))
    for name, score in comparison.items():
        lines.append((name, score.get("leaves"), None, score))
    return [
        {"name": name, "leaves": n_leaves, "numbers": n_numbers}
        | {"figures": in_words(score), "bar": score.get("rmse", score.get("log_loss"))}
        for name, n_leaves, n_numbers, score in lines
    ]


def drawings(view: TreeView, rows: Rows) -> list[tuple[str, str]]:
    """Draw all held-out rows by displays of scikit-learn: captions and pictures."""
    said, actual = rows.predicted, rows.actual
    if not isinstance(view, ClassView):
        display = PredictionErrorDisplay.from_predictions
        options = {"random_state": 0, "scatter_kwargs": _DOTS}
        return [
            _picture(("predicted", name), display, actual, said, kind=kind, **options)
            for kind, name in _KINDS.items()
        ]
    name, chance, true = quoted(view.names[1]), said[:, 1], actual == 1
    if not view.of_two:
        name, chance = "the likeliest class", said.max(axis=1)
        true = said.argmax(axis=1) == actual
    options = {"n_bins": int(np.clip(len(true) // 20, 1, 10)), "strategy": "quantile"}
    options |= {"name": name, "color": _DOTS["color"]}
    labels = f"probability of {name}", "how often it came true"
    display = CalibrationDisplay.from_predictions
    pictures = [_picture(labels, display, true, chance, **options)]
    if len(view.names) <= _MOST_CLASSES:
        names = np.array([*view.names, "never seen"])
        labels, display = ("predicted class", "class"), ConfusionMatrixDisplay
        options = {"labels": names if (actual < 0).any() else names[:-1]}
        options |= {"cmap": "Blues", "colorbar": False, "xticks_rotation": "vertical"}
        pair = names[actual], names[view.chosen(said)]
        picture = _picture(labels, display.from_predictions, *pair, **options)
        pictures.append(picture)
    return pictures


def _picture(
    words: tuple[str, str], display: Any, *given: Any, **options: Any
) -> tuple[str, str]:
    """Draw a display; the labels of its axes in words, and an address that holds it."""
    with imported("matplotlib", "Pages", "plot").rc_context(_STYLE):
        figure = imported("matplotlib.figure", "Pages", "plot").Figure
        figure = figure(figsize=(3.6, 3.6), layout="constrained")
        axes = figure.add_subplot()
        display(*given, ax=axes, **options)
        axes.set(xlabel=words[0], ylabel=words[1])
        if "kind" in options:  # its marks are no round numbers
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(
                    imported("matplotlib.ticker", "Pages", "plot").MaxNLocator(5)
                )
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=200)
    held = base64.b64encode(file.getvalue()).decode()
    return f"{words[1]}, by {words[0]}", f"data:image/png;base64,{held}"
