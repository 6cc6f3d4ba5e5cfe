"""Cost-complexity pruning by cross-validation with standard errors (CART, GUIDE)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from secret_jax.fit.prune.cross_validation import cross_validated
from secret_jax.fit.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.fit.prune.path import smallest_within, training_errors, weakest_links
from secret_jax.models.errors import row_errors
from secret_jax.runtime.values import at_least, real
from secret_jax.tree.structure import Tree


@dataclass(frozen=True, kw_only=True)
class StandardErrors(PruningRule):
    """Smallest subtree within some standard errors of the least CV error.

    Subtrees are those of least mean training error plus a penalty for each leaf,
    cross-validated as by `CrossValidation`. Of the subtrees whose error is no more than
    the least one plus ``factor`` standard errors of it the smallest is kept.
    ``prune="cart"`` has a factor of 1, ``prune="guide"`` of 0.5. The tolerance of the
    estimator has no part in it.

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

    factor: Annotated[float, real(0.0)] = 1.0
    n_folds: Annotated[int, at_least(2)] = 10

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Choose the subtree; return it with its cross-validated error."""
        found = cross_validated(
            tree,
            evidence,  # paths by penalty per leaf, in units of the mean error
            lambda each: weakest_links(each, training_errors(each) / each.weight[0]),
        )
        least = smallest_within(found.error)
        errors, weight = [np.zeros(0)], [np.zeros(0)]
        for fold, subtree in enumerate(found.fold_trees(least)):
            rows = evidence.held_out_of(fold)
            errors.append(row_errors(subtree, rows))
            weight.append(rows.weight)
        error, count = np.concatenate(errors), np.concatenate(weight)
        # The standard error of the sum: a row of weight two is two rows.
        loss = error / count - error.sum() / max(count.sum(), 1.0)
        most = found.error[least] + self.factor * np.sqrt(count @ loss**2)
        index = smallest_within(found.error, most)
        return found.pruned(tree, index, float(found.error[index]))
