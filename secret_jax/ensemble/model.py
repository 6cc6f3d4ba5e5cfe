"""Fitted ensemble: a weighted mean of boosters, each a sum of trees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from secret_jax.data.encoding import Unencoded
from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.options import TreeSize
from secret_jax.tree.reshape import joined, separated
from secret_jax.tree.sound import flaw_of
from secret_jax.tree.structure import Tree
from secret_jax.tree.sums import TreeSum


@dataclass(frozen=True, eq=False, kw_only=True)
class Ensemble:
    """Weighted mean of boosters."""

    # Trees of each; the first is a single leaf and counts fully.
    boosters: tuple[tuple[Tree, ...], ...]
    shares: tuple[float, ...]  # weights of the boosters, which sum to 1
    learning_rate: float  # weight of each further tree in its booster
    size: TreeSize  # size of the further trees of the first booster, which leads
    schema: TableSchema

    @classmethod
    def of(
        cls,
        boosters: Sequence[Sequence[Tree]],
        learning_rate: float,
        size: TreeSize,
        shares: Sequence[float] | None = None,
    ) -> Self:
        """Make an ensemble of lists of trees, by default with equal weights."""
        return cls(
            boosters=tuple(map(tuple, boosters)),
            shares=tuple(shares or [1.0 / len(boosters)] * len(boosters)),
            learning_rate=learning_rate,
            size=size,
            schema=boosters[0][0].schema,
        )

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

    def saved(self) -> dict[str, Any]:
        """Content of a model file: all trees as one set of arrays."""
        trees = [tree for booster in self.boosters for tree in booster]
        return {
            "forest": joined(trees),
            "nodes": [tree.n_nodes for tree in trees],
            "lengths": [len(booster) for booster in self.boosters],
            "shares": list(self.shares),
            "learning_rate": self.learning_rate,
            "size": self.size,
        }

    @classmethod
    def loaded(cls, saved: dict[str, Any]) -> Self:
        """Restore what `saved` made, or raise an error that says what is wrong."""
        forest, nodes, lengths = saved["forest"], saved["nodes"], saved["lengths"]
        if min(nodes) < 1 or sum(nodes) != forest.n_nodes:
            raise ValueError("its trees have another number of nodes")
        trees = separated(forest, nodes)
        flaw = next(filter(None, map(flaw_of, trees)), "")
        if flaw:
            raise ValueError(flaw)
        if not lengths or min(lengths) < 1 or sum(lengths) != len(trees):
            raise ValueError(
                f"its boosters should have {lengths} trees, and there are {len(trees)}"
            )
        shares = saved["shares"]
        whole = np.isclose(sum(shares), 1.0) and min(shares) >= 0.0
        if len(shares) != len(lengths) or not whole:
            raise ValueError(f"the shares of its boosters are {shares}")
        saved["size"].check()
        starts = np.cumsum(lengths) - lengths
        boosters = [trees[at : at + n] for at, n in zip(starts, lengths, strict=True)]
        return cls.of(boosters, float(saved["learning_rate"]), saved["size"], shares)

    def trees(self) -> Iterator[tuple[Tree, float]]:
        """All trees, round by round, with their weights in the prediction."""
        return zip(self._sum.trees, self._sum.steps.tolist(), strict=True)

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
        first = 0
        for each in self._rounds:
            total += self._sum.values(table, first, first + len(each))
            first += len(each)
            yield self.schema.restore_targets(total.copy())


@dataclass(frozen=True, eq=False, kw_only=True)
class Member:
    """Boosters of one size, as a part of the model."""

    size: TreeSize
    share: float  # weight in the prediction
    # Boosters that have each not seen a part of the rows, if there are any.
    folds: tuple[tuple[Tree, ...], ...]
    whole: tuple[Tree, ...]  # the booster of all rows
    # (n_rounds_run + 1,): mean loss on unseen rows after each round (squared errors in
    # units of the variance of the targets); empty if nothing was left out.
    errors: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class Boosted:
    """Result of a fit of boosters."""

    # Members of one size, or of two that predict together; the first one leads.
    members: tuple[Member, ...]
    learning_rate: float
    average: bool  # whether the boosters of the folds are part of the model
    sizes: list[list]  # sizes that raced, and the least error of each
    parts: list[np.ndarray]  # rows of each fold
    # (n_rows, n_outputs), float64, or None: predictions of all members for rows that
    # their boosters have not seen; NaN where there are no such boosters.
    unseen: np.ndarray | None
    error: float  # mean loss of that; NaN if nothing was left out

    @property
    def ensemble(self) -> Ensemble:
        """Ensemble that predicts."""
        boosters, shares = [], []
        for member in self.members:
            folds = member.folds if self.average else ()
            boosters += [*folds, member.whole]
            shares += [member.share / (1 + len(folds))] * (1 + len(folds))
        size = self.members[0].size
        return Ensemble.of(boosters, self.learning_rate, size, shares)

    def of_fold(self, which: int) -> Ensemble:
        """Ensemble of the boosters that have not seen a fold."""
        boosters = [member.folds[which] for member in self.members]
        shares = [member.share for member in self.members]
        size = self.members[0].size
        return Ensemble.of(boosters, self.learning_rate, size, shares)
