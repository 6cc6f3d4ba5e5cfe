"""The fitted curve over one column of numbers, or marks over categories."""

from itertools import pairwise
from typing import Any

import numpy as np

from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.plot.layout import with_short_names
from secret_jax.inspect.plot.picture import (
    BESIDE,
    DARK_COLOR,
    FONT_SIZE,
    MIDDLE_COLOR,
    TEXT,
    draw_legend,
    evenly_spaced,
    open_frame,
    round_marks,
)
from secret_jax.inspect.plot.slices import FAINT, MOST_POINTS, Slice
from secret_jax.inspect.tree_view import TreeView
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import way_to

_POINTS = 1001
_SHORTEST_SIDE, _LABEL_WIDTH = 0.04, 0.07  # of a leaf's number, of the axes


def draw_curve(axes: Any, picture: Slice) -> list[str]:
    """Draw a slice of one column of numbers; what is to be said of it."""
    (side,), rows, tree = picture.sides, picture.rows, picture.tree
    view = picture.view
    of_classes = isinstance(view, ClassView)
    if rows is not None:
        chosen = evenly_spaced(len(rows.actual), MOST_POINTS)
        alpha = np.where(picture.elsewhere()[chosen], 0.4 * FAINT, 0.6)
        _draw_rows(axes, picture, chosen, alpha)
    place = side.places(_POINTS)
    value, far = picture.predicted([place]), picture.far([place])
    leaf = apply(tree, picture.table([place]))
    changes = np.flatnonzero(leaf[1:] != leaf[:-1]) + 1
    parts = [(tree, leaf[at - 1], leaf[at]) for at in changes]
    soft = np.array([tree.gate_width[_parting(*one)] > 0 for one in parts], bool)
    for at, gate in zip(changes, soft, strict=True):
        style: dict[str, Any] = {"ls": "--" if gate else "-", "zorder": 0}
        axes.axvline(place[at - 1 : at + 1].mean(), color="0.65", lw=0.9, **style)
    _number_intervals(axes, place, leaf, changes, of_classes and rows is not None)
    # A hard split is a jump, not a steep line.
    ends = [0, *changes[~soft].tolist(), len(place)]
    for first, last in pairwise(ends):
        part = slice(first, last)
        for hidden, line in ((far[part], "-"), (~far[part], ":")):
            if not hidden.all():
                shown = value[part].astype(float)
                shown[hidden] = np.nan
                _draw_values(axes, view, place[part], shown, line)
    axes.set_xlim(*side.ends)
    axes.set_ylabel(view.target, **TEXT)
    round_marks(axes.yaxis, 7)
    if isinstance(view, ClassView):
        axes.set_ylim(0.0, None)
        if not view.of_two:
            draw_legend(axes, with_short_names(view), **BESIDE)
    open_frame(axes)
    return ["dotted: far from every row given"] if far.any() else []


def _parting(tree: Tree, *leaves: int) -> int:
    """Find the node where the ways to two leaves part."""
    ways = [[node for node, _ in way_to(tree, leaf)] for leaf in leaves]
    return max(set(ways[0]) & set(ways[1]))


def _number_intervals(
    axes: Any, place: np.ndarray, leaf: np.ndarray, changes: np.ndarray, lower: bool
) -> None:
    """Write the numbers of leaves above a curve, where there is room for them."""
    top, reached = axes.get_xaxis_transform(), -np.inf
    ends = [0, *changes.tolist(), len(place)]
    for first, last in pairwise(ends):
        middle = (first + last - 1) / 2
        room = (middle - reached) > _LABEL_WIDTH * len(place)
        if room and last - first > _SHORTEST_SIDE * len(place):
            reached = middle
            at = np.interp(middle, np.arange(len(place)), place)
            style = {"fontsize": FONT_SIZE, "color": "0.35", "ha": "center"}
            height = 0.935 if lower else 0.985  # below the ticks of rows
            axes.text(at, height, f"[{leaf[first]}]", transform=top, va="top", **style)


def _draw_rows(
    axes: Any, picture: Slice, chosen: np.ndarray, alpha: np.ndarray
) -> None:
    """Draw rows of a curve: at their targets, or classes as ticks along the edges."""
    (side,), rows = picture.sides, picture.rows
    assert rows is not None
    at, target = side.of_rows(rows, chosen), rows.actual[chosen]
    lacks = np.isnan(at)
    at = np.where(lacks, side.ends[0], at)
    style: dict[str, Any] = {"s": 12, "linewidths": 0}
    color, height = np.full(len(at), "0.6"), target
    view, known = picture.view, np.ones(len(at), bool)
    if isinstance(view, ClassView):
        # Of two classes the second along the upper edge; none of one never seen.
        known = target >= 0
        colors = [DARK_COLOR] * 2 if view.of_two else view.colors
        color = np.array(colors)[np.maximum(target, 0)]
        height = np.where(view.of_two & (target == 1), 0.97, 0.015)
        style = {"s": 30, "transform": axes.get_xaxis_transform(), "zorder": 0.5}
    for those, marker in ((known & ~lacks, "o"), (known & lacks, "^")):
        if those.any():
            ticks = marker == "o" and isinstance(view, ClassView)
            axes.scatter(
                at[those],
                height[those],
                marker="|" if ticks else marker,
                color=color[those],
                alpha=alpha[those],
                clip_on=marker == "o",
                **style,
            )


def _draw_values(
    axes: Any, view: TreeView, place: np.ndarray, value: np.ndarray, line: str
) -> None:
    if isinstance(view, ClassView) and not view.of_two:
        for color, one in zip(view.colors, value.T, strict=True):
            axes.plot(place, one, line, color=color, lw=2)
        return
    one = value[:, 1] if isinstance(view, ClassView) else value
    axes.plot(place, one, line, color=MIDDLE_COLOR, lw=2)


def draw_categories(axes: Any, picture: Slice) -> list[str]:
    """Draw a bar of probabilities for each category, or a mark of the number."""
    (side,), view, rows = picture.sides, picture.view, picture.rows
    place = side.places(0)
    value = picture.predicted([place])
    if isinstance(view, ClassView):
        below = np.zeros(len(place))
        for share, color in zip(value.T, view.colors, strict=True):
            axes.bar(place, share, 0.7, bottom=below, color=color)
            below = below + share
        axes.set_ylim(0, 1)
        axes.set_ylabel("probability", fontsize=FONT_SIZE)
        draw_legend(axes, with_short_names(view), **BESIDE)
    else:
        if rows is not None:
            chosen = evenly_spaced(len(rows.actual), MOST_POINTS)
            at = side.of_rows(rows, chosen)
            points: dict[str, Any] = {"s": 10, "linewidths": 0, "alpha": 0.6}
            axes.scatter(at, rows.actual[chosen], color="0.6", **points)
        axes.hlines(value, place - 0.4, place + 0.4, color=MIDDLE_COLOR, lw=2.5)
        axes.set_ylabel(view.target, **TEXT)
        round_marks(axes.yaxis, 7)
    axes.set_xlim(*side.ends)
    open_frame(axes)
    return []
