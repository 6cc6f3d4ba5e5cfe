"""Cost-complexity pruning by cross-validation with standard errors (CART, GUIDE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from secret_jax.models.errors import node_errors, row_errors
from secret_jax.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.prune.path import TIE, PruningPath, training_errors, weakest_links
from secret_jax.runtime.values import at_least, real
from secret_jax.tree.structure import Tree


@dataclass(frozen=True, kw_only=True)
class StandardErrors(PruningRule):
    """Smallest subtree within some standard errors of the least CV error.

    Subtrees are those of least mean training error plus a penalty for each leaf. Every
    part of the rows is predicted by a tree that was grown on the others; each subtree
    of the tree on all rows stands for the geometric mean of the penalties between which
    it is the best. Of the subtrees whose error is no more than the least one plus
    ``factor`` standard errors of it the smallest is kept. ``prune="cart"`` has a factor
    of 1, ``prune="guide"`` of 0.5. The tolerance of the estimator has no part in it.

    Attributes
    ----------
    factor : float, default=1.0
        Standard errors; 0: the subtree of least error.
    n_folds : int, default=10

    References
    ----------
    L. Breiman, J. H. Friedman, R. A. Olshen and C. J. Stone. Classification and
    Regression Trees. Wadsworth, 1984, sections 3.4.2, 3.4.3 and 8.5.2.

    W.-Y. Loh. Regression Trees with Unbiased Variable Selection and Interaction
    Detection. Statistica Sinica 12, 2002.

    Examples
    --------
    >>> from secret_jax import SecretRegressor, StandardErrors
    >>> SecretRegressor(prune=StandardErrors(factor=0.25)).prune.factor
    0.25
    """

    factor: float = 1.0
    n_folds: int = 10

    needs_whole_trees: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        "factor": [real(0.0)],
        "n_folds": [at_least(2)],
    }

    @property
    def folds(self) -> int:
        """See `PruningRule`."""
        return self.n_folds

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Choose the subtree; return it with its cross-validated error."""
        path = _path(tree)
        penalties = path.typical_penalties()
        fold_paths = [_path(fold_tree) for fold_tree in evidence.fold_trees]
        held_out = [evidence.held_out_of(fold) for fold in range(len(evidence.unseen))]
        error = np.zeros(len(penalties))
        for fold_tree, fold_path, rows in zip(
            evidence.fold_trees, fold_paths, held_out, strict=True
        ):
            own = fold_path.totals(node_errors(fold_tree, rows))
            error += own[fold_path.index_at(penalties)]
        least = int(np.flatnonzero(error <= error.min() * (1 + TIE))[-1])

        def subtrees(index: int) -> list[Tree]:
            return [
                fold_path.subtree(fold_tree, int(fold_path.index_at(penalties[index])))
                for fold_path, fold_tree in zip(
                    fold_paths, evidence.fold_trees, strict=True
                )
            ]

        losses = [
            row_errors(subtree, rows)
            for subtree, rows in zip(subtrees(least), held_out, strict=True)
        ]
        spread = 0.0
        if held_out:  # there are no parts of a single row
            weight = np.concatenate([rows.weight for rows in held_out])
            spread = standard_error_of_sum(np.concatenate(losses) / weight, weight)
        most = error[least] + self.factor * spread
        best = int(np.flatnonzero(error <= most * (1 + TIE))[-1])
        kept = path.subtree(tree, best)
        return Pruned(kept, float(error[best]), tuple(subtrees(best)))


def standard_error_of_sum(losses: np.ndarray, weight: np.ndarray) -> float:
    """Standard error of a weighted sum of independent losses.

    Parameters
    ----------
    losses, weight : ndarray of shape (n_rows,)
        Loss of each row, and number of rows that it stands for.

    Examples
    --------
    >>> standard_error_of_sum(np.array([1.0, 3.0]), np.array([2.0, 2.0]))
    2.0
    """
    mean = weight @ losses / weight.sum()
    return float(np.sqrt(weight @ (losses - mean) ** 2))


def _path(tree: Tree) -> PruningPath:
    """Weakest-link path by penalty per leaf, in units of the mean error."""
    return weakest_links(tree, training_errors(tree) / tree.weight[0])
