"""The equation of a leaf as a table, its terms with their standard errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from secret_jax.inspect.coefficients import CENTER
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.printing import number
from secret_jax.inspect.rounding import printed_model
from secret_jax.inspect.words import term_words
from secret_jax.tree.structure import Tree

_MOST = 24  # rows of a table
_STEP = 1e-2  # of the target's standard deviation


def term_lines(tree: Tree, node: int) -> dict[str, Any]:
    """List the largest terms of a node's equation, and count those left out.

    The first line is the value of the equation at the center of the node's rows. A line
    has a name, a value in units of the target per unit of the column, its standard
    error (of several categories that of the most frequent one), and what one standard
    deviation of the column in the leaf moves the prediction by.
    """
    scale = tree.schema.target_scale
    errors = tree.standard_error[node, 0] * scale
    model = model_in_original_units(tree, node)
    level = model.intercept + sum(term.factor * term.here for term in model.terms)
    _, terms, hidden = printed_model(model, max_terms=_MOST)
    lines = [(CENTER, in_steps(level, scale), _around(errors[0]), "")]
    for term in terms:
        position = term.main.position
        error = errors[1 + position] / tree.schema.scale[position]
        moves = number(math.copysign(term.effect, term.factor), digits=2)
        lines.append((term_words(term), number(term.factor), _around(error), moves))
    return {"terms": lines, "n_hidden": len(hidden)}


def _around(error: float) -> str:
    return f"± {number(float(error), digits=2)}" if np.isfinite(error) else ""


def in_steps(value: float, target_scale: float) -> str:
    """Write a value of the target to a hundredth of its standard deviation.

    Examples
    --------
    >>> in_steps(180_761.3, 79_000.0)
    '181,000'
    """
    return number(round(value, round(-math.log10(_STEP * target_scale))))
