"""The tree as a picture: the root at the left, one row per leaf at the right.

Text is what needs room in a tree of linear models, and text runs from left to right.
So depth runs from left to right too, leaves stand in one column like the rows of a
table, and an inner node stands half-way between its children (Reingold & Tilford 1981).
Subtrees own disjoint ranges of rows, which keeps boxes and edges apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from secret_jax.inspect.equations import check_count, checked_precision
from secret_jax.inspect.words import (
    counted,
    leaves_below,
    model_parts,
    node_facts,
    rows_text,
    split_parts,
)
from secret_jax.tree.structure import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Lengths are inches; text of this many points is legible there.
FONT_SIZE = 9.0
_LINE = 0.165
_PADDING = 0.09
_ROW = 0.56
_GAP = 0.55
_MARGIN = 0.2
_HEADER = 0.5
_FOOTER = 0.7
_LARGEST_FIGURE = 120.0  # about 200 leaves; beyond it text is drawn smaller

_LONGEST_NAME = 26
_LONGEST_CATEGORY = 18
_SPLIT_CHARACTERS = 30
_SPLIT_TERMS = 3
_SPLIT_CATEGORIES = 3
_LEAF_TERMS = 2  # at least, however long
_LEAF_CHARACTERS = 76


@dataclass(frozen=True, kw_only=True)
class _Box:
    """A node in the picture: what it says and where it stands."""

    node: int
    lines: tuple[str, ...]
    is_end: bool
    left: float
    right: float
    middle: float

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PADDING


def plot_tree(
    tree: Tree,
    *,
    ax: Axes | None = None,
    max_depth: int | None = None,
    precision: int | None = None,
) -> Axes:
    """Draw the tree, with the splits and equations in the units of the data.

    Parameters
    ----------
    tree : Tree
    ax : matplotlib Axes, optional
        Where to draw; the text is scaled to fit. By default a figure of the size that
        the tree needs is made: half an inch per leaf, two to three per level. Of trees
        with hundreds of leaves draw the top with ``max_depth``.
    max_depth : int, optional
        Deepest level that is drawn; inner nodes on it are drawn with their own model.
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
    training rows. Only the largest terms are shown; `export_text` shows them all.
    """
    pyplot, ScalarMappable = import_matplotlib()
    check_count("max_depth", max_depth)
    digits = 2 if precision is None else checked_precision(precision)
    boxes = _layout(_with_short_names(tree), max_depth, digits)
    leaves = counted(tree.n_leaves, "leaf", "leaves")
    soft = "soft splits, " if tree.is_soft else ""
    title = f"{tree.schema.target_name}: {leaves}, {soft}{rows_text(tree.weight[0])}"
    right = max(box.right for box in boxes.values())
    width = max(right, _MARGIN + 1.3 * _text_width(title)) + _MARGIN
    height = max(box.middle for box in boxes.values()) + _ROW / 2 + _FOOTER
    shrink = min(1.0, _LARGEST_FIGURE / max(width, height))
    if ax is not None:
        check_axes(ax)
    axes: Axes = ax or pyplot.figure(
        figsize=(width * shrink, height * shrink)
    ).add_axes((0, 0, 1, 1))
    scale = _fit(axes, width, height)

    level = _typical_output(tree)
    color = ScalarMappable(cmap="viridis")
    color.set_clim(
        min(level[node] for node in boxes), max(level[node] for node in boxes)
    )
    for node, box in boxes.items():
        if node:
            _draw_edge(axes, tree, boxes[int(tree.parent[node])], box, scale)
        cut = box.is_end and not tree.is_leaf[node]
        _draw_box(axes, box, color.to_rgba(level[node]), "--" if cut else "-", scale)
    _write(axes, _MARGIN, _HEADER / 2, title, 1.2 * scale, weight="bold")
    if len(boxes) > 1:
        _draw_color_bar(axes, color, tree.schema.target_name, height, scale)
    return axes


def check_axes(ax: Any) -> None:
    """Refuse what is no matplotlib Axes."""
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(
            f"ax is a {type(ax).__name__}; give matplotlib Axes, or leave it out."
        )


def import_matplotlib() -> tuple[Any, Any]:
    """Pyplot and ScalarMappable, or an ImportError that names the extra."""
    try:
        from matplotlib import pyplot
        from matplotlib.cm import ScalarMappable
    except ImportError as error:
        raise ImportError(
            "Pictures need matplotlib, which is not installed. Install the extra: "
            "pip install 'secret-jax[plot]'"
        ) from error
    return pyplot, ScalarMappable


def _layout(tree: Tree, max_depth: int | None, precision: int) -> dict[int, _Box]:
    """Boxes of the nodes that are drawn, parents before their children."""
    lines: dict[int, tuple[str, ...]] = {}
    middle: dict[int, float] = {}
    ends: set[int] = set()

    def place(node: int) -> float:
        if tree.is_leaf[node] or tree.depth[node] == max_depth:
            lines[node] = _end_lines(tree, node, precision)
            middle[node] = _HEADER + _ROW * (len(ends) + 0.5)
            ends.add(node)
        else:
            lines[node] = _split_lines(tree, node, precision)
            sides = place(int(tree.left[node])), place(int(tree.right[node]))
            middle[node] = sum(sides) / 2
        return middle[node]

    place(0)
    # Column -1 belongs to the ends; the others are levels of inner nodes.
    column = {n: -1 if n in ends else int(tree.depth[n]) for n in sorted(lines)}
    width: dict[int, float] = defaultdict(float)
    for node in lines:
        text = max(_text_width(line) for line in lines[node])
        width[column[node]] = max(width[column[node]], text + 2 * _PADDING)
    left, position = {}, _MARGIN
    for level in [*sorted(set(width) - {-1}), -1]:
        left[level] = position
        position += width[level] + _GAP
    return {
        node: _Box(
            node=node,
            lines=lines[node],
            is_end=level == -1,
            left=left[level],
            right=left[level] + width[level],
            middle=middle[node],
        )
        for node, level in column.items()
    }


def _split_lines(tree: Tree, node: int, precision: int) -> tuple[str, ...]:
    parts = split_parts(
        tree,
        node,
        precision=precision,
        max_terms=_SPLIT_TERMS,
        max_categories=_SPLIT_CATEGORIES,
    )
    lines = [f"[{node}] {parts[0]}"]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) <= _SPLIT_CHARACTERS:
            lines[-1] += " " + part
        else:
            lines.append("    " + part)
    return tuple(lines)


def _end_lines(tree: Tree, node: int, precision: int) -> tuple[str, ...]:
    """The equation as far as there is room, and what is known about the rows."""
    n_terms = len(tree.schema.names)
    while True:
        parts = model_parts(tree, node, precision=precision, max_terms=n_terms)
        equation = " ".join(parts[1:])
        if len(equation) <= _LEAF_CHARACTERS or n_terms <= _LEAF_TERMS:
            break
        n_terms = min(n_terms, len(parts)) - 1
    facts = f"[{node}] {node_facts(tree, node)}"
    if not tree.is_leaf[node]:
        facts += f", {counted(leaves_below(tree, node), 'leaf', 'leaves')} below"
    return equation, facts


def _with_short_names(tree: Tree) -> Tree:
    """The tree with long column and category names cut in the middle."""
    schema = tree.schema
    categories = tuple(
        _shortened(values, _LONGEST_CATEGORY) for values in schema.categories
    )
    names = _shortened(schema.names, _LONGEST_NAME)
    return replace(tree, schema=replace(schema, names=names, categories=categories))


def _shortened(names: tuple[Any, ...], longest: int) -> tuple[Any, ...]:
    """Names with dots for their middle, unless that makes two of them the same."""
    half = longest // 2 - 1
    short = [
        f"{name[:half]}..{name[-half:]}"
        if isinstance(name, str) and len(name) > longest
        else name
        for name in names
    ]
    times = Counter(short)
    return tuple(
        cut if times[cut] == 1 else name for name, cut in zip(names, short, strict=True)
    )


def _typical_output(tree: Tree) -> np.ndarray:
    """Middle of each leaf's outputs, averaged over the leaves below an inner node.

    Shape (n_nodes,), float64, in units of the target.
    """
    # The trifle lets a leaf without rows keep its own level.
    total = np.where(tree.is_leaf, tree.weight + 1e-12, 0.0)
    level = total * (tree.lower + tree.upper) / 2
    for node in range(tree.n_nodes - 1, 0, -1):  # children come after their parents
        level[tree.parent[node]] += level[node]
        total[tree.parent[node]] += total[node]
    return tree.schema.restore_target(level / total)


def _fit(ax: Axes, width: float, height: float) -> float:
    """Lay inches out on the axes; the factor by which they are drawn smaller."""
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    ax.set_axis_off()
    figure = ax.get_figure()
    assert figure is not None
    extent = ax.get_window_extent()
    return min(extent.width / width, extent.height / height) / figure.dpi


def _text_width(text: str) -> float:
    """Width in inches, measured without a renderer."""
    from matplotlib.textpath import TextPath

    # A dollar sign would begin a formula; at few dots per inch hinting widens text.
    path = TextPath((0, 0), text.replace("$", "S"), size=FONT_SIZE)
    return 1.08 * float(path.get_extents().x1) / 72


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


def _draw_box(ax: Axes, box: _Box, color: Any, line: str, scale: float) -> None:
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
    brightness = np.dot(color[:3], (0.299, 0.587, 0.114))
    ink = "black" if brightness > 0.5 else "white"
    for i, line_text in enumerate(box.lines):
        y = box.middle + _LINE * (i - (len(box.lines) - 1) / 2)
        _write(ax, box.left + _PADDING, y, line_text, scale, color=ink, zorder=3)


def _draw_edge(ax: Axes, tree: Tree, parent: _Box, child: _Box, scale: float) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    share = float(tree.weight[child.node] / tree.weight[0])
    bend = parent.right + _GAP  # where the next column begins
    half = (parent.right + bend) / 2
    points = [
        (parent.right, parent.middle),
        (half, parent.middle),
        (half, child.middle),
        (bend, child.middle),
        (child.left, child.middle),
    ]
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO]
    ax.add_patch(
        PathPatch(
            Path(points, codes),
            facecolor="none",
            edgecolor="0.65",
            linewidth=(0.6 + 9 * share) * scale,
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
        0.85 * scale,
        ha="center",
        bbox=background,
        zorder=1.5,
    )


def _draw_color_bar(
    ax: Axes, color: Any, target: str, height: float, scale: float
) -> None:
    place = (_MARGIN, height - 0.35, 2.6, 0.12)
    bar_axes = ax.inset_axes(place, transform=ax.transData)
    figure = ax.get_figure()
    assert figure is not None
    figure.colorbar(color, cax=bar_axes, orientation="horizontal")
    bar_axes.locator_params(axis="x", nbins=4)
    bar_axes.tick_params(labelsize=0.8 * FONT_SIZE * scale, length=2 * scale, pad=1)
    label = f"{target}: middle of the range of the outputs"
    _write(ax, _MARGIN, height - 0.48, label, 0.8 * scale)
