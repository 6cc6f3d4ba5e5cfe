"""Models of the nodes of growing trees, fitted once, as the nodes come."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.fit.grow.frontier import Frontier
from secret_jax.fit.grow.search import Execution, GrowOptions
from secret_jax.models.fitting import FittedNodes, NodeSummary, summary_of
from secret_jax.models.interface import Models

# A node of more rows gets its model from those that are searched.
_MOST_ROWS = 1 << 16


class _Part(NamedTuple):
    """Nodes of a level that have models; ``whole``: of all their rows."""

    fitted: FittedNodes
    whole: np.ndarray


class NodeModels:
    """Fits the nodes of each level, each shrunk toward its parent's model.

    Nothing is fitted if the finder asks for no model.
    """

    def __init__(self, rows: Execution, options: GrowOptions):
        self._rows, self._model = rows, options.finder.node_model
        self._sample = np.inf if options.sample is None else options.sample
        everything = options.models_of_all or rows.counts_all
        self._most = np.inf if everything else max(_MOST_ROWS, self._sample)
        self._parts: list[_Part] = []

    def fitted(self, level: Frontier) -> Frontier:
        """Fit the nodes of a level."""
        if self._model is None or not len(level.node):
            return level
        length = level.stop - level.start
        searched = np.minimum(length, self._sample)
        whole = length <= self._most
        n_rows = np.where(whole, length, searched).astype(int)
        statistics = self._rows.statistics(level, n_rows)
        models = self._model.fit(statistics, level.model)
        summary = summary_of(statistics, models.coefficient)
        self._parts.append(_Part(FittedNodes(models, summary), whole))
        degrees = models.degrees * searched / n_rows
        return level._replace(model=models.coefficient, degrees=degrees)

    def of_trees(
        self, number: np.ndarray, sizes: Sequence[int]
    ) -> list[FittedNodes | None]:
        """The fitted nodes of each tree; None where a model is not of all rows.

        ``number`` (n_nodes,), int: final number of every node, through all trees; a
        removed one has that of its ancestor that remains; ``sizes``: nodes of each
        tree.
        """
        if not self._parts:
            return [None] * len(sizes)
        # Nodes come after those above them: the first of a number is the one that
        # stayed.
        stayed = np.unique(number, return_index=True)[1]
        whole = np.concatenate([part.whole for part in self._parts])
        models, summaries = zip(*(part.fitted for part in self._parts), strict=True)
        found: list[FittedNodes | None] = []
        for node in np.split(stayed, np.cumsum(sizes)[:-1]):

            def joined(arrays, node=node):
                return np.concatenate(arrays)[node]

            coefficient, degrees, corrects = zip(*models, strict=True)
            own = Models(joined(coefficient), joined(degrees), corrects[0])
            summary = NodeSummary(*map(joined, zip(*summaries, strict=True)))
            found.append(FittedNodes(own, summary) if whole[node].all() else None)
        return found
