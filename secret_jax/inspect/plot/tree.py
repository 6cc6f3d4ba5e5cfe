"""The tree as a picture: the root at the left, one row per leaf at the right."""

import math
import textwrap
from typing import Any, Literal, cast

import numpy as np

from secret_jax.inspect import printing
from secret_jax.inspect.arguments import check_counts
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.colors import Scale, ink_on
from secret_jax.inspect.plot import layout, picture
from secret_jax.inspect.tree_view import TreeView
from secret_jax.inspect.views import Readable, as_view
from secret_jax.tree.totals import way_to

# Lengths are inches.
_FOOTER = 0.7
_LARGEST_FIGURE = 120.0  # about 200 leaves; beyond it text is drawn smaller
_LEGEND_ROW, _LEGEND_REST = 0.24, 0.6  # height, and width beside a name
_TITLE_WIDTH = 5.0  # at least, before it is broken
_COLOR_BAR = 2.6, 0.12  # width and height
_COLOR_BAR_TOP, _COLOR_BAR_LABEL = 0.35, 0.48  # above the lower edge
# Sizes of text, of the font size.
_TITLE, _ANSWER, _SMALL = 1.2, 0.85, 0.8
_TITLE_WIDER = 1.3  # than the same words in the font size: it is bold, too
_ALONE = "#f2f2f2"  # colour of a box that is compared with none
_THINNEST, _THICKEST = 0.6, 9.6  # points; edges to no rows and to all


def plot_tree(
    tree: Readable,
    *,
    ax: Any = None,
    max_depth: int | Literal["auto"] | None = "auto",
    output: int | str | None = None,
) -> picture.Picture:
    """Draw the tree, with the splits and equations in the units of the data.

    Parameters
    ----------
    ax : matplotlib Axes, optional
        Where to draw; the text is scaled to fit. By default a figure of the size that
        the tree needs is made: half an inch per leaf, two to three per level.
    max_depth : int or None, default="auto"
        Deepest level that is drawn; inner nodes on it are drawn with their own model.
        "auto" draws up to six levels, as many as have at most 20 ends, and says so;
        None: all.
    output : int or str, optional
        Which one, of several.

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
    training rows; boxes are coloured by the mean of the target in the node, or have a
    bar of the shares of the classes. The terms that move most in a leaf are shown as
    far as there is room, with the numbers of `export_text`, which shows all.
    """
    pyplot = picture.import_pyplot()
    if ax is not None:
        picture.check_axes(ax)
    view = as_view(tree, output)
    tree = view.tree
    if isinstance(max_depth, str) and max_depth == "auto":
        max_depth = layout.readable_depth(tree)
    depth = cast("int | None", max_depth)
    check_counts(max_depth=depth)
    boxes = layout.boxes_of(view, depth)
    right = max(box.right for box in boxes.values())
    lines = _title_lines(view, depth, right - 2 * layout.MARGIN)
    width = max(right, layout.MARGIN + max(map(_title_width, lines))) + layout.MARGIN
    above = layout.LINE_HEIGHT * _TITLE * (len(lines) - 1)
    lowest = max(box.middle + box.height / 2 for box in boxes.values())
    footer = _FOOTER if len(boxes) > 1 else 0.0
    n_across, short = 1, layout.with_short_names(view)
    if isinstance(short, ClassView):
        widest = max(map(layout.text_width, short.names)) + _LEGEND_REST
        n_across = max(int((width - 2 * layout.MARGIN) / widest), 1)
        footer = _LEGEND_ROW * math.ceil(len(short.names) / n_across)
    height = lowest + layout.ROW_GAP + max(footer, layout.MARGIN)
    shrink = min(1.0, _LARGEST_FIGURE / max(width, height + above))
    axes = ax or pyplot.figure(
        figsize=(width * shrink, (height + above) * shrink)
    ).add_axes((0, 0, 1, 1))
    scale = _fit(axes, width, -above, height)

    colors, means = None, np.zeros(tree.n_nodes)
    if not isinstance(view, ClassView) and len(boxes) > 1:
        means = view.means
        colors = Scale(means[[*boxes]].tolist())
    for node, box in boxes.items():
        for parent, side in way_to(tree, node)[-1:]:
            share = float(tree.weight[node] / tree.weight[0])
            answer = "yes" if side == "left" else "no"
            _draw_edge(axes, boxes[parent], box, answer, share, scale)
        cut = box.is_end and not tree.is_leaf[node]
        fill = colors.color(float(means[node])) if colors else _ALONE
        _draw_box(axes, box, fill, "--" if cut else "-", scale)
    for i, line in enumerate(lines):
        y = layout.HEADER / 2 - above + i * layout.LINE_HEIGHT * _TITLE
        _write(axes, layout.MARGIN, y, line, _TITLE * scale, weight="bold")
    if isinstance(short, ClassView):
        picture.draw_legend(
            axes,
            short,
            loc="upper left",
            bbox_to_anchor=(layout.MARGIN, height - footer),
            bbox_transform=axes.transData,
            ncols=n_across,
            fontsize=picture.FONT_SIZE * scale,
            borderaxespad=0.0,
            frameon=False,
        )
    elif colors is not None:
        _draw_color_bar(axes, colors, view.title, height, scale)
    return picture.Picture.of([axes])


def _title_lines(view: TreeView, depth: int | None, width: float) -> list[str]:
    tree = view.tree
    soft = "soft splits, " if tree.is_soft else ""
    leaves = printing.counted_leaves(tree.n_leaves)
    title = f"{view.title}: {leaves}, {soft}{printing.counted_rows(tree.weight[0])}"
    if depth is not None and depth < tree.max_depth:
        levels = printing.counted(tree.max_depth, "level", "levels")
        title += f"; the upper {depth} of {levels}"
    letters = len(title) * max(width, _TITLE_WIDTH) / _title_width(title)
    if not isinstance(view, ClassView):
        return [title]
    return textwrap.wrap(title, max(int(letters), 20), break_on_hyphens=False)


def _title_width(line: str) -> float:
    return _TITLE_WIDER * layout.text_width(line)


def _fit(ax: Any, width: float, top: float, bottom: float) -> float:
    """Lay inches out on the axes; the factor by which they are drawn smaller."""
    height = bottom - top
    ax.set(xlim=(0, width), ylim=(bottom, top), aspect="equal")
    ax.set_axis_off()
    extent = ax.get_window_extent()
    return min(extent.width / width, extent.height / height) / ax.figure.dpi


def _write(
    ax: Any, x: float, y: float, text: str, scale: float, **options: Any
) -> None:
    size = {"fontsize": picture.FONT_SIZE * scale, "va": "center"}
    ax.text(x, y, text, parse_math=False, **size, **options)


def _draw_box(ax: Any, box: layout.Box, color: str, line: str, scale: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    top = box.middle - box.height / 2
    patch = FancyBboxPatch(
        (box.left, top),
        *(box.right - box.left, box.height, "round,pad=0,rounding_size=0.06"),
        **{"facecolor": color, "edgecolor": "0.2", "linestyle": line},
        **{"linewidth": 0.8 * scale, "zorder": 2},
    )
    ax.add_patch(patch)
    for i, line_text in enumerate(box.lines):
        y = top + layout.PADDING + layout.LINE_HEIGHT * (i + 0.5)
        style = {"color": ink_on(color), "zorder": 3}
        _write(ax, box.left + layout.PADDING, y, line_text, scale, **style)
    _draw_bar(ax, box)


def _draw_bar(ax: Any, box: layout.Box) -> None:
    """Shares as parts of a bar along the lower edge of a box."""
    from matplotlib.patches import Rectangle

    left = box.left + layout.PADDING
    whole = box.right - layout.PADDING - left
    top = box.middle + box.height / 2 - layout.PADDING - layout.BAR_HEIGHT
    for share, color in box.bar:
        if share > 0:
            part = (left, top), share * whole, layout.BAR_HEIGHT
            ax.add_patch(Rectangle(*part, facecolor=color, linewidth=0, zorder=3))
            left += share * whole


def _draw_edge(
    ax: Any,
    parent: layout.Box,
    child: layout.Box,
    answer: str,
    share: float,
    scale: float,
) -> None:
    """Draw the way to a child, as wide as its share of the rows."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    column = parent.right + layout.COLUMN_GAP  # where the next one begins
    half = (parent.right + column) / 2
    points = [
        (parent.right, parent.middle),
        (half, parent.middle),
        (half, child.middle),
        (column, child.middle),
        (child.left, child.middle),
    ]
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO]
    width = (_THINNEST + (_THICKEST - _THINNEST) * share) * scale
    style = {"facecolor": "none", "edgecolor": "0.65", "capstyle": "butt", "zorder": 1}
    ax.add_patch(PathPatch(Path(points, codes), linewidth=width, **style))
    middle = (parent.middle + child.middle) / 2
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.0 * scale}
    style = {"ha": "center", "bbox": behind, "zorder": 1.5}
    _write(ax, half, middle, answer, _ANSWER * scale, **style)


def _draw_color_bar(
    ax: Any, colors: Scale, target: str, height: float, scale: float
) -> None:
    from matplotlib.cm import ScalarMappable

    color = ScalarMappable(cmap=picture.COLORS)
    color.set_clim(colors.low, colors.high)
    place = (layout.MARGIN, height - _COLOR_BAR_TOP, *_COLOR_BAR)
    bar_axes = ax.inset_axes(place, transform=ax.transData)
    ax.figure.colorbar(color, cax=bar_axes, orientation="horizontal")
    bar_axes.locator_params(axis="x", nbins=4)
    bar_axes.xaxis.set_major_formatter(lambda value, _: printing.short_number(value))
    bar_axes.tick_params(
        labelsize=_SMALL * picture.FONT_SIZE * scale, length=2 * scale, pad=1
    )
    label = f"mean of {target}"
    _write(ax, layout.MARGIN, height - _COLOR_BAR_LABEL, label, _SMALL * scale)
