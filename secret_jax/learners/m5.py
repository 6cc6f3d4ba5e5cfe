"""M5: splits on one attribute by standard deviations, and pruning bottom-up."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from secret_jax.fit.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.fit.prune.path import TIE
from secret_jax.learners.m5_leaves import M5Linear
from secret_jax.learners.thresholds import PURE, best_cuts, moments
from secret_jax.losses.quantile import Quantile
from secret_jax.models.errors import node_errors
from secret_jax.models.fitting import fit_models
from secret_jax.runtime.linalg import safe_divide
from secret_jax.runtime.values import real
from secret_jax.splits.axis import (
    AxisGains,
    AxisSplits,
    attributes,
    leading_component,
)
from secret_jax.splits.interface import Level
from secret_jax.tree.degrees import model_degrees
from secret_jax.tree.reshape import compact
from secret_jax.tree.structure import Tree

# Of no rows sums are zero, and so are their means.
_NO_WEIGHT = 1e-30


@dataclass(frozen=True, kw_only=True)
class M5Splits(AxisSplits):
    """Splits on one attribute by the largest drop of the standard deviation.

    For a node of n rows with the standard deviation s, a split into parts of n_i rows
    gains ``n s - sum(n_i s_i)``. Unlike the variance this does not favour parts of few
    rows far away from the others so much. Every threshold between two rows is tried.

    Attributes
    ----------
    least_deviation : float, default=0.05
        A node whose output varies less, as a share of its standard deviation in all
        rows, is not split.

    Notes
    -----
    What differs from the paper: a test of a discrete attribute has two outcomes, and
    its categories are divided in the order of their means, as in Wang & Witten (1997).
    Of several outputs the gains are added, each in units of its own deviation.

    References
    ----------
    J. R. Quinlan. Learning with Continuous Classes. Proceedings of the Australian Joint
    Conference on Artificial Intelligence, 1992.

    Y. Wang and I. H. Witten. Inducing Model Trees for Continuous Classes. European
    Conference on Machine Learning, poster papers, 1997.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import M5Splits
    >>> SecretRegressor(splits=M5Splits(), leaf="linear").splits.least_deviation
    0.05
    """

    least_deviation: Annotated[float, real(0.0)] = 0.05

    def gains(self, level: Level) -> AxisGains:
        centred, deviation = moments(level, level.targets)
        variance = level.rows.spread(deviation**2)
        # About their means: sums over many rows keep their digits.
        squares = np.where(level.weight > 0, centred**2 - variance, 0.0)
        values = np.concatenate([centred, squares])
        axis = attributes(level, leading_component(centred, level))

        def less_deviation(sums: np.ndarray, weight: np.ndarray) -> np.ndarray:
            """Reduction of the standard deviation below the node's, times the weight.

            The difference of two roots is that of their squares over their sum: of
            large nodes it would be rounding.
            """
            mean, excess = np.split(sums / np.maximum(weight, _NO_WEIGHT), 2)
            whole = variance[:, None]
            less = np.minimum(mean**2 - excess, whole)
            deviations = np.sqrt(whole) + np.sqrt(whole - less)
            return weight * np.sum(safe_divide(less, deviations), axis=0)

        gain, threshold = best_cuts(level, axis.projection, values, less_deviation)
        pure = (deviation <= max(self.least_deviation, PURE)).all(axis=1)
        return axis, gain, threshold, pure


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
        loss = Quantile() if tree.loss.least_squares else tree.loss  # of sizes
        error = node_errors(judged, evidence.training, loss=loss)
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
