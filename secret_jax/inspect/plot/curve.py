"""The fitted curve over one column of numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.plot.classes import BESIDE, draw_legend
from secret_jax.inspect.plot.layout import with_short_names
from secret_jax.inspect.plot.paint import FAINT
from secret_jax.inspect.plot.shown import Slice
from secret_jax.inspect.plot.slices import Strip
from secret_jax.inspect.plot.style import (
    DARK_COLOR,
    FONT_SIZE,
    MIDDLE_COLOR,
    open_frame,
)
from secret_jax.inspect.tree_view import TreeView

_CURVE_POINTS = 1001  # between two jumps
_AVERAGED_POINTS = 201  # for all rows of the mean
_JUMP = 1e-4  # of the way between two jumps: where a curve ends before one
_FAR_STRIDE = 25  # of the points whose distance from rows is measured
_SHORTEST_SIDE = 0.04  # below which a leaf has no room for its number
_LABEL_HEIGHT, _LABEL_WIDTH = 0.985, 0.07  # of the axes
_BELOW_TICKS = 0.05  # of the axes: what ticks of rows at the upper edge take


def draw_curve(axes: Any, picture: Slice) -> bool:
    """Draw a slice of one column; whether parts of it are far from all rows."""
    tree, rows, side = picture.tree, picture.rows, picture.box[0]
    center, scale = picture.center[0], picture.scale[0]
    draw_values, draw_rows = drawers(picture.view)
    if rows is not None:
        chosen, at, lacks = picture.points()
        alpha = np.where(picture.elsewhere()[chosen], 0.4 * FAINT, 0.6)
        for those, marker in ((~lacks, "o"), (lacks, "^")):
            if those.any():
                own = rows.target[chosen][those]
                draw_rows(axes, at[those, 0], own, alpha[those], marker)
    # Over a strip of no height, every split is a point.
    strip = Strip(tree, picture.base, picture.positions[0], side)
    cuts = strip.cuts if picture.averaged is None else []
    for place, soft in cuts:
        axes.axvline(
            center + scale * place,
            color="0.65",
            lw=0.9,
            ls="--" if soft else "-",
            zorder=0,
        )
    n_points = _CURVE_POINTS if picture.averaged is None else _AVERAGED_POINTS
    ends = [side[0], *sorted(place for place, soft in cuts if not soft), side[1]]
    any_far = False
    for low, high in pairwise(ends):
        # Not quite to the ends: a hard split is a jump, not a steep line.
        inside = low + (high - low) * np.linspace(_JUMP, 1 - _JUMP, n_points)
        value = picture.predict(inside[:, None])
        coarse = np.arange(0, n_points, _FAR_STRIDE)
        far = picture.far(inside[coarse, None])
        far = far[np.arange(n_points) // _FAR_STRIDE]
        any_far |= bool(far.any())
        for hidden, line in ((far, "-"), (~far, ":")):
            if not hidden.all():
                shown = value.copy()
                shown[hidden] = np.nan
                draw_values(axes, center + scale * inside, shown, line)
    top, height = axes.get_xaxis_transform(), _LABEL_HEIGHT
    if rows is not None and isinstance(picture.view, ClassView):
        height -= _BELOW_TICKS
    reached = -np.inf
    for node, low, high in sorted(strip.leaves, key=lambda leaf: leaf[1]):
        middle = (low + high) / 2
        room = _LABEL_WIDTH * np.ptp(side)
        if (
            picture.averaged is None
            and high - low > _SHORTEST_SIDE * np.ptp(side)
            and middle - reached > room
        ):
            reached = middle
            axes.text(
                center + scale * middle,
                height,
                f"[{node}]",
                transform=top,
                fontsize=FONT_SIZE,
                color="0.35",
                ha="center",
                va="top",
            )
    axes.set_xlim(*(center + scale * side))
    axes.set_ylabel(picture.view.target, fontsize=FONT_SIZE, parse_math=False)
    if isinstance(picture.view, ClassView):
        axes.set_ylim(0.0, None)
        if not picture.view.of_two:
            view = with_short_names(picture.view)
            draw_legend(axes, view.colors, list(view.names), **BESIDE)
    open_frame(axes)
    return any_far


def drawers(view: TreeView) -> tuple[Any, Any]:
    """What draws predictions along a curve, and what draws rows at their places."""

    def number_rows(
        axes: Any, place: Any, target: Any, alpha: Any, marker: str
    ) -> None:
        axes.scatter(
            place,
            target,
            s=10 if marker == "o" else 16,
            marker=marker,
            color="0.6",
            linewidths=0,
            alpha=alpha,
            clip_on=marker == "o",
        )

    def number_values(axes: Any, place: Any, value: Any, line: str) -> None:
        axes.plot(place, value, line, color=MIDDLE_COLOR, lw=2)

    if not isinstance(view, ClassView):
        return number_values, number_rows
    colors = view.colors

    def class_rows(axes: Any, place: Any, target: Any, alpha: Any, marker: str) -> None:
        # Ticks along the lower edge; of two classes the second along the upper one.
        of_two, known = view.of_two, target >= 0
        height = np.where(of_two & (target == 1), 0.97, 0.015)
        ink = np.array([DARK_COLOR] * 2 if of_two else colors)[np.maximum(target, 0)]
        axes.scatter(
            place[known],
            height[known],
            s=30,
            marker="|" if marker == "o" else marker,
            color=ink[known],
            alpha=alpha[known],
            transform=axes.get_xaxis_transform(),
            zorder=0.5,
        )

    def class_values(axes: Any, place: Any, value: Any, line: str) -> None:
        if view.of_two:
            axes.plot(place, value[:, 1], line, color=MIDDLE_COLOR, lw=2)
            return
        for color, one in zip(colors, value.T, strict=True):
            axes.plot(place, one, line, color=color, lw=2)

    return class_values, class_rows
