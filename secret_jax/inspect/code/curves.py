"""Curves in front of a tree, as programs write them."""

from __future__ import annotations

from typing import Any, NamedTuple

from secret_jax.inspect.code.program import plain_category
from secret_jax.inspect.rounding import rounded_output
from secret_jax.tree.structure import Tree


class WrittenCurve(NamedTuple):
    """The curve of one column, in the units of the data.

    Attributes
    ----------
    name : str
        Of the column.
    points : list of (float, float)
        Of numbers: places, rising, and what is added there; straight between them.
    categories : list of (object, float)
        Plain values, None for missing ones, and what each adds; others add nothing.
    missing : float or None
        What is added where a number is missing; None: it counts as ``missing_as``.
    missing_as : float or None
        None: numbers are never missing.
    """

    name: str
    points: list[tuple[float, float]]
    categories: list[tuple[Any, float]]
    missing: float | None
    missing_as: float | None


def written_curves(
    tree: Tree, precision: int | None
) -> tuple[float, list[WrittenCurve]]:
    """What is said first, and the curves that are added.

    Parameters
    ----------
    tree : Tree
        With an additive stage.
    precision : int or None
        Rounds what is added, as `secret_jax.inspect.text.export_text` rounds the
        constants of equations; None: all digits.
    """
    stage, schema = tree.additive, tree.schema
    assert stage is not None
    spread = schema.target_scale

    def output(value: float) -> float:
        value = float(value)
        return value if precision is None else rounded_output(value, spread, precision)

    found = []
    for curve in stage.curves:
        column = curve.input_column(schema)
        name, values = schema.names[column], [output(v) for v in curve.value * spread]
        if curve.attribute >= 0:
            its = schema.categories[curve.attribute]
            plain = [plain_category(its[int(code)], name) for code in curve.at]
            listed = list(zip(plain, values, strict=True))
            found.append(WrittenCurve(name, [], listed, None, None))
            continue
        center = float(schema.center[curve.column])
        places = (curve.at * schema.scale[curve.column] + center).tolist()
        told = curve.indicator >= 0
        found.append(
            WrittenCurve(
                name,
                list(zip(places, values, strict=True)),
                [],
                output(curve.missing * spread) if told else None,
                center if schema.allow_missing else None,
            )
        )
    return output(float(schema.restore_target(stage.intercept))), found
