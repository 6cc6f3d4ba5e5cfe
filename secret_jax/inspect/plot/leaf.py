"""Bars of what columns weigh in the equation of a node."""

import math
import textwrap
from typing import Any

import numpy as np

from secret_jax.inspect.equations import (
    PrintedTerm,
    check_node,
    model_in_original_units,
    printed_model,
)
from secret_jax.inspect.plot import picture
from secret_jax.inspect.printing import number, quoted
from secret_jax.inspect.view import Readable, as_view
from secret_jax.inspect.words import path_sentence, term_words

_MAX_BARS = 12  # one a term
_TERM_WIDTH, _NAME_WIDTH = 44, 44  # characters
_CATEGORIES = 2  # of a term that are listed
_LINE_WIDTH, _TITLE_LINES = 58, 3  # characters, and lines of the way to a node
# Inches.
_WIDTH, _LINE, _REST, _LOWEST = 5.4, 0.26, 1.7, 2.3


def plot_leaf(
    tree: Readable, node: int, *, output: int | str | None = None, ax: Any = None
) -> picture.Picture:
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
    the column. What is the same for all rows of the node moves nothing, and is not
    shown.

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
    short = picture.with_short_names(view)
    facts = [*short.facts(node), short.range_facts(node)]
    facts = textwrap.fill(", ".join(filter(None, facts)), _LINE_WIDTH)
    way = f"[{node}] {path_sentence(short.tree, node)}"
    lines: dict[str, Any] = {"max_lines": _TITLE_LINES, "placeholder": " ..."}
    title = f"{textwrap.fill(way, _LINE_WIDTH, **lines)}\n{facts}"
    if len(view.equations) > 1:
        short = picture.with_short_names(as_view(tree, int(view.shares[node].argmax())))
    (equation,) = short.equations
    model = model_in_original_units(equation, node)
    printed = printed_model(model)
    terms = [term for term in printed.terms if term.effect > 0]
    shown, n_hidden = terms[:_MAX_BARS], max(len(terms) - _MAX_BARS, 0)
    height = max(_LOWEST, _REST + _LINE * len(shown))
    axes = picture.new_axes(ax, (_WIDTH, height))
    _draw_bars(axes, shown)
    axes.margins(x=0.28)
    picture.round_marks(axes.xaxis)
    if shown:
        axes.axvline(0, color="0.2", lw=0.8)
    else:
        words = f"constant: {number(printed.constant, digits=4)}"
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center")
        axes.set_xticks([])
    target = textwrap.shorten(quoted(model.target), _NAME_WIDTH)
    place = "leaf's" if equation.is_leaf[node] else "node's"
    hidden = f" ({n_hidden} smaller ones not shown)" if n_hidden else ""
    label = (
        f"moves {target} by one standard deviation of the column among the {place} "
        f"rows{hidden}; constant: {number(printed.constant)}"
    )
    axes.set_xlabel(textwrap.fill(label, _LINE_WIDTH), **picture.TEXT)
    axes.set_title(title, **picture.TITLE)
    return picture.Picture(axes)


def _draw_bars(axes: Any, terms: list[PrintedTerm]) -> None:
    """Draw effects as bars from the top down, with their names and factors."""
    effect = np.array([math.copysign(one.effect, one.factor) for one in terms])
    names = [term_words(one, _CATEGORIES) for one in terms]
    names = [textwrap.shorten(one, _TERM_WIDTH, placeholder=" ..]") for one in names]
    axes.set_yticks(np.arange(len(names)), names, **picture.TEXT)
    axes.set_ylim(max(len(names), 1) - 0.4, -0.6)
    colors = np.where(effect > 0, picture.MIDDLE_COLOR, picture.DARK_COLOR)
    bars = axes.barh(np.arange(len(names)), effect, height=0.7, color=colors)
    style = {"fontsize": 0.85 * picture.FONT_SIZE, "color": "0.35"}
    axes.bar_label(bars, [number(one.factor) for one in terms], padding=3, **style)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=picture.TICK_SIZE)
