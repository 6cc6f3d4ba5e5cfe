"""Measure errors, ranges and levels of a tree with a loss on rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import LONGEST_STEP
from secret_jax.models.attach import inherited, roots
from secret_jax.models.interface import LeafModel
from secret_jax.models.row_groups import groups_of_levels
from secret_jax.tree.structure import Tree


def measured(tree: Tree, rows: Rows, root: np.ndarray, leaf: LeafModel) -> Tree:
    """Measure errors and ranges of a tree with a loss on rows.

    Parameters
    ----------
    tree : Tree
        With models, and the weights of the nodes.
    root : ndarray of shape (n_rows,), int
    leaf : LeafModel
        How values are clipped.

    Returns
    -------
    Tree
        Its errors are mean losses; values are clipped to those of the node's rows, and
        where these are few to those of the nearest ancestor with enough as well.
    """
    error = np.zeros((tree.n_nodes, tree.n_outputs))
    lower, upper = np.full(error.shape, np.inf), np.full(error.shape, -np.inf)
    for group in groups_of_levels(tree, rows, root):
        value = group.values(tree.coefficient[group.node])
        losses = group.weight[:, None] * tree.loss.losses(group.targets, value)
        total = np.add.reduceat(group.weight, group.start)[:, None]
        error[group.node] = np.add.reduceat(losses, group.start) / total
        lower[group.node] = np.minimum.reduceat(value, group.start)
        upper[group.node] = np.maximum.reduceat(value, group.start)
    weight = tree.weight
    of_root = weight[roots(tree)]
    enough = (weight >= np.minimum(leaf.clip_min_samples, of_root)) & (weight > 0)
    return replace(
        tree,
        train_error=error,
        lower=np.minimum(lower, inherited(lower, enough, tree.parent)),
        upper=np.maximum(upper, inherited(upper, enough, tree.parent)),
    )


def recentred(short: Tree, full: Tree, rows: Rows, leaf: LeafModel) -> Tree:
    """Adjust the constants of short equations to the full ones, and measure again.

    Two steps of weighted least squares for the constants bring the mean prediction in
    every node back to that of the full model; models that do not predict means
    keep their level.

    Parameters
    ----------
    short, full : Tree
        The same nodes.
    leaf : LeafModel
        How values are clipped.
    """
    loss = short.loss
    root, coefficient = np.zeros(rows.n_rows, int), short.coefficient.copy()
    if not loss.predicts_means:
        return measured(short, rows, root, leaf)
    for group in groups_of_levels(short, rows, root):
        said = loss.prediction(group.values(full.coefficient[group.node]))
        for _ in range(2):
            for output in range(short.n_outputs):
                value = group.values(coefficient[group.node])
                slope, curvature = loss.working(said, value)
                step = group.sums(slope[:, output]) / group.sums(curvature[:, output])
                coefficient[group.node, output, 0] += np.clip(
                    step, -LONGEST_STEP, LONGEST_STEP
                )
    return measured(replace(short, coefficient=coefficient), rows, root, leaf)
