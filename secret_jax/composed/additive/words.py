"""Curves in the units and words of the data."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.composed.additive.curve import Curve
from secret_jax.data.schema import TableSchema
from secret_jax.inspect.printing import counted, number, quoted

_WIDTH = 88
# A value is printed in steps of this share of the curve's range, a place in steps of
# this share of the column's deviation.
_STEP_OF_VALUE, _STEP_OF_PLACE = 0.01, 0.001


class CurveView(NamedTuple):
    """A curve as it is read: values that are added at places of a column.

    ``place`` are numbers, rising, between which it is straight, None of categories, and
    ``label`` the same in words. ``missing`` is None where that is no case;
    ``deviation`` is that of what is added, over the training rows.
    """

    name: str
    place: np.ndarray | None
    label: list[str]
    value: np.ndarray
    missing: float | None
    deviation: float

    @property
    def n_numbers(self) -> int:
        per_point = 1 if self.place is None else 2
        return per_point * len(self.label) + (self.missing is not None)


def curve_views(curves: Sequence[Curve], schema: TableSchema) -> list[CurveView]:
    """Curves in words, the one that adds most first."""
    views = []
    for terms, missing, deviation in curves:
        place = None
        if terms.attribute >= 0:
            categories = schema.categories[terms.attribute]
            label = [quoted(categories[int(code)]) for code in terms.at]
        else:
            scale = float(schema.scale[terms.column])
            place = terms.at * scale + schema.center[terms.column]
            place = _rounded(place, _STEP_OF_PLACE * scale)
            label = [_place_in_words(schema, terms.position, point) for point in place]
        told = missing if terms.indicator >= 0 else None
        value = terms.values[:, 0]
        name = schema.names[terms.position]
        views.append(CurveView(name, place, label, value, told, deviation))
    return sorted(views, key=lambda view: -view.deviation)


def curves_text(views: Sequence[CurveView], intercept: float, target: str) -> str:
    cost = 1 + sum(view.n_numbers for view in views)
    lines = [
        f"{quoted(target)} = {number(intercept, digits=5)} + "
        f"{counted(len(views), 'curve', 'curves')} + {quoted('rest of ' + target)}, "
        "which the tree says",
        *textwrap.wrap(
            f"curves: {counted(cost, 'number', 'numbers')} to read; what each adds at "
            "values of its column, on a straight line between them, the same beyond "
            "them; +-: deviation over the training rows",
            _WIDTH,
        ),
        "",
    ]
    for view in views:
        step = _STEP_OF_VALUE * float(np.ptp(view.value)) or 1.0
        points = [
            f"{label}: {_signed(value, step)}"
            for label, value in zip(view.label, view.value, strict=True)
        ]
        if view.missing is not None:
            points.append(f"missing: {_signed(view.missing, step)}")
        words = f"{quoted(view.name)} (+- {number(view.deviation, digits=3)}): "
        lines += textwrap.wrap(
            words + ", ".join(part.replace(" ", "\0") for part in points),
            _WIDTH,
            subsequent_indent="    ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    return "\n".join(lines).replace("\0", " ") + "\n\n"


def _place_in_words(schema: TableSchema, column: int, place: float) -> str:
    written = schema.place_written(column, round(place))
    return number(place) if written is None else written[1]


def _rounded(values: np.ndarray, step: float) -> np.ndarray:
    decimals = int(np.ceil(-np.log10(step))) if step > 0 else 0
    return np.round(values, decimals)


def _signed(value: float, step: float) -> str:
    text = number(float(_rounded(np.array(value), step)))
    return text if text.startswith("-") else f"+{text}"
