"""The fitted surface over two columns of a tree, or the curve over one."""

import textwrap
from collections.abc import Mapping
from typing import Any

from secret_jax.inspect.plot import picture
from secret_jax.inspect.plot.drawn import draw_categories, draw_curve, draw_surface
from secret_jax.inspect.plot.slices import Side, Slice
from secret_jax.inspect.printing import entry, quoted
from secret_jax.inspect.tree_view import Rows
from secret_jax.inspect.views import Readable, as_view

_FIGURE = 7, 5.2  # inches
_TITLE_CHARACTERS, _TITLE_LINES = 90, 3
_LONGEST, _ROOM = 16, 40  # characters of a category, and of those below a picture


def plot_partition(
    tree: Readable,
    x: Any,
    y: Any = None,
    *,
    at: Mapping[Any, Any] | None = None,
    data: tuple[Any, Any] | None = None,
    ax: Any = None,
    output: int | str | None = None,
) -> picture.Picture:
    """Draw the prediction over one or two columns, with the splits.

    Parameters
    ----------
    x, y : str or int
        Columns, by name or position: two of numbers, or without ``y`` one of numbers,
        for a curve, or of categories, the most frequent 24 of many.
    at : dict, optional
        What the other columns are held at, by name or position. By default numbers are
        at the mean of the training rows and categories at the most frequent one that
        has an indicator in the models; with ``data`` at the median and the most
        frequent of those rows.
    data : tuple (X, y), optional
        Rows to draw as points, their targets in the colours of the surface; at most
        800 of them. The axes reach as far as these rows do, otherwise as far as the
        leaves and thresholds tell of the training rows.
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
    picture.import_pyplot()
    view = as_view(tree, output)
    schema = view.tree.schema
    columns = [schema.index_of(one) for one in (x, y) if one is not None]
    if len(set(columns)) < len(columns):
        raise ValueError(f"x and y are both {x!r}; choose two columns.")
    discrete = [one for one in columns if one in schema.discrete]
    if len(columns) == 2 and discrete:
        raise ValueError(
            f"Column {schema.names[discrete[0]]!r} holds categories; draw it alone, or "
            "two columns of numbers."
        )
    if at is not None and not isinstance(at, Mapping):
        raise TypeError(f"at is {at!r}; give a dict from columns to values.")
    if data is not None and (not isinstance(data, tuple | list) or len(data) != 2):
        raise ValueError(f"data should be a pair (X, y), got a {type(data).__name__}.")
    axes = picture.new_axes(ax, _FIGURE)
    rows = None if data is None else Rows.of(view, *data)
    cut = Slice(view, columns, at or {}, rows)
    if len(columns) == 2:
        draw_surface(axes, cut)
    elif cut.sides[0].is_discrete:
        draw_categories(axes, cut)
    else:
        draw_curve(axes, cut)
    axes.tick_params(labelsize=picture.TICK_SIZE)
    for side, axis in zip(cut.sides, (axes.xaxis, axes.yaxis), strict=False):
        _label(side, axis)
    axes.set_title(_title(cut), **picture.TITLE)
    return picture.Picture.of([axes])


def _label(side: Side, axis: Any) -> None:
    """Write the name of a column beside its axis, and round numbers or categories."""
    if side.is_discrete:
        words = ["missing" if one is None else str(one) for one in side.categories]
        words = [w if len(w) <= _LONGEST else w[: _LONGEST - 1] + "…" for w in words]
        angle = picture.TURNED if sum(map(len, words)) > _ROOM else {}
        axis.set_ticks(range(len(words)), words, parse_math=False, **angle)
    else:
        picture.round_marks(axis, 7)
    axis.set_label_text(side.name, **picture.TEXT)


def _title(cut: Slice) -> str:
    schema, held = cut.tree.schema, cut.held
    own = {side.column for side in cut.sides}
    told = (cut.given | set(schema.discrete)) - own
    words = ", ".join(
        f"{quoted(schema.names[c])} = {word(held[c])}"
        for c in sorted(told)
        for word in [quoted if c in schema.discrete else entry]
    )
    title = cut.view.target + (f" where {words}" if words else "")
    if len(schema.names) > len(told) + len(own):
        level = "means" if cut.rows is None else "medians"
        title += f", the other columns at their {level}"
    return textwrap.fill(title, _TITLE_CHARACTERS, max_lines=_TITLE_LINES)
