"""What is on every page: rows that the tree did not learn from, and errors."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from secret_jax.fit.prune.path import of_size
from secret_jax.inspect.importances import feature_importances
from secret_jax.inspect.printing import counted_leaves
from secret_jax.inspect.rows import Rows

Figures = list[tuple[str, str]]
"""Figures of quality in words, each with its standard error."""


class Parts(ABC):
    """Parts of a page that numbers and classes share: errors and importances.

    Errors are measured on ``rows``. Both have a ``key`` to the colours, ``tiles``
    (label, value, remark) and ``drawings`` of quality, and for a node its ``color``,
    ``facts``, the shares of its ``bar``, and the ``card`` of a leaf.
    """

    headings: ClassVar[tuple[str, str]]  # of the figures in the table of errors

    def __init__(self, view: Any, rows: Rows | None = None):
        self.view, self.tree, self.rows = view, view.tree, rows

    @property
    @abstractmethod
    def root(self) -> str:
        """Name of the tree of one leaf."""

    @abstractmethod
    def figures(
        self, predicted: np.ndarray, actual: np.ndarray
    ) -> tuple[Figures, float]:
        """Measure errors of predictions, and the length of a bar."""

    @abstractmethod
    def figures_of_score(self, score: Mapping[str, Any]) -> tuple[Figures, float]:
        """Write what is known of another method, and the length of a bar."""

    @property
    def importances(self) -> np.ndarray:
        """Shares of the columns in what the tree explains, the mean over outputs."""
        only = getattr(self.view, "only", None)
        outputs = range(self.tree.n_outputs) if only is None else [only]
        return np.mean([feature_importances(self.tree, i) for i in outputs], axis=0)

    def lines(
        self, comparison: Mapping[str, Mapping[str, Any]] | None
    ) -> list[dict[str, Any]]:
        """Measure the tree cut down to 1, 2, 4, 8 ... leaves, and other methods.

        The subtrees are those of the weakest-link path (`secret_jax.fit.prune.path`):
        what leads from one line to the next is the part of the tree that pays least.
        Their leaves predict with the models that the inner nodes have.
        """
        lines, tree = [], self.tree
        if self.rows is not None:
            steps = range(tree.n_leaves.bit_length())
            sizes = [2**k for k in steps if 2**k < tree.n_leaves]
            cuts = {cut.n_leaves: cut for cut in (of_size(tree, n) for n in sizes)}
            for n_leaves, cut in sorted((cuts | {tree.n_leaves: tree}).items()):
                name = f"a tree of {counted_leaves(n_leaves)}"
                name = self.root if n_leaves == 1 else name
                name = "the whole tree" if cut is tree and n_leaves > 1 else name
                seen = self.view.of(cut)
                predicted = seen.said(self.rows.table)
                measured = self.figures(predicted, self.rows.actual)
                lines.append((name, n_leaves, seen.n_numbers(), *measured))
        for name, score in (comparison or {}).items():
            lines.append(
                (name, score.get("leaves"), None, *self.figures_of_score(score))
            )
        names = "name", "leaves", "numbers", "figures", "bar"
        return [dict(zip(names, line, strict=True)) for line in lines]
