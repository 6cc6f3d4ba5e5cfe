"""One table of the equations of all classes in a node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax.inspect.arguments import MOST_BARS
from secret_jax.inspect.class_view import ClassView
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.rounding import printed_model
from secret_jax.inspect.words import term_words


class ClassTable(NamedTuple):
    """Equations of a node: terms in lines, classes in columns.

    Attributes
    ----------
    names : list of str
        Of the terms, those that move a score most first.
    constant : ndarray of shape (n_classes,), float64
    error, effect, factor : ndarray of shape (n_terms, n_classes), float64
        Standard errors, NaN where they are not known; what one standard deviation of
        the column in the node moves; coefficients, zero where there is no such term.
    n_hidden : int
        Terms that are left out.
    """

    names: list[str]
    classes: list[str]
    constant: np.ndarray
    error: np.ndarray
    effect: np.ndarray
    factor: np.ndarray
    n_hidden: int


def class_table(
    view: ClassView, node: int, max_terms: int | None = MOST_BARS
) -> ClassTable:
    """Put the equations of the classes that are shown in a node side by side."""
    equations = view.equations_of(node)
    n_classes = len(equations)
    lines: dict[str, np.ndarray] = {}
    constant = np.zeros(n_classes)
    for place, tree in enumerate(equations):
        model = model_in_original_units(tree, node)
        constant[place], terms, _ = printed_model(model, merged=False)
        for term in terms:
            position = term.main.position
            error = tree.standard_error[node, 0, 1 + position]
            error = error / tree.schema.scale[position]
            cells = lines.setdefault(term_words(term), np.zeros((3, n_classes)))
            effect = np.copysign(term.effect, term.factor)
            cells[:, place] = effect, term.factor, error
    order = sorted(lines, key=lambda name: -np.abs(lines[name][0]).max())
    shown = order[:max_terms]
    cells = np.array([lines[name] for name in shown]).reshape(-1, 3, n_classes)
    return ClassTable(
        names=shown,
        classes=[view.names[which] for which in view.shown_in(node)],
        constant=constant,
        effect=cells[:, 0],
        factor=cells[:, 1],
        error=cells[:, 2],
        n_hidden=len(order) - len(shown),
    )
