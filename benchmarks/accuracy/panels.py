"""Error against what there is to read: a panel for each table, and one for all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks import plots


class Point(NamedTuple):
    """A model on a table, or on all of them: mean error, mean numbers or leaves."""

    error: float
    size: float

    def __str__(self) -> str:
        return f"{self.error:.4f} / {self.size:.0f}"


class Shown(NamedTuple):
    """What a picture shows, by names of models; those without points are left out.

    Attributes
    ----------
    lines : dict
        Titles of lines, and the models along each.
    single : sequence of str
        Models that are a marker each.
    rings : dict
        Titles, and a model each that a ring marks.
    horizon : str
        The model whose error is to be reached: a level.
    size : {"numbers", "leaves"}
        What the horizontal axis counts.
    """

    lines: Mapping[str, Sequence[str]]
    single: Sequence[str]
    rings: Mapping[str, str]
    horizon: str
    size: Literal["numbers", "leaves"]


def draw(
    points: Mapping[str, Mapping[str, Point]],
    names: Sequence[str],
    shown: Shown,
    path: Path,
) -> None:
    """Panels on log axes, the same sizes at the same place in all of them.

    Parameters
    ----------
    points : dict
        By model and table.
    names : sequence of str
        Of the tables.
    shown : Shown
    path : Path
        Of the PNG.
    """
    n_columns = min(len(names), min((3, 4, 2), key=lambda n: -len(names) % n))
    figure, axes = plots.new_figure(
        -(-len(names) // n_columns), n_columns, width=4.6, height=3.7
    )
    for axis, name in zip(axes.flat, names, strict=False):
        of_models = {m: points[m][name] for m in points if name in points[m]}
        _draw_panel(axis, name, of_models, shown)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    limits = [axis.get_xlim() for axis in axes.flat[: len(names)]]
    for axis in axes.flat:
        axis.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))
    # Of all panels: a model that lacks a table is not in the last one, of all tables.
    handles = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=5,
        frameon=False,
    )
    plots.save(figure, path)


def _draw_panel(
    axis: Any, title: str, of_models: Mapping[str, Point], shown: Shown
) -> None:
    along = {line: list(models) for line, models in shown.lines.items()}
    along |= {model: [model] for model in shown.single}
    looks = plots.styles([*shown.lines, shown.horizon, *shown.single])
    for line, models in along.items():
        found = [of_models[model] for model in models if model in of_models]
        if not found:
            continue
        joined = line in shown.lines
        look = looks[line]._asdict() | ({"linestyle": "-"} if joined else {})
        sizes, errors = [p.size for p in found], [p.error for p in found]
        look |= {"markersize": 5 if joined else 8, "linewidth": 1.2}
        axis.plot(sizes, errors, label=line, **look)
    for (line, model), marker in zip(shown.rings.items(), "os", strict=False):
        if model in of_models:
            error, size = of_models[model]
            ring = {"marker": marker, "markersize": 12, "markerfacecolor": "none"}
            ring |= {"color": "black", "linestyle": "none"}
            axis.plot([size], [error], label=line, **ring)
    if shown.horizon in of_models:
        error, size = of_models[shown.horizon]
        colour = looks[shown.horizon].color
        axis.axhline(error, color=colour, linestyle="--", label=shown.horizon)
        # At the left, where models are small and err more.
        where = {"xy": (0, error), "xycoords": ("axes fraction", "data")}
        where |= {"xytext": (4, 3), "textcoords": "offset points", "ha": "left"}
        if math.isfinite(size):
            axis.annotate(f"{size:,.0f} {shown.size}", fontsize=8, **where)
    axis.set(xscale="log", yscale="log", title=title)
    axis.set(xlabel=_AXES[shown.size], ylabel="test MSE / variance")
    _mark(axis, shown.size)


def _mark(axis: Any, size: str) -> None:
    """Few round labels on both axes; of sizes powers of two, of numbers 1, 3, 10 ..."""
    from matplotlib.ticker import (
        FuncFormatter,
        LogLocator,
        MaxNLocator,
        NullFormatter,
        NullLocator,
    )

    low, high = axis.get_ylim()
    # Less than a decade has too few of the marks of a logarithmic scale.
    near = high < _NEAR * low
    heights = (
        MaxNLocator(7, steps=[1, 2, 2.5, 5, 10])
        if near
        else LogLocator(subs=(1, 2, 3, 5))
    )
    sizes = LogLocator(base=2) if size == "leaves" else LogLocator(subs=(1, 3))
    for side, locator in ((axis.xaxis, sizes), (axis.yaxis, heights)):
        side.set_major_locator(locator)
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        side.set_minor_locator(NullLocator())
        side.set_minor_formatter(NullFormatter())


_NEAR = 4.0
_AXES = {"numbers": "numbers to read", "leaves": "leaves or rules"}
