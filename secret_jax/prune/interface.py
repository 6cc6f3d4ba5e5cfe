"""Interface of pruning rules: values that choose a subtree of a grown tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import Loss
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.values import Value
from secret_jax.tree.structure import Tree

# Number of leaves below which a smaller tree is no easier to read.
_AT_A_GLANCE = 4


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
    error_of_constant : float
        Mean loss of the best constant, over all outputs. None: the number
        of outputs, since squared errors are in standardised units.
    tolerance : float
        Increase of the error allowed for halving the leaves, see `penalised_error`.
    leaf : LeafModel or None
        Leaf model of the trees.
    """

    training: Rows
    held_out: Rows | None = None
    unseen: Sequence[np.ndarray] = ()
    fold_trees: Sequence[Tree] = ()
    error_of_constant: float | None = None
    tolerance: float = 0.0
    leaf: LeafModel | None = None

    def held_out_of(self, fold: int) -> Rows:
        """Rows of a fold."""
        return self.training.take(np.flatnonzero(self.unseen[fold]))

    def penalised_error(self, error: np.ndarray, n_leaves: np.ndarray) -> np.ndarray:
        """Penalise the errors of subtrees by their size: the least is the best.

        A tree of twice as many leaves must err less by the tolerance, as a share, times
        the root of the share of the variance that the best one leaves unexplained: what
        is nearly exact is not given up for a shorter text. Up to four leaves are
        free.

        Parameters
        ----------
        error : ndarray of shape (n_subtrees,)
            Summed over the rows that each tree had not seen, and over outputs, in
            standardised units.
        n_leaves : ndarray of shape (n_subtrees,)

        Returns
        -------
        ndarray of shape (n_subtrees,), float64
        """
        rows = self.training if self.held_out is None else self.held_out
        counted = sum(rows.weight[part].sum() for part in self.unseen)
        alone = self.error_of_constant or rows.targets.shape[1]
        total = (counted or rows.weight.sum()) * alone
        unexplained = min(float(np.min(error)) / total, 1.0)
        doublings = np.log2(np.maximum(n_leaves / _AT_A_GLANCE, 1.0))
        return error * (1.0 + self.tolerance * unexplained**0.5) ** doublings


class Pruned(NamedTuple):
    """Result of pruning a tree.

    Attributes
    ----------
    tree : Tree
    value : float
        Criterion: of the trees with and without oblique splits the lower value is kept.
    fold_trees : tuple of Tree
        The trees of the folds, pruned alike; empty without folds.
    """

    tree: Tree
    value: float
    fold_trees: tuple[Tree, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PruningRule(Value, ABC):
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

    def knows(self, loss: Loss) -> bool:
        """Whether it is defined for trees of a loss."""
        del loss
        return True

    @abstractmethod
    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Prune a tree that has a model in every node."""
