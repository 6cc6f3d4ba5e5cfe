"""One node as a picture: what its equation weighs, and how well it fits its rows."""

import math
import textwrap
from typing import Any

import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay, PredictionErrorDisplay

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.inspect.arguments import MOST_BARS, check_node, check_pair
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.plot import picture
from secret_jax.inspect.printing import counted, number, quoted
from secret_jax.inspect.rounding import printed_model
from secret_jax.inspect.tree_view import Rows, TreeView
from secret_jax.inspect.views import Readable, as_view
from secret_jax.inspect.words import path_sentence, term_words
from secret_jax.tree.routing import paths_of

_MOST_POINTS = 5000
_LONGEST_NAME = 44
_CATEGORIES = 2  # of a term that are listed
_TITLE_CHARACTERS, _TITLE_LINES = 58, 3
_BARS, _LINE, _REST, _SQUARE = 5.4, 0.26, 1.3, 4.2  # inches


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
        Rows and their targets. Those that reach the node, and are of classes that
        training has seen, are drawn in a second picture: predicted against actual.
    output : int or str, optional
        Which one, of several; by default the class that is most frequent in the node.

    Returns
    -------
    secret_jax.inspect.plot.picture.Picture
        With two axes if there are rows.

    Raises
    ------
    ValueError
        If the node does not exist, or no row reaches it.

    Notes
    -----
    Bars are coefficients times one standard deviation of their column among the rows of
    the node, in units of the target, of classes in log-odds or scores. So they compare,
    those of categories too; the numbers beside them are the coefficients per unit of
    the column. What is the same for all rows of the node moves nothing, and is not
    shown. In a soft tree a row reaches the leaf of its larger shares, and is predicted
    by the mixture.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> model = SecretRegressor(random_state=0).fit(X, y)
    >>> bars, fit = model.plot_leaf(model.apply(X)[0], X, y).axes
    """
    pyplot = picture.import_pyplot()
    check_pair(X, y)
    view = as_view(tree, output)
    check_node(view.tree, node)
    rows = None if X is None else _reached(view, node, X, y)
    shown = view
    if isinstance(view, ClassView) and len(view.equations) > 1:
        shown = as_view(tree, int(view.shares[node].argmax()))
    n_axes = 1 + (rows is not None)
    style = {"layout": "constrained", "squeeze": False}
    widths = (_BARS, _SQUARE)[:n_axes]
    figure, grid = pyplot.subplots(1, n_axes, width_ratios=widths, **style)
    axes = tuple(grid[0])
    n_bars = _draw_bars(axes[0], picture.with_short_names(shown), node)
    height = max(3.6 if n_axes > 1 else 1.8, _REST + _LINE * n_bars)
    figure.set_size_inches(_BARS + _SQUARE * (n_axes - 1), height)
    view = picture.with_short_names(view)
    axes[0].set_title(_title(view, node), **picture.TITLE)
    if rows is not None:
        _draw_fit(axes[1], view, *rows)
    return picture.Picture(axes)


def _reached(
    view: TreeView, node: int, X: Any, y: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Predict the rows that reach a node; their predictions and targets."""
    tree, rows = view.tree, Rows.of(view, X, y)
    reached = paths_of(tree, rows.table)[tree.depth[node]] == node
    if isinstance(view, ClassView):
        reached &= rows.actual >= 0
    if not reached.any():
        raise ValueError(
            f"None of the {len(reached)} rows reaches node {node}. Give rows that do, "
            "or leave X and y out."
        )
    table = rows.table.take(np.flatnonzero(reached))
    return view.said(table, None if tree.is_soft else node), rows.actual[reached]


def _title(view: TreeView, node: int) -> str:
    """The way to a node, and what is known of its rows, in a few lines."""
    facts = [*view.fact_parts(node), view.range_facts(node)]
    facts = textwrap.fill(", ".join(filter(None, facts)), _TITLE_CHARACTERS)
    way = f"[{node}] {path_sentence(view.tree, node)}"
    short: dict[str, Any] = {"max_lines": _TITLE_LINES, "placeholder": " ..."}
    return f"{textwrap.fill(way, _TITLE_CHARACTERS, **short)}\n{facts}"


def _draw_bars(ax: Any, view: TreeView, node: int) -> int:
    """Draw what one deviation of each column moves; how many bars there are."""
    model = model_in_original_units(view.equations[0], node)
    constant, terms, _ = printed_model(model)
    terms = [term for term in terms if term.effect > 0]
    shown = terms[:MOST_BARS]
    effect = np.array([math.copysign(term.effect, term.factor) for term in shown])
    names = [term_words(term, _CATEGORIES) for term in shown]
    colors = np.where(effect > 0, picture.MIDDLE_COLOR, picture.DARK_COLOR)
    labels = [number(term.factor) for term in shown]
    picture.draw_bars(ax, names, effect, labels, color=colors)
    ax.margins(x=0.28)
    picture.round_marks(ax.xaxis)
    if shown:
        ax.axvline(0, color="0.2", lw=0.8)
    else:
        words = f"constant: {number(constant, digits=4)}"
        ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center")
        ax.set_xticks([])
    hidden = len(terms) - len(shown)
    more = f" ({hidden} smaller ones not shown)" if hidden else ""
    target = textwrap.shorten(quoted(model.target), _LONGEST_NAME)
    place = "leaf's" if view.tree.is_leaf[node] else "node's"
    ax.set_xlabel(
        f"moves {target} by one standard deviation of the column\n"
        f"among the {place} rows{more}; constant: {number(constant)}",
        **picture.TEXT,
    )
    picture.open_frame(ax)
    return len(shown)


def _draw_fit(ax: Any, view: TreeView, value: np.ndarray, actual: np.ndarray) -> None:
    """Draw targets against predictions, or count classes by predicted classes."""
    title = counted(len(actual), "row", "rows")
    if isinstance(view, ClassView):
        chosen = view.chosen(value)
        there = np.union1d(actual, chosen).tolist()
        names = [view.names[which] for which in there]
        crowded = sum(map(len, names)) > 40
        ConfusionMatrixDisplay.from_predictions(
            *(actual, chosen),
            **{"labels": there, "display_labels": names, "ax": ax, "colorbar": False},
            **{"cmap": "GnBu", "xticks_rotation": 40 if crowded else "horizontal"},
            text_kw={"fontsize": picture.TICK_SIZE},
        )
        right = 100 * float(np.mean(chosen == actual))
        title += f", {right:.3g} % right"
        axes = "predicted class", "actual class"
        ax.tick_params(labelsize=picture.TICK_SIZE, length=0)
    else:
        drawn = picture.evenly_spaced(len(value), _MOST_POINTS)
        points = {"s": 12, "color": picture.MIDDLE_COLOR, "alpha": 0.55}
        PredictionErrorDisplay(y_true=actual[drawn], y_pred=value[drawn]).plot(
            *(ax,),
            kind="actual_vs_predicted",
            scatter_kwargs=points | {"linewidths": 0},
            line_kwargs={"color": "0.65", "lw": 1, "ls": "-", "zorder": 0},
        )
        error = float(np.sqrt(np.mean((value - actual) ** 2)))
        title += f", error {number(error, digits=3)}"
        by = "the mixture" if view.tree.is_soft else "this equation"
        name = textwrap.shorten(quoted(view.target), _LONGEST_NAME)
        axes = f"predicted by {by}", f"actual {name}"
        picture.round_marks(ax.xaxis)
        picture.round_marks(ax.yaxis)
        picture.open_frame(ax)
    ax.set_title(title, **picture.TITLE)
    ax.set_xlabel(axes[0], **picture.TEXT)
    ax.set_ylabel(axes[1], **picture.TEXT)
