"""The fitted surface over two columns of a tree, or the curve over one."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from secret_jax.data.columns import read_target
from secret_jax.data.table import Role, Table, TableSchema
from secret_jax.inspect.equations import check_count
from secret_jax.inspect.plot.slices import Strip, area, pieces, varied
from secret_jax.inspect.plot.tree import FONT_SIZE, check_axes, import_matplotlib
from secret_jax.inspect.words import number, quoted
from secret_jax.parameters import is_integer
from secret_jax.tree.routing import predict
from secret_jax.tree.structure import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CURVE = "#21918c"  # the middle of viridis
_CURVE_POINTS = 1001
_MOST_POINTS = 800
_SMALLEST_LABELLED = 0.015  # of the area


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
    columns = [_numeric_column(schema, x)]
    if y is not None:
        columns.append(_numeric_column(schema, y))
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
    rows = None if data is None else _Rows.of(schema, *data)
    held = _held(schema, at or {}, rows)
    row = np.empty((1, len(held)), object)
    row[0] = held
    base = schema.encode(row)
    positions = [schema.input_columns.index(column) for column in columns]
    box = np.array([_range(schema, p, rows) for p in positions])
    axes: Axes = ax or pyplot.subplots(figsize=(7, 5.2), layout="constrained")[1]
    axes.set_title(
        _title(schema, columns, at or {}, held, rows is not None),
        fontsize=FONT_SIZE,
        loc="left",
        parse_math=False,
    )
    axes.set_xlabel(schema.names[columns[0]], fontsize=FONT_SIZE, parse_math=False)
    axes.tick_params(labelsize=0.9 * FONT_SIZE)
    if y is None:
        _draw_curve(axes, tree, base, positions[0], box[0], rows)
        return axes
    axes.set_ylabel(schema.names[columns[1]], fontsize=FONT_SIZE, parse_math=False)
    _draw_surface(axes, tree, base, positions, box, rows, resolution, ScalarMappable)
    return axes


class _Rows(NamedTuple):
    """Rows that are drawn as points."""

    columns: list[np.ndarray]
    table: Table
    target: np.ndarray

    @classmethod
    def of(cls, schema: TableSchema, X: Any, y: Any) -> _Rows:
        columns, target = schema.columns_of(X), read_target(y)
        if target.shape != (len(columns[0]),):
            raise ValueError(
                f"data holds {len(columns[0])} rows and targets of shape "
                f"{target.shape}; one for every row is needed."
            )
        return cls(columns, schema.encode(X), target)


def _draw_surface(
    axes: Any,
    tree: Tree,
    base: Table,
    positions: list[int],
    box: np.ndarray,
    rows: _Rows | None,
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
    color = ScalarMappable(cmap="viridis")
    lowest, highest = value.min(), value.max()
    if rows is not None:
        lowest, highest = np.quantile(rows.target, [0.01, 0.99])
    color.set_clim(lowest, highest)
    image = value.reshape(resolution, resolution)
    axes.imshow(
        image,
        extent=tuple(extent),
        origin="lower",
        aspect="auto",
        cmap="viridis",
        clim=color.get_clim(),
        alpha=0.85,
        interpolation="bilinear" if tree.is_soft else "nearest",
    )
    whole = np.prod(np.ptp(box, axis=1))
    for hard in (True, False):
        cuts = [
            center + scale * piece.cut
            for piece in pieces(tree, base, positions, box)
            if piece.cut is not None and (tree.gate_width[piece.node] > 0) != hard
        ]
        # A dark line on a light one is seen on all colours.
        for ink, width, line in (("w", 2.2, "-"), ("0.15", 1.0, "-" if hard else "--")):
            axes.add_collection(
                LineCollection(cuts, colors=ink, linewidths=width, linestyles=line)
            )
    if rows is not None:
        chosen = _sample(len(rows.target))
        points = center + scale * rows.table.x[chosen][:, positions].astype(np.float64)
        axes.scatter(
            *points.T,
            c=rows.target[chosen],
            cmap="viridis",
            clim=color.get_clim(),
            s=14,
            edgecolors="0.15",
            linewidths=0.4,
        )
    for piece in pieces(tree, base, positions, box):
        if (
            tree.is_leaf[piece.node]
            and area(piece.corners) > _SMALLEST_LABELLED * whole
        ):
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
    bar.ax.tick_params(labelsize=0.9 * FONT_SIZE)


def _draw_curve(
    axes: Any,
    tree: Tree,
    base: Table,
    position: int,
    side: np.ndarray,
    rows: _Rows | None,
) -> None:
    schema = tree.schema
    center, scale = schema.center[position], schema.scale[position]
    if rows is not None:
        chosen = _sample(len(rows.target))
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
        inside = low + (high - low) * np.linspace(1e-4, 1 - 1e-4, _CURVE_POINTS)
        value = predict(tree, varied(base, [position], inside[:, None]))
        axes.plot(center + scale * inside, value, color=_CURVE, lw=2)
    top = axes.get_xaxis_transform()
    for node, low, high in strip.leaves:
        if high - low > 0.04 * np.ptp(side):
            axes.text(
                center + scale * (low + high) / 2,
                0.985,
                f"[{node}]",
                transform=top,
                fontsize=FONT_SIZE,
                color="0.35",
                ha="center",
                va="top",
            )
    axes.set_xlim(*(center + scale * side))
    axes.set_ylabel(schema.target_name, fontsize=FONT_SIZE, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)


def _numeric_column(schema: TableSchema, column: Any) -> int:
    position = _column(schema, column)
    if schema.roles[position] is Role.DISCRETE:
        numbers = [
            n
            for n, r in zip(schema.names, schema.roles, strict=True)
            if r is not Role.DISCRETE
        ]
        raise ValueError(
            f"Column {schema.names[position]!r} is discrete. Choose a column of "
            f"numbers ({', '.join(map(repr, numbers[:8]))}), and hold it at a "
            f"category: at={{{schema.names[position]!r}: ...}}."
        )
    return position


def _column(schema: TableSchema, column: Any) -> int:
    if isinstance(column, str) and column in schema.names:
        return schema.names.index(column)
    if is_integer(column) and 0 <= column < len(schema.names):
        return int(column)
    raise ValueError(
        f"There is no column {column!r}. The columns are "
        f"{', '.join(map(repr, schema.names[:8]))}"
        + (" and others." if len(schema.names) > 8 else ".")
    )


def _held(schema: TableSchema, at: Mapping[Any, Any], rows: _Rows | None) -> list[Any]:
    """What each column is held at."""
    held: list[Any] = [None] * len(schema.names)
    for position, column in enumerate(schema.input_columns):
        # The number comes before the indicator of its gaps.
        if schema.roles[column] is not Role.DISCRETE and held[column] is None:
            held[column] = float(schema.center[position])
            if rows is not None:
                held[column] = float(np.nanmedian(rows.columns[column].astype(float)))
    for attribute, column in enumerate(schema.discrete):
        held[column] = schema.categories[attribute][0]
        if rows is not None:
            values = rows.columns[column].tolist()
            held[column] = max(schema.categories[attribute], key=values.count)
    for column, value in at.items():
        held[_column(schema, column)] = value
    return held


def _range(
    schema: TableSchema, position: int, rows: _Rows | None
) -> tuple[float, float]:
    if rows is None:
        return -2.5, 2.5
    values = rows.table.x[:, position]
    low, high = float(values.min()), float(values.max())
    margin = 0.02 * (high - low) or 1.0
    return low - margin, high + margin


def _title(
    schema: TableSchema,
    columns: list[int],
    at: Mapping[Any, Any],
    held: list[Any],
    from_rows: bool,
) -> str:
    """What the other columns are held at: those given, and categories, by value."""
    told = {_column(schema, column) for column in at} | set(schema.discrete)
    told -= set(columns)
    said = [f"{quoted(schema.names[c])} = {_short(held[c])}" for c in sorted(told)]
    rest = len(schema.names) - len(told) - len(columns)
    title = schema.target_name
    if said:
        title += " where " + ", ".join(said)
    if rest:
        level = "medians" if from_rows else "means"
        title += f", the other columns at their {level}"
    return textwrap.fill(title, 90, max_lines=3)


def _short(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(float(f"{value:.4g}"))
    return quoted(value)


def _sample(n_rows: int) -> np.ndarray:
    """Rows that are drawn: all, or evenly spaced ones."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, _MOST_POINTS)).astype(int))
