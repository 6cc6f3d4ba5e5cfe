"""One node as a picture: what its equation weighs, and how well it fits its rows."""

import math
import textwrap
from typing import Any

import numpy as np

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.inspect.arguments import MOST_BARS, check_node, check_pair
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.coefficients import class_table
from secret_jax.inspect.equations import model_in_original_units, range_of_node
from secret_jax.inspect.plot import picture
from secret_jax.inspect.plot.classes import draw_class_table, draw_classes
from secret_jax.inspect.plot.layout import with_short_names
from secret_jax.inspect.printing import counted, number, quoted
from secret_jax.inspect.rounding import PrintedTerm, printed_model
from secret_jax.inspect.tree_view import Rows, TreeView
from secret_jax.inspect.views import Readable, as_view
from secret_jax.inspect.words import path_sentence, term_words
from secret_jax.tree.routing import paths_of

_MOST_POINTS = 5000
_LONGEST_NAME = 44
_CATEGORIES = 2  # of a term that are listed
_TITLE_CHARACTERS, _TITLE_LINES = 58, 3


def plot_leaf(
    tree: Readable,
    node: int,
    X: TableLike = None,
    y: ArrayLike = None,
    *,
    output: int | str | None = None,
) -> picture.Picture:
    """Draw the equation of a node, and its predictions against the targets.

    Parameters
    ----------
    node : int
        A leaf, or an inner node with the model it would have as a leaf.
    X, y : optional
        Rows and their targets. Those that reach the node are drawn in a second picture,
        predicted against actual; of classes probabilities against shares.
    output : int or str, optional
        Which one, of several.

    Returns
    -------
    secret_jax.inspect.plot.picture.Picture
        With two axes if there are rows.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the node does not exist, or no row reaches it.

    Notes
    -----
    Bars are coefficients times one standard deviation of their column among the rows of
    the node, in units of the target, so they compare, those of categories too; the
    numbers beside them are the coefficients per unit of the column. What is the same
    for all rows of the node moves nothing, and is not shown. In a soft tree a row
    reaches the leaf of its larger shares, and is predicted by the mixture.

    Bars of two classes are in log-odds. Several classes have a table with a column for
    each: its colours are by what the column moves the class's score.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> model = SecretRegressor(random_state=0).fit(X, y)
    >>> bars, fit = model.plot_leaf(model.apply(X)[0], X, y).axes
    """
    picture.import_pyplot()
    check_pair(X, y)
    view = as_view(tree, output)
    check_node(view.tree, node)
    rows = None if X is None else _reached(view, node, X, y)
    view = with_short_names(view)
    if len(view.equations) == 1:
        model = model_in_original_units(view.equations[0], node)
        constant, terms, _ = printed_model(model)
        terms = [term for term in terms if term.effect > 0]
        shown = terms[:MOST_BARS]
        axes = _axes(1 + (rows is not None), len(shown))
        _draw_bars(axes[0], shown)
        target = textwrap.shorten(quoted(model.target), _LONGEST_NAME)
        hidden = len(terms) - len(shown)
        more = f" ({hidden} smaller ones not shown)" if hidden else ""
        place = "leaf's" if view.tree.is_leaf[node] else "node's"
        axes[0].set_xlabel(
            f"moves {target} by one standard deviation of the column\n"
            f"among the {place} rows{more}; constant: {number(constant)}",
            **picture.TEXT,
        )
        if not shown:
            words = f"constant: {number(constant, digits=4)}"
            axes[0].text(0.5, 0.5, words, transform=axes[0].transAxes, ha="center")
            axes[0].set_xticks([])
    else:
        assert isinstance(view, ClassView)
        table = class_table(view, node, MOST_BARS)
        size = len(table.names) + 1, len(table.classes)
        axes = _axes(1 + (rows is not None), *size)
        draw_class_table(axes[0], table)
    axes[0].set_title(_title(view, node), **picture.TITLE)
    if rows is not None and isinstance(view, ClassView):
        draw_classes(axes[1], view, *rows)
    elif rows is not None:
        _draw_fit(axes[1], view, node, *rows)
    return picture.Picture.of(axes)


def _reached(
    view: TreeView, node: int, X: Any, y: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Predict the rows that reach a node; their predictions and targets."""
    tree, rows = view.tree, Rows.of(view, X, y)
    reached = paths_of(tree, rows.table)[tree.depth[node]] == node
    if not reached.any():
        raise ValueError(
            f"None of the {len(reached)} rows reaches node {node}. Give rows that do, "
            "or leave X and y out."
        )
    table = rows.table.take(np.flatnonzero(reached))
    return view.said(table, None if tree.is_soft else node), rows.actual[reached]


def _axes(n_axes: int, n_lines: int, n_columns: int = 0) -> list[Any]:
    # Inches; points want a square, bars a line each, tables a column for each.
    height = max(3.6 if n_axes > 1 else 1.8, 1.3 + 0.26 * n_lines)
    height += 0.5 * (n_columns > 0)
    first = max(5.4, 2.4 + 0.62 * n_columns)
    _, axes = picture.import_pyplot().subplots(
        1,
        n_axes,
        figsize=(first + 4.2 * (n_axes - 1), height),
        layout="constrained",
        squeeze=False,
        width_ratios=(first, 4.2)[:n_axes],
    )
    return list(axes[0])


def _draw_bars(ax: Any, shown: list[PrintedTerm]) -> None:
    effect = np.array([math.copysign(term.effect, term.factor) for term in shown])
    place = picture.name_bars(ax, [term_words(term, _CATEGORIES) for term in shown])
    colors = np.where(effect > 0, picture.MIDDLE_COLOR, picture.DARK_COLOR)
    bars = ax.barh(place, effect, color=colors, height=0.7)
    labels = [number(term.factor) for term in shown]
    picture.label_bars(ax, bars, labels)
    ax.axvline(0, color="0.2", lw=0.8)
    ax.margins(x=0.28)
    if shown:
        picture.round_marks(ax.xaxis)
    picture.open_frame(ax)


def _title(view: TreeView, node: int) -> str:
    """The way to a node, and what is known of its rows, in a few lines."""
    facts = [*view.fact_parts(node), view.range_facts(node)]
    facts = textwrap.fill(", ".join(filter(None, facts)), _TITLE_CHARACTERS)
    words = textwrap.fill(
        f"[{node}] {path_sentence(view.tree, node)}",
        _TITLE_CHARACTERS,
        max_lines=_TITLE_LINES,
        placeholder=" ...",
    )
    return f"{words}\n{facts}"


def _draw_fit(
    ax: Any, view: TreeView, node: int, value: np.ndarray, actual: np.ndarray
) -> None:
    tree = view.tree
    bounds = range_of_node(tree, node) if tree.says_targets else ()
    drawn = picture.evenly_spaced(len(value), _MOST_POINTS)
    both = np.r_[value, actual]
    ends = np.array([both.min(), both.max()])
    ax.plot(ends, ends, color="0.65", lw=1, zorder=0)
    ax.scatter(
        value[drawn],
        actual[drawn],
        s=12,
        color=picture.MIDDLE_COLOR,
        alpha=0.55,
        linewidths=0,
    )
    for bound in bounds:
        if ends[0] <= bound <= ends[1] and not tree.is_soft:
            ax.axvline(bound, color="0.65", lw=0.8, ls=":", zorder=0)
    error = float(np.sqrt(np.mean((value - actual) ** 2)))
    n_rows = counted(len(value), "row", "rows")
    by = "the mixture" if tree.is_soft else "this equation"
    ax.set_title(f"{n_rows}, error {number(error, digits=3)}", **picture.TITLE)
    ax.set_xlabel(f"predicted by {by}", **picture.TEXT)
    name = textwrap.shorten(quoted(view.target), _LONGEST_NAME)
    ax.set_ylabel(f"actual {name}", **picture.TEXT)
    picture.round_marks(ax.xaxis)
    picture.round_marks(ax.yaxis)
    picture.open_frame(ax)
