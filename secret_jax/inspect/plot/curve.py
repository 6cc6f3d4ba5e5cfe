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
from secret_jax.inspect.plot.slices import MOST_POINTS, Slice
from secret_jax.inspect.tree_view import TreeView
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import way_to

_POINTS = 1001
_NARROWEST = 0.07  # of the axes: an interval that has room for its leaf's number


def draw_curve(axes: Any, picture: Slice) -> None:
    """Draw a slice of one column of numbers."""
    (side,), view, tree = picture.sides, picture.view, picture.tree
    ticks = isinstance(view, ClassView) and picture.rows is not None
    if picture.rows is not None:
        _draw_rows(axes, picture)
    place = side.places(_POINTS)
    value, leaf = picture.predicted([place]), apply(tree, picture.table([place]))
    changes = (np.flatnonzero(leaf[1:] != leaf[:-1]) + 1).tolist()
    jumps = [0]
    for at in changes:
        soft = tree.gate_width[_parting(tree, leaf[at - 1], leaf[at])] > 0
        style: dict[str, Any] = {"ls": "--" if soft else "-", "zorder": 0}
        axes.axvline(place[at - 1 : at + 1].mean(), color="0.65", lw=0.9, **style)
        jumps += [at] * (not soft)
    ends, height = [0, *changes, len(place)], 0.935 if ticks else 0.985
    _number_intervals(axes, place, leaf, ends, height)
    # A hard split is a jump, not a steep line.
    for first, last in pairwise([*jumps, len(place)]):
        _draw_values(axes, view, place[first:last], value[first:last])
    axes.set_xlim(*side.ends)
    axes.set_ylabel(view.target, **TEXT)
    round_marks(axes.yaxis, 7)
    if isinstance(view, ClassView):
        axes.set_ylim(0.0, None)
        if not view.of_two:
            draw_legend(axes, with_short_names(view), **BESIDE)
    open_frame(axes)


def _parting(tree: Tree, *leaves: int) -> int:
    """Find the node where the ways to two leaves part."""
    ways = [[node for node, _ in way_to(tree, leaf)] for leaf in leaves]
    return max(set(ways[0]) & set(ways[1]))


def _number_intervals(
    axes: Any, place: np.ndarray, leaf: np.ndarray, ends: list[int], height: float
) -> None:
    """Write the numbers of leaves above a curve, where there is room for them."""
    for first, last in pairwise(ends):
        if last - first > _NARROWEST * len(place):
            style = {"fontsize": FONT_SIZE, "color": "0.35", "ha": "center"}
            style |= {"transform": axes.get_xaxis_transform(), "va": "top"}
            axes.text(place[first:last].mean(), height, f"[{leaf[first]}]", **style)


def _draw_rows(axes: Any, picture: Slice) -> None:
    """Draw rows at their targets, or classes as ticks along the edges."""
    (side,), view, rows = picture.sides, picture.view, picture.rows
    assert rows is not None
    chosen = evenly_spaced(len(rows.actual), MOST_POINTS)
    at, target = side.of_rows(rows, chosen), rows.actual[chosen]
    if not isinstance(view, ClassView):
        axes.scatter(at, target, s=12, color="0.6", alpha=0.6, linewidths=0)
        return
    known = target >= 0  # of a class that training has seen
    at, target = at[known], target[known]
    # Of two classes the second along the upper edge.
    height = np.where(view.of_two & (target == 1), 0.97, 0.015)
    color = np.array([DARK_COLOR] * 2 if view.of_two else view.colors)[target]
    style = {"transform": axes.get_xaxis_transform(), "zorder": 0.5}
    axes.scatter(at, height, s=30, marker="|", color=color, alpha=0.6, **style)


def _draw_values(
    axes: Any, view: TreeView, place: np.ndarray, value: np.ndarray
) -> None:
    if isinstance(view, ClassView) and not view.of_two:
        for color, one in zip(view.colors, value.T, strict=True):
            axes.plot(place, one, color=color, lw=2)
        return
    one = value[:, 1] if isinstance(view, ClassView) else value
    axes.plot(place, one, color=MIDDLE_COLOR, lw=2)


def draw_categories(axes: Any, picture: Slice) -> None:
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
            _draw_rows(axes, picture)
        axes.hlines(value, place - 0.4, place + 0.4, color=MIDDLE_COLOR, lw=2.5)
        axes.set_ylabel(view.target, **TEXT)
        round_marks(axes.yaxis, 7)
    axes.set_xlim(*side.ends)
    open_frame(axes)
