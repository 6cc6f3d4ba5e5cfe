"""Noise and explained variance of a tree with a loss, measured on rows."""

from __future__ import annotations

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.tree.degrees import model_degrees
from secret_jax.tree.noise import ROUNDING, Spread
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import leaf_totals


def loss_spread(tree: Tree, rows: Rows) -> Spread:
    """Noise of all nodes of a tree with a loss, and its explained share of variance.

    The loss of outliers does not count. The explained variance is the variance of the
    tree's raw predictions, less the part that is due to chance.

    Parameters
    ----------
    rows : Rows
        Rows that trained it.
    """
    loss, weight = tree.loss, rows.weight
    value = values(tree, rows.table).astype(np.float64)
    total = weight.sum()
    degrees = leaf_totals(tree, np.minimum(model_degrees(tree), tree.weight))[0]
    used = min(degrees / max(tree.weight[0], 1e-300), 0.5)
    error = loss.typical(rows.targets, value, weight) / (1.0 - used)
    noise = loss.noise(np.broadcast_to(error, tree.mean.shape), tree.mean)
    noise = np.maximum(noise, ROUNDING**2)
    mean = weight @ value / total
    variance = weight @ (value - mean) ** 2 / total
    explained = np.maximum(variance - used * noise[0], 0.0)
    return Spread(noise, explained / (explained + noise[0]))
