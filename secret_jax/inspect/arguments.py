"""Checks of the options of the functions in this folder."""

from dataclasses import dataclass
from typing import Any

from secret_jax.runtime.values import is_integer, is_real
from secret_jax.tree.structure import Tree

DEFAULT_PRECISION = 3
_MOST_DIGITS = 100  # a float has 17
MOST_CATEGORIES = 8  # of a list, so that a node takes a few lines


@dataclass(frozen=True, kw_only=True)
class Wording:
    """How splits and equations are written.

    ``precision`` are significant digits relative to the effect (None: 3), ``max_terms``
    the most terms of a sum (None: all). Longer lists of categories are replaced by the
    other side's, if that is short, or abbreviated (None: never).
    """

    precision: int | None = None
    max_terms: int | None = None
    max_categories: int | None = MOST_CATEGORIES

    def __post_init__(self) -> None:
        check_counts(max_terms=self.max_terms, max_categories=self.max_categories)
        checked_precision(self.precision)


def checked_precision(precision: int | None) -> int:
    """Check significant digits relative to the effect; None stands for the default."""
    if precision is None:
        return DEFAULT_PRECISION
    check_counts(precision=precision)
    if not 1 <= precision <= _MOST_DIGITS:
        raise ValueError(
            f"precision is {precision}; 1 to {_MOST_DIGITS} digits are possible."
        )
    return int(precision)


def check_counts(**options: Any) -> None:
    """Refuse options that are neither None nor integers of at least 0."""
    for name, value in options.items():
        if value is not None and not is_integer(value):
            raise TypeError(f"{name} is {value!r}; give an int or None.")
        if value is not None and value < 0:
            raise ValueError(f"{name} is {value}; it cannot be negative.")


def check_coverage(coverage: Any) -> None:
    """Refuse what is no number between 0 and 1."""
    if not is_real(coverage) or not 0 < coverage < 1:
        raise ValueError(f"coverage must be a float in (0, 1). Got {coverage!r}.")


def check_node(tree: Tree, node: Any) -> None:
    """Refuse what is no node of the tree."""
    if not is_integer(node):
        raise TypeError(f"node is {node!r}; give the number of a node.")
    if not 0 <= node < tree.n_nodes:
        raise ValueError(
            f"Node {node} does not exist; the tree has the nodes 0 to "
            f"{tree.n_nodes - 1}."
        )
