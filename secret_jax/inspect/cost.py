"""What a tree costs to read: the numbers that a reader has to take in."""

from __future__ import annotations

from typing import NamedTuple

from secret_jax.inspect.equations import (
    LinearSplit,
    model_in_original_units,
    split_in_original_units,
)
from secret_jax.inspect.rounding import printed_model, rounded_split
from secret_jax.tree.structure import Tree


class ReadingCost(NamedTuple):
    """Numbers in the printed tree.

    Attributes
    ----------
    splits : int
        One for each threshold and each set of categories, one for each column of a sum,
        and two for each gate: its width, and the shares of a row on its two sides.
    leaves : int
        Constants, coefficients, and the numbers that columns are counted from.
    """

    splits: int
    leaves: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.splits + self.leaves


def reading_cost(tree: Tree, precision: int | None = None) -> ReadingCost:
    """How many numbers there are to read in the splits and the leaves.

    Of a tree with hard splits those that `export_text` prints.

    Parameters
    ----------
    tree : Tree
        Of a single output.
    precision : int, optional
        Digits of the equations: what rounds to zero is not printed.
    """
    splits = leaves = 0
    for node in range(tree.n_nodes):
        if tree.is_leaf[node]:
            model = model_in_original_units(tree, node)
            _, terms, _ = printed_model(model, precision)
            leaves += 1 + sum(1 + (term.at != 0) for term in terms)
            continue
        split = split_in_original_units(tree, node)
        splits += 1
        if isinstance(split, LinearSplit):
            n_terms = len(rounded_split(split, precision).terms)
            splits += (n_terms if n_terms > 1 else 0) + 2 * (split.width > 0)
    return ReadingCost(splits, leaves)
