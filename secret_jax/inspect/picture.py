"""Pictures: what functions that draw give back, their style, and bars of a leaf."""

import math
import textwrap
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from secret_jax.inspect.equations import (
    Term,
    check_node,
    printed_model,
)
from secret_jax.inspect.printing import number, quoted, short_number
from secret_jax.inspect.view import Readable, View, as_view
from secret_jax.inspect.words import path_sentence, term_words
from secret_jax.runtime.environment import imported

FONT_SIZE = 9.0  # points
TICK_SIZE = 0.9 * FONT_SIZE
TEXT: dict[str, Any] = {"fontsize": FONT_SIZE, "parse_math": False}
TITLE = {**TEXT, "loc": "left"}
COLORS = "viridis"
# From these colours: their middle and their dark end.
_MIDDLE_COLOR, _DARK_COLOR = "#21918c", "#440154"
_LONGEST_NAME, _LONGEST_CATEGORY = 26, 18  # characters
# Of a leaf: bars, one a term; characters of terms, names and lines, lines of the way to
# a node; categories of a term that are listed; inches.
_MAX_BARS = 12
_TERM_WIDTH, _LINE_WIDTH, _TITLE_LINES = 44, 58, 3
_CATEGORIES = 2
_WIDTH, _LINE, _REST, _LOWEST = 5.4, 0.26, 1.7, 2.3


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


def plot_leaf(
    tree: Readable, node: int, *, output: int | str | None = None, ax: Any = None
) -> Picture:
    """Draw the equation of a node as bars.

    How well it fits the rows for which ``model.apply(X) == node`` scikit-learn shows:
    `sklearn.metrics.PredictionErrorDisplay`, `sklearn.metrics.ConfusionMatrixDisplay`.

    Parameters
    ----------
    node : int
        A leaf, or an inner node with the model it would have as a leaf.
    output : int or str, optional
        Which one, of several; by default the class that is most frequent in the node.
    ax : matplotlib Axes, optional
        By default a new figure is made.

    Raises
    ------
    ValueError
        If the node does not exist.

    Notes
    -----
    Bars are coefficients times one standard deviation of their column among the rows of
    the node, in units of the target, of classes in log-odds or scores. So they compare,
    those of categories too; the numbers beside them are the coefficients per unit of
    the column. What is the same for all rows of the node is not shown.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> model = SecretRegressor(random_state=0).fit(X, y)
    >>> len(model.plot_leaf(model.apply(X)[0]).ax.patches) >= 4
    True
    """
    view = as_view(tree, output)
    check_node(view.tree, node)
    short = with_short_names(view)
    facts = [*short.facts(node), short.range_facts(node)]
    facts = textwrap.fill(", ".join(filter(None, facts)), _LINE_WIDTH)
    way = f"[{node}] {path_sentence(short.tree, node)}"
    lines: dict[str, Any] = {"max_lines": _TITLE_LINES, "placeholder": " ..."}
    title = f"{textwrap.fill(way, _LINE_WIDTH, **lines)}\n{facts}"
    if len(view.trees) > 1:
        short = with_short_names(as_view(tree, int(view.shares[node].argmax())))
    (printed,) = map(printed_model, short.equations(node))
    terms = [term for term in printed.terms if term.effect > 0]
    shown, n_hidden = terms[:_MAX_BARS], max(len(terms) - _MAX_BARS, 0)
    axes = new_axes(ax, (_WIDTH, max(_LOWEST, _REST + _LINE * len(shown))))
    _draw_bars(axes, shown)
    axes.margins(x=0.28)
    round_marks(axes.xaxis)
    if shown:
        axes.axvline(0, color="0.2", lw=0.8)
    else:
        words = f"constant: {number(printed.intercept, digits=4)}"
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center")
        axes.set_xticks([])
    target = textwrap.shorten(quoted(printed.target), _TERM_WIDTH)
    place = "leaf's" if view.tree.is_leaf[node] else "node's"
    hidden = f" ({n_hidden} smaller ones not shown)" if n_hidden else ""
    label = (
        f"moves {target} by one standard deviation of the column among the {place} "
        f"rows{hidden}; constant: {number(printed.intercept)}"
    )
    axes.set_xlabel(textwrap.fill(label, _LINE_WIDTH), **TEXT)
    axes.set_title(title, **TITLE)
    return Picture(axes)


def _draw_bars(axes: Any, terms: list[Term]) -> None:
    effect = np.array([math.copysign(one.effect, one.factor) for one in terms])
    names = [term_words(one, _CATEGORIES) for one in terms]
    names = [textwrap.shorten(one, _TERM_WIDTH, placeholder=" ..]") for one in names]
    axes.set_yticks(np.arange(len(names)), names, **TEXT)
    axes.set_ylim(max(len(names), 1) - 0.4, -0.6)
    colors = np.where(effect > 0, _MIDDLE_COLOR, _DARK_COLOR)
    bars = axes.barh(np.arange(len(names)), effect, height=0.7, color=colors)
    style = {"fontsize": 0.85 * FONT_SIZE, "color": "0.35"}
    axes.bar_label(bars, [number(one.factor) for one in terms], padding=3, **style)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=TICK_SIZE)
