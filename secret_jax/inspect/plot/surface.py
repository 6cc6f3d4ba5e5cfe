"""The fitted surface over two columns, its colours, and the rows on it."""

from typing import Any

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.schema import FAR
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.colors import channels
from secret_jax.inspect.equations import comparisons_at
from secret_jax.inspect.plot.layout import with_short_names
from secret_jax.inspect.plot.picture import (
    BESIDE,
    COLORS,
    FONT_SIZE,
    TEXT,
    TICK_SIZE,
    draw_legend,
    evenly_spaced,
    round_marks,
)
from secret_jax.inspect.plot.slices import MOST_POINTS, Slice
from secret_jax.tree.routing import apply, paths_of
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.walk import left_of_splits

_TARGETS_COLOURED = 0.01, 0.99  # quantiles of the targets that the colours reach
_OPACITY = 0.85
_OF_TWO = ["#ffffff", "#000000"]  # rows of two classes, on colours of a probability
_STRANGER = "#808080"  # a row of a class that training has not seen
_PALEST = 0.25  # strength of a colour where no class is likelier than others
_RESOLUTION = 400  # places along each side
_SMALLEST_AREA = 0.015  # of a leaf that has room for its number
_LABEL = np.array([0.07, 0.045])  # of a leaf's number, of the axes


def draw_surface(axes: Any, picture: Slice) -> None:
    """Draw a slice of two columns of numbers."""
    from matplotlib.collections import LineCollection

    sides = picture.sides
    places = [side.places(_RESOLUTION) for side in sides]
    extent = (*sides[0].ends, *sides[1].ends)
    limits = _draw_predictions(axes, picture, places, extent)
    lines = _boundaries(picture, places)
    for soft, dashes in ((False, "-"), (True, "--")):
        # A dark line on a light one is seen on all colours.
        for ink, width, style in (("w", 2.2, "-"), ("0.15", 1.0, dashes)):
            look = {"colors": ink, "linewidths": width, "linestyles": style}
            axes.add_collection(LineCollection(lines[soft], **look))
    _number_leaves(axes, picture, places)
    if picture.rows is not None:
        _draw_rows(axes, picture, limits)
    axes.set(xlim=extent[:2], ylim=extent[2:])


def _draw_predictions(
    axes: Any, picture: Slice, places: list[np.ndarray], extent: Any
) -> tuple[float, float]:
    """Draw predictions as cells with what explains their colours; the ends of these.

    Numbers, and the probability of the second of two classes, have a scale of colours;
    several classes have a colour each, paler where the likeliest is less likely.
    """
    view, value = picture.view, np.swapaxes(picture.predicted(places), 0, 1)
    where = {"extent": extent, "origin": "lower", "aspect": "auto"}
    if isinstance(view, ClassView):
        if not view.of_two:
            axes.imshow(_class_image(view, value), **where)
            draw_legend(axes, with_short_names(view), **BESIDE)
            return 0.0, 1.0
        value = value[..., 1]
        if picture.rows is not None:
            draw_legend(axes, with_short_names(view), _OF_TWO, loc="upper right")
    from matplotlib.cm import ScalarMappable

    limits = float(value.min()), float(value.max())
    if picture.rows is not None and not isinstance(view, ClassView):
        low, high = np.quantile(picture.rows.actual, _TARGETS_COLOURED).tolist()
        limits = low, high
    axes.imshow(value, cmap=COLORS, clim=limits, alpha=_OPACITY, **where)
    color = ScalarMappable(cmap=COLORS)  # opaque
    color.set_clim(*limits)
    bar = axes.figure.colorbar(color, ax=axes, pad=0.02)
    bar.set_label(view.target, **TEXT)
    bar.ax.tick_params(labelsize=TICK_SIZE)
    round_marks(bar.ax.yaxis, 7)
    return limits


def _draw_rows(axes: Any, picture: Slice, limits: tuple[float, float]) -> None:
    """Draw rows as points."""
    rows, view = picture.rows, picture.view
    assert rows is not None
    chosen = evenly_spaced(len(rows.actual), MOST_POINTS)
    at = [side.of_rows(rows, chosen) for side in picture.sides]
    colors = rows.actual[chosen]
    style: dict[str, Any] = {"s": 14, "edgecolors": "0.15", "linewidths": 0.4}
    if isinstance(view, ClassView):
        of_class = _OF_TWO if view.of_two else view.colors
        colors = channels([*of_class, _STRANGER])[colors]
    else:
        style |= {"cmap": COLORS, "vmin": limits[0], "vmax": limits[1]}
    axes.scatter(*at, c=colors, **style, zorder=2)


def _class_image(view: ClassView, probability: np.ndarray) -> np.ndarray:
    """Colours of the likeliest classes, the paler the less likely, (..., 3)."""
    n_classes = len(view.names)
    sure = (probability.max(axis=-1) - 1 / n_classes) / (1 - 1 / n_classes)
    colors = channels(view.colors)
    strength = _PALEST + (1 - _PALEST) * sure[..., None]
    return 1.0 + strength * (colors[probability.argmax(axis=-1)] - 1.0)


def _boundaries(picture: Slice, places: list[np.ndarray]) -> dict[bool, list]:
    """Find the lines of the splits, those of hard splits and of gates."""
    from contourpy import contour_generator

    tree, table = picture.tree, picture.table(places)
    path = paths_of(tree, table)
    lines: dict[bool, list] = {False: [], True: []}
    inner = ~tree.is_leaf & (tree.kind != SplitKind.DISCRETE)
    for node in np.flatnonzero(inner).tolist():
        reached = path[tree.depth[node]] == node
        if not reached.any():
            continue
        beyond, reached = _beyond(picture.tree, table, node, reached)
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


def _number_leaves(axes: Any, picture: Slice, places: list[np.ndarray]) -> None:
    """Write numbers of the leaves, of the largest first, where there is room."""
    leaf = apply(picture.tree, picture.table(places))
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
        style = {"fontsize": FONT_SIZE, "ha": "center", "va": "center", "bbox": box}
        axes.text(*at, f"[{node}]", transform=axes.transAxes, **style)
