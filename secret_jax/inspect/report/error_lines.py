"""Lines of the table of errors: trees of several sizes, and other methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from secret_jax.inspect.tree_view import TreeView
from secret_jax.prune.path import of_size
from secret_jax.tree.structure import Tree


class Figure(NamedTuple):
    """A figure of quality and its standard error, in words."""

    value: str
    uncertainty: str = ""


class ErrorLine(NamedTuple):
    """How well something predicts the rows.

    Attributes
    ----------
    leaves, numbers : int or None
        What there is to read.
    figures : list of Figure
        In the order of the headings of the table.
    bar : float
        Length of the error as a bar.
    """

    name: str
    leaves: int | None
    numbers: int | None
    figures: list[Figure]
    bar: float


def lines_by_size(
    view: TreeView, figures_of: Callable[[Tree], tuple[list[Figure], float]], root: str
) -> list[ErrorLine]:
    """Figures of the tree cut down to 1, 2, 4, 8 ... leaves, and of the whole tree.

    The subtrees are those of the weakest-link path (`secret_jax.prune.path`), so what
    leads from one line to the next is the part of the tree that pays least. Their
    leaves predict with the models that the inner nodes have.

    Parameters
    ----------
    figures_of : callable
        From a tree to its figures, and the length of its bar.
    root : str
        What the tree of one leaf is.

    Returns
    -------
    list of ErrorLine
        By size; subtrees of the same size once.
    """
    tree = view.tree
    sizes = [2**k for k in range(tree.n_leaves.bit_length()) if 2**k < tree.n_leaves]
    subtrees = {cut.n_leaves: cut for cut in (of_size(tree, n) for n in sizes)}
    subtrees[tree.n_leaves] = tree
    lines = []
    for n_leaves, cut in sorted(subtrees.items()):
        name = "the whole tree" if cut is tree else f"a tree of {n_leaves} leaves"
        name = root if n_leaves == 1 else name
        numbers = view.of(cut).n_numbers()
        lines.append(ErrorLine(name, n_leaves, numbers, *figures_of(cut)))
    return lines


def compared_lines(
    scores: Mapping[str, Mapping[str, Any]] | None,
    figures_of: Callable[[Mapping[str, Any]], tuple[list[Figure], float]],
) -> list[ErrorLine]:
    """Lines of other methods, from what is known of each name."""
    return [
        ErrorLine(name, score.get("leaves"), None, *figures_of(score))
        for name, score in (scores or {}).items()
    ]


def with_bars(lines: list[ErrorLine]) -> list[ErrorLine]:
    """The lines with bars as shares of the longest one."""
    longest = max((line.bar for line in lines), default=0.0) or 1.0
    return [line._replace(bar=line.bar / longest) for line in lines]
