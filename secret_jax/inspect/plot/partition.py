"""The fitted surface over two columns of a tree, or the curve over one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.data.schema import Role
from secret_jax.inspect.arguments import check_count
from secret_jax.inspect.class_view import percent
from secret_jax.inspect.plot.categories import CategoryGrid, draw_categories
from secret_jax.inspect.plot.curve import draw_curve
from secret_jax.inspect.plot.held import (
    Rows,
    average_title,
    column_position,
    held_values,
    slice_title,
)
from secret_jax.inspect.plot.picture import Picture
from secret_jax.inspect.plot.shown import Slice
from secret_jax.inspect.plot.style import (
    FONT_SIZE,
    TICK_SIZE,
    check_axes,
    import_matplotlib,
    round_marks,
)
from secret_jax.inspect.plot.surface import draw_surface
from secret_jax.inspect.views import Readable, as_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIGURE = 7, 5.2  # inches


def plot_partition(
    tree: Readable,
    x: Any,
    y: Any = None,
    *,
    at: Mapping[Any, Any] | None = None,
    data: tuple[Any, Any] | None = None,
    average: bool = False,
    resolution: int = 400,
    ax: Axes | None = None,
    output: int | str | None = None,
) -> Picture:
    """Draw the prediction over one or two columns, with the splits.

    Parameters
    ----------
    x, y : str or int
        Columns, by name or position. Without ``y`` a curve over ``x``; categories stand
        beside each other, the most frequent ones of many.
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
    output : int or str, optional
        Which one, of several.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If a column does not exist.

    Notes
    -----
    Lines are the splits, dashed if they are gates; numbers in brackets are those of the
    leaves, as `apply` gives them. Points lie where their two columns say, but not in
    the slice: their other columns differ, and those that reach another leaf than the
    one that is shown there are faint. Colours then cover 98 % of the targets. Of two
    classes the probability of the second is drawn, of more the likeliest, paler where
    it is less likely. Rows
    without a value stand as triangles at the lower end of its axis. Places that are
    farther from every row than 99 % of the rows are from all others are drawn pale
    (a curve dotted): there are no rows there, and the tree only guesses.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> model = SecretRegressor(random_state=0).fit(X, y)
    >>> picture = model.plot_partition("x0", "x1", at={"x2": 0.9}, data=(X, y))
    >>> picture.ax.get_xlabel(), picture.ax.get_ylabel()
    ('x0', 'x1')
    """
    pyplot, _ = import_matplotlib()
    view = as_view(tree, output)
    schema = view.tree.schema
    columns = [column_position(schema, one) for one in (x, y) if one is not None]
    if len(set(columns)) < len(columns):
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
    rows = None if data is None else Rows.of(view, *data)
    held = held_values(view.tree, at or {}, rows)
    row = np.empty((1, len(held)), object)
    row[0] = held
    given = {column_position(schema, column) for column in at or {}}
    averaged = given if average and rows is not None else None
    axes: Axes = ax or pyplot.subplots(figsize=_FIGURE, layout="constrained")[1]
    axes.tick_params(labelsize=TICK_SIZE)
    if any(schema.roles[column] is Role.DISCRETE for column in columns):
        grid = CategoryGrid(view, row, columns, rows, averaged)
        notes, n_averaged = draw_categories(axes, grid), grid.n_averaged
    else:
        positions = [schema.input_columns.index(column) for column in columns]
        picture = Slice(view, encode(schema, row), positions, rows, averaged)
        notes, n_averaged = _draw_numbers(axes, picture, resolution), picture.n_averaged
    target = view.target
    title = slice_title(target, schema, columns, at or {}, held, rows is not None)
    if average:
        title = average_title(target, schema, at or {}, n_averaged)
    title = "\n".join([title, *notes])
    axes.set_title(title, fontsize=FONT_SIZE, loc="left", parse_math=False)
    return Picture.of([axes])


def _draw_numbers(axes: Any, picture: Slice, resolution: int) -> list[str]:
    """Draw a slice of one or two columns of numbers; what is to be said of it."""
    surface = len(picture.positions) == 2
    far = (
        draw_surface(axes, picture, resolution)
        if surface
        else draw_curve(axes, picture)
    )
    round_marks(axes.xaxis, 7)
    schema = picture.tree.schema
    labels = [
        schema.names[schema.input_columns[position]] + picture.missing_words(position)
        for position in picture.positions
    ]
    axes.set_xlabel(labels[0], fontsize=FONT_SIZE, parse_math=False)
    round_marks(axes.yaxis, 7)
    if surface:
        axes.set_ylabel(labels[1], fontsize=FONT_SIZE, parse_math=False)
    notes = []
    if far:
        notes.append(f"{'pale' if surface else 'dotted'}: far from every row given")
    if picture.rows is not None:
        elsewhere = float(picture.elsewhere().mean())
        if elsewhere > 0:
            notes.append(
                f"faint points: {percent(elsewhere)} of the rows reach another leaf "
                "than the one shown"
            )
    return notes
