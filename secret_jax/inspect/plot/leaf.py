"""One node as a picture: what its equation weighs, and how well it fits its rows."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from secret_jax.data.columns import read_target
from secret_jax.data.encoding import encode
from secret_jax.inspect.arguments import MOST_BARS, check_count
from secret_jax.inspect.equations import LinearModel, model_in_original_units
from secret_jax.inspect.explain import path_sentence
from secret_jax.inspect.plot.style import (
    DARK_COLOR,
    FONT_SIZE,
    MIDDLE_COLOR,
    TICK_SIZE,
    check_axes,
    evenly_spaced,
    import_matplotlib,
    open_frame,
    round_marks,
)
from secret_jax.inspect.printing import counted, number, quoted
from secret_jax.inspect.rounding import PrintedTerm, printed_model
from secret_jax.inspect.words import clip_facts, node_facts, term_words
from secret_jax.tree.routing import said, walk
from secret_jax.tree.structure import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UP, _DOWN = MIDDLE_COLOR, DARK_COLOR  # bars to the right and to the left
_MOST_POINTS = 5000
_LONGEST_NAME = 44
_PRECISION = 2  # digits of the words
_PRECISION_OF_BARS = 3
_CATEGORIES = 2  # of a name that are listed
_TITLE_CHARACTERS, _TITLE_LINES = 58, 3


def plot_leaf(
    tree: Tree,
    node: int,
    X: Any = None,
    y: Any = None,
    *,
    max_terms: int | None = MOST_BARS,
    ax: Any = None,
) -> list[Axes]:
    """Draw the equation of a node, and its predictions against the targets.

    Parameters
    ----------
    tree : Tree
    node : int
        A leaf, or an inner node with the model it would have as a leaf.
    X, y : optional
        Rows and their targets. Those that reach the node are drawn in a second picture,
        predicted against actual.
    max_terms : int or None
        Columns that are shown; None: all.
    ax : matplotlib Axes or sequence of two, optional
        By default a new figure is made.

    Returns
    -------
    list of matplotlib Axes
        One, or two with rows.

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

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> model = SecretRegressor(random_state=0).fit(X, y)
    >>> bars, fit = model.plot_leaf(model.apply(X)[0], X, y)
    """
    pyplot, _ = import_matplotlib()
    check_count("max_terms", max_terms)
    model = model_in_original_units(tree, node)
    with_rows = X is not None
    if with_rows != (y is not None):
        raise ValueError("Give both X and y, or neither of them.")
    target = read_target(y) if with_rows else None
    _, terms, _ = printed_model(model, _PRECISION_OF_BARS)
    terms = [term for term in terms if term.effect > 0]
    axes = _axes(pyplot, ax, 1 + with_rows, len(terms[:max_terms]))
    _draw_bars(axes[0], tree, node, model, terms, max_terms)
    if target is not None:
        _draw_fit(axes[1], tree, node, model, X, target)
    return axes


def _axes(pyplot: Any, ax: Any, n_axes: int, n_bars: int) -> list[Any]:
    if ax is None:
        # Inches; points want a square, bars a line each.
        height = max(3.6 if n_axes > 1 else 1.8, 1.3 + 0.26 * n_bars)
        _, made = pyplot.subplots(
            1,
            n_axes,
            figsize=(5.4 + 4.2 * (n_axes - 1), height),
            layout="constrained",
            squeeze=False,
            width_ratios=(1.25, 1)[:n_axes],
        )
        return list(made[0])
    given = list(ax.flat if isinstance(ax, np.ndarray) else _several(ax))
    if len(given) < n_axes:
        raise ValueError(f"ax holds {len(given)} axes, but {n_axes} are needed.")
    for one in given:
        check_axes(one)
    return given[:n_axes]


def _several(ax: Any) -> list[Any]:
    return list(ax) if isinstance(ax, list | tuple) else [ax]


def _draw_bars(
    ax: Any,
    tree: Tree,
    node: int,
    model: LinearModel,
    terms: list[PrintedTerm],
    max_terms: int | None,
) -> None:
    shown = terms[:max_terms]
    effect = np.array([math.copysign(term.effect, term.factor) for term in shown])
    names = [
        textwrap.shorten(
            term_words(term, _CATEGORIES), _LONGEST_NAME, placeholder=" ..]"
        )
        for term in shown
    ]
    place = np.arange(len(effect))
    ax.barh(place, effect, color=np.where(effect > 0, _UP, _DOWN), height=0.7)
    ax.axvline(0, color="0.2", lw=0.8)
    ax.set_yticks(place, names, fontsize=FONT_SIZE, parse_math=False)
    ax.set_ylim(max(len(effect), 1) - 0.4, -0.6)
    for i, value in enumerate(effect):
        ax.annotate(
            number(shown[i].factor, digits=3),
            (value, i),
            xytext=(3 if value > 0 else -3, 0),
            textcoords="offset points",
            fontsize=0.85 * FONT_SIZE,
            color="0.35",
            ha="left" if value > 0 else "right",
            va="center",
        )
    ax.margins(x=0.28)
    if not len(effect):
        constant = number(model.intercept, digits=4)
        ax.text(0.5, 0.5, f"constant: {constant}", transform=ax.transAxes, ha="center")
        ax.set_xticks([])
    hidden = len(terms) - len(effect)
    more = f" ({hidden} smaller ones not shown)" if hidden else ""
    ax.set_xlabel(
        f"moves {quoted(model.target)} by one standard deviation of the column\n"
        f"among the {_place(tree, node)} rows{more}",
        fontsize=FONT_SIZE,
        parse_math=False,
    )
    facts = [node_facts(tree, node), clip_facts(tree, node, _PRECISION)]
    facts = textwrap.fill(", ".join(filter(None, facts)), _TITLE_CHARACTERS)
    words = textwrap.fill(
        f"[{node}] {path_sentence(tree, node, _PRECISION)}",
        _TITLE_CHARACTERS,
        max_lines=_TITLE_LINES,
        placeholder=" ...",
    )
    ax.set_title(f"{words}\n{facts}", fontsize=FONT_SIZE, loc="left", parse_math=False)
    if len(effect):
        round_marks(ax.xaxis)
    _plain(ax)


def _place(tree: Tree, node: int) -> str:
    return "leaf's" if tree.is_leaf[node] else "node's"


def _draw_fit(
    ax: Any, tree: Tree, node: int, model: LinearModel, X: Any, y: np.ndarray
) -> None:
    table = encode(tree.schema, X)
    if y.shape != (len(table.x),):
        raise ValueError(
            f"X has {len(table.x)} rows, but y is of shape {y.shape}; one target for "
            "every row is needed."
        )
    path, standardised = walk(tree, table)
    reached = path[tree.depth[node]] == node
    if not reached.any():
        raise ValueError(
            f"None of the {len(y)} rows reaches node {node}. Give rows that do, or "
            "leave X and y out."
        )
    if tree.is_soft:
        value = said(tree, table)[reached]
    else:
        value = tree.schema.restore_target(standardised[tree.depth[node], 0][reached])
    actual = y[reached]
    drawn = evenly_spaced(len(value), _MOST_POINTS)
    both = np.r_[value, actual]
    ends = np.array([both.min(), both.max()])
    ax.plot(ends, ends, color="0.65", lw=1, zorder=0)
    ax.scatter(value[drawn], actual[drawn], s=12, color=_UP, alpha=0.55, linewidths=0)
    for bound in (model.low, model.high):
        if ends[0] <= bound <= ends[1] and not tree.is_soft:
            ax.axvline(bound, color="0.65", lw=0.8, ls=":", zorder=0)
    error = float(np.sqrt(np.mean((value - actual) ** 2)))
    rows = counted(len(value), "row", "rows")
    by = "the mixture" if tree.is_soft else "this equation"
    ax.set_title(
        f"{rows}, error {number(error, digits=3)}", fontsize=FONT_SIZE, loc="left"
    )
    ax.set_xlabel(f"predicted by {by}", fontsize=FONT_SIZE)
    ax.set_ylabel(
        f"actual {quoted(model.target)}", fontsize=FONT_SIZE, parse_math=False
    )
    round_marks(ax.xaxis)
    round_marks(ax.yaxis)
    _plain(ax)


def _plain(ax: Any) -> None:
    ax.tick_params(labelsize=TICK_SIZE)
    open_frame(ax)
