"""Pictures: what functions that draw give back, and the style that they share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.printing import short_number
from secret_jax.runtime.optional import imported

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT_SIZE = 9.0  # points
TICK_SIZE = 0.9 * FONT_SIZE
TEXT: dict[str, Any] = {"fontsize": FONT_SIZE, "parse_math": False}
TITLE = {**TEXT, "loc": "left"}
# Names of categories below a picture that are turned.
TURNED: dict[str, Any] = {"rotation": 40, "ha": "right"}
COLORS = "viridis"
# From these colours: their middle and their dark end.
MIDDLE_COLOR, DARK_COLOR = "#21918c", "#440154"

# Where a legend stands.
BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
BESIDE["frameon"] = False

_LONGEST_TERM = 44  # characters
_PANELS_IN_LINE = 3


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawn figure and the axes that were drawn on.

    Figures are pyplot's: scripts show them with ``pyplot.show()``, and notebooks show
    them once, at the end of their cell.

    Attributes
    ----------
    axes : tuple of matplotlib Axes
        Those that were drawn on, in the order in which they are read.
    """

    figure: Figure
    axes: tuple[Axes, ...]

    @classmethod
    def of(cls, axes: Iterable[Axes]) -> Picture:
        """The picture on some axes of one figure."""
        drawn = tuple(axes)
        figure: Any = drawn[0].figure
        return cls(getattr(figure, "figure", figure), drawn)

    @property
    def ax(self) -> Axes:
        """The first of the axes: of most pictures the only one."""
        return self.axes[0]

    def savefig(self, path: Any, **options: Any) -> None:
        """Write the figure to a file, with everything on it by default.

        Parameters
        ----------
        path : str or path-like
            Its ending says the format.
        **options
            Of `matplotlib.figure.Figure.savefig`.
        """
        self.figure.savefig(path, **{"bbox_inches": "tight", **options})


def import_pyplot() -> Any:
    return imported("matplotlib.pyplot", "Pictures", "plot")


def new_axes(ax: Any, size: tuple[float, float]) -> Any:
    """Check axes that are given, or make a figure of a size in inches."""
    pyplot = import_pyplot()
    if ax is None:
        return pyplot.subplots(figsize=size, layout="constrained")[1]
    check_axes(ax)
    return ax


def new_panels(n_panels: int, width: float, height: float, **options: Any) -> list[Any]:
    """Make axes, three in a line at most; the last one takes the room that is left."""
    down = -(-n_panels // _PANELS_IN_LINE)
    across = -(-n_panels // down)
    shape, size = (down, across), (width * across, height * down)
    _, grid = import_pyplot().subplots(
        *shape, figsize=size, squeeze=False, layout="constrained", **options
    )
    for empty in grid.flat[n_panels:]:
        empty.remove()
    panels = list(grid.flat[:n_panels])
    place = panels[-1].get_subplotspec()
    rest = place.get_gridspec()[place.rowspan.start, place.colspan.start :]
    panels[-1].set_subplotspec(rest)
    return panels


def check_axes(ax: Any) -> None:
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(
            f"ax is a {type(ax).__name__}; give matplotlib Axes, or leave it out."
        )


def open_frame(ax: Axes) -> None:
    """Leave only the axes of the frame around a picture, with small marks."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=TICK_SIZE)


def name_bars(ax: Any, names: Sequence[str]) -> np.ndarray:
    """Write the names of horizontal bars, from the top down, and find their places."""
    place = np.arange(len(names))
    ax.set_yticks(place, list(map(in_short, names)), **TEXT)
    ax.set_ylim(max(len(names), 1) - 0.4, -0.6)
    return place


def label_bars(ax: Any, bars: Any, labels: Sequence[str]) -> None:
    """Write figures beside bars."""
    ax.bar_label(bars, labels, padding=3, fontsize=0.85 * FONT_SIZE, color="0.35")


def evenly_spaced(n_rows: int, most: int) -> np.ndarray:
    """Rows that are drawn: all, or ``most`` evenly spaced ones."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, most)).astype(int))


def round_marks(axis: Any, most: int = 5) -> None:
    """A few round numbers on an axis, short enough to stand apart."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def in_short(words: str) -> str:
    """A term of an equation as a label that has room beside a picture."""
    return textwrap.shorten(words, _LONGEST_TERM, placeholder=" ..]")


def draw_legend(
    axes: Any, view: ClassView, colors: list[str] | None = None, **options: Any
) -> None:
    """Say which colour is which class; options are those of ``Axes.legend``."""
    from matplotlib.patches import Patch

    patches = [
        Patch(facecolor=color, edgecolor="0.15", linewidth=0.4, label=name)
        for color, name in zip(colors or view.colors, view.names, strict=True)
    ]
    legend = axes.legend(handles=patches, **{"fontsize": TICK_SIZE, **options})
    for text in legend.get_texts():
        text.set_parse_math(False)
