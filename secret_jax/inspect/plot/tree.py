"""The tree as a picture: the root at the left, one row per leaf at the right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from secret_jax.inspect.arguments import check_count, checked_precision
from secret_jax.inspect.plot.layout import (
    COLUMN_GAP,
    HEADER,
    LINE_HEIGHT,
    MARGIN,
    PADDING,
    ROW_GAP,
    Box,
    boxes_of,
    readable_depth,
    text_width,
)
from secret_jax.inspect.plot.style import (
    COLORS,
    FONT_SIZE,
    check_axes,
    import_matplotlib,
)
from secret_jax.inspect.printing import (
    counted,
    counted_leaves,
    counted_rows,
    short_number,
)
from secret_jax.inspect.rest import rest_of
from secret_jax.tree.structure import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PRECISION = 2  # digits; a picture has less room than text
# Lengths are inches.
_FOOTER = 0.7
_LARGEST_FIGURE = 120.0  # about 200 leaves; beyond it text is drawn smaller
_COLOR_BAR = 2.6, 0.12  # width and height
_COLOR_BAR_TOP, _COLOR_BAR_LABEL = 0.35, 0.48  # above the lower edge
# Sizes of text, of the font size.
_TITLE, _ANSWER, _SMALL = 1.2, 0.85, 0.8
_TITLE_WIDER = 1.3  # than the same words in the font size: it is bold, too
_ALONE = 0.95, 0.95, 0.95, 1.0  # colour of a box that is compared with none
_THINNEST, _THICKEST = 0.6, 9.6  # points; edges to no rows and to all
_BRIGHTNESS = 0.299, 0.587, 0.114  # of red, green and blue (ITU-R BT.601)


def plot_tree(
    tree: Tree,
    *,
    ax: Axes | None = None,
    max_depth: int | Literal["auto"] | None = "auto",
    precision: int | None = None,
) -> Axes:
    """Draw the tree, with the splits and equations in the units of the data.

    Parameters
    ----------
    tree : Tree
    ax : matplotlib Axes, optional
        Where to draw; the text is scaled to fit. By default a figure of the size that
        the tree needs is made: half an inch per leaf, two to three per level.
    max_depth : int or None, default="auto"
        Deepest level that is drawn; inner nodes on it are drawn with their own model.
        "auto" draws up to six levels, as many as have at most 20 ends, and says so;
        None: all.
    precision : int, optional
        Significant digits relative to the effect, 2 by default; see `export_text`.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError, ValueError
        If an option is not what it should be.

    Notes
    -----
    The numbers in brackets are those of the nodes, as `apply` gives them. Where the
    condition of a box holds, the way leads up. Edges are as wide as their share of the
    training rows; boxes are coloured by the mean of the target in the node. The terms
    that move most in a leaf are shown as far as there is room; `export_text` shows all.
    """
    pyplot, ScalarMappable = import_matplotlib()
    n_curves = 0 if tree.additive is None else tree.additive.n_curves
    tree = rest_of(tree)
    if isinstance(max_depth, str) and max_depth == "auto":
        max_depth = readable_depth(tree)
    depth = cast("int | None", max_depth)
    check_count("max_depth", depth)
    digits = _PRECISION if precision is None else checked_precision(precision)
    boxes = boxes_of(tree, depth, digits)
    leaves = counted_leaves(tree.n_leaves)
    soft = "soft splits, " if tree.is_soft else ""
    title = f"{tree.schema.target_name}: {leaves}, {soft}{counted_rows(tree.weight[0])}"
    if n_curves:
        title += f", behind {counted(n_curves, 'curve', 'curves')}"
    if depth is not None and depth < tree.max_depth:
        title += f"; the upper {depth} of {counted(tree.max_depth, 'level', 'levels')}"
    right = max(box.right for box in boxes.values())
    width = max(right, MARGIN + _TITLE_WIDER * text_width(title)) + MARGIN
    lowest = max(box.middle + box.height / 2 for box in boxes.values())
    height = lowest + ROW_GAP + (_FOOTER if len(boxes) > 1 else MARGIN)
    shrink = min(1.0, _LARGEST_FIGURE / max(width, height))
    if ax is not None:
        check_axes(ax)
    axes: Axes = ax or pyplot.figure(
        figsize=(width * shrink, height * shrink)
    ).add_axes((0, 0, 1, 1))
    scale = _fit(axes, width, height)

    level = tree.schema.restore_target(tree.mean[:, 0])
    color = ScalarMappable(cmap=COLORS)
    color.set_clim(
        min(level[node] for node in boxes), max(level[node] for node in boxes)
    )
    for node, box in boxes.items():
        if node:
            _draw_edge(axes, tree, boxes[int(tree.parent[node])], box, scale)
        cut = box.is_end and not tree.is_leaf[node]
        fill = color.to_rgba(level[node]) if len(boxes) > 1 else _ALONE
        _draw_box(axes, box, fill, "--" if cut else "-", scale)
    _write(axes, MARGIN, HEADER / 2, title, _TITLE * scale, weight="bold")
    if len(boxes) > 1:
        _draw_color_bar(axes, color, tree.schema.target_name, height, scale)
    return axes


def _fit(ax: Axes, width: float, height: float) -> float:
    """Lay inches out on the axes; the factor by which they are drawn smaller."""
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    ax.set_axis_off()
    figure = ax.get_figure()
    assert figure is not None
    extent = ax.get_window_extent()
    return min(extent.width / width, extent.height / height) / figure.dpi


def _write(
    ax: Axes, x: float, y: float, text: str, scale: float, **options: Any
) -> None:
    ax.text(
        x,
        y,
        text,
        fontsize=FONT_SIZE * scale,
        parse_math=False,
        **{"va": "center", **options},
    )


def _draw_box(ax: Axes, box: Box, color: Any, line: str, scale: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    ax.add_patch(
        FancyBboxPatch(
            (box.left, box.middle - box.height / 2),
            box.right - box.left,
            box.height,
            boxstyle="round,pad=0,rounding_size=0.06",
            facecolor=color,
            edgecolor="0.2",
            linestyle=line,
            linewidth=0.8 * scale,
            zorder=2,
        )
    )
    brightness = np.dot(color[:3], _BRIGHTNESS)
    ink = "black" if brightness > 0.5 else "white"
    for i, line_text in enumerate(box.lines):
        y = box.middle + LINE_HEIGHT * (i - (len(box.lines) - 1) / 2)
        _write(ax, box.left + PADDING, y, line_text, scale, color=ink, zorder=3)


def _draw_edge(ax: Axes, tree: Tree, parent: Box, child: Box, scale: float) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    share = float(tree.weight[child.node] / tree.weight[0])
    column = parent.right + COLUMN_GAP  # where the next one begins
    half = (parent.right + column) / 2
    points = [
        (parent.right, parent.middle),
        (half, parent.middle),
        (half, child.middle),
        (column, child.middle),
        (child.left, child.middle),
    ]
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO]
    ax.add_patch(
        PathPatch(
            Path(points, codes),
            facecolor="none",
            edgecolor="0.65",
            linewidth=(_THINNEST + (_THICKEST - _THINNEST) * share) * scale,
            capstyle="butt",
            zorder=1,
        )
    )
    answer = "yes" if tree.left[parent.node] == child.node else "no"
    background = {"facecolor": "white", "edgecolor": "none", "pad": 1.0 * scale}
    _write(
        ax,
        half,
        (parent.middle + child.middle) / 2,
        answer,
        _ANSWER * scale,
        ha="center",
        bbox=background,
        zorder=1.5,
    )


def _draw_color_bar(
    ax: Axes, color: Any, target: str, height: float, scale: float
) -> None:
    place = (MARGIN, height - _COLOR_BAR_TOP, *_COLOR_BAR)
    bar_axes = ax.inset_axes(place, transform=ax.transData)
    figure = ax.get_figure()
    assert figure is not None
    figure.colorbar(color, cax=bar_axes, orientation="horizontal")
    bar_axes.locator_params(axis="x", nbins=4)
    bar_axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
    bar_axes.tick_params(labelsize=_SMALL * FONT_SIZE * scale, length=2 * scale, pad=1)
    label = f"mean of {target}"
    _write(ax, MARGIN, height - _COLOR_BAR_LABEL, label, _SMALL * scale)
