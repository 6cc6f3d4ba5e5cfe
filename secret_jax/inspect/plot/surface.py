"""The fitted surface over two columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.inspect.plot.paint import FAINT, Paint
from secret_jax.inspect.plot.slices import MOST_POINTS, Slice
from secret_jax.inspect.plot.style import FONT_SIZE, evenly_spaced
from secret_jax.tree.routing import apply, paths_of
from secret_jax.tree.structure import SplitKind

_AVERAGED_RESOLUTION = 60  # for all rows of the mean
_ALONG = 200  # places of a column of numbers beside categories
_FAR_RESOLUTION = 48  # of the grid whose distance from rows is measured
_VEIL = 0.65  # opacity over what is far from all rows
_SMALLEST_AREA = 0.015  # of a leaf that has room for its number
_LABEL = np.array([0.07, 0.045])  # of a leaf's number, of the axes


def draw_surface(axes: Any, picture: Slice, resolution: int) -> list[str]:
    """Draw a slice of two columns; what is to be said of it."""
    from matplotlib.collections import LineCollection

    tree, rows, sides = picture.tree, picture.rows, picture.sides
    discrete = any(side.is_discrete for side in sides)
    if picture.averaged is not None:
        resolution = min(resolution, _AVERAGED_RESOLUTION)
    places = [side.places(_ALONG if discrete else resolution) for side in sides]
    value = picture.predicted(places)
    paint = Paint(picture.view, value, rows, picture.averaged is None)
    extent = (*sides[0].ends, *sides[1].ends)
    paint.draw_image(axes, value, extent, smooth=tree.is_soft and not discrete)
    notes = []
    if not discrete:
        far = picture.far([side.places(_FAR_RESOLUTION) for side in sides])
        if far.any():
            notes.append("pale: far from every row given")
            veil = np.ones((*far.T.shape, 4))
            veil[:, :, 3] = _VEIL * far.T
            image = {"origin": "lower", "aspect": "auto", "zorder": 0.9}
            axes.imshow(veil, extent=extent, interpolation="nearest", **image)
        if picture.averaged is None:
            lines = _boundaries(picture, places)
            for soft, dashes in ((False, "-"), (True, "--")):
                # A dark line on a light one is seen on all colours.
                for ink, width, style in (("w", 2.2, "-"), ("0.15", 1.0, dashes)):
                    drawn = LineCollection(
                        lines[soft], colors=ink, linewidths=width, linestyles=style
                    )
                    axes.add_collection(drawn)
            _number_leaves(axes, picture, places)
    if rows is not None:
        chosen = evenly_spaced(len(rows.target), MOST_POINTS)
        alpha = np.where(picture.elsewhere()[chosen], FAINT, 1.0)
        at = np.array([side.of_rows(rows, chosen) for side in sides])
        colors = paint.of_rows(rows.target[chosen])
        lacks = np.isnan(at).any(axis=0)
        at = np.where(np.isnan(at), [[side.ends[0]] for side in sides], at)
        for those, marker in ((~lacks, "o"), (lacks & (not discrete), "^")):
            if those.any():
                axes.scatter(
                    *at[:, those],
                    c=colors[those],
                    **paint.mapped,
                    s=14,
                    marker=marker,
                    edgecolors="0.15",
                    linewidths=0.4,
                    alpha=alpha[those],
                    clip_on=marker == "o",
                    zorder=2,
                )
    axes.set(xlim=extent[:2], ylim=extent[2:])
    paint.draw_key(axes)
    return notes


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
        beyond = table.x.astype(float) @ tree.direction[node] - tree.threshold[node]
        shape = [len(one) for one in places]
        hidden = np.ma.array(beyond, mask=~reached).reshape(shape).T
        soft = bool(tree.gate_width[node] > 0)
        lines[soft] += contour_generator(places[0], places[1], hidden).lines(0.0)
    return lines


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
