"""The fitted ensemble: boosters whose mean predicts, each a sum of trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from secret_jax.boost.options import TreeSize
from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema
from secret_jax.tree.structure import Tree
from secret_jax.tree.sums import TreeSum


@dataclass(frozen=True, eq=False, kw_only=True)
class Ensemble:
    """Boosters of equal length; predictions are their mean.

    Attributes
    ----------
    boosters : tuple of tuple of Tree
        Trees of each; the first is a single leaf and counts fully.
    learning_rate : float
        What each further tree counts.
    size : TreeSize
        Of the further trees.
    schema : TableSchema
    """

    boosters: tuple[tuple[Tree, ...], ...]
    learning_rate: float
    size: TreeSize
    schema: TableSchema

    @property
    def n_rounds(self) -> int:
        """Trees of a booster, the first one not counted."""
        return len(self.boosters[0]) - 1

    @property
    def n_boosters(self) -> int:
        """Boosters whose mean predicts."""
        return len(self.boosters)

    @cached_property
    def _sum(self) -> TreeSum:
        in_rounds = [
            tree for trees in zip(*self.boosters, strict=True) for tree in trees
        ]
        step = np.full(len(in_rounds), self.learning_rate)
        step[: self.n_boosters] = 1.0
        return TreeSum(in_rounds, step / self.n_boosters)

    def trees(self) -> Iterator[tuple[Tree, float]]:
        """All trees, round by round, and what each counts in the prediction."""
        return zip(self._sum.trees, self._sum.steps.tolist(), strict=True)

    def values(self, table: Table) -> np.ndarray:
        """Predictions in standardised units, shape (n_rows, n_outputs)."""
        return self._sum.values(table)

    def predict(self, table: Table) -> np.ndarray:
        """Predictions in the units of the target, shape (n_rows[, n_outputs])."""
        return self.schema.restore_targets(self.values(table))

    def staged(self, table: Table) -> Iterator[np.ndarray]:
        """Predictions after every round, the first of the linear models alone."""
        total = np.zeros((len(table.x), self.schema.n_outputs))
        for first in range(0, len(self._sum.trees), self.n_boosters):
            total += self._sum.values(table, first, first + self.n_boosters)
            yield self.schema.restore_targets(total.copy())


def ensemble_of(
    boosters: Sequence[Sequence[Tree]], learning_rate: float, size: TreeSize
) -> Ensemble:
    """An ensemble of lists of trees."""
    return Ensemble(
        boosters=tuple(tuple(trees) for trees in boosters),
        learning_rate=learning_rate,
        size=size,
        schema=boosters[0][0].schema,
    )


def booster_values(
    trees: Sequence[Tree], learning_rate: float, table: Table
) -> np.ndarray:
    """What a single booster predicts, in standardised units, (n_rows, n_outputs)."""
    steps = np.full(len(trees), learning_rate)
    steps[0] = 1.0
    return TreeSum(list(trees), steps).values(table)
