"""The table and the picture of the learners."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import plots
from benchmarks.accuracy.report import Results, figure
from benchmarks.learners.parts import LEAVES, Learner
from benchmarks.shared import markdown

_PEER = "*"
_NUMBERS = (1, 2, 3, 5, 7)
_RATIOS = (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
# One finder more than the palette has colours.
_COLOURS = (*plots.COLOURS[:6], "#7F7F7F", "#8B4513", "#F0C808", "#44AA99", "#AA4499")


def learner_table(results: Results, baseline: str) -> str:
    """A line for each learner: all sets together, then the error of each set."""
    head = [f"error / {baseline}", "lower on", "leaves", "numbers", "seconds"]
    lines = [["learner", *head, *results.sets]]
    for model in results.models:
        ratio, error = results.ratio(model, baseline)
        shown = f"{ratio:.3f} ± {ratio * error:.3f}" if error > 0 else f"{ratio:.3f}"
        of_sets = len(results.mean_errors(model, baseline))
        lower = f"{results.wins(model, baseline)} of {of_sets}"
        medians = [
            _median(results, model, field) for field in ("leaves", "numbers", "seconds")
        ]
        errors = [results.values(model, name) for name in results.sets]
        cells = [str(figure(each)) if each else "-" for each in errors]
        lines.append([model, shown, lower, *medians, *cells])
    return markdown(lines)


def _median(results: Results, model: str, field: str) -> str:
    values = [v for name in results.sets for v in results.values(model, name, field)]
    if not values:
        return "-"
    median = float(np.median(values))
    return f"{median:.2f}" if field == "seconds" else f"{median:.0f}"


def _numbers(results: Results, model: str) -> float:
    """Geometric mean over the sets of the numbers to read."""
    means = [
        np.mean(values)
        for name in results.sets
        if (values := results.values(model, name, "numbers"))
    ]
    return math.exp(np.mean(np.log(means))) if means else math.nan


def draw(
    results: Results, learners: Sequence[Learner], baseline: str, path: Path
) -> None:
    """Error against the numbers to read: finders by colour, leaves by marker.

    Hollow markers are oblique; a line joins the prunings of one learner, each with its
    name; black stars are other packages.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure, axes = plots.new_figure(1, 1, width=9, height=5.4)
    axis: Any = axes[0, 0]
    finders = list(dict.fromkeys(learner.finder for learner in learners))
    colours = dict(zip(finders, _COLOURS, strict=False))
    shapes = dict(zip(LEAVES, plots.MARKERS, strict=False))
    lines: dict[tuple[str, str, str], list[tuple[float, float, str]]] = {}
    for learner in learners:
        if learner.name in results.models:
            point = (*_point(results, learner.name, baseline), learner.pruning)
            line = (learner.finder, learner.leaf, learner.splits)
            lines.setdefault(line, []).append(point)
    labels: list[plots.Label] = []
    small: list[plots.Label] = []
    for (finder, leaf, splits), points in lines.items():
        hollow = {"markerfacecolor": "none"} if splits == "oblique" else {}
        numbers, ratios, prunings = zip(*sorted(points), strict=True)
        axis.plot(
            numbers,
            ratios,
            color=colours[finder],
            marker=shapes[leaf],
            markersize=8,
            linewidth=0.8,
            **hollow,
        )
        name = finder if splits == "axis" else f"{finder}, oblique"
        labels.append(plots.Label(name, numbers[-1], ratios[-1]))
        if len(points) > 1:
            of_prunings = zip(prunings, numbers, ratios, strict=True)
            small += [plots.Label(*each, fontsize=6) for each in of_prunings]
    others = set(results.models) - {learner.name for learner in learners}
    for model in sorted(others):
        point = _point(results, model, baseline)
        axis.plot(*point, color="black", marker=_PEER, markersize=8, linestyle="none")
        labels.append(plots.Label(model, *point))
    used = dict.fromkeys(leaf for _, leaf, _ in lines)
    for leaf in used:
        axis.plot([], [], "k", marker=shapes[leaf], linestyle="none", label=leaf)
    axis.axhline(1.0, color="#7F7F7F", linewidth=0.8)
    axis.set(xscale="log", xlabel="numbers to read, geometric mean over the sets")
    axis.set(ylabel=f"test MSE over that of {baseline}", yscale="log")
    for side, ticks in ((axis.xaxis, _NUMBERS), (axis.yaxis, _RATIOS)):
        side.set_major_locator(LogLocator(subs=ticks))
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        side.set_minor_formatter(NullFormatter())
    axis.margins(x=0.12)
    oblique = any(splits == "oblique" for _, _, splits in lines)
    hollow = "; hollow: oblique splits" if oblique else ""
    sets = results.sets
    name = sets[0] if len(sets) == 1 else f"{len(sets)} sets"
    axis.set_title(f"{name}{hollow}")
    axis.legend(title="leaves", frameon=False)
    plots.write_beside(axis, [*labels, *small])
    plots.save(figure, path)


def _point(results: Results, model: str, baseline: str) -> tuple[float, float]:
    return _numbers(results, model), results.ratio(model, baseline)[0]
