"""Interface of pruning rules, and the rows that a rule may judge by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows, join, merged
from secret_jax.data.sampling import ROW_ORDER, hold_out
from secret_jax.fit.prune.path import PruningPath, smallest_within
from secret_jax.losses.interface import OfLosses
from secret_jax.models.interface import LeafModel
from secret_jax.models.short_models import numbers_of_leaves
from secret_jax.tree.degrees import split_numbers
from secret_jax.tree.structure import LongerTree, Tree

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
    """

    training: Rows
    held_out: Rows | None = None
    unseen: Sequence[np.ndarray] = ()
    fold_trees: Sequence[Tree] = ()
    tolerance: float = 0.0
    equation_tolerance: float = 0.0
    leaf: LeafModel | None = None

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


def divided(rows: Rows, others: Rows | None, rule: PruningRule) -> Evidence:
    """Divide rows into training and held-out rows, or into folds.

    ================== ===================== ==================== ====================
    rule               ``others``            training             held out
    ================== ===================== ==================== ====================
    holds rows out     none                  the first by hash    the rest
    holds rows out     given                 all rows             the others
    makes folds        given                 both together        none
    any other          none                  all rows             none
    ================== ===================== ==================== ====================

    Rows of one group, if there are groups, are held out together, or in one fold.
    """
    if rule.fraction:
        found = without_share(rows, rule.fraction) if others is None else (rows, others)
        return Evidence(*found)
    if others is not None:
        rows = merged(join([rows, others]), ROW_ORDER).interleaved()
    if not rule.n_folds:
        return Evidence(rows)
    parts = parts_of(rows.weight, rule.n_folds, rule.n_repeats, rows.group)
    return Evidence(rows, unseen=parts)


def parts_of(
    weight: np.ndarray,
    n_folds: int,
    n_repeats: int = 1,
    group: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Divide rows into folds of similar weight, once per repeat.

    The order of the rows should have nothing to do with their content. Parts without
    rows are left out, and so are divisions of rows that were told apart before.

    ``weight`` (n_rows,); ``group`` (n_rows,): rows of one number stay together, and
    the order of the numbers has no meaning. Returns masks of shape (n_rows,).

    Examples
    --------
    >>> for part in parts_of(np.ones(4), 2, 2):
    ...     print(part.astype(int))
    [1 1 0 0]
    [0 0 1 1]
    [1 0 1 0]
    [0 1 0 1]
    >>> parts_of(np.ones(4), 2, group=np.array([7, 3, 7, 3]))[0].astype(int)
    array([0, 1, 0, 1])
    """
    if group is not None:
        _, member = np.unique(group, return_inverse=True)
        parts = parts_of(np.bincount(member, weight), n_folds, n_repeats)
        return [part[member] for part in parts]
    middle = (np.cumsum(weight) - 0.5 * weight) / np.sum(weight)
    n_folds = min(n_folds, max(len(weight), 2))
    parts: list[np.ndarray] = []
    for repeat in range(n_repeats):
        # The digits of a row's place, with as many figures as there are folds.
        digit = np.floor(n_folds ** (repeat + 1) * middle) % n_folds
        parts += [digit == fold for fold in np.unique(digit)]
        if n_folds ** (repeat + 1) >= len(weight):
            break  # further digits tell no row from another
    return [part for part in parts if not part.all()]


def without_share(rows: Rows, share: float) -> tuple[Rows, Rows | None]:
    """Rows without a share of them, and these: the last ones, or whole groups.

    None: too few rows, or groups, to hold any out.
    """
    if rows.group is None:
        cut = hold_out(rows.weight, share)
        others = None if cut == rows.n_rows else rows.take(slice(cut, None))
        return rows.take(slice(cut)), others
    # One of as many parts as the share says.
    parts = parts_of(rows.weight, max(round(1 / share), 2), group=rows.group)
    return (rows.take(~parts[0]), rows.take(parts[0])) if parts else (rows, None)
