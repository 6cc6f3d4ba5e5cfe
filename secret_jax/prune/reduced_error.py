"""Pruning: which splits of a grown tree are worth keeping."""

from __future__ import annotations

import numpy as np

from secret_jax.data.table import Table
from secret_jax.models.leaves import node_statistics, squared_errors
from secret_jax.tree.routing import apply, walk
from secret_jax.tree.structure import Tree, compact

# Errors closer than this are equal up to rounding, and the smaller tree wins.
_TIE = 1e-9


def reduced_error(
    tree: Tree, table: Table, y: np.ndarray, weight: np.ndarray
) -> tuple[Tree, float]:
    """Smallest subtree with the least error on the pruning rows.

    Quinlan's reduced-error pruning (section 5.2 of Dobra & Gehrke 2002): bottom-up, a
    node becomes a leaf where its own model errs no more than its subtree.

    Parameters
    ----------
    tree : Tree
    table : Table
        Pruning rows, encoded with ``tree.schema``.
    y : ndarray of shape (n_rows,), float64
        Their output in standardised units.
    weight : ndarray of shape (n_rows,)

    Returns
    -------
    tree : Tree
    error : float
        Its sum of squared errors on the pruning rows.
    """
    own = pruning_errors(tree, table, y, weight)
    best = own.copy()
    keep = np.zeros(tree.n_nodes, bool)
    for depth in range(tree.max_depth - 1, -1, -1):
        node = np.flatnonzero((tree.depth == depth) & ~tree.is_leaf)
        below = best[tree.left[node]] + best[tree.right[node]]
        keep[node] = below < own[node] * (1 - _TIE)
        best[node] = np.where(keep[node], below, own[node])
    return compact(tree, keep), float(best[0])


def penalised(tree: Tree, price: float) -> Tree:
    """Smallest subtree of least training error plus a price for its parameters.

    Cost-complexity pruning (Breiman et al. 1984) with effective degrees of freedom: the
    residual sum of squares plus ``price`` noise variances for each degree of freedom of
    a leaf's model and for each split. It needs no pruning rows.

    Parameters
    ----------
    tree : Tree
        With models; its noise variance is estimated in its leaves.
    price : float
        At least 0, where every split that lowers the training error stays.

    Returns
    -------
    Tree
    """
    leaf = tree.is_leaf
    error = tree.weight * tree.train_error
    total = tree.weight[0]
    spent = tree.degrees[leaf].sum() + tree.n_leaves - 1
    noise = error[leaf].sum() / max(total - spent, 0.3 * total)
    own = error + price * noise * tree.degrees
    best = own.copy()
    keep = np.zeros(tree.n_nodes, bool)
    for node in np.flatnonzero(~leaf)[::-1]:  # children come after their parents
        below = best[tree.left[node]] + best[tree.right[node]] + price * noise
        keep[node] = below < own[node] * (1 - _TIE)
        best[node] = min(below, own[node])
    return compact(tree, keep)


def pruning_errors(
    tree: Tree, table: Table, y: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Squared error of every node's model on the rows that reach it.

    Without clipping the rows' sufficient statistics at the leaves give it for all
    nodes; with clipping each row is predicted by every node of its path.

    Returns
    -------
    ndarray of shape (n_nodes,), float64
        In standardised units squared, summed over the weighted rows.
    """
    if tree.clip_margin is None:
        statistics = node_statistics(
            table.x[:, : tree.schema.n_regressors],
            y,
            weight,
            apply(tree, table),
            tree.parent,
            tree.depth,
        )
        return squared_errors(statistics, tree.coefficient)
    path, prediction = walk(tree, table)
    squared = weight * (prediction - y) ** 2
    # Below its leaf a row repeats the leaf: count it once.
    squared[1:][path[1:] == path[:-1]] = 0.0
    return np.bincount(path.ravel(), squared.ravel(), tree.n_nodes)
