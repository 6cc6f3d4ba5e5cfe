"""Pruning at a given penalty per leaf, or not at all."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from secret_jax.fit.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.fit.prune.path import training_path
from secret_jax.runtime.values import real
from secret_jax.tree.structure import Tree


@dataclass(frozen=True, kw_only=True)
class CostComplexity(PruningRule):
    """The subtree with the least mean squared training error plus a penalty per leaf.

    Breiman, Friedman, Olshen & Stone 1984, chapter 3, as scikit-learn's trees prune
    (which take the mean error of several targets; here it is their sum).

    Attributes
    ----------
    alpha : float, default=0.0
        Penalty of a leaf in units of the target squared; 0 cuts only splits that save
        nothing. ``cost_complexity_pruning_path`` lists the values that matter.

    Examples
    --------
    >>> from secret_jax import CostComplexity, SecretRegressor
    >>> model = SecretRegressor(prune=CostComplexity(alpha=0.01))
    >>> model.set_params(prune__alpha=0.1).prune
    CostComplexity(alpha=0.1)
    """

    alpha: Annotated[float, real(0.0)] = 0.0

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Prune; among equally good subtrees the smallest wins."""
        path, _ = training_path(tree, evidence.training)
        index = int(np.searchsorted(path.alphas, self.alpha, side="right")) - 1
        return Pruned(path.subtree(tree, index), 0.0)


@dataclass(frozen=True, kw_only=True)
class Unpruned(PruningRule):
    """Rule that keeps the tree as it was grown."""

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Return the tree unchanged."""
        return Pruned(tree, 0.0)
