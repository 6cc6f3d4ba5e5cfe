"""The fitted surface over two columns of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.inspect.plot.paint import FAINT, Paint
from secret_jax.inspect.plot.shown import Slice
from secret_jax.inspect.plot.slices import Piece, area, pieces
from secret_jax.inspect.plot.style import FONT_SIZE

# Part of the picture below which a leaf has no room for its number.
_SMALLEST_AREA = 0.015
_LABEL_SIZE = np.array([0.07, 0.045])  # of a leaf's number, of the axes
_AVERAGED_RESOLUTION = 60  # for all rows of the mean
_FAR_RESOLUTION = 48  # of the grid whose distance from rows is measured
_VEIL = 0.65  # opacity over what is far from all rows


def draw_surface(axes: Any, picture: Slice, resolution: int) -> bool:
    """Draw a slice of two columns; whether parts of it are far from all rows."""
    from matplotlib.collections import LineCollection

    tree, box = picture.tree, picture.box
    center, scale = picture.center, picture.scale
    if picture.averaged is not None:
        resolution = min(resolution, _AVERAGED_RESOLUTION)
    value = picture.predict(_grid(box, resolution))
    extent = (center[:, None] + scale[:, None] * box).ravel()
    paint = Paint(picture.view, value, picture.rows, picture.averaged is None)
    paint.draw_image(
        axes,
        value.reshape(resolution, resolution, *value.shape[1:]),
        extent,
        smooth=tree.is_soft,
    )
    far = picture.far(_grid(box, _FAR_RESOLUTION))
    if far.any():
        _draw_far(axes, far.reshape(_FAR_RESOLUTION, -1), extent)
    drawn = []
    if picture.averaged is None:
        drawn = list(pieces(tree, picture.base, picture.positions, box))
    for hard in (True, False):
        cuts = [
            center + scale * piece.cut
            for piece in drawn
            if piece.cut is not None and (tree.gate_width[piece.node] > 0) != hard
        ]
        # A dark line on a light one is seen on all colours.
        for ink, width, line in (("w", 2.2, "-"), ("0.15", 1.0, "-" if hard else "--")):
            axes.add_collection(
                LineCollection(cuts, colors=ink, linewidths=width, linestyles=line)
            )
    if picture.rows is not None:
        chosen, at, lacks = picture.points()
        alpha = np.where(picture.elsewhere()[chosen], FAINT, 1.0)
        colors = paint.of_rows(picture.rows.target[chosen])
        for those, marker in ((~lacks, "o"), (lacks, "^")):
            if not those.any():
                continue
            axes.scatter(
                *at[those].T,
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
    _number_leaves(axes, picture, drawn)
    axes.set(xlim=extent[:2], ylim=extent[2:])
    paint.draw_key(axes)
    return bool(far.any())


def _grid(box: np.ndarray, resolution: int) -> np.ndarray:
    """Middles of the cells of a grid, shape (resolution², 2)."""
    middle = (np.arange(resolution) + 0.5) / resolution
    sides = [low + (high - low) * middle for low, high in box]
    return np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)


def _draw_far(axes: Any, far: np.ndarray, extent: np.ndarray) -> None:
    """A veil over the cells that are far from all rows."""
    veil = np.ones((*far.shape, 4))
    veil[:, :, 3] = _VEIL * far
    axes.imshow(
        veil,
        extent=tuple(extent),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        zorder=0.9,
    )


def _number_leaves(axes: Any, picture: Slice, drawn: list[Piece]) -> None:
    """Numbers of the leaves, of the largest first, where there is room for them."""
    low, span = picture.box[:, 0], np.ptp(picture.box, axis=1)
    leaves = [piece for piece in drawn if picture.tree.is_leaf[piece.node]]
    leaves.sort(key=lambda piece: -area(piece.corners))
    taken: list[np.ndarray] = []
    for piece in leaves:
        middle = piece.corners.mean(axis=0)
        at = (middle - low) / span
        if area(piece.corners) < _SMALLEST_AREA * span.prod():
            continue
        if any((np.abs(at - other) < _LABEL_SIZE).all() for other in taken):
            continue
        taken.append(at)
        axes.text(
            *(picture.center + picture.scale * middle),
            f"[{piece.node}]",
            fontsize=FONT_SIZE,
            ha="center",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.5},
        )
