"""Pictures: what functions that draw give back, and the style that they share."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from secret_jax.inspect.printing import short_number
from secret_jax.inspect.view import View
from secret_jax.runtime.optional import imported

FONT_SIZE = 9.0  # points
TICK_SIZE = 0.9 * FONT_SIZE
TEXT: dict[str, Any] = {"fontsize": FONT_SIZE, "parse_math": False}
TITLE = {**TEXT, "loc": "left"}
COLORS = "viridis"
# From these colours: their middle and their dark end.
MIDDLE_COLOR, DARK_COLOR = "#21918c", "#440154"
_LONGEST_NAME, _LONGEST_CATEGORY = 26, 18  # characters


@dataclass(frozen=True, eq=False)
class Picture:
    """The axes that were drawn on, and their figure.

    Figures are pyplot's: scripts show them with ``pyplot.show()``, and notebooks show
    them once, at the end of their cell.
    """

    ax: Any

    @property
    def figure(self) -> Any:
        """The figure of the axes, also where they are in a part of it."""
        return getattr(self.ax.figure, "figure", self.ax.figure)

    def savefig(self, path: Any, **options: Any) -> None:
        """Write the figure to a file, with everything on it.

        ``path`` is a str or path-like, whose ending says the format, and options are
        those of `matplotlib.figure.Figure.savefig`.
        """
        self.figure.savefig(path, **{"bbox_inches": "tight", **options})


def new_axes(ax: Any, size: tuple[float, float]) -> Any:
    """Check axes that are given, or make a figure of a size in inches."""
    pyplot = imported("matplotlib.pyplot", "Pictures", "plot")
    if ax is None:
        return pyplot.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, pyplot.Axes):
        raise TypeError(
            f"ax is a {type(ax).__name__}; give matplotlib Axes, or leave it out."
        )
    return ax


def round_marks(axis: Any, n_max: int = 5) -> None:
    """Set a few round numbers on an axis, short enough to stand apart."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(n_max))
    axis.set_major_formatter(lambda value, _: short_number(value))


def draw_color_bar(axes: Any, limits: tuple[float, float], **options: Any) -> Any:
    """Draw the scale of colours; options are those of ``Figure.colorbar``."""
    from matplotlib.cm import ScalarMappable

    color = ScalarMappable(cmap=COLORS)
    color.set_clim(*limits)
    return axes.figure.colorbar(color, **options)


def draw_legend(
    axes: Any, view: View, colors: list[str] | None = None, **options: Any
) -> None:
    """Say which colour is which class; options are those of ``Axes.legend``."""
    from matplotlib.patches import Patch

    style: dict[str, Any] = {"edgecolor": "0.15", "linewidth": 0.4}
    pairs = zip(view.names, colors or view.colors, strict=True)
    patches = [Patch(facecolor=color, label=name, **style) for name, color in pairs]
    legend = axes.legend(handles=patches, **{"fontsize": TICK_SIZE, **options})
    for text in legend.get_texts():
        text.set_parse_math(False)


def with_short_names(view: View) -> View:
    """The view with long names of columns, categories and classes cut in the middle."""
    tree, schema = view.tree, view.tree.schema
    categories = tuple(_shortened(c, _LONGEST_CATEGORY) for c in schema.categories)
    names = _shortened(schema.names, _LONGEST_NAME)
    schema = replace(schema, names=names, categories=categories)
    if view.classes is not None:
        labels = _shortened(view.classes.labels, _LONGEST_NAME)
        view = replace(view, classes=view.classes._replace(labels=labels))
        targets = tuple(map(str, labels[-tree.n_outputs :]))
        schema = replace(schema, target_names=targets)
    return replace(view, tree=replace(tree, schema=schema))


def _shortened(names: tuple[Any, ...], longest: int) -> tuple[Any, ...]:
    """Names with dots for their middle, unless that makes two of them the same."""
    half, short = longest // 2 - 1, list[Any]()
    for name in names:
        long = isinstance(name, str) and len(name) > longest
        short.append(f"{name[:half]}..{name[-half:]}" if long else name)
    times, pairs = Counter(short), zip(names, short, strict=True)
    return tuple(cut if times[cut] == 1 else name for name, cut in pairs)
