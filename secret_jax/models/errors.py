"""Errors of trees by their losses: per row, per tree, per node."""

import collections

import numpy as np
from jaxtyping import Float

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import Loss
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.parallel import in_blocks
from secret_jax.tree.routing import paths_of, values
from secret_jax.tree.structure import Tree
from secret_jax.tree.walk import values_at


def weighted_errors(
    value: Float[np.ndarray, "n_rows n_outputs"], rows: Rows, loss: Loss
) -> Float[np.ndarray, " n_rows"]:
    """Weighted loss of raw predictions for each row, summed over the outputs."""
    return rows.weight * loss.losses(rows.targets, value).sum(axis=1)


def row_errors(tree: Tree, rows: Rows) -> Float[np.ndarray, " n_rows"]:
    """Weighted loss of a tree for each row, summed over the outputs."""
    return weighted_errors(values(tree, rows.table), rows, tree.loss)


def total_error(tree: Tree, rows: Rows) -> float:
    """Total weighted loss of a tree over rows, in standardised units."""
    return float(row_errors(tree, rows).sum())


def node_errors(
    tree: Tree,
    rows: Rows,
    output_weight: Float[np.ndarray, " n_outputs"] | None = None,
    *,
    loss: Loss | None = None,
) -> Float[np.ndarray, " n_nodes"]:
    """Total loss of every node's model on the rows that reach it.

    ``output_weight``: weight of each output; by default one; ``loss``: another one than
    the tree's. Summed over the weighted rows and the outputs.
    """
    loss, table = loss or tree.loss, rows.table.on_host()
    path = paths_of(tree, rows.table)
    error = np.zeros(path.shape)
    # Below its leaf a row repeats the leaf: count it once.
    reached = np.ones(path.shape, bool)
    reached[1:] = path[1:] != path[:-1]
    weight = np.ones(tree.n_outputs) if output_weight is None else output_weight

    def block(part: slice) -> None:
        mine = reached[:, part]
        row = part.start + np.nonzero(mine)[1]
        value = values_at(tree, table.take(row), path[:, part][mine])
        losses = loss.losses(rows.targets[row], value)
        error[:, part][mine] = rows.weight[row] * (losses @ weight)

    collections.deque(in_blocks(block, rows.n_rows), maxlen=0)
    return np.bincount(path.ravel(), error.ravel(), tree.n_nodes)


def squared_errors(
    statistics: NodeStatistics, coefficient: Float[np.ndarray, "n_nodes n_outputs _"]
) -> Float[np.ndarray, "n_nodes n_outputs"]:
    """Sum of squared errors of the nodes' models on the rows of any statistics."""
    errors = np.empty(coefficient.shape[:2])
    for output in range(coefficient.shape[1]):
        _, mean, scatter, *_ = statistics.output(output)
        model = coefficient[:, output]
        # The residual as a sum of the regressors and the output.
        residual = np.concatenate([-model[:, 1:], np.ones((len(model), 1))], axis=1)
        bias = np.einsum("ni,ni->n", residual, mean) - model[:, 0]
        spread = np.einsum("ni,nij,nj->n", residual, scatter, residual)
        errors[:, output] = np.maximum(spread, 0.0) + statistics.weight * bias**2
    return errors
