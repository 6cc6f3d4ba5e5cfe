"""What the methods of a fit are, get and give: pruning rules, refinements, records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from secret_jax.data.rows import Rows, join, shuffled
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.prune.path import PruningPath, smallest_within
from secret_jax.losses.interface import OfLosses
from secret_jax.models.interface import LeafModel
from secret_jax.models.short_models import numbers_of_leaves
from secret_jax.models.statistics import TreeStatistics
from secret_jax.tree.structure import LongerTree, Tree
from secret_jax.tree.totals import split_numbers

# Numbers to read below which a smaller tree is no easier to read.
_AT_A_GLANCE = 40.0


class Fold(NamedTuple):
    """Tree fitted without some rows, in the same way as the final one."""

    tree: Tree  # pruned; its models are from the training rows
    training: Rows
    held_out: Rows


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
    statistics : TreeStatistics or None
        Of the tree and the training rows, if growth has summed them: of targets in
        float32.
    """

    training: Rows
    held_out: Rows | None = None
    unseen: Sequence[np.ndarray] = ()
    fold_trees: Sequence[Tree] = ()
    tolerance: float = 0.0
    equation_tolerance: float = 0.0
    leaf: LeafModel | None = None
    statistics: TreeStatistics | None = None

    def folds(self, pruned: Pruned) -> tuple[Fold, ...]:
        """Trees with rows that they have not seen."""
        training, held_out = self.training, self.held_out
        if held_out is not None:
            return (Fold(pruned.tree, training, held_out),)
        # Perhaps not all divisions were grown.
        return tuple(
            Fold(tree, training.take(~part), training.take(part))
            for part, tree in zip(self.unseen, pruned.fold_trees, strict=False)
        )

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
            rows, shorter = self.training, self.equation_tolerance
            known = None if self.statistics is None else self.statistics.of(tree)
            in_leaf = numbers_of_leaves(tree, rows, shorter, known)
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


class RefinementWarning(UserWarning):
    """Warning that refinement did not pay, and the hard tree was kept."""


class Candidate(NamedTuple):
    """Trees that were grown alike, and what pruning keeps of the first one."""

    # That of all training rows, then those of the folds, as they were grown; models are
    # of training rows.
    trees: tuple[Tree, ...]
    pruned: Pruned
    oblique: bool  # whether they might split obliquely
    statistics: TreeStatistics | None = None  # of the first one

    @classmethod
    def of(
        cls, trees: Sequence[Tree], rule: PruningRule, evidence: Evidence, oblique: bool
    ) -> Self:
        """Prune the first of some trees; the others are those of the first folds."""
        folds = {"unseen": evidence.unseen[: len(trees) - 1], "fold_trees": trees[1:]}
        pruned = rule(trees[0], evidence._replace(**folds))
        return cls(tuple(trees), pruned, oblique, evidence.statistics)


class Fitted(NamedTuple):
    """Fitted tree with what a refinement starts from.

    Attributes
    ----------
    tree : Tree
    candidates : tuple of Candidate
        The trees that were grown, the chosen ones first.
    folds : tuple of Fold
        One where rows were held out, one for each part of a cross-validation.
    training : Rows
        Rows that grew it.
    held_out : Rows or None
        Rows that pruned it; None if it was cross-validated or not pruned.
    refit : bool
        Whether held-out rows may train, once they have chosen.
    student_rows : Rows or None
        Rows that the tree was fitted to, if not the training rows; see
        `secret_jax.fit.refine.distillation`.
    """

    tree: Tree
    candidates: tuple[Candidate, ...]
    folds: tuple[Fold, ...]
    training: Rows
    held_out: Rows | None
    refit: bool
    student_rows: Rows | None = None

    def on_host(self) -> Fitted:
        """Copy rows that lie on a device to host memory."""
        folds = (
            Fold(tree, training.on_host(), unseen.on_host())
            for tree, training, unseen in self.folds
        )
        return self._replace(
            folds=tuple(folds),
            training=self.training.on_host(),
            held_out=None if self.held_out is None else self.held_out.on_host(),
        )

    def all_rows(self, *, shuffle: bool = False) -> Rows:
        """Rows that may train the final tree, in an order without meaning."""
        if not self.refit or self.held_out is None:
            return self.training
        rows = join([self.training, self.held_out])
        return shuffled(rows) if shuffle else rows


class Refined(NamedTuple):
    """Result of a refinement.

    Attributes
    ----------
    tree : Tree
    n_steps : int
        Steps or passes that were taken for it; 0 if it is the tree that was given, or
        where nothing is counted.
    refusal : str
        Why the tree was kept as it was, if somebody should know.
    has_models : bool
        Whether the models of its leaves were trained together, and stay as they are;
        otherwise they are fitted again.
    """

    tree: Tree
    n_steps: int = 0
    refusal: str = ""
    has_models: bool = False


@dataclass(frozen=True, kw_only=True)
class Refinement(OfLosses, ABC):
    """Base of the refinements; a new one is a subclass with a method ``__call__``."""

    # Share of the rows to hold out if none are: a class attribute, or a field.
    validation_fraction = 0.0

    @abstractmethod
    def __call__(self, fitted: Fitted, recipe: Recipe) -> Refined:
        """Refine a fitted tree; the result is a tree of the same kind."""


@dataclass(frozen=True, kw_only=True)
class Gates(Refinement):
    """Base of the refinements whose splits may be gates, which send rows both ways."""

    def conflict(self, options: Mapping[str, Any]) -> str:
        if refusal := super().conflict(options):
            return refusal
        if options["splits"].max_comparisons > 1:
            return "None or 'tao' with these splits: a conjunction is no gate"
        if options["monotonic_cst"] is not None:
            return "None or 'tao' with monotonic_cst: gates keep no order (gates=False)"
        return ""
