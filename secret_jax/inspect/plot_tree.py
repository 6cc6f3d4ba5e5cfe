"""The tree as a picture: the root at the left, one row per leaf at the right.

Text needs room, and runs from left to right. So depth does, too; leaves stand in one
column, and an inner node half-way between its children (Reingold & Tilford 1981).
"""

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from secret_jax.inspect import picture, words
from secret_jax.inspect.equations import check_counts
from secret_jax.inspect.printing import (
    counted,
    counted_leaves,
    ends_of,
    in_lines,
    ink_on,
    shades,
)
from secret_jax.inspect.view import Readable, View, as_view
from secret_jax.runtime.environment import imported
from secret_jax.tree.totals import in_order, leaves_below, way_to

# Lengths are inches, so that text of the font size is legible.
_LINE, _PADDING, _BAR = 0.165, 0.09, 0.1  # heights of a line and of a bar of shares
_ROW_GAP, _COLUMN_GAP = 0.05, 0.55  # between two leaves; for an edge and its answer
_MARGIN, _HEADER, _FOOTER = 0.2, 0.5, 0.7
_LEGEND_ROW, _LEGEND_REST = 0.24, 0.6  # height, and width beside a name
_COLOR_BAR = 2.6, 0.12  # width and height
_COLOR_BAR_TOP, _COLOR_BAR_LABEL = 0.35, 0.48  # above the lower edge
_INCHES_PER_POINT = 1.08 / 72  # at few dots per inch hinting widens text by as much
_TITLE_WIDER = 1.3  # than the same words in the font size: it is large and bold
_TITLE, _ANSWER, _SMALL = 1.2, 0.85, 0.8  # sizes of text, of the font size
_ALONE = "#f2f2f2"  # colour of a box that is compared with none
_THINNEST, _THICKEST = 0.6, 9.6  # points; edges to no rows and to all
# What a box has room for, in characters and terms.
_SPLIT_WIDTH, _LEAF_WIDTH = 30, 76
_WORDING = words.Wording(max_terms=3, max_categories=3)
_MIN_TERMS, _TERMS, _MAX_LINES = 3, 72, 14  # of a leaf, of all leaves together
# A tree is drawn down to where it has so many ends, unless a depth is asked for.
_MAX_ENDS, _MAX_LEVELS = 20, 6


def plot_tree(
    tree: Readable,
    *,
    max_depth: int | Literal["auto"] | None = "auto",
    output: int | str | None = None,
) -> picture.Picture:
    """Draw the tree, with the splits and equations in the units of the data.

    Parameters
    ----------
    max_depth : int or None, default="auto"
        Deepest level that is drawn; inner nodes on it are drawn with their own model.
        "auto" draws up to six levels, as many as have at most 20 ends, and says so;
        None: all.
    output : int or str, optional
        Which one, of several.

    Notes
    -----
    The numbers in brackets are those of the nodes, as `apply` gives them. Where the
    condition of a box holds, the way leads up. Edges are as wide as their share of the
    training rows; boxes are coloured by the mean of the target in the node, or have a
    bar of the shares of the classes. The terms that move most in a leaf are shown as
    far as there is room, with the numbers of `export_text`, which shows all.
    """
    view = as_view(tree, output)
    tree, short = view.tree, picture.with_short_names(view)
    auto = isinstance(max_depth, str) and max_depth == "auto"
    depth: Any = max_depth
    if auto:
        for depth in range(_MAX_LEVELS, 0, -1):
            ends = (tree.depth == depth) | (tree.is_leaf & (tree.depth < depth))
            if ends.sum() <= _MAX_ENDS:
                break
    check_counts(max_depth=depth)
    boxes = _boxes_of(short, depth)
    soft = "soft splits, " if tree.is_soft else ""
    leaves = counted_leaves(tree.n_leaves)
    title = f"{view.title}: {leaves}, {soft}{view.grown_on}"
    if depth is not None and depth < tree.max_depth:
        levels = counted(tree.max_depth, "level", "levels")
        title += f"; the upper {depth} of {levels}"
    right = max(box.right for box in boxes.values())
    width = max(right, _MARGIN + _TITLE_WIDER * _text_width(title)) + _MARGIN
    lowest = max(box.middle + box.height / 2 for box in boxes.values()) + _ROW_GAP
    footer, n_across = _FOOTER if len(boxes) > 1 else _MARGIN, 1
    if short.classes:
        widest = max(map(_text_width, short.names)) + _LEGEND_REST
        n_across = max(int((width - 2 * _MARGIN) / widest), 1)
        footer = max(_LEGEND_ROW * -(-len(short.names) // n_across), _MARGIN)
    height = lowest + footer
    pyplot = imported("matplotlib.pyplot", "Pictures", "plot")
    axes = pyplot.figure(figsize=(width, height)).add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    _write(axes, _MARGIN, _HEADER / 2, title, _TITLE, weight="bold")
    fills = dict.fromkeys(boxes, _ALONE)
    if short.classes:
        style = {"bbox_transform": axes.transData, "borderaxespad": 0.0}
        style |= {"loc": "upper left", "bbox_to_anchor": (_MARGIN, lowest)}
        style |= {"fontsize": picture.FONT_SIZE, "ncols": n_across, "frameon": False}
        picture.draw_legend(axes, short, **style)
    elif len(boxes) > 1:
        means = view.means[[*boxes]]
        fills = dict(zip(boxes, shades(means), strict=True))
        place = (_MARGIN, height - _COLOR_BAR_TOP, *_COLOR_BAR)
        bar = axes.inset_axes(place, transform=axes.transData)
        across = {"cax": bar, "orientation": "horizontal"}
        picture.draw_color_bar(axes, ends_of(means), **across)
        picture.round_marks(bar.xaxis, 4)
        bar.tick_params(labelsize=_SMALL * picture.FONT_SIZE, length=2, pad=1)
        label = f"mean of {view.title}"
        _write(axes, _MARGIN, height - _COLOR_BAR_LABEL, label, _SMALL)
    for node, box in boxes.items():
        for parent, side in way_to(tree, node)[-1:]:
            answer = "yes" if side == "left" else "no"
            share = float(tree.n_rows[node] / tree.n_rows[0])
            _draw_edge(axes, boxes[parent], box, answer, share)
        cut = box.is_end and not tree.is_leaf[node]
        _draw_box(axes, box, fills[node], "--" if cut else "-")
    return picture.Picture(axes)


class _Box(NamedTuple):
    """A node in the picture: what it says, shares with their colours, its place."""

    lines: list[str]
    bar: list[tuple[float, str]]
    is_end: bool
    left: float
    right: float
    middle: float
    height: float


def _boxes_of(view: View, max_depth: int | None) -> dict[int, _Box]:
    """Boxes of the nodes that are drawn, the left side before the right."""
    tree, order = view.tree, in_order(view.tree, max_depth)
    ends = {n for n in order if tree.is_leaf[n] or tree.depth[n] == max_depth}
    inner = [node for node in order if node not in ends]
    n_terms = max(_MIN_TERMS, _TERMS // len(ends))
    lines = {n: _lines(view, n, n_terms if n in ends else None) for n in order}
    bars = {node: view.bar(node) for node in order}
    height = {
        node: len(lines[node]) * _LINE
        + (_BAR + _PADDING / 2) * bool(bars[node])
        + 2 * _PADDING
        for node in order
    }
    # Inner nodes of one level are at least two rows apart.
    tallest = max((height[node] for node in inner), default=0.0)
    below, middle = _HEADER, {}
    for node in order:
        if node in ends:
            row = max(height[node], tallest / 2) + _ROW_GAP
            middle[node] = below + row / 2
            below += row
    for node in sorted(inner, reverse=True):  # children before parents
        middle[node] = (middle[tree.left[node]] + middle[tree.right[node]]) / 2
    # Levels of inner nodes, and after them the column of the ends.
    column = {n: tree.max_depth + 1 if n in ends else int(tree.depth[n]) for n in order}
    boxes, left = {}, _MARGIN
    for level in sorted(set(column.values())):
        nodes = [node for node in order if column[node] == level]
        widest = max(_text_width(line) for node in nodes for line in lines[node])
        right = left + widest + 2 * _PADDING
        for node in nodes:
            place = left, right, middle[node], height[node]
            boxes[node] = _Box(lines[node], bars[node], node in ends, *place)
        left = right + _COLUMN_GAP
    return {node: boxes[node] for node in order}


def _lines(view: View, node: int, max_terms: int | None) -> list[str]:
    """Write a box: a split (None), or equations as far as there is room, and facts."""
    tree, facts = view.tree, view.facts(node)
    if max_terms is None:
        first, *others = words.split_parts(tree, node, _WORDING)
        lines = in_lines([f"[{node}] {first}", *others], _SPLIT_WIDTH)
        # The error of a node that is split on is nobody's.
        return [*lines, *in_lines(facts[:-1], _SPLIT_WIDTH, separator=", ")]
    facts[0] = f"[{node}] {facts[0]}"
    if not tree.is_leaf[node]:
        facts.append(f"{counted_leaves(leaves_below(tree)[node])} below")
    facts = in_lines(facts, _LEAF_WIDTH, separator=", ")
    if tree.n_leaves == 1:
        facts.append(words.one_leaf_sentence(tree))
    shown, lines = view.equations_of(node), []
    wording = replace(_WORDING, max_terms=max(max_terms // len(shown), 2))
    for equation in shown:
        parts = words.model_parts(equation, wording)
        lines += in_lines(parts if view.classes else parts[1:], _LEAF_WIDTH)
    if len(shown) > 1 and len(lines) > _MAX_LINES:
        moved = words.most_moving(shown)
        lines = in_lines(moved, _LEAF_WIDTH, separator=", ")
    return [*lines, *facts]


def _text_width(text: str) -> float:
    """Width in inches, measured without a renderer."""
    from matplotlib.textpath import TextPath

    # A dollar sign would begin a formula.
    path = TextPath((0, 0), text.replace("$", "S"), size=picture.FONT_SIZE)
    return float(path.get_extents().x1) * _INCHES_PER_POINT


def _write(ax: Any, x: float, y: float, text: str, size: float, **options: Any) -> None:
    style = {"fontsize": picture.FONT_SIZE * size, "va": "center", "parse_math": False}
    ax.text(x, y, text, **style, **options)


def _draw_box(ax: Any, box: _Box, color: str, line: str) -> None:
    """Draw a box with its lines, and along its lower edge the shares as a bar."""
    from matplotlib.patches import FancyBboxPatch, Rectangle

    size, top = (box.right - box.left, box.height), box.middle - box.height / 2
    style = {"facecolor": color, "edgecolor": "0.2", "linestyle": line, "zorder": 2}
    shape = FancyBboxPatch((box.left, top), *size, linewidth=0.8, **style)
    shape.set_boxstyle("round", pad=0, rounding_size=0.06)
    ax.add_patch(shape)
    left = box.left + _PADDING
    for i, said in enumerate(box.lines):
        y = top + _PADDING + _LINE * (i + 0.5)
        _write(ax, left, y, said, 1.0, color=ink_on(color), zorder=3)
    whole, y = size[0] - 2 * _PADDING, top + box.height - _PADDING - _BAR
    for share, fill in box.bar:
        part = (left, y), share * whole, _BAR
        if share > 0:
            ax.add_patch(Rectangle(*part, facecolor=fill, linewidth=0, zorder=3))
        left += share * whole


def _draw_edge(ax: Any, parent: _Box, child: _Box, answer: str, share: float) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    column = parent.right + _COLUMN_GAP  # where the next one begins
    half = (parent.right + column) / 2
    x = parent.right, half, half, column, child.left
    y = parent.middle, parent.middle, *[child.middle] * 3
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO]
    width = _THINNEST + (_THICKEST - _THINNEST) * share
    style = {"facecolor": "none", "edgecolor": "0.65", "capstyle": "butt", "zorder": 1}
    path = Path(np.column_stack([x, y]), codes)
    ax.add_patch(PathPatch(path, linewidth=width, **style))
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    style = {"ha": "center", "bbox": behind, "zorder": 1.5}
    _write(ax, half, (parent.middle + child.middle) / 2, answer, _ANSWER, **style)
