"""M5's pruning: bottom-up by errors that are corrected for the parameters spent."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from secret_jax.models.attach import attach_one
from secret_jax.models.errors import node_errors
from secret_jax.models.m5 import M5Linear
from secret_jax.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.prune.path import TIE
from secret_jax.tree.degrees import model_degrees
from secret_jax.tree.structure import Tree, compact


@dataclass(frozen=True, kw_only=True)
class M5Pruning(PruningRule):
    """A node becomes a leaf where its model's estimated error is no more than below it.

    The mean absolute residual of a node's n training rows, times ``(n + v) / (n - v)``
    with v the parameters of its model (`model_degrees`), estimates its error on other
    rows; that of a subtree is the mean over its leaves. It needs no other rows. Of a
    loss the mean loss takes the place of the mean absolute residual. M5's leaf models
    (`secret_jax.M5Linear`) are judged before they are smoothed.

    Notes
    -----
    Nothing is charged for splits, so the trees are large where much was searched.

    References
    ----------
    J. R. Quinlan. Learning with Continuous Classes. Proceedings of the 5th Australian
    Joint Conference on Artificial Intelligence, 1992.

    Examples
    --------
    >>> from secret_jax import M5Pruning, SecretRegressor
    >>> SecretRegressor(leaf="m5", prune="m5").set_params(prune=M5Pruning()).prune
    M5Pruning()
    """

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """That subtree, and its estimated error, summed over the rows."""
        if isinstance(evidence.leaf, M5Linear):
            own_models = replace(evidence.leaf, smoothing=0.0)
            judged = attach_one(tree, evidence.training, own_models)
        else:
            judged = tree
        spent, n = model_degrees(judged), judged.weight
        left = n - spent
        factor = (n + spent) / np.where(left > 0, left, 1.0)
        error = node_errors(judged, evidence.training, absolute=tree.loss is None)
        own = np.where(left > 0, factor * error, np.inf)
        keep = np.zeros(tree.n_nodes, bool)
        best = own.copy()
        for node in np.flatnonzero(~tree.is_leaf)[::-1]:  # children before parents
            below = best[tree.left[node]] + best[tree.right[node]]
            keep[node] = below < own[node] * (1 - TIE)
            best[node] = min(below, own[node])
        return Pruned(compact(tree, keep), float(best[0]))
