"""Slices as they are drawn: a surface, a curve, or marks over categories."""

from itertools import pairwise
from typing import Any

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.schema import FAR
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.colors import channels
from secret_jax.inspect.equations import comparisons_at
from secret_jax.inspect.plot import picture
from secret_jax.inspect.plot.layout import with_short_names
from secret_jax.inspect.plot.slices import MOST_POINTS, Slice
from secret_jax.inspect.tree_view import TreeView
from secret_jax.tree.routing import apply, paths_of
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import way_to
from secret_jax.tree.walk import left_of_splits

_TARGETS_COLOURED = 0.01, 0.99  # quantiles of the targets that the colours reach
_OPACITY = 0.85
_OF_TWO = ["#ffffff", "#000000"]  # rows of two classes, on colours of a probability
_STRANGER = "#808080"  # a row of a class that training has not seen
_PALEST = 0.25  # strength of a colour where no class is likelier than others
_RESOLUTION = 400  # places along each side
_SMALLEST_AREA = 0.015  # of a leaf that has room for its number
_LABEL = np.array([0.07, 0.045])  # of a leaf's number, of the axes
_POINTS = 1001
_NARROWEST = 0.07  # of the axes: an interval that has room for its leaf's number


def draw_surface(axes: Any, cut: Slice) -> None:
    """Draw a slice of two columns of numbers."""
    from matplotlib.collections import LineCollection

    sides = cut.sides
    places = [side.places(_RESOLUTION) for side in sides]
    extent = (*sides[0].ends, *sides[1].ends)
    limits = _draw_predictions(axes, cut, places, extent)
    lines = _boundaries(cut, places)
    for soft, dashes in ((False, "-"), (True, "--")):
        # A dark line on a light one is seen on all colours.
        for ink, width, style in (("w", 2.2, "-"), ("0.15", 1.0, dashes)):
            look = {"colors": ink, "linewidths": width, "linestyles": style}
            axes.add_collection(LineCollection(lines[soft], **look))
    _number_leaves(axes, cut, places)
    if cut.rows is not None:
        _draw_points(axes, cut, limits)
    axes.set(xlim=extent[:2], ylim=extent[2:])


def _draw_predictions(
    axes: Any, cut: Slice, places: list[np.ndarray], extent: Any
) -> tuple[float, float]:
    """Draw predictions as cells with what explains their colours; the ends of these.

    Numbers, and the probability of the second of two classes, have a scale of colours;
    several classes have a colour each, paler where the likeliest is less likely.
    """
    view, value = cut.view, np.swapaxes(cut.predicted(places), 0, 1)
    where = {"extent": extent, "origin": "lower", "aspect": "auto"}
    if isinstance(view, ClassView):
        if not view.of_two:
            axes.imshow(_class_image(view, value), **where)
            picture.draw_legend(axes, with_short_names(view), **picture.BESIDE)
            return 0.0, 1.0
        value = value[..., 1]
        if cut.rows is not None:
            short = with_short_names(view)
            picture.draw_legend(axes, short, _OF_TWO, loc="upper right")
    from matplotlib.cm import ScalarMappable

    limits = float(value.min()), float(value.max())
    if cut.rows is not None and not isinstance(view, ClassView):
        low, high = np.quantile(cut.rows.actual, _TARGETS_COLOURED).tolist()
        limits = low, high
    axes.imshow(value, cmap=picture.COLORS, clim=limits, alpha=_OPACITY, **where)
    color = ScalarMappable(cmap=picture.COLORS)  # opaque
    color.set_clim(*limits)
    bar = axes.figure.colorbar(color, ax=axes, pad=0.02)
    bar.set_label(view.target, **picture.TEXT)
    bar.ax.tick_params(labelsize=picture.TICK_SIZE)
    picture.round_marks(bar.ax.yaxis, 7)
    return limits


def _draw_points(axes: Any, cut: Slice, limits: tuple[float, float]) -> None:
    """Draw rows as points."""
    rows, view = cut.rows, cut.view
    assert rows is not None
    chosen = picture.evenly_spaced(len(rows.actual), MOST_POINTS)
    at = [side.of_rows(rows, chosen) for side in cut.sides]
    colors = rows.actual[chosen]
    style: dict[str, Any] = {"s": 14, "edgecolors": "0.15", "linewidths": 0.4}
    if isinstance(view, ClassView):
        of_class = _OF_TWO if view.of_two else view.colors
        colors = channels([*of_class, _STRANGER])[colors]
    else:
        style |= {"cmap": picture.COLORS, "vmin": limits[0], "vmax": limits[1]}
    axes.scatter(*at, c=colors, **style, zorder=2)


def _class_image(view: ClassView, probability: np.ndarray) -> np.ndarray:
    """Colours of the likeliest classes, the paler the less likely, (..., 3)."""
    n_classes = len(view.names)
    sure = (probability.max(axis=-1) - 1 / n_classes) / (1 - 1 / n_classes)
    colors = channels(view.colors)
    strength = _PALEST + (1 - _PALEST) * sure[..., None]
    return 1.0 + strength * (colors[probability.argmax(axis=-1)] - 1.0)


def _boundaries(cut: Slice, places: list[np.ndarray]) -> dict[bool, list]:
    """Find the lines of the splits, those of hard splits and of gates."""
    from contourpy import contour_generator

    tree, table = cut.tree, cut.table(places)
    path = paths_of(tree, table)
    lines: dict[bool, list] = {False: [], True: []}
    inner = ~tree.is_leaf & (tree.kind != SplitKind.DISCRETE)
    for node in np.flatnonzero(inner).tolist():
        reached = path[tree.depth[node]] == node
        if not reached.any():
            continue
        beyond, reached = _beyond(cut.tree, table, node, reached)
        shape = [len(one) for one in places]
        hidden = np.ma.array(beyond, mask=~reached).reshape(shape).T
        soft = bool(tree.gate_width[node] > 0)
        lines[soft] += contour_generator(places[0], places[1], hidden).lines(0.0)
    return lines


def _beyond(
    tree: Tree, table: Table, node: int, reached: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How far points lie beyond a split, those of a conjunction's categories alone."""
    beyond = [np.full(len(table.x), -FAR)]
    for part in comparisons_at(tree, node):
        if part.kind[node] == SplitKind.DISCRETE:
            at = np.full(len(table.x), node)
            reached = reached & left_of_splits(part, table, at)
        else:
            projection = table.x.astype(float) @ part.direction[node]
            beyond.append(projection - part.threshold[node])
    return np.max(beyond, axis=0), reached


def _number_leaves(axes: Any, cut: Slice, places: list[np.ndarray]) -> None:
    """Write numbers of the leaves, of the largest first, where there is room."""
    leaf = apply(cut.tree, cut.table(places))
    index = np.indices([len(one) for one in places]).reshape(2, -1)
    sizes = np.array([[len(one)] for one in places])
    nodes, counts = np.unique(leaf, return_counts=True)
    taken: list[np.ndarray] = []
    for node in nodes[np.argsort(-counts, kind="stable")].tolist():
        cells = index[:, leaf == node]
        at = ((cells + 0.5) / sizes).mean(axis=1)
        small = cells.shape[1] < _SMALLEST_AREA * leaf.size
        if small or any((np.abs(at - other) < _LABEL).all() for other in taken):
            continue
        taken.append(at)
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.5}
        style = {"fontsize": picture.FONT_SIZE, "ha": "center", "va": "center"}
        axes.text(*at, f"[{node}]", transform=axes.transAxes, bbox=box, **style)


def draw_curve(axes: Any, cut: Slice) -> None:
    """Draw a slice of one column of numbers."""
    (side,), view, tree = cut.sides, cut.view, cut.tree
    ticks = isinstance(view, ClassView) and cut.rows is not None
    if cut.rows is not None:
        _draw_rows(axes, cut)
    place = side.places(_POINTS)
    value, leaf = cut.predicted([place]), apply(tree, cut.table([place]))
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
    axes.set_ylabel(view.target, **picture.TEXT)
    picture.round_marks(axes.yaxis, 7)
    if isinstance(view, ClassView):
        axes.set_ylim(0.0, None)
        if not view.of_two:
            picture.draw_legend(axes, with_short_names(view), **picture.BESIDE)
    picture.open_frame(axes)


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
            style = {"fontsize": picture.FONT_SIZE, "color": "0.35", "ha": "center"}
            style |= {"transform": axes.get_xaxis_transform(), "va": "top"}
            axes.text(place[first:last].mean(), height, f"[{leaf[first]}]", **style)


def _draw_rows(axes: Any, cut: Slice) -> None:
    """Draw rows at their targets, or classes as ticks along the edges."""
    (side,), view, rows = cut.sides, cut.view, cut.rows
    assert rows is not None
    chosen = picture.evenly_spaced(len(rows.actual), MOST_POINTS)
    at, target = side.of_rows(rows, chosen), rows.actual[chosen]
    if not isinstance(view, ClassView):
        axes.scatter(at, target, s=12, color="0.6", alpha=0.6, linewidths=0)
        return
    known = target >= 0  # of a class that training has seen
    at, target = at[known], target[known]
    # Of two classes the second along the upper edge.
    height = np.where(view.of_two & (target == 1), 0.97, 0.015)
    color = np.array([picture.DARK_COLOR] * 2 if view.of_two else view.colors)[target]
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
    axes.plot(place, one, color=picture.MIDDLE_COLOR, lw=2)


def draw_categories(axes: Any, cut: Slice) -> None:
    """Draw a bar of probabilities for each category, or a mark of the number."""
    (side,), view, rows = cut.sides, cut.view, cut.rows
    place = side.places(0)
    value = cut.predicted([place])
    if isinstance(view, ClassView):
        below = np.zeros(len(place))
        for share, color in zip(value.T, view.colors, strict=True):
            axes.bar(place, share, 0.7, bottom=below, color=color)
            below = below + share
        axes.set_ylim(0, 1)
        axes.set_ylabel("probability", fontsize=picture.FONT_SIZE)
        picture.draw_legend(axes, with_short_names(view), **picture.BESIDE)
    else:
        if rows is not None:
            _draw_rows(axes, cut)
        axes.hlines(value, place - 0.4, place + 0.4, color=picture.MIDDLE_COLOR, lw=2.5)
        axes.set_ylabel(view.target, **picture.TEXT)
        picture.round_marks(axes.yaxis, 7)
    axes.set_xlim(*side.ends)
    picture.open_frame(axes)
