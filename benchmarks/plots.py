"""How the benchmarks draw: one palette, plain axes, files made headless."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

# Okabe & Ito (2008): distinct also for colour-blind readers.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#7F7F7F",),
)
MARKERS = "osD^vP*X<>hp"
DASHES = ("-", "--", "-.", ":")


class Style(NamedTuple):
    """Colour, marker and dashes of a line."""

    color: str
    marker: str
    linestyle: str


def styles(names: Sequence[str]) -> dict[str, Style]:
    """A style for every name, told apart by more than colour."""
    return {
        name: Style(
            COLOURS[i % len(COLOURS)],
            MARKERS[i % len(MARKERS)],
            DASHES[i // len(COLOURS) % len(DASHES)],
        )
        for i, name in enumerate(names)
    }


def new_figure(n_rows: int, n_columns: int, *, width: float = 6, height: float = 4.2):
    """A figure and its axes, shape (n_rows, n_columns), without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(width * n_columns, height * n_rows), layout="constrained", dpi=120
    )
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(n_rows, n_columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(True, which="major", color="#DDDDDD", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Any, path: Path) -> None:
    """Write a figure to a file, whose folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
