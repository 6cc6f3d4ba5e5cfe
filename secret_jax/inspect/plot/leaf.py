"""One node as a picture: what its equation weighs."""

import math
import textwrap
from typing import Any

import numpy as np

from secret_jax.inspect.arguments import MOST_BARS, check_node
from secret_jax.inspect.coefficients import equation_table
from secret_jax.inspect.plot import picture
from secret_jax.inspect.printing import number, quoted
from secret_jax.inspect.view import Readable, View, as_view
from secret_jax.inspect.words import path_sentence

_LONGEST_NAME = 44
_CATEGORIES = 2  # of a term that are listed
_CHARACTERS, _TITLE_LINES = 58, 3  # of a line, and of the way to a node
_WIDTH, _LINE, _REST, _LOWEST = 5.4, 0.26, 1.7, 2.3  # inches


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
    title = _title(picture.with_short_names(view), node)
    if len(view.equations) > 1:
        view = as_view(tree, int(view.shares[node].argmax()))
    view = picture.with_short_names(view)
    (equation,) = view.equations
    table = equation_table(equation, node, max_categories=_CATEGORIES)
    terms = [line for line in table.lines if line.effect > 0]
    shown = terms[:MOST_BARS]
    axes = picture.new_axes(ax, (_WIDTH, max(_LOWEST, _REST + _LINE * len(shown))))
    effect = np.array([math.copysign(one.effect, one.coefficient) for one in shown])
    colors = np.where(effect > 0, picture.MIDDLE_COLOR, picture.DARK_COLOR)
    names, labels = (
        [one.term for one in shown],
        [number(one.coefficient) for one in shown],
    )
    picture.draw_bars(axes, names, effect, labels, color=colors)
    axes.margins(x=0.28)
    picture.round_marks(axes.xaxis)
    if shown:
        axes.axvline(0, color="0.2", lw=0.8)
    else:
        words = f"constant: {number(table.constant, digits=4)}"
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center")
        axes.set_xticks([])
    hidden = len(terms) - len(shown)
    more = f" ({hidden} smaller ones not shown)" if hidden else ""
    target = textwrap.shorten(quoted(equation.schema.target_name), _LONGEST_NAME)
    place = "leaf's" if view.tree.is_leaf[node] else "node's"
    label = (
        f"moves {target} by one standard deviation of the column among the {place} "
        f"rows{more}; constant: {number(table.constant)}"
    )
    axes.set_xlabel(textwrap.fill(label, _CHARACTERS), **picture.TEXT)
    axes.set_title(title, **picture.TITLE)
    return picture.Picture(axes)


def _title(view: View, node: int) -> str:
    """The way to a node, and what is known of its rows, in a few lines."""
    facts = [*view.fact_parts(node), view.range_facts(node)]
    facts = textwrap.fill(", ".join(filter(None, facts)), _CHARACTERS)
    way = f"[{node}] {path_sentence(view.tree, node)}"
    short: dict[str, Any] = {"max_lines": _TITLE_LINES, "placeholder": " ..."}
    return f"{textwrap.fill(way, _CHARACTERS, **short)}\n{facts}"
