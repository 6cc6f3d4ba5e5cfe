"""Noise variance of every node: spread of the outputs about the models."""

import numpy as np

from secret_jax.tree.degrees import model_degrees
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import leaf_totals

# Degrees of freedom for which the noise around a leaf counts in the leaf.
_BORROWED = 30.0
# A node that seems quieter than this share of the noise around it has too few rows.
_QUIETEST = 1e-3
# A deviation below this share of the target's is what float32 rounds away.
ROUNDING = 1e-6


def noise_variance(tree: Tree) -> np.ndarray:
    """Estimate the variance of the outputs about the true mean in every node.

    The estimate is the squared error of the leaves below a node, per degree of freedom
    that their models did not spend. Its logarithm is averaged with that of the parent's
    noise, which counts as thirty degrees of freedom, so that a leaf with few rows
    borrows from the leaves around it.

    Returns (n_nodes, n_outputs), float64: in standardised units; at least what float32
    rounds away. With a loss, the variance of values that would cost as much as the tree
    errs on average.
    """
    degrees = np.minimum(model_degrees(tree), tree.weight)
    error = leaf_totals(tree, tree.train_error * tree.weight[:, None])
    free = leaf_totals(tree, tree.weight - degrees)
    per_degree = error / np.maximum(free, 1.0)[:, None]
    own = np.maximum(per_degree, ROUNDING**2)
    for node in range(1, tree.n_nodes):
        above = own[tree.parent[node]]
        least = np.maximum(per_degree[node], _QUIETEST * above)
        share = free[node] / (free[node] + _BORROWED)
        own[node] = np.maximum(above * (least / above) ** share, ROUNDING**2)
    noise = tree.loss.noise_of_nodes(per_degree[0], own, tree.mean)
    return np.maximum(noise, ROUNDING**2)
