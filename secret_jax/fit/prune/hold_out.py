"""Reduced-error pruning on held-out rows."""

from dataclasses import dataclass
from typing import Annotated

from secret_jax.fit.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.fit.prune.path import best_splits, weakest_links
from secret_jax.models.errors import node_errors
from secret_jax.runtime.values import real
from secret_jax.tree.reshape import compact, remaining
from secret_jax.tree.structure import Tree


@dataclass(frozen=True, kw_only=True)
class HoldOut(PruningRule):
    """Subtree with the least error on held-out rows, or on those of ``eval_set``.

    Quinlan's reduced-error pruning (section 5.2 of Dobra & Gehrke 2002): bottom-up, a
    node becomes a leaf where its own model errs no more than its subtree.

    Attributes
    ----------
    fraction : float, default=0.25
        Share of the rows to hold out where no ``eval_set`` is given.
    refit : bool, default=True
        Grow the tree again on training and held-out rows together, and cut it to the
        size that was found. False: keep the tree of the training rows.

    Examples
    --------
    >>> from secret_jax import HoldOut, SecretRegressor
    >>> SecretRegressor(prune=HoldOut(fraction=0.3)).prune.fraction
    0.3
    """

    fraction: Annotated[float, real(0.0, 1.0, closed="neither")] = 0.25
    refit: bool = True

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Choose the subtree of least size-penalised error, which is the value.

        The candidates are the weakest-link path of the subtree of least error.
        """
        if evidence.held_out is None:
            return Pruned(tree, 0.0)
        error = node_errors(tree, evidence.held_out)
        keep = best_splits(tree, error)
        found, error = compact(tree, keep), error[remaining(tree, keep)]
        path = weakest_links(found, error)
        return evidence.best_subtree(found, path, path.totals(error))[1]
