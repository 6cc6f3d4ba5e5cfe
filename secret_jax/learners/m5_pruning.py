"""M5's pruning: bottom-up by errors corrected for the number of parameters."""

from dataclasses import dataclass, replace

import numpy as np

from secret_jax.fit.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.fit.prune.path import TIE
from secret_jax.learners.m5_leaves import M5Linear
from secret_jax.models.errors import node_errors
from secret_jax.models.fitting import fit_models
from secret_jax.tree.degrees import model_degrees
from secret_jax.tree.reshape import compact
from secret_jax.tree.structure import Tree


@dataclass(frozen=True, kw_only=True)
class M5Pruning(PruningRule):
    """Bottom-up pruning by the estimated error of a node against its subtree.

    The mean absolute residual of a node's n training rows, times ``(n + v) / (n - v)``
    with v the parameters of its model (`model_degrees`), estimates its error on other
    rows. So it does for the subtree below the node, which is one model of the same n
    rows: its v are the parameters of all its leaves, and one for every split. It needs
    no other rows. With a loss the mean loss replaces the mean absolute
    residual. M5's leaf models (`secret_jax.learners.M5Linear`) are judged before they
    are smoothed.

    Notes
    -----
    The subtree's v are those of M5', the program of Wang & Witten. By their paper the
    error of a subtree is the mean of its leaves' estimates, each with its own rows and
    v: then a split costs nothing, and two to three times as many leaves are kept.

    References
    ----------
    Quinlan (1992), and Wang & Witten (1997): see `M5Splits`.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import M5Pruning
    >>> SecretRegressor(leaf="m5", prune="m5").set_params(prune=M5Pruning()).prune
    M5Pruning()
    """

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Prune; the value is the estimated error, summed over the rows."""
        if isinstance(evidence.leaf, M5Linear):
            own_models = replace(evidence.leaf, smoothing=0.0)
            judged = fit_models([tree], [evidence.training], own_models)[0]
        else:
            judged = tree
        spent = tree.loss.degrees_of_row(model_degrees(judged), tree.n_outputs)
        n = judged.weight
        error = node_errors(judged, evidence.training, loss=tree.loss.of_sizes)
        best = np.array(list(map(_estimated, error, spent, n)))
        keep = np.zeros(tree.n_nodes, bool)
        for node in np.flatnonzero(~tree.is_leaf)[::-1]:  # children before parents
            children = [tree.left[node], tree.right[node]]
            below_error, below_spent = error[children].sum(), spent[children].sum() + 1
            below = _estimated(below_error, below_spent, float(n[node]))
            keep[node] = below < best[node] * (1 - TIE)
            if keep[node]:  # from here on the node stands for what is below it
                error[node], spent[node], best[node] = below_error, below_spent, below
        return Pruned(compact(tree, keep), float(best[0]))


def _estimated(error: float, spent: float, n: float) -> float:
    """Estimated error on new rows, from n rows and a number of parameters."""
    return error * (n + spent) / (n - spent) if n > spent else np.inf
