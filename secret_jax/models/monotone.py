"""Trees whose predictions only rise, or only fall, with given columns.

Two rows that differ in one constrained column part at most at a split on it. So it is
enough that slopes have the right signs, and that the predictions of the two sides of
such a split are clipped at one level, between their means, as those of a booster's
trees are (`sklearn.ensemble.HistGradientBoostingRegressor`). Sums leave such columns
out: with contrary directions both sides could only predict the same.
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import lsq_linear

from secret_jax.models.interface import Levels
from secret_jax.models.statistics import NodeStatistics
from secret_jax.tree.structure import Tree

# Variances of regressors grow by this share of one, the variance over the table, in the
# metric of projections: what does not vary in a node is left as it is.
_RIDGE = 1e-3


def with_monotone_models(
    tree: Tree, statistics: NodeStatistics, levels: Levels
) -> Tree:
    """Constrain a tree's models by the directions of its schema, in every subtree.

    ``tree``: one or several, with a model in every node; ``statistics``: of the rows of
    all nodes; ``levels``: yields the rows, whose errors are those of the clipped
    predictions. Without constraints the tree itself.
    """
    schema = tree.schema
    if not schema.monotonic:
        return tree
    n = statistics.n_regressors
    direction = np.zeros(schema.n_columns)
    for attribute, sign in schema.monotonic:
        direction[schema.position_of(attribute)] = sign
    coefficient = _with_signs(tree, statistics, direction[:n])
    tree = replace(tree, coefficient=coefficient, clip_margin=tree.clip_margin or 0.0)
    low, high = (ends.copy() for ends in tree.clip_range())
    slopes, mean = coefficient[:, :, 1:], statistics.mean[:, :n]
    value = coefficient[:, :, 0] + np.einsum("noj,nj->no", slopes, mean)
    for node in np.flatnonzero(~tree.is_leaf):  # parents come first
        sides = [tree.left[node], tree.right[node]]
        for ends in (low, high):
            ends[sides] = np.clip(ends[sides], low[node], high[node])
        level = np.clip(value[sides].mean(axis=0), low[node], high[node])
        asked = np.sign(tree.direction[node]) * direction
        for sign, (below, above) in ((1, sides), (-1, sides[::-1])):
            if (asked == sign).any():
                for ends in (low, high):
                    ends[below] = np.minimum(ends[below], level)
                    ends[above] = np.maximum(ends[above], level)
    error = tree.train_error.copy()
    for group in levels():
        ends = (each[group.node][group.slot] for each in (low, high))
        told = np.clip(group.values(coefficient[group.node]), *ends)
        error[group.node] = group.mean_losses(tree.loss, told)
    return replace(tree, lower=low, upper=high, clip_margin=0.0, train_error=error)


def _with_signs(
    tree: Tree, statistics: NodeStatistics, direction: np.ndarray
) -> np.ndarray:
    """Models with slopes of the right signs that are nearest in squared error."""
    n = len(direction)
    bounds = np.where(direction > 0, 0.0, -np.inf), np.where(direction < 0, 0.0, np.inf)
    coefficient = tree.coefficient.copy()
    wrong = (coefficient[:, :, 1:] * direction < 0).any(axis=2)
    for node, output in zip(*np.nonzero(wrong), strict=True):
        slopes = coefficient[node, output, 1:]
        scatter = statistics.scatter[node, :n, :n]
        metric = scatter / max(float(statistics.weight[node]), 1e-300)
        root = np.linalg.cholesky(metric + _RIDGE * np.eye(n)).T
        nearest = lsq_linear(root, root @ slopes, bounds, method="bvls").x
        nearest = np.clip(nearest, *bounds)  # of rounding
        coefficient[node, output, 0] += (slopes - nearest) @ statistics.mean[node, :n]
        coefficient[node, output, 1:] = nearest
    return coefficient
