"""Fitted ensemble: a weighted mean of boosters, each a sum of trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.options import TreeSize
from secret_jax.tree.routing import TreeSum
from secret_jax.tree.structure import Tree


@dataclass(frozen=True, eq=False, kw_only=True)
class Ensemble:
    """Weighted mean of boosters.

    Attributes
    ----------
    boosters : tuple of tuple of Tree
        Trees of each; the first is a single leaf and counts fully.
    shares : tuple of float
        Weights of the boosters, which sum to 1.
    learning_rate : float
        Weight of each further tree in its booster.
    size : TreeSize
        Size of the further trees of the first booster, which leads.
    """

    boosters: tuple[tuple[Tree, ...], ...]
    shares: tuple[float, ...]
    learning_rate: float
    size: TreeSize
    schema: TableSchema

    @property
    def n_rounds(self) -> int:
        """Number of rounds of the leading booster, not counting its first tree."""
        return len(self.boosters[0]) - 1

    @property
    def n_trees(self) -> int:
        """Number of trees of all boosters, not counting their first ones."""
        return sum(len(trees) - 1 for trees in self.boosters)

    @cached_property
    def _rounds(self) -> list[list[tuple[Tree, float]]]:
        """Trees of each round, with their weights in the prediction."""
        longest = max(map(len, self.boosters))
        rounds: list[list[tuple[Tree, float]]] = [[] for _ in range(longest)]
        for trees, share in zip(self.boosters, self.shares, strict=True):
            for number, tree in enumerate(trees):
                step = self.learning_rate if number else 1.0
                rounds[number].append((tree, step * share))
        return rounds

    @cached_property
    def _sum(self) -> TreeSum:
        pairs = [pair for each in self._rounds for pair in each]
        return TreeSum(
            [tree for tree, _ in pairs], np.array([step for _, step in pairs])
        )

    def trees(self) -> Iterator[tuple[Tree, float]]:
        """All trees, round by round, with their weights in the prediction."""
        return zip(self._sum.trees, self._sum.steps.tolist(), strict=True)

    def values(self, table: Table) -> np.ndarray:
        """Predict in standardised units, shape (n_rows, n_outputs)."""
        return self._sum.values(table)

    def predict(self, table: Table) -> np.ndarray:
        """Predict in the units of the target, shape (n_rows[, n_outputs])."""
        return self.schema.restore_targets(self.values(table))

    def staged(self, table: Table) -> Iterator[np.ndarray]:
        """Predict after every round, beginning with the first models alone."""
        total = np.zeros((len(table.x), self.schema.n_outputs))
        first = 0
        for each in self._rounds:
            total += self._sum.values(table, first, first + len(each))
            first += len(each)
            yield self.schema.restore_targets(total.copy())


def ensemble_of(
    boosters: Sequence[Sequence[Tree]],
    learning_rate: float,
    size: TreeSize,
    shares: Sequence[float] | None = None,
) -> Ensemble:
    """Make an ensemble of lists of trees, by default with equal weights."""
    if shares is None:
        shares = [1.0 / len(boosters)] * len(boosters)
    return Ensemble(
        boosters=tuple(tuple(trees) for trees in boosters),
        shares=tuple(shares),
        learning_rate=learning_rate,
        size=size,
        schema=boosters[0][0].schema,
    )


def booster_values(
    trees: Sequence[Tree], learning_rate: float, table: Table
) -> np.ndarray:
    """Predict with one booster, in standardised units, (n_rows, n_outputs)."""
    steps = np.full(len(trees), learning_rate)
    steps[0] = 1.0
    return TreeSum(list(trees), steps).values(table)
