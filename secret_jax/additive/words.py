"""The curves in front of a tree, in the units and words of the data."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

import numpy as np

from secret_jax.inspect.printing import counted, number, quoted
from secret_jax.tree.structure import Tree

_WIDTH = 88
# A value is printed in steps of this share of the curve's range, a place in steps of
# this share of the column's deviation.
_STEP_OF_VALUE, _STEP_OF_PLACE = 0.01, 0.001


class CurveView(NamedTuple):
    """A curve as it is read.

    Attributes
    ----------
    name : str
        Of the column.
    place : ndarray of shape (n_points,), float64, or None
        Numbers, rising, between which the curve is straight; None of categories.
    label : list of str
        The places in words.
    value : ndarray of shape (n_points,), float64
        What is added there, in units of the target.
    missing : float or None
        What is added where the value is missing; None where that is no case.
    deviation : float
        Of what is added, over the training rows.
    """

    name: str
    place: np.ndarray | None
    label: list[str]
    value: np.ndarray
    missing: float | None
    deviation: float

    @property
    def n_numbers(self) -> int:
        """How many there are to read."""
        each = 1 if self.place is None else 2
        return each * len(self.label) + (self.missing is not None)


def curve_views(tree: Tree) -> list[CurveView]:
    """The curves in front of a tree, the one that adds most first.

    Returns
    -------
    list of CurveView
        Empty without an additive stage.
    """
    stage, schema = tree.additive, tree.schema
    if stage is None:
        return []
    views = []
    for curve, deviation in zip(stage.curves, stage.deviation, strict=True):
        value = curve.value * schema.target_scale
        told = curve.indicator >= 0
        missing = curve.missing * schema.target_scale if told else None
        place = None
        column = curve.input_column(schema)
        if curve.attribute >= 0:
            its = schema.categories[curve.attribute]
            label = [quoted(its[int(code)]) for code in curve.at]
        else:
            scale = float(schema.scale[curve.column])
            place = curve.at * scale + schema.center[curve.column]
            place = _rounded(place, _STEP_OF_PLACE * scale)
            label = [_place_in_words(tree, column, each) for each in place]
        name = schema.names[column]
        deviation = float(deviation * schema.target_scale)
        views.append(CurveView(name, place, label, value, missing, deviation))
    return sorted(views, key=lambda view: -view.deviation)


def curves_intercept(tree: Tree) -> float:
    """What is said before any curve is added, in units of the target."""
    assert tree.additive is not None
    return float(tree.schema.restore_target(tree.additive.intercept))


def curves_text(tree: Tree) -> str:
    """The curves in words; empty without an additive stage."""
    if tree.additive is None:
        return ""
    views, target = curve_views(tree), quoted(tree.schema.target_name)
    start = number(curves_intercept(tree), digits=5)
    cost = 1 + sum(view.n_numbers for view in views)
    lines = [
        f"{target} = {start} + {counted(len(views), 'curve', 'curves')} + "
        f"{quoted('rest of ' + tree.schema.target_name)}, which the tree says",
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
        said = [
            f"{label}: {_signed(value, step)}"
            for label, value in zip(view.label, view.value, strict=True)
        ]
        if view.missing is not None:
            said.append(f"missing: {_signed(view.missing, step)}")
        words = f"{quoted(view.name)} (+- {number(view.deviation, digits=3)}): "
        lines += textwrap.wrap(
            words + ", ".join(part.replace(" ", "\0") for part in said),
            _WIDTH,
            subsequent_indent="    ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    return "\n".join(lines).replace("\0", " ") + "\n\n"


def curves_note(tree: Tree) -> str:
    """One sentence about the curves, beside a picture of the tree; or nothing."""
    if tree.additive is None:
        return ""
    views, target = curve_views(tree), quoted(tree.schema.target_name)
    most = ", ".join(quoted(view.name) for view in views[:3])
    return (
        f"{target} is {counted(len(views), 'curve', 'curves')} ({most}"
        f"{', ...' if len(views) > 3 else ''}), drawn by plot_additive, and what the "
        "curves leave: that is what this tree says"
    )


def _place_in_words(tree: Tree, column: int, place: float) -> str:
    written = tree.schema.place_written(column, round(place))
    return number(place).replace(",", "") if written is None else written[1]


def _rounded(values: np.ndarray, step: float) -> np.ndarray:
    """Values with the decimals that a step asks for."""
    decimals = int(np.ceil(-np.log10(step))) if step > 0 else 0
    return np.round(values, decimals)


def _signed(value: float, step: float) -> str:
    text = number(float(_rounded(np.array(value), step)))
    return text if text.startswith("-") else f"+{text}"
