"""Where the boxes of a tree stand, and what they say.

Text is what needs room in a tree of linear models, and text runs from left to right.
So depth runs from left to right too, leaves stand in one column like the rows of a
table, and an inner node stands half-way between its children (Reingold & Tilford 1981).
Subtrees own disjoint ranges of rows, which keeps boxes and edges apart.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from secret_jax.inspect.arguments import Wording
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.notes import one_leaf_sentence
from secret_jax.inspect.plot.picture import FONT_SIZE
from secret_jax.inspect.printing import counted_leaves, in_lines
from secret_jax.inspect.tree_view import TreeView
from secret_jax.inspect.words import model_parts, most_moving, split_parts
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import in_order, leaves_below

# Lengths are inches, so that text of the font size is legible.
LINE_HEIGHT = 0.165
PADDING = 0.09
ROW_GAP = 0.05  # between two leaves
BAR_HEIGHT = 0.1  # of a stacked bar of shares
COLUMN_GAP = 0.55  # room for an edge and its answer
MARGIN = 0.2
HEADER = 0.5
_POINTS_PER_INCH = 72
_RENDERED_WIDER = 1.08  # at few dots per inch hinting widens text by as much

# What a box has room for, in characters and terms.
_LONGEST_NAME = 26
_LONGEST_CATEGORY = 18
_SPLIT_CHARACTERS = 30
_SPLIT_TERMS = 3
_SPLIT_CATEGORIES = 3
_LEAF_TERMS = 2  # at least, however long
_LEAF_CHARACTERS = 76
_EQUATION_LINES = 24  # of all leaves together; each has one at least
_MOST_EQUATION_LINES = 14
# A tree is drawn down to where it has so many ends, unless a depth is asked for.
_MOST_ENDS, _MOST_LEVELS = 20, 6
_ENDS = -1  # the column of the leaves; the others are levels of inner nodes


_View = TypeVar("_View", bound=TreeView)


@dataclass(frozen=True, kw_only=True)
class Box:
    """A node in the picture: what it says and where it stands.

    ``bar`` has shares with their colours, for a bar below the lines.
    """

    node: int
    lines: tuple[str, ...]
    bar: tuple[tuple[float, str], ...]
    is_end: bool
    left: float
    right: float
    middle: float

    @property
    def height(self) -> float:
        return _height(self.lines, bool(self.bar))


def readable_depth(tree: Tree) -> int | None:
    """The deepest level that a picture has room for; None: all of them."""
    if tree.n_leaves <= _MOST_ENDS and tree.max_depth <= _MOST_LEVELS:
        return None
    leaves = np.bincount(tree.depth[tree.is_leaf], minlength=tree.max_depth + 1)
    nodes = np.bincount(tree.depth)
    # The ends of a tree that is cut at a level: its leaves above, all nodes on it.
    ends = np.cumsum(leaves) - leaves + nodes
    return min(max(int(np.flatnonzero(ends <= _MOST_ENDS)[-1]), 1), _MOST_LEVELS)


def boxes_of(view: TreeView, max_depth: int | None) -> dict[int, Box]:
    """Boxes of the nodes that are drawn, parents before their children."""
    view = with_short_names(view)
    tree = view.tree
    n_leaves = leaves_below(tree)
    order = in_order(tree, max_depth)
    cut = tree.is_leaf | (tree.depth == (-1 if max_depth is None else max_depth))
    ends = {node for node in order if cut[node]}
    n_lines = min(max(_EQUATION_LINES // len(ends), 1), _MOST_EQUATION_LINES)
    lines: dict[int, tuple[str, ...]] = {}
    for node in order:
        below = "" if tree.is_leaf[node] else counted_leaves(n_leaves[node])
        if node in ends:
            lines[node] = _end_lines(view, node, below, n_lines)
        else:
            lines[node] = _split_lines(view, node)
    bars = {node: tuple(view.bar(node)) for node in lines}
    height = {node: _height(lines[node], bool(bars[node])) for node in lines}
    middle = _middles(tree, ends, height)
    column = {n: _ENDS if n in ends else int(tree.depth[n]) for n in sorted(lines)}
    width: dict[int, float] = defaultdict(float)
    for node in lines:
        text = max(text_width(line) for line in lines[node])
        width[column[node]] = max(width[column[node]], text + 2 * PADDING)
    left, position = {}, MARGIN
    for level in [*sorted(set(width) - {_ENDS}), _ENDS]:
        left[level] = position
        position += width[level] + COLUMN_GAP
    return {
        node: Box(
            node=node,
            lines=lines[node],
            bar=bars[node],
            is_end=level == _ENDS,
            left=left[level],
            right=left[level] + width[level],
            middle=middle[node],
        )
        for node, level in column.items()
    }


def _middles(tree: Tree, ends: set[int], height: dict[int, float]) -> dict[int, float]:
    """Where the boxes stand: leaves below each other, inner nodes between children.

    Inner nodes of one level are at least two rows apart, so a row of half the height of
    the tallest of them keeps these apart, too.
    """
    tallest = max((height[n] for n in height if n not in ends), default=0.0)
    below, middle = HEADER, {}
    for node in height:  # the left side before the right
        if node in ends:
            row = max(height[node], tallest / 2) + ROW_GAP
            middle[node] = below + row / 2
            below += row
    for node in sorted(set(height) - ends, reverse=True):  # children before parents
        sides = middle[int(tree.left[node])], middle[int(tree.right[node])]
        middle[node] = sum(sides) / 2
    return middle


def _height(lines: tuple[str, ...], with_bar: bool) -> float:
    bar = (BAR_HEIGHT + PADDING / 2) * with_bar
    return len(lines) * LINE_HEIGHT + bar + 2 * PADDING


def _split_lines(view: TreeView, node: int) -> tuple[str, ...]:
    wording = Wording(max_terms=_SPLIT_TERMS, max_categories=_SPLIT_CATEGORIES)
    first, *others = split_parts(view.tree, node, wording)
    lines = in_lines([f"[{node}] {first}", *others], _SPLIT_CHARACTERS)
    # The error of a node that is split on is nobody's.
    *facts, _ = view.fact_parts(node)
    return (*lines, *in_lines(facts, _SPLIT_CHARACTERS, separator=", "))


def _end_lines(view: TreeView, node: int, below: str, n_lines: int) -> tuple[str, ...]:
    """The equations as far as there is room, and what is known about the rows."""
    first, *facts = view.fact_parts(node)
    facts += [f"{below} below"] if below else []
    facts = _facts([f"[{node}] {first}", *facts])
    if view.tree.n_leaves == 1:
        facts.append(one_leaf_sentence(view.tree))
    shown = view.equations_of(node)
    if len(shown) == 1:
        named = isinstance(view, ClassView)
        return (*_equation(shown[0], node, n_lines, named), *facts)
    each = [_equation(tree, node, n_lines, named=True) for tree in shown]
    if sum(map(len, each)) <= n_lines:
        return (*(line for lines in each for line in lines), *facts)
    return (*facts, *_facts(most_moving(shown, node)))


def _equation(tree: Tree, node: int, n_lines: int, named: bool) -> list[str]:
    """An equation in so many lines, if a few terms fit there."""
    n_terms = len(tree.schema.labels)
    while True:
        wording = Wording(max_terms=n_terms, max_categories=_SPLIT_CATEGORIES)
        parts = model_parts(tree, node, wording)[0 if named else 1 :]
        lines = in_lines(parts, _LEAF_CHARACTERS)
        if len(lines) <= n_lines or n_terms <= _LEAF_TERMS:
            return lines
        n_terms = min(n_terms, len(parts)) - 1


def _facts(words: list[str]) -> list[str]:
    return in_lines(words, _LEAF_CHARACTERS, separator=", ")


def with_short_names(view: _View) -> _View:
    """The view with long names of columns, categories and classes cut in the middle."""
    tree = view.tree
    schema = tree.schema
    categories = tuple(
        _shortened(values, _LONGEST_CATEGORY) for values in schema.categories
    )
    names = _shortened(schema.names, _LONGEST_NAME)
    if isinstance(view, ClassView):
        labels = _shortened(view.classes.labels, _LONGEST_NAME)
        view = replace(view, classes=view.classes._replace(labels=labels))
        schema = replace(
            schema, target_names=tuple(map(str, labels[-tree.n_outputs :]))
        )
    schema = replace(schema, names=names, categories=categories)
    return replace(view, tree=replace(tree, schema=schema))


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


def text_width(text: str) -> float:
    """Width in inches, measured without a renderer."""
    from matplotlib.textpath import TextPath

    # A dollar sign would begin a formula.
    path = TextPath((0, 0), text.replace("$", "S"), size=FONT_SIZE)
    return _RENDERED_WIDER * float(path.get_extents().x1) / _POINTS_PER_INCH
