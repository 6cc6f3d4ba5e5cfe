"""The fitted surface over two columns of a tree, or the curve over one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.inspect.arguments import check_count
from secret_jax.inspect.plot.held import (
    Rows,
    average_title,
    column_position,
    held_values,
    numeric_column,
    slice_title,
)
from secret_jax.inspect.plot.shown import Slice
from secret_jax.inspect.plot.slices import Piece, Strip, area, pieces
from secret_jax.inspect.plot.style import (
    COLORS,
    FONT_SIZE,
    MIDDLE_COLOR,
    TICK_SIZE,
    check_axes,
    import_matplotlib,
    open_frame,
    round_marks,
)
from secret_jax.tree.structure import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIGURE = 7, 5.2  # inches
_CURVE_POINTS = 1001  # of a curve between two jumps
_JUMP = 1e-4  # of the way between two jumps: where a curve ends before one
_TARGETS_COLOURED = 0.01, 0.99  # quantiles of the targets that the colours reach
# Parts of the picture below which a leaf has no room for its number.
_SMALLEST_AREA, _SHORTEST_SIDE = 0.015, 0.04
_LABEL_HEIGHT = 0.985  # of the axes
_LABEL_SIZE = np.array([0.07, 0.045])  # of a leaf's number, of the axes
_AVERAGED_RESOLUTION, _AVERAGED_POINTS = 60, 201  # each for all rows of the mean
# Of the grid, and of the points of a curve, whose distance from rows is measured.
_FAR_RESOLUTION, _FAR_STRIDE = 48, 25
_VEIL = 0.65  # opacity over what is far from all rows


def plot_partition(
    tree: Tree,
    x: Any,
    y: Any = None,
    *,
    at: Mapping[Any, Any] | None = None,
    data: tuple[Any, Any] | None = None,
    average: bool = False,
    resolution: int = 400,
    ax: Axes | None = None,
) -> Axes:
    """Draw the prediction over one or two columns, with the splits.

    Parameters
    ----------
    tree : Tree
    x, y : str or int
        Columns of numbers, by name or position. Without ``y`` a curve over ``x``.
    at : dict, optional
        What the other columns are held at, by name or position. By default numbers are
        at the mean of the training rows and categories at the most frequent one that
        has an indicator in the models; with ``data`` at the median and the most
        frequent of those rows.
    data : tuple (X, y), optional
        Rows to draw as points, their targets in the colours of the surface; at most
        800 of them. The axes reach as far as these rows do, otherwise as far as the
        leaves and thresholds tell of the training rows.
    average : bool, default=False
        Draw the mean of the predictions for up to 200 rows of ``data`` whose other
        columns are as they are, or as ``at`` says (partial dependence); splits and
        leaves, which differ from row to row, are not drawn.
    resolution : int
        Points of the surface along each side.
    ax : matplotlib Axes, optional
        By default a new figure is made.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If a column does not exist or does not hold numbers.

    Notes
    -----
    Lines are the splits, dashed if they are gates; numbers in brackets are those of the
    leaves, as `apply` gives them. Points lie where their two columns say, but not in
    the slice: their other columns differ. Colours then cover 98 % of the targets. Rows
    without a value stand as triangles at the lower end of its axis. Places that are
    farther from every row than 99 % of the rows are from all others are drawn pale
    (a curve dotted): there are no rows there, and the tree only guesses.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> model = SecretRegressor(random_state=0).fit(X, y)
    >>> ax = model.plot_partition("x0", "x1", at={"x2": 0.9}, data=(X, y))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'x1')
    """
    pyplot, ScalarMappable = import_matplotlib()
    schema = tree.schema
    columns = [numeric_column(schema, x)]
    if y is not None:
        columns.append(numeric_column(schema, y))
        if columns[0] == columns[1]:
            raise ValueError(f"x and y are both {x!r}; choose two columns.")
    check_count("resolution", resolution)
    if resolution is None or resolution < 2:
        raise ValueError(f"resolution is {resolution}; at least 2 points are needed.")
    if at is not None and not isinstance(at, Mapping):
        raise TypeError(f"at is {at!r}; give a dict from columns to values.")
    if data is not None and (not isinstance(data, tuple | list) or len(data) != 2):
        raise ValueError(f"data should be a pair (X, y), got a {type(data).__name__}.")
    if ax is not None:
        check_axes(ax)
    if average and data is None:
        raise ValueError("average=True takes the mean over rows: give data=(X, y).")
    rows = None if data is None else Rows.of(schema, *data)
    held = held_values(tree, at or {}, rows)
    row = np.empty((1, len(held)), object)
    row[0] = held
    base = encode(schema, row)
    positions = [schema.input_columns.index(column) for column in columns]
    given = {column_position(schema, column) for column in at or {}}
    picture = Slice(
        tree, base, positions, rows, given if average and rows is not None else None
    )
    axes: Axes = ax or pyplot.subplots(figsize=_FIGURE, layout="constrained")[1]
    axes.tick_params(labelsize=TICK_SIZE)
    if y is None:
        far = _draw_curve(axes, picture)
    else:
        far = _draw_surface(axes, picture, resolution, ScalarMappable)
    round_marks(axes.xaxis, 7)
    round_marks(axes.yaxis, 7)
    title = slice_title(schema, columns, at or {}, held, rows is not None)
    if average:
        title = average_title(schema, at or {}, picture.n_averaged)
    if far:
        title += f"\n{'pale' if y is not None else 'dotted'}: far from every row given"
    axes.set_title(title, fontsize=FONT_SIZE, loc="left", parse_math=False)
    labels = [
        schema.names[column] + picture.missing_words(position)
        for column, position in zip(columns, positions, strict=True)
    ]
    axes.set_xlabel(labels[0], fontsize=FONT_SIZE, parse_math=False)
    if y is not None:
        axes.set_ylabel(labels[1], fontsize=FONT_SIZE, parse_math=False)
    return axes


def _draw_surface(
    axes: Any, picture: Slice, resolution: int, ScalarMappable: Any
) -> bool:
    """Draw a slice of two columns; whether parts of it are far from all rows."""
    from matplotlib.collections import LineCollection

    tree, box, rows = picture.tree, picture.box, picture.rows
    schema, center, scale = tree.schema, picture.center, picture.scale
    if picture.averaged is not None:
        resolution = min(resolution, _AVERAGED_RESOLUTION)
    value = picture.predict(_grid(box, resolution))
    extent = (center[:, None] + scale[:, None] * box).ravel()
    color = ScalarMappable(cmap=COLORS)
    lowest, highest = value.min(), value.max()
    if rows is not None and picture.averaged is None:
        lowest, highest = np.quantile(rows.target, _TARGETS_COLOURED)
    color.set_clim(lowest, highest)
    axes.imshow(
        value.reshape(resolution, resolution),
        extent=tuple(extent),
        origin="lower",
        aspect="auto",
        cmap=COLORS,
        clim=color.get_clim(),
        alpha=0.85,
        interpolation="bilinear" if tree.is_soft else "nearest",
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
    if rows is not None:
        chosen, at, lacks = picture.points()
        for those, marker in ((~lacks, "o"), (lacks, "^")):
            if not those.any():
                continue
            axes.scatter(
                *at[those].T,
                c=rows.target[chosen][those],
                cmap=COLORS,
                clim=color.get_clim(),
                s=14,
                marker=marker,
                edgecolors="0.15",
                linewidths=0.4,
                clip_on=marker == "o",
                zorder=2,
            )
    _number_leaves(axes, picture, drawn)
    axes.set(xlim=extent[:2], ylim=extent[2:])
    beyond = bool(value.min() < lowest), bool(value.max() > highest)
    ends = {(True, True): "both", (True, False): "min", (False, True): "max"}
    extend = ends.get(beyond, "neither")
    bar = axes.figure.colorbar(color, ax=axes, pad=0.02, extend=extend)
    bar.set_label(schema.target_name, fontsize=FONT_SIZE, parse_math=False)
    bar.ax.tick_params(labelsize=TICK_SIZE)
    round_marks(bar.ax.yaxis, 7)
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


def _draw_curve(axes: Any, picture: Slice) -> bool:
    """Draw a slice of one column; whether parts of it are far from all rows."""
    tree, rows, side = picture.tree, picture.rows, picture.box[0]
    center, scale = picture.center[0], picture.scale[0]
    if rows is not None:
        chosen, at, lacks = picture.points()
        for those, marker in ((~lacks, "o"), (lacks, "^")):
            if not those.any():
                continue
            axes.scatter(
                at[those, 0],
                rows.target[chosen][those],
                s=10 if marker == "o" else 16,
                marker=marker,
                color="0.6",
                linewidths=0,
                alpha=0.6,
                clip_on=marker == "o",
            )
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
                shown = np.where(hidden, np.nan, value)
                axes.plot(
                    center + scale * inside, shown, line, color=MIDDLE_COLOR, lw=2
                )
    top = axes.get_xaxis_transform()
    reached = -np.inf
    for node, low, high in sorted(strip.leaves, key=lambda leaf: leaf[1]):
        middle = (low + high) / 2
        room = _LABEL_SIZE[0] * np.ptp(side)
        if (
            picture.averaged is None
            and high - low > _SHORTEST_SIDE * np.ptp(side)
            and middle - reached > room
        ):
            reached = middle
            axes.text(
                center + scale * middle,
                _LABEL_HEIGHT,
                f"[{node}]",
                transform=top,
                fontsize=FONT_SIZE,
                color="0.35",
                ha="center",
                va="top",
            )
    axes.set_xlim(*(center + scale * side))
    axes.set_ylabel(tree.schema.target_name, fontsize=FONT_SIZE, parse_math=False)
    open_frame(axes)
    return any_far
