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


class Label(NamedTuple):
    """A text that belongs to a point."""

    text: str
    x: float
    y: float
    fontsize: float = 8


# Where a label may stand, in points of the type, from the best place on.
_PLACES = [
    (side * 6, lines * 10 + 3, "left" if side > 0 else "right")
    for lines in (0, 1, -1, 2, -2, 3, -3)
    for side in (1, -1)
]


def write_beside(axis: Any, labels: Sequence[Label]) -> None:
    """Write labels beside their points where they cover no point and no other label.

    The axis is to be finished otherwise: its limits and scales say where points are.
    """
    from matplotlib.transforms import Bbox

    figure = axis.figure
    figure.canvas.draw()
    points = axis.transData.transform([(label.x, label.y) for label in labels])
    taken = [Bbox([point - 6, point + 6]) for point in points]
    for label in labels:
        note = axis.annotate(
            label.text,
            (label.x, label.y),
            xytext=_PLACES[0][:2],
            textcoords="offset points",
            fontsize=label.fontsize,
        )
        note.set_in_layout(False)
        for across, up, alignment in [*_PLACES, _PLACES[0]]:
            note.set_position((across, up))
            note.set_horizontalalignment(alignment)
            box = note.get_window_extent()
            inside = figure.bbox.x0 < box.x0 and box.x1 < figure.bbox.x1
            if inside and not any(box.overlaps(other) for other in taken):
                break
        taken.append(note.get_window_extent())


def save(figure: Any, path: Path) -> None:
    """Write a figure to a file, whose folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
