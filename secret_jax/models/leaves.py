"""Models in the nodes, from additive sufficient statistics.

Statistics are taken once, at the leaves; an inner node's are the sums of its
children's. They are centred (mean and scatter, not raw moments), and of few rows also
the products are in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from secret_jax.models.statistics import NodeStatistics, group_statistics, no_statistics

# Directions with less of the largest variance are treated as dependent.
_RANK_TOLERANCE = 1e-10
# More rows go through the device, in products of float32 numbers.
_FLOAT64_ROWS = 1 << 15


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
    n_nodes = len(parent)
    if len(y) > _FLOAT64_ROWS:
        occupied = np.flatnonzero(np.bincount(leaf, minlength=n_nodes))
        number = np.zeros(n_nodes, np.int32)
        number[occupied] = np.arange(len(occupied))
        found = group_statistics(regressors, y, weight, number[leaf], len(occupied))
    else:
        order = np.argsort(leaf, kind="stable")
        occupied, first = np.unique(leaf[order], return_index=True)
        found = slice_statistics(
            regressors, y, weight, order, first, np.append(first, len(order))[1:]
        )
    statistics = no_statistics(n_nodes, regressors.shape[1])
    for whole, part in zip(statistics, found, strict=True):
        whole[occupied] = part
    _sum_upwards(statistics, parent, depth)
    return statistics


def slice_statistics(
    regressors: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    order: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
) -> NodeStatistics:
    """Statistics of the rows ``order[start:stop]`` for each of several slices."""
    statistics = no_statistics(len(start), regressors.shape[1])
    width = regressors.shape[1] + 1
    for index, (first, last) in enumerate(zip(start, stop, strict=True)):
        if first == last:
            continue
        row = order[first:last]
        joint = np.empty((len(row), width))
        joint[:, :-1] = regressors[row]
        joint[:, -1] = y[row]
        statistics.lower[index] = joint[:, -1].min()
        statistics.upper[index] = joint[:, -1].max()
        row_weight = weight[row].astype(np.float64)
        total = row_weight.sum()
        mean = row_weight @ joint / total
        joint -= mean
        statistics.weight[index] = total
        statistics.mean[index] = mean
        statistics.scatter[index] = (row_weight[:, None] * joint).T @ joint
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
    scale = np.where(per_row > 1e-12, np.sqrt(variance), np.inf)
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


# With more priced degrees of freedom for a row the score cannot be trusted.
_MOST_PRICE = 0.4
# Ridge strengths in units of the regressors' variances.
_RIDGE_GRID = np.logspace(-6, 2.5, 18)


def shrink_toward(
    statistics: NodeStatistics, base: np.ndarray, gcv_factor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ridge correction of a given model for each node, by cross-validation.

    The residual of ``base`` is regressed with the ridge strength of least generalised
    cross-validation error; infinite strength is among the choices, so that "no change
    but the mean" can win.

    Parameters
    ----------
    statistics : NodeStatistics
    base : ndarray of shape (n_nodes, 1 + n_regressors)
        What each model is shrunk toward, usually the parent's.
    gcv_factor : float
        Price of an effective degree of freedom.

    Returns
    -------
    model : ndarray of shape (n_nodes, 1 + n_regressors), float64
    degrees : ndarray of shape (n_nodes,), float64
        Effective degrees of freedom spent on the correction.
    """
    weight = np.maximum(statistics.weight, 1e-300)
    slopes = base[:, 1:]
    mean, scatter = statistics.mean, statistics.scatter / weight[:, None, None]
    covariance = scatter[:, :-1, :-1]
    moment = scatter[:, :-1, -1] - np.einsum("nij,nj->ni", covariance, slopes)
    residual_variance = np.maximum(
        scatter[:, -1, -1]
        - np.einsum("ni,ni->n", slopes, moment + scatter[:, :-1, -1]),
        0.0,
    )
    shift = mean[:, -1] - base[:, 0] - np.einsum("ni,ni->n", slopes, mean[:, :-1])
    correction, degrees = _ridge_by_cross_validation(
        covariance, moment, residual_variance, weight, gcv_factor
    )
    model = base.copy()
    model[:, 1:] += correction
    model[:, 0] += shift - np.einsum("ni,ni->n", correction, mean[:, :-1])
    empty = statistics.weight <= 0
    return np.where(empty[:, None], base, model), np.where(empty, 0.0, degrees)


def _ridge_by_cross_validation(
    covariance: np.ndarray,
    moment: np.ndarray,
    variance: np.ndarray,
    weight: np.ndarray,
    gcv_factor: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and degrees of freedom of the ridge of least GCV error, per node."""
    n_nodes, n_regressors = moment.shape
    if n_regressors == 0:
        return np.zeros((n_nodes, 0)), np.ones(n_nodes)
    deviation = np.sqrt(np.maximum(np.einsum("nii->ni", covariance), 0.0))
    # Regressors are standardised over the table: less than this does not vary.
    scale = np.where(deviation > 1e-6, deviation, np.inf)
    values, vectors = np.linalg.eigh(
        covariance / (scale[:, :, None] * scale[:, None, :])
    )
    values = np.maximum(values, 0.0)
    coordinate = np.einsum("nij,ni->nj", vectors, moment / scale)
    squared = coordinate[:, :, None] ** 2
    shrunk = 1.0 / (values[:, :, None] + _RIDGE_GRID)
    error = variance[:, None] + np.sum(
        squared * shrunk * (values[:, :, None] * shrunk - 2.0), axis=1
    )
    error = np.maximum(error, 1e-12 * variance[:, None])
    degrees = 1.0 + np.sum(values[:, :, None] * shrunk, axis=1)
    price = gcv_factor * degrees / weight[:, None]
    left_over = 1.0 - np.minimum(price, _MOST_PRICE)
    score = np.where(price < _MOST_PRICE, error / left_over**2, np.inf)
    nothing = variance / np.maximum(1.0 - gcv_factor / weight, 1e-3) ** 2
    best = np.argmin(score, axis=1)
    node = np.arange(n_nodes)
    changed = (score[node, best] < nothing) & (weight > 2)
    chosen = np.where(changed[:, None], coordinate * shrunk[node, :, best], 0.0)
    slopes = np.einsum("nij,nj->ni", vectors, chosen) / scale
    return slopes, np.where(changed, degrees[node, best], 1.0)


def shrunken_models(
    statistics: NodeStatistics,
    parent: np.ndarray,
    depth: np.ndarray,
    gcv_factor: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Ridge model of every node, shrunk toward its parent's shrunken model.

    Parameters
    ----------
    statistics : NodeStatistics
    parent, depth : ndarray of shape (n_nodes,), int
    gcv_factor : float
        As in `shrink_toward`.

    Returns
    -------
    model : ndarray of shape (n_nodes, 1 + n_regressors), float64
    degrees : ndarray of shape (n_nodes,), float64
        Effective degrees of freedom of each node's correction.
    """
    model = np.zeros_like(statistics.mean)
    degrees = np.zeros(len(model))
    for level in range(depth.max() + 1):
        node = np.flatnonzero(depth == level)
        base = model[parent[node]] if level else np.zeros((len(node), model.shape[1]))
        part = NodeStatistics(*(array[node] for array in statistics))
        model[node], degrees[node] = shrink_toward(part, base, gcv_factor)
    return model, degrees


def least_squares_models(
    statistics: NodeStatistics,
    parent: np.ndarray,
    depth: np.ndarray,
    gcv_factor: float,
) -> tuple[np.ndarray, np.ndarray]:
    """`least_squares` with one degree of freedom a coefficient, as a `LeafModel`."""
    del parent, depth, gcv_factor
    width = float(statistics.mean.shape[1])
    return least_squares(statistics), np.minimum(statistics.weight, width)


LeafModel = Callable[
    [NodeStatistics, np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]
]
"""From (statistics, parent, depth, gcv_factor) to models and degrees of freedom.

The models are of shape (n_nodes, 1 + n_regressors), intercept and slopes in
standardised units, the degrees of shape (n_nodes,). Parents come before their children,
and every node, not only the leaves, gets a model: pruning needs them.
"""

LEAF_MODELS: dict[str, LeafModel] = {
    "shrunken": shrunken_models,
    "linear": least_squares_models,
    "constant": least_squares_models,  # the estimator leaves it no regressors
    "em": least_squares_models,  # for the root; the mixtures' replace the others
}
"""What the estimator's ``leaf`` may be. CONTRIBUTING.md adds one as an example."""


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


def inherit(values: np.ndarray, own: np.ndarray, parent: np.ndarray) -> None:
    """Replace the values of nodes that have none of their ``own``, in place.

    They take those of the nearest ancestor that has.
    """
    for node in np.flatnonzero(~own & (parent >= 0)):  # parents come first
        values[node] = values[parent[node]]
