"""Errors of trees: per row, per tree, per node.

Errors are squared, or those of the tree's loss.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SquaredError
from secret_jax.models.attach import node_statistics
from secret_jax.models.interface import squared_errors
from secret_jax.tree.routing import values, walk
from secret_jax.tree.structure import Tree


def weighted_errors(
    value: Float[np.ndarray, "n_rows n_outputs"], rows: Rows, loss: Loss
) -> Float[np.ndarray, " n_rows"]:
    """Weighted error of raw predictions for each row, summed over the outputs.

    Parameters
    ----------
    value : ndarray of shape (n_rows, n_outputs)
        In standardised units.

    Returns
    -------
    ndarray of shape (n_rows,), float64
    """
    return rows.weight * loss.losses(rows.targets, value).sum(axis=1)


def total_error(tree: Tree, rows: Rows) -> float:
    """Total weighted error of a tree over rows, in standardised units."""
    return float(weighted_errors(values(tree, rows.table), rows, tree.loss).sum())


def node_errors(
    tree: Tree,
    rows: Rows,
    output_weight: Float[np.ndarray, " n_outputs"] | None = None,
    *,
    absolute: bool = False,
) -> Float[np.ndarray, " n_nodes"]:
    """Error of every node's model on the rows that reach it.

    It is the squared error, or that of the tree's loss.

    Without clipping the rows' sufficient statistics at the leaves give it for all
    nodes; with clipping each row is predicted by every node of its path.

    Parameters
    ----------
    output_weight : ndarray of shape (n_outputs,), optional
        Weight of a squared standardised unit of each output; by default one.
    absolute : bool, default=False
        Absolute errors in place of squared ones.

    Returns
    -------
    ndarray of shape (n_nodes,), float64
        Summed over the weighted rows and the outputs.
    """
    if output_weight is None:
        output_weight = np.ones(tree.n_outputs)
    squares = isinstance(tree.loss, SquaredError)
    if tree.clip_margin is None and squares and not absolute:
        statistics = node_statistics(tree, rows)
        return squared_errors(statistics, tree.coefficient) @ output_weight
    path, prediction = walk(tree, rows.table)
    if absolute:
        error = np.abs(prediction - rows.targets.T)
    else:
        error = [tree.loss.losses(rows.targets, value.T).T for value in prediction]
    error = rows.weight * np.einsum("dor,o->dr", error, output_weight)
    # Below its leaf a row repeats the leaf: count it once.
    error[1:][path[1:] == path[:-1]] = 0.0
    return np.bincount(path.ravel(), error.ravel(), tree.n_nodes)
