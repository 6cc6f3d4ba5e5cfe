"""Plots of partial dependence and interactions."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.effects import Effect, Interaction
from secret_jax.inspect.colors import class_colors
from secret_jax.inspect.plot import picture
from secret_jax.inspect.printing import counted_rows
from secret_jax.losses.classes import class_in_words

_WIDTH, _HEIGHT = 3.6, 2.8
_MOST_ROWS = 400  # that are drawn as ticks
_MOST_WORDS = 24  # characters of categories that stand beside each other


def drawn_effects(
    curves: list[Effect], pairs: list[Interaction], rows: Rows, schema: TableSchema
) -> picture.Picture:
    """Draw a panel for each curve, on a common scale, and one for the pairs.

    Ticks below a curve, and numbers beside categories, show the rows averaged over.
    """
    n_panels = max(len(curves) + bool(pairs), 1)
    panels = picture.new_panels(n_panels, _WIDTH, _HEIGHT)
    every = [curve.mean for curve in curves]
    low = min((mean.min() for mean in every), default=0.0)
    high = max((mean.max() for mean in every), default=1.0)
    room = 0.05 * (high - low) or 1.0
    for panel, curve in zip(panels, curves, strict=False):
        _draw_curve(panel, curve, rows, schema)
        panel.set_ylim(low - 2 * room, high + room)
        panel.set_xlabel(curve.name, fontsize=picture.FONT_SIZE, parse_math=False)
        panel.set_ylabel(curve.label, fontsize=picture.FONT_SIZE, parse_math=False)
        picture.round_marks(panel.yaxis)
    if curves and curves[0].classes:
        panels[0].legend(fontsize=picture.TICK_SIZE, frameon=False)
    if pairs:
        _draw_pairs(panels[len(curves)], pairs)
    for panel in panels:
        panel.tick_params(labelsize=picture.TICK_SIZE)
        picture.open_frame(panel)
    return picture.Picture.of(panels)


def _draw_curve(panel: Any, curve: Effect, rows: Rows, schema: TableSchema) -> None:
    column = schema.names.index(curve.name)
    if curve.is_category:
        attribute = schema.discrete.index(column)
        codes, categories = rows.table.codes[:, attribute], schema.categories[attribute]
        weight = [
            counted_rows(float(rows.weight[codes == categories.index(value)].sum()))
            for value in curve.values.tolist()
        ]
        names = ["missing" if v is None else str(v) for v in curve.values]
        names = [f"{name}\n{n}" for name, n in zip(names, weight, strict=True)]
        turned = sum(map(len, names)) > 2 * _MOST_WORDS
        angle = picture.TURNED if turned else {}
        for style, mean in _lines(curve):
            panel.plot(range(len(names)), mean, "o", **style)
        panel.set_xticks(range(len(names)), names, parse_math=False, **angle)
        panel.margins(x=0.2)
        return
    for style, mean in _lines(curve):
        panel.plot(curve.values, mean, **style)
    position = schema.position_of(column)
    chosen = picture.evenly_spaced(len(rows.weight), _MOST_ROWS)
    own = rows.table.x[chosen, position].astype(np.float64)
    own = schema.center[position] + schema.scale[position] * own
    inside = (own >= curve.values.min()) & (own <= curve.values.max())
    panel.plot(
        own[inside],
        np.full(inside.sum(), 0.03),
        "|",
        color="0.4",
        alpha=0.4,
        transform=panel.get_xaxis_transform(),
    )
    picture.round_marks(panel.xaxis)


def _lines(curve: Effect) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Mean curves with their styles; of several classes each with colour and name."""
    if not curve.classes:
        yield {"color": picture.MIDDLE_COLOR}, curve.mean
        return
    colors = class_colors(len(curve.classes))
    for name, color, mean in zip(curve.classes, colors, curve.mean.T, strict=True):
        yield {"color": color, "label": class_in_words(name)}, mean


def _draw_pairs(panel: Any, pairs: list[Interaction]) -> None:
    names = [f"{pair.first} and {pair.second}" for pair in pairs]
    place = picture.name_bars(panel, names)
    panel.barh(place, [100 * pair.share for pair in pairs], color=picture.MIDDLE_COLOR)
    panel.set_xlabel("% of the variance, beyond the sum", fontsize=picture.FONT_SIZE)
