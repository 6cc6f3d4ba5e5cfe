"""The fitted surface over two columns of a tree, or the curve over one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.inspect.arguments import check_count
from secret_jax.inspect.plot.held import (
    Rows,
    drawn_range,
    held_values,
    numeric_column,
    slice_title,
)
from secret_jax.inspect.plot.slices import Strip, area, pieces, varied
from secret_jax.inspect.plot.style import (
    COLORS,
    FONT_SIZE,
    MIDDLE_COLOR,
    TICK_SIZE,
    check_axes,
    evenly_spaced,
    import_matplotlib,
    open_frame,
)
from secret_jax.tree.routing import predict
from secret_jax.tree.structure import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIGURE = 7, 5.2  # inches
_CURVE_POINTS = 1001  # of a curve between two jumps
_JUMP = 1e-4  # of the way between two jumps: where a curve ends before one
_MOST_POINTS = 800
_TARGETS_COLOURED = 0.01, 0.99  # quantiles of the targets that the colours reach
# Parts of the picture below which a leaf has no room for its number.
_SMALLEST_AREA, _SHORTEST_SIDE = 0.015, 0.04
_LABEL_HEIGHT = 0.985  # of the axes


def plot_partition(
    tree: Tree,
    x: Any,
    y: Any = None,
    *,
    at: Mapping[Any, Any] | None = None,
    data: tuple[Any, Any] | None = None,
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
        at the mean of the training rows and categories at the first; with ``data`` at
        the median and the most frequent of those rows.
    data : tuple (X, y), optional
        Rows to draw as points, their targets in the colours of the surface; at most
        800 of them. The axes reach as far as these rows do, otherwise 2.5 standard
        deviations from the mean.
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
    the slice: their other columns differ. Colours then cover 98 % of the targets.

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
    rows = None if data is None else Rows.of(schema, *data)
    held = held_values(schema, at or {}, rows)
    row = np.empty((1, len(held)), object)
    row[0] = held
    base = encode(schema, row)
    positions = [schema.input_columns.index(column) for column in columns]
    box = np.array([drawn_range(p, rows) for p in positions])
    axes: Axes = ax or pyplot.subplots(figsize=_FIGURE, layout="constrained")[1]
    axes.set_title(
        slice_title(schema, columns, at or {}, held, rows is not None),
        fontsize=FONT_SIZE,
        loc="left",
        parse_math=False,
    )
    axes.set_xlabel(schema.names[columns[0]], fontsize=FONT_SIZE, parse_math=False)
    axes.tick_params(labelsize=TICK_SIZE)
    if y is None:
        _draw_curve(axes, tree, base, positions[0], box[0], rows)
        return axes
    axes.set_ylabel(schema.names[columns[1]], fontsize=FONT_SIZE, parse_math=False)
    _draw_surface(axes, tree, base, positions, box, rows, resolution, ScalarMappable)
    return axes


def _draw_surface(
    axes: Any,
    tree: Tree,
    base: Table,
    positions: list[int],
    box: np.ndarray,
    rows: Rows | None,
    resolution: int,
    ScalarMappable: Any,
) -> None:
    from matplotlib.collections import LineCollection

    schema = tree.schema
    middle = (np.arange(resolution) + 0.5) / resolution
    sides = [low + (high - low) * middle for low, high in box]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    value = predict(tree, varied(base, positions, grid))
    center, scale = schema.center[positions], schema.scale[positions]
    extent = (center[:, None] + scale[:, None] * box).ravel()
    color = ScalarMappable(cmap=COLORS)
    lowest, highest = value.min(), value.max()
    if rows is not None:
        lowest, highest = np.quantile(rows.target, _TARGETS_COLOURED)
    color.set_clim(lowest, highest)
    image = value.reshape(resolution, resolution)
    axes.imshow(
        image,
        extent=tuple(extent),
        origin="lower",
        aspect="auto",
        cmap=COLORS,
        clim=color.get_clim(),
        alpha=0.85,
        interpolation="bilinear" if tree.is_soft else "nearest",
    )
    whole = np.prod(np.ptp(box, axis=1))
    drawn = list(pieces(tree, base, positions, box))
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
        chosen = evenly_spaced(len(rows.target), _MOST_POINTS)
        points = center + scale * rows.table.x[chosen][:, positions].astype(np.float64)
        axes.scatter(
            *points.T,
            c=rows.target[chosen],
            cmap=COLORS,
            clim=color.get_clim(),
            s=14,
            edgecolors="0.15",
            linewidths=0.4,
        )
    for piece in drawn:
        if tree.is_leaf[piece.node] and area(piece.corners) > _SMALLEST_AREA * whole:
            axes.text(
                *(center + scale * piece.corners.mean(axis=0)),
                f"[{piece.node}]",
                fontsize=FONT_SIZE,
                ha="center",
                va="center",
                bbox={
                    "facecolor": "white",
                    "edgecolor": "none",
                    "alpha": 0.75,
                    "pad": 1.5,
                },
            )
    axes.set(xlim=extent[:2], ylim=extent[2:])
    beyond = bool(value.min() < lowest), bool(value.max() > highest)
    ends = {(True, True): "both", (True, False): "min", (False, True): "max"}
    extend = ends.get(beyond, "neither")
    bar = axes.figure.colorbar(color, ax=axes, pad=0.02, extend=extend)
    bar.set_label(schema.target_name, fontsize=FONT_SIZE, parse_math=False)
    bar.ax.tick_params(labelsize=TICK_SIZE)


def _draw_curve(
    axes: Any,
    tree: Tree,
    base: Table,
    position: int,
    side: np.ndarray,
    rows: Rows | None,
) -> None:
    schema = tree.schema
    center, scale = schema.center[position], schema.scale[position]
    if rows is not None:
        chosen = evenly_spaced(len(rows.target), _MOST_POINTS)
        where = center + scale * rows.table.x[chosen, position].astype(np.float64)
        axes.scatter(
            where, rows.target[chosen], s=10, color="0.6", linewidths=0, alpha=0.6
        )
    # Over a strip of no height, every split is a point.
    strip = Strip(tree, base, position, side)
    for place, soft in strip.cuts:
        axes.axvline(
            center + scale * place,
            color="0.65",
            lw=0.9,
            ls="--" if soft else "-",
            zorder=0,
        )
    ends = [side[0], *sorted(place for place, soft in strip.cuts if not soft), side[1]]
    for low, high in pairwise(ends):
        # Not quite to the ends: a hard split is a jump, not a steep line.
        inside = low + (high - low) * np.linspace(_JUMP, 1 - _JUMP, _CURVE_POINTS)
        value = predict(tree, varied(base, [position], inside[:, None]))
        axes.plot(center + scale * inside, value, color=MIDDLE_COLOR, lw=2)
    top = axes.get_xaxis_transform()
    for node, low, high in strip.leaves:
        if high - low > _SHORTEST_SIDE * np.ptp(side):
            axes.text(
                center + scale * (low + high) / 2,
                _LABEL_HEIGHT,
                f"[{node}]",
                transform=top,
                fontsize=FONT_SIZE,
                color="0.35",
                ha="center",
                va="top",
            )
    axes.set_xlim(*(center + scale * side))
    axes.set_ylabel(schema.target_name, fontsize=FONT_SIZE, parse_math=False)
    open_frame(axes)
