"""Fitted ensemble: the mean of boosters, each a sum of trees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from secret_jax.data.encoding import Unencoded
from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema
from secret_jax.tree.reshape import joined, separated
from secret_jax.tree.routing import TreeSum
from secret_jax.tree.structure import Tree, flaw_of


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Mean of boosters."""

    # Trees of each; the first is a single leaf and counts fully.
    boosters: Sequence[Sequence[Tree]]
    learning_rate: float  # weight of each further tree in its booster

    @property
    def schema(self) -> TableSchema:
        """Schema of all trees."""
        return self.boosters[0][0].schema

    @cached_property
    def _sum(self) -> TreeSum:
        trees, steps = zip(*self.trees(), strict=True)
        return TreeSum(trees, np.array(steps))

    def saved(self) -> dict[str, Any]:
        """Content of a model file: all trees as one set of arrays."""
        trees = [tree for booster in self.boosters for tree in booster]
        return {
            "forest": joined(trees),
            "nodes": [tree.n_nodes for tree in trees],
            "n_boosters": len(self.boosters),
            "learning_rate": self.learning_rate,
        }

    @classmethod
    def loaded(cls, saved: dict[str, Any]) -> Self:
        """Restore what `saved` made, or raise an error that says what is wrong."""
        forest, nodes, n_boosters = saved["forest"], saved["nodes"], saved["n_boosters"]
        if min(nodes) < 1 or sum(nodes) != forest.n_nodes:
            raise ValueError("its trees have another number of nodes")
        trees = separated(forest, nodes)
        flaw = next(filter(None, map(flaw_of, trees)), "")
        if flaw:
            raise ValueError(flaw)
        length, rest = divmod(len(trees), n_boosters)
        if rest or not length:
            raise ValueError(f"{len(trees)} trees are not {n_boosters} equal boosters")
        boosters = [trees[at : at + length] for at in range(0, len(trees), length)]
        return cls(boosters, float(saved["learning_rate"]))

    def trees(self) -> Iterator[tuple[Tree, float]]:
        """All trees, round by round, with their weights in the prediction."""
        for number, trees in enumerate(zip(*self.boosters, strict=True)):
            step = self.learning_rate if number else 1.0
            for tree in trees:
                yield tree, step / len(trees)

    def values(self, table: Table | Unencoded) -> np.ndarray:
        """Predict in standardised units, shape (n_rows, n_outputs)."""
        return self._sum.values(table)

    def predict(self, table: Table | Unencoded) -> np.ndarray:
        """Predict in the units of the target, shape (n_rows[, n_outputs])."""
        found = self._sum.values(table, finish=self.schema.restore_outputs)
        return found[:, 0] if self.schema.n_outputs == 1 else found

    def staged(self, table: Table) -> Iterator[np.ndarray]:
        """Predict after every round, beginning with the first models alone."""
        total = np.zeros((len(table.x), self.schema.n_outputs))
        n = len(self.boosters)
        for first in range(0, n * len(self.boosters[0]), n):
            total += self._sum.values(table, first, first + n)
            yield self.schema.restore_targets(total.copy())
