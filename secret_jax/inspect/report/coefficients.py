"""The coefficients of a leaf as a table, with their standard errors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.printing import number, quoted
from secret_jax.inspect.rounding import rounded_model
from secret_jax.tree.structure import Tree

_MOST = 24  # rows of a table
_DIGITS = 2  # of errors and effects


class Coefficient(NamedTuple):
    """One line of the table.

    Attributes
    ----------
    name : str
    value, standard_error : str
        In units of the target per unit of the column.
    moves : str
        What one standard deviation of the column in the leaf moves the prediction by.
    """

    name: str
    value: str
    standard_error: str
    moves: str


def coefficients(tree: Tree, node: int) -> tuple[list[Coefficient], int]:
    """The largest coefficients of a node's model, and how many are left out.

    The first line is the value of the equation at the center of the node's rows.

    Parameters
    ----------
    tree : Tree
        Of a single output.
    node : int

    Returns
    -------
    lines : list of Coefficient
    n_hidden : int
    """
    schema, errors = tree.schema, tree.standard_error[node, 0]
    model = rounded_model(model_in_original_units(tree, node))
    coefficient = np.asarray(tree.coefficient[node, 0], np.float64)
    at_center = coefficient[0] + coefficient[1:] @ tree.center[node]
    level = float(schema.restore_target(at_center))
    lines = [
        Coefficient(
            "at the middle of the leaf",
            number(round(level, round(2 - math.log10(schema.target_scale)))),
            _error(errors[0] * schema.target_scale),
            "",
        )
    ]
    for term in model.terms[:_MOST]:
        error = errors[1 + term.position] * schema.target_scale / term.spread
        moves = math.copysign(term.effect, term.factor)
        lines.append(
            Coefficient(
                term.label if term.asks != "number" else quoted(term.name),
                number(term.factor),
                _error(error),
                number(moves, digits=_DIGITS),
            )
        )
    return lines, len(model.terms[_MOST:])


def _error(value: float) -> str:
    return f"± {number(float(value), digits=_DIGITS)}" if np.isfinite(value) else ""
