"""Reading cost of a tree: the numbers that a reader has to take in."""

from __future__ import annotations

from secret_jax.inspect.equations import (
    LinearSplit,
    model_in_original_units,
    split_in_original_units,
)
from secret_jax.inspect.rounding import printed_model, rounded_split
from secret_jax.tree.structure import Tree


def reading_cost(tree: Tree, precision: int | None = None) -> int:
    """Count the numbers in the splits and in the equations of all outputs.

    Of a tree with hard splits those that `export_text` prints: one for each threshold
    and each set of categories, one for each column of a sum, constants, coefficients,
    and the numbers that columns are counted from. A gate has two more, its width and
    the shares of a row on its two sides.

    Parameters
    ----------
    precision : int, optional
        Digits of the equations: what rounds to zero is not printed.
    """
    outputs = [tree.output(which) for which in range(tree.n_outputs)]
    cost = 0
    for node in range(tree.n_nodes):
        if tree.is_leaf[node]:
            for output in outputs:
                model = model_in_original_units(output, node)
                _, terms, _ = printed_model(model, precision)
                cost += 1 + sum(1 + (term.at != 0) for term in terms)
            continue
        split = split_in_original_units(tree, node)
        cost += 1
        if isinstance(split, LinearSplit):
            n_terms = len(rounded_split(split, precision).terms)
            cost += (n_terms if n_terms > 1 else 0) + 2 * (split.width > 0)
    return cost
