"""The fitted surface over two columns of a tree."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.data.encoding import encode
from secret_jax.data.rows import Table
from secret_jax.data.schema import FAR, Role
from secret_jax.inspect import picture
from secret_jax.inspect.printing import channels, entry, quoted
from secret_jax.inspect.view import Readable, Rows, View, as_view
from secret_jax.tree.routing import apply, paths_of
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.walk import left_of

_FIGURE = 7, 5.2  # inches
_TITLE_WIDTH, _TITLE_LINES = 90, 3  # characters, and lines
_RESOLUTION = 400  # places along each side
_DEVIATIONS = 2.0  # to either side of the mean, where no rows say how far to draw
_CLEARLY = 0.2  # deviations from zero to a mean that is on one side of it
_MARGIN = 0.02  # of the range of the rows, beyond them
_TARGETS_COLOURED = 0.01, 0.99  # quantiles of the targets that the colours reach
_OPACITY = 0.85
_OF_TWO = ["#ffffff", "#000000"]  # rows of two classes, on colours of a probability
_PALEST = 0.25  # strength of a colour where no class is likelier than others
_MAX_POINTS = 800
_SMALLEST_AREA = 0.015  # of a leaf that has room for its number
_LABEL = np.array([0.07, 0.045])  # of a leaf's number, of the axes


def plot_partition(
    tree: Readable,
    x: Any,
    y: Any,
    *,
    at: Mapping[Any, Any] | None = None,
    data: tuple[Any, Any] | None = None,
    ax: Any = None,
    output: int | str | None = None,
) -> picture.Picture:
    """Draw the prediction over two columns of numbers, with the splits.

    For curves over one column see `sklearn.inspection.PartialDependenceDisplay`.

    Parameters
    ----------
    x, y : str or int
        Columns, by name or position.
    at : dict, optional
        What the other columns are held at. By default numbers are at the mean of the
        training rows and categories at the most frequent one that has an indicator in
        the models.
    data : tuple (X, y), optional
        Rows to draw as points, at most 800 of them, their targets in the colours of the
        surface. The axes reach as far as these rows do.
    ax : matplotlib Axes, optional
        By default a new figure is made.
    output : int or str, optional
        Which one, of several.

    Raises
    ------
    ValueError
        If a column does not exist, holds categories, or was left out of the fit.

    Notes
    -----
    Lines are the splits, dashed if they are gates; numbers in brackets are those of the
    leaves, as `apply` gives them. Points lie where their two columns say, but not in
    the slice: their other columns differ. Colours then cover 98 % of the targets. Of
    two classes the probability of the second is drawn, of more the likeliest, paler
    where it is less likely.

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
    view = as_view(tree, output)
    tree, schema = view.tree, view.tree.schema
    columns = [schema.index_of(one) for one in (x, y)]
    if columns[0] == columns[1]:
        raise ValueError(f"x and y are both {x!r}; choose two columns.")
    for column in columns:
        if schema.roles[column] is Role.DISCRETE:
            raise ValueError(
                f"Column {schema.names[column]!r} holds categories; draw columns of "
                "numbers, and say in at= which category to draw them for."
            )
        if schema.roles[column] is Role.UNUSED:
            raise ValueError(
                f"Column {schema.names[column]!r} was left out of the fit, as it says "
                "nothing about the target: predictions are the same all along it."
            )
    if at is not None and not isinstance(at, Mapping):
        raise TypeError(f"at is {at!r}; give a dict from columns to values.")
    if data is not None and (not isinstance(data, tuple | list) or len(data) != 2):
        raise ValueError(f"data should be a pair (X, y), got a {type(data).__name__}.")
    axes = picture.new_axes(ax, _FIGURE)
    rows = None if data is None else Rows.of(view, *data)
    given = {schema.index_of(column): value for column, value in (at or {}).items()}
    held = _usual_values(tree) | given
    ends = [_ends(tree, column, rows) for column in columns]
    middles = (np.arange(_RESOLUTION) + 0.5) / _RESOLUTION
    places = [low + (high - low) * middles for low, high in ends]
    table = _grid(tree, held, columns, places)
    limits = _draw_predictions(axes, view, table, ends, rows)
    _draw_splits(axes, tree, table, places)
    _number_leaves(axes, tree, table)
    if rows is not None:
        _draw_rows(axes, view, rows, columns, limits)
    write: Any = schema.place_written
    for column, axis in zip(columns, (axes.xaxis, axes.yaxis), strict=True):
        picture.round_marks(axis, 7)
        if write(column, 0) is not None:  # a date, or a level
            axis.set_major_formatter(lambda at, _, of=column: write(of, round(at))[1])
        axis.set_label_text(schema.names[column], **picture.TEXT)
    axes.tick_params(labelsize=picture.TICK_SIZE)
    axes.set(xlim=ends[0], ylim=ends[1])
    named = sorted((given.keys() | {*schema.discrete}) - {*columns})
    conditions = []
    for column in named:
        value = quoted if column in schema.discrete else entry
        conditions.append(f"{quoted(schema.names[column])} = {value(held[column])}")
    title = view.target + " where " * bool(named) + ", ".join(conditions)
    if len(schema.names) > len(named) + 2:
        title += ", the other columns at their means"
    title = textwrap.fill(title, _TITLE_WIDTH, max_lines=_TITLE_LINES)
    axes.set_title(title, **picture.TITLE)
    return picture.Picture(axes)


def _usual_values(tree: Tree) -> dict[int, Any]:
    """Means of numbers, and the most frequent categories that have an indicator."""
    schema, usual = tree.schema, {}
    for position, column in enumerate(schema.input_columns):
        # The number comes before the indicator of its missing values.
        usual.setdefault(column, float(schema.center[position]))
    for column, categories in zip(schema.discrete, schema.categories, strict=True):
        usual[column] = categories[0]
    shares = tree.center[0, schema.n_regressors - schema.n_indicators :].tolist()
    for _, (attribute, code) in sorted(zip(shares, schema.indicators, strict=False)):
        usual[schema.discrete[attribute]] = schema.categories[attribute][code]
    return usual


def _ends(tree: Tree, column: int, rows: Rows | None) -> tuple[float, float]:
    """How far to draw a column: as far as rows, or thresholds and the usual, reach."""
    schema, position = tree.schema, tree.schema.position_of(column)
    center, scale = float(schema.center[position]), float(schema.scale[position])
    ends = np.array([-_DEVIATIONS, _DEVIATIONS])
    on = (tree.kind == SplitKind.AXIS) & (tree.attribute == position)
    ends = np.append(ends, tree.threshold[on] * tree.direction[on, position])
    values, margin = center + scale * np.array([-_CLEARLY, _CLEARLY]), 0.0
    far = center + scale * ends
    given = np.zeros(0) if rows is None else rows.columns[column].astype(np.float64)
    given = given[np.isfinite(given)]
    if len(given):
        bounds = [center + scale * bound[position] for bound in schema.saturation]
        values = far = np.clip(given, *bounds)
        margin = _MARGIN * (far.max() - far.min()) or scale
    low, high = float(far.min() - margin), float(far.max() + margin)
    low = max(low, 0.0) if values.min() >= 0 else low
    return low, min(high, 0.0) if values.max() <= 0 else high


def _grid(
    tree: Tree, held: dict[int, Any], columns: list[int], places: list[np.ndarray]
) -> Table:
    """Rows for all combinations of places, those of y one after the other."""
    schema = tree.schema
    row = np.array([[held.get(i) for i in range(len(schema.names))]], object)
    table = encode(schema, row).on_host().take(np.zeros(_RESOLUTION**2, int))
    for column, place in zip(columns, np.meshgrid(*places), strict=True):
        position = schema.position_of(column)
        low, high = (bound[position] for bound in schema.saturation)
        encoded = (place.ravel() - schema.center[position]) / schema.scale[position]
        table.x[:, position] = np.clip(encoded, low, high)
    return table


def _square(values: np.ndarray) -> np.ndarray:
    return values.reshape(_RESOLUTION, _RESOLUTION, *values.shape[1:])


def _draw_predictions(
    axes: Any, view: View, table: Table, ends: list, rows: Rows | None
) -> Any:
    """Draw predictions as cells with what explains their colours; the ends of these."""
    value = _square(view.predict(table))
    where = {"extent": (*ends[0], *ends[1]), "origin": "lower", "aspect": "auto"}
    if not view.is_scalar:
        chance, highest = 1 / len(view.names), value.max(axis=-1, keepdims=True)
        strength = _PALEST + (1 - _PALEST) * (highest - chance) / (1 - chance)
        colors = channels(view.colors)[value.argmax(axis=-1)]
        axes.imshow(1.0 + strength * (colors - 1.0), **where)
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}
        picture.draw_legend(axes, picture.with_short_names(view), **beside)
        return 0.0, 1.0
    value = value[..., -1]
    limits = value.min(), value.max()
    if view.classes and rows is not None:
        short = picture.with_short_names(view)
        picture.draw_legend(axes, short, _OF_TWO, loc="upper right")
    elif rows is not None:
        limits = np.quantile(rows.actual, _TARGETS_COLOURED).tolist()
    axes.imshow(value, cmap=picture.COLORS, clim=limits, alpha=_OPACITY, **where)
    bar = picture.draw_color_bar(axes, limits, ax=axes, pad=0.02)  # opaque
    bar.set_label(view.target, **picture.TEXT)
    bar.ax.tick_params(labelsize=picture.TICK_SIZE)
    picture.round_marks(bar.ax.yaxis, 7)
    return limits


def _draw_rows(
    axes: Any, view: View, rows: Rows, columns: list[int], limits: Any
) -> None:
    """Draw rows as points in the colours of their targets; unseen classes are grey."""
    n_rows = len(rows.actual)
    chosen = np.linspace(0, n_rows - 1, min(n_rows, _MAX_POINTS)).astype(int)
    at = [rows.columns[column][chosen].astype(np.float64) for column in columns]
    colors = rows.actual[chosen]
    style: dict[str, Any] = {"s": 14, "edgecolors": "0.15", "linewidths": 0.4}
    if view.classes:
        of_class = _OF_TWO if view.is_scalar else view.colors
        colors = channels([*of_class, "#808080"])[colors]
    else:
        style |= {"cmap": picture.COLORS, "clim": limits}
    axes.scatter(*at, c=colors, zorder=2, **style)


def _draw_splits(axes: Any, tree: Tree, table: Table, places: list[np.ndarray]) -> None:
    path = paths_of(tree, table)
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        reached, beyond = path[tree.depth[node]] == node, np.full(len(table.x), -FAR)
        for one in tree.comparisons_at(node):
            if tree.kind[one] == SplitKind.DISCRETE:
                at = np.full(len(table.x), one)
                larger = tree.larger_left[tree.node_of]
                reached = reached & left_of(tree, larger, table, at)
            else:
                projection = table.x.astype(float) @ tree.direction[one]
                beyond = np.maximum(beyond, projection - tree.threshold[one])
        if np.unique(beyond[reached] > 0).size < 2:  # all on one side
            continue
        hidden = np.ma.array(_square(beyond), mask=~_square(reached))
        dashes = "--" if tree.gate_width[node] > 0 else "-"
        # A dark line on a light one is seen on all colours.
        for ink, width, style, above in (("w", 2.2, "-", 1), ("0.15", 1, dashes, 1.1)):
            look = {"colors": ink, "linewidths": width, "linestyles": style}
            axes.contour(*places, hidden, levels=[0.0], zorder=above, **look)


def _number_leaves(axes: Any, tree: Tree, table: Table) -> None:
    """Write numbers of the leaves, of the largest first, where there is room."""
    leaf = _square(apply(tree, table))
    nodes, counts = np.unique(leaf, return_counts=True)
    drawn: list[np.ndarray] = []
    for node in nodes[np.argsort(-counts, kind="stable")].tolist():
        cells = np.argwhere(leaf == node)
        at = ((cells + 0.5) / _RESOLUTION).mean(axis=0)[::-1]
        small = len(cells) < _SMALLEST_AREA * leaf.size
        if small or any((np.abs(at - other) < _LABEL).all() for other in drawn):
            continue
        drawn.append(at)
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.5}
        style = {"fontsize": picture.FONT_SIZE, "ha": "center", "va": "center"}
        axes.text(*at, f"[{node}]", transform=axes.transAxes, bbox=box, **style)
