"""The equation of a leaf as a table, its terms with their standard errors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from secret_jax.inspect.coefficients import CENTER
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.printing import number
from secret_jax.inspect.report.words import in_steps
from secret_jax.inspect.rounding import printed_model
from secret_jax.inspect.words import term_words
from secret_jax.tree.structure import Tree

_MOST = 24  # rows of a table
_DIGITS = 2  # of errors and effects


class TermLine(NamedTuple):
    """One line of the table.

    Attributes
    ----------
    value, standard_error : str
        In units of the target per unit of the column; the error of several categories
        together is that of the most frequent one.
    moves : str
        What one standard deviation of the column in the leaf moves the prediction by.
    """

    name: str
    value: str
    standard_error: str
    moves: str


def term_lines(tree: Tree, node: int) -> tuple[list[TermLine], int]:
    """The largest terms of a node's equation, and how many are left out.

    The first line is the value of the equation at the center of the node's rows.

    Parameters
    ----------
    tree : Tree
        Of a single output.
    """
    scale = tree.schema.target_scale
    errors = tree.standard_error[node, 0] * scale
    model = model_in_original_units(tree, node)
    level = model.intercept + sum(term.factor * term.here for term in model.terms)
    _, terms, hidden = printed_model(model, max_terms=_MOST)
    lines = [TermLine(CENTER, in_steps(level, scale), _error(errors[0]), "")]
    for term in terms:
        position = term.main.position
        lines.append(
            TermLine(
                term_words(term),
                number(term.factor),
                _error(errors[1 + position] / tree.schema.scale[position]),
                number(math.copysign(term.effect, term.factor), digits=_DIGITS),
            )
        )
    return lines, len(hidden)


def _error(value: float) -> str:
    return f"± {number(float(value), digits=_DIGITS)}" if np.isfinite(value) else ""
