"""Models in the nodes, from additive sufficient statistics.

Statistics are taken once, at the leaves; an inner node's are the sums of its
children's. They are centred (mean and scatter, not raw moments), in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Directions with less of the largest variance are treated as dependent.
_RANK_TOLERANCE = 1e-10


class NodeStatistics(NamedTuple):
    """Sufficient statistics of the regressors and the output, per node.

    Attributes
    ----------
    weight : ndarray of shape (n_nodes,), float64
    mean : ndarray of shape (n_nodes, n_regressors + 1), float64
        The output last.
    scatter : ndarray of shape (n_nodes, n_regressors + 1, n_regressors + 1), float64
        Sums of products about the mean.
    lower, upper : ndarray of shape (n_nodes,), float64
        Range of the output; inf and -inf where there is no row.
    """

    weight: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def node_statistics(
    regressors: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    leaf: np.ndarray,
    parent: np.ndarray,
    depth: np.ndarray,
) -> NodeStatistics:
    """Statistics of every node from one pass over the rows.

    Parameters
    ----------
    regressors : ndarray of shape (n_rows, n_regressors)
    y, weight : ndarray of shape (n_rows,)
    leaf : ndarray of shape (n_rows,), int
        Leaf of every row.
    parent, depth : ndarray of shape (n_nodes,), int

    Returns
    -------
    NodeStatistics
    """
    n_nodes, width = len(parent), regressors.shape[1] + 1
    statistics = NodeStatistics(
        weight=np.zeros(n_nodes),
        mean=np.zeros((n_nodes, width)),
        scatter=np.zeros((n_nodes, width, width)),
        lower=np.full(n_nodes, np.inf),
        upper=np.full(n_nodes, -np.inf),
    )
    order = np.argsort(leaf, kind="stable")
    occupied, first = np.unique(leaf[order], return_index=True)
    bounds = np.append(first, len(order))
    for node, start, stop in zip(occupied, bounds[:-1], bounds[1:], strict=True):
        row = order[start:stop]
        joint = np.empty((len(row), width))
        joint[:, :-1] = regressors[row]
        joint[:, -1] = y[row]
        row_weight = weight[row].astype(np.float64)
        total = row_weight.sum()
        mean = row_weight @ joint / total
        joint -= mean
        statistics.weight[node] = total
        statistics.mean[node] = mean
        statistics.scatter[node] = (row_weight[:, None] * joint).T @ joint
        statistics.lower[node] = y[row].min()
        statistics.upper[node] = y[row].max()
    _sum_upwards(statistics, parent, depth)
    return statistics


def _sum_upwards(
    statistics: NodeStatistics, parent: np.ndarray, depth: np.ndarray
) -> None:
    """Add every node's statistics to its parent's, deepest level first, in place."""
    weight, mean, scatter, lower, upper = statistics
    for level in range(depth.max(), 0, -1):
        child = np.flatnonzero(depth == level)
        above = parent[child]
        np.add.at(weight, above, weight[child])
        inner = np.unique(above)
        share = weight[child] / np.where(weight[above] > 0, weight[above], 1.0)
        np.add.at(mean, above, share[:, None] * mean[child])
        offset = mean[child] - mean[above]
        between = weight[child, None, None] * offset[:, :, None] * offset[:, None, :]
        np.add.at(scatter, above, scatter[child] + between)
        np.minimum.at(lower, above, lower[child])
        np.maximum.at(upper, above, upper[child])
        # Rounding must not make the scatter asymmetric.
        scatter[inner] = 0.5 * (scatter[inner] + scatter[inner].transpose(0, 2, 1))


def constant_models(statistics: NodeStatistics) -> np.ndarray:
    """The mean of each node as a model, shape (n_nodes, 1 + n_regressors)."""
    model = np.zeros_like(statistics.mean)
    model[:, 0] = statistics.mean[:, -1]
    return model


def least_squares(statistics: NodeStatistics) -> np.ndarray:
    """Least-squares model of each node.

    Of all solutions the one of least norm, with every regressor in units of its
    standard deviation in the node: dependent and constant columns and nodes with fewer
    rows than regressors need no special care.

    Parameters
    ----------
    statistics : NodeStatistics

    Returns
    -------
    ndarray of shape (n_nodes, 1 + n_regressors), float64
        Intercept and slopes.
    """
    model = constant_models(statistics)
    if statistics.mean.shape[1] == 1:
        return model
    variance = np.einsum("nii->ni", statistics.scatter)[:, :-1]
    per_row = variance / np.maximum(statistics.weight, 1e-300)[:, None]
    # Regressors are standardised over the table: less than this is rounding.
    scale = np.where(per_row > 1e-13, np.sqrt(variance), np.inf)
    correlation = statistics.scatter[:, :-1, :-1] / (scale[:, :, None] * scale[:, None])
    moment = statistics.scatter[:, :-1, -1] / scale
    values, vectors = np.linalg.eigh(correlation)
    kept = values > _RANK_TOLERANCE * np.maximum(values[:, -1:], 1e-300)
    coordinate = np.einsum("nij,ni->nj", vectors, moment)
    coordinate = np.where(kept, coordinate / np.where(kept, values, 1.0), 0.0)
    slopes = np.einsum("nij,nj->ni", vectors, coordinate) / scale
    model[:, 1:] = slopes
    model[:, 0] -= np.sum(slopes * statistics.mean[:, :-1], axis=1)
    return model


def squared_errors(statistics: NodeStatistics, model: np.ndarray) -> np.ndarray:
    """Sum of squared errors of each node's model on the rows behind the statistics.

    Parameters
    ----------
    statistics : NodeStatistics
        Of any rows, not only those that trained the models.
    model : ndarray of shape (n_nodes, 1 + n_regressors)

    Returns
    -------
    ndarray of shape (n_nodes,), float64
    """
    slopes = model[:, 1:]
    residual = np.concatenate([-slopes, np.ones((len(model), 1))], axis=1)
    bias = np.einsum("ni,ni->n", residual, statistics.mean) - model[:, 0]
    spread = np.einsum("ni,nij,nj->n", residual, statistics.scatter, residual)
    return np.maximum(spread, 0.0) + statistics.weight * bias**2


def inherit_where_empty(model: np.ndarray, weight: np.ndarray, parent: np.ndarray):
    """Give nodes without rows their parent's model (or range), in place."""
    for node in np.flatnonzero(weight <= 0):  # parents come first
        if parent[node] >= 0:
            model[node] = model[parent[node]]
