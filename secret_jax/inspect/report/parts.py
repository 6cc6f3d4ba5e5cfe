"""What is on every page: rows that the tree did not learn from, and errors."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from secret_jax.fit.prune.path import of_size
from secret_jax.inspect.importances import feature_importances
from secret_jax.inspect.printing import counted_leaves
from secret_jax.inspect.rows import Rows

Figures = list[tuple[str, str]]
"""Figures of quality in words, each with its standard error."""


class Parts:
    """Parts of a page that numbers and classes share: errors and importances.

    Errors are measured on ``rows``. Both have a ``key`` to the colours, ``tiles``
    (label, value, remark) and ``drawings`` of quality, ``figures`` of predictions with
    the length of a bar, and ``headings`` of these; and for a node its ``color``,
    ``facts``, the shares of its ``bar``, and the ``card`` of a leaf.
    """

    def __init__(self, view: Any, rows: Rows | None = None):
        self.view, self.tree, self.rows = view, view.tree, rows

    @property
    def importances(self) -> np.ndarray:
        """Shares of the columns in what the tree explains, the mean over outputs."""
        only = getattr(self.view, "only", None)
        outputs = range(self.tree.n_outputs) if only is None else [only]
        return np.mean([feature_importances(self.tree, i) for i in outputs], axis=0)


def error_lines(
    parts: Any, comparison: Mapping[str, Mapping[str, Any]] | None
) -> list[dict[str, Any]]:
    """Measure the tree cut down to 1, 2, 4, 8 ... leaves, and other methods.

    The subtrees are those of the weakest-link path (`secret_jax.fit.prune.path`): what
    leads from one line to the next is the part of the tree that pays least. Their
    leaves predict with the models that the inner nodes have.
    """
    lines, tree, rows = [], parts.tree, parts.rows
    if rows is not None:
        sizes = [2**k for k in range(tree.n_leaves.bit_length())]
        cuts = [of_size(tree, n) for n in sizes if n < tree.n_leaves]
        for n_leaves, cut in sorted(
            {one.n_leaves: one for one in (*cuts, tree)}.items()
        ):
            name = (
                "the whole tree"
                if cut is tree
                else f"a tree of {counted_leaves(n_leaves)}"
            )
            seen = parts.view.of(cut)
            measured = parts.figures(seen.said(rows.table), rows.actual)
            name = parts.root if n_leaves == 1 else name
            lines.append((name, n_leaves, seen.n_numbers(), *measured))
    for name, score in (comparison or {}).items():
        lines.append((name, score.get("leaves"), None, *parts.figures_of_score(score)))
    names = "name", "leaves", "numbers", "figures", "bar"
    return [dict(zip(names, line, strict=True)) for line in lines]
