"""Interface of pruning rules: values that choose a subtree of a grown tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.fit.prune.path import PruningPath, smallest_within
from secret_jax.losses.interface import OfLosses
from secret_jax.models.interface import LeafModel
from secret_jax.models.short_models import numbers_of_leaves
from secret_jax.tree.degrees import split_numbers
from secret_jax.tree.structure import LongerTree, Tree

# Numbers to read below which a smaller tree is no easier to read.
_AT_A_GLANCE = 40.0


class Evidence(NamedTuple):
    """Data that a rule may use besides the tree.

    Attributes
    ----------
    training : Rows
        Rows that grew the tree.
    held_out : Rows or None
        Rows that did not, if the rule asked for them and there were enough rows.
    unseen : sequence of ndarray of shape (n_training_rows,), bool
        Parts of the training rows, if the rule asked for folds.
    fold_trees : sequence of Tree
        For every part a tree of the same kind, grown on the rows outside of it.
    tolerance : float
        Increase of the error allowed for halving what is to be read, see
        `best_subtree`.
    equation_tolerance : float
        Of the short equations that are read, see
        `secret_jax.models.short_models.shortened`.
    leaf : LeafModel or None
        Leaf model of the trees.
    """

    training: Rows
    held_out: Rows | None = None
    unseen: Sequence[np.ndarray] = ()
    fold_trees: Sequence[Tree] = ()
    tolerance: float = 0.0
    equation_tolerance: float = 0.0
    leaf: LeafModel | None = None

    def held_out_of(self, fold: int) -> Rows:
        """Rows of a fold."""
        return self.training.take(np.flatnonzero(self.unseen[fold]))

    def best_subtree(
        self, tree: Tree, path: PruningPath, error: np.ndarray
    ) -> tuple[int, Pruned]:
        """Choose the subtree of least error, penalised by what is to be read.

        A tree of twice as many numbers, in its splits and in the short equations of its
        leaves, must err less by the tolerance, as a share. The first forty are free.

        ``error`` (n_subtrees,): summed over the rows that each tree had not seen.
        Returns the position in the path, and the subtree with its penalised error.
        """
        best = least = smallest_within(error)
        value, longer = error, None
        if self.tolerance:
            in_leaf = numbers_of_leaves(tree, self.training, self.equation_tolerance)
            numbers = path.totals(in_leaf, split_numbers(tree))
            doublings = np.log2(np.maximum(numbers / _AT_A_GLANCE, 1.0))
            # Losses of one's own may be negative: a share more is then nearer to zero.
            value = error * (1.0 + self.tolerance) ** (np.sign(error) * doublings)
            best = smallest_within(value)
            if error[least] < error[best]:
                parts = [self.training.weight[part] for part in self.unseen]
                unseen = parts if self.held_out is None else [self.held_out.weight]
                means = error[[least, best]] / sum(part.sum() for part in unseen)
                longer = LongerTree(int(numbers[least]), *means.tolist())
        pruned = Pruned(path.subtree(tree, best), float(value[best]), longer=longer)
        return best, pruned


class Pruned(NamedTuple):
    """Result of pruning a tree.

    Attributes
    ----------
    tree : Tree
    value : float
        Criterion: of the trees with and without oblique splits the lower value is kept.
    fold_trees : tuple of Tree
        The trees of the folds, pruned alike; empty without folds.
    longer : LongerTree or None
        Subtree of least error, if the price of its size has kept it back.
    """

    tree: Tree
    value: float
    fold_trees: tuple[Tree, ...] = ()
    longer: LongerTree | None = None


@dataclass(frozen=True, kw_only=True)
class PruningRule(OfLosses, ABC):
    """Base of the pruning rules; a new one is a subclass with a method ``__call__``.

    Rows that the rule needs beside the training rows are class attributes, which a
    subclass may replace by fields.
    """

    # Share of the rows to hold out of growing, and whether the tree is grown again on
    # all rows, once those gave its size.
    fraction = 0.0
    refit = True
    # Number of folds, without each of which a further tree is grown, and number of
    # times that the rows are divided into them, each time differently.
    n_folds = 0
    n_repeats = 1

    @abstractmethod
    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Prune a tree that has a model in every node."""

    def is_settled(self, pruned: Tree, n_rows: int) -> bool:
        """Whether the first division of the rows leaves no need for further ones."""
        del pruned, n_rows
        return False
