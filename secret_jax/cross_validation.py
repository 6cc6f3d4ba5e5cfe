"""Weakest-link pruning with a price that cross-validation chooses."""

from __future__ import annotations

import numpy as np

from secret_jax.complexity import PruningPath, model_degrees, weakest_links
from secret_jax.prune import pruning_errors
from secret_jax.table import Table
from secret_jax.tree import Tree

# Errors closer than this are equal up to rounding, and the smaller tree wins.
_TIE = 1e-9


def by_cross_validation(
    trees: list[Tree],
    fold_trees: list[list[Tree]],
    fold: np.ndarray,
    table: Table,
    y: np.ndarray,
    weight: np.ndarray,
) -> list[tuple[Tree, float]]:
    """Prune trees at the price of a leaf with the least cross-validated error.

    Breiman, Friedman, Olshen & Stone 1984, section 3.4.2: every part of the rows is
    predicted by a tree that was grown on the others; each subtree of the tree on all
    rows stands for the geometric mean of the prices between which it is the best.

    Parameters
    ----------
    trees : list of Tree
        Grown on all rows.
    fold_trees : list of list of Tree
        For every part trees of the same kinds, grown on the rows outside of it.
    fold : ndarray of shape (n_rows,), int
        Part of every row, counted from 0.
    table : Table
    y : ndarray of shape (n_rows,), float64
        In standardised units.
    weight : ndarray of shape (n_rows,)

    Returns
    -------
    list of tuple (Tree, float)
        A subtree of each tree, the smallest of equals, and the cross-validated sum of
        squared errors at its price, in units of the target squared.
    """
    paths = [_path(tree) for tree in trees]
    prices = [_typical_prices(path.alphas) for path in paths]
    errors = [np.zeros(len(path.alphas)) for path in paths]
    for part, grown in enumerate(fold_trees):
        inside = np.flatnonzero(fold == part)
        held = Table(table.x[inside], table.codes[inside])
        for which, tree in enumerate(grown):
            path = _path(tree)
            error = pruning_errors(tree, held, y[inside], weight[inside])
            index = np.searchsorted(path.alphas, prices[which], side="right") - 1
            scale = tree.schema.target_scale**2
            errors[which] += scale * path.totals(error)[index]
    return [
        _cheapest(tree, path, error)
        for tree, path, error in zip(trees, paths, errors, strict=True)
    ]


def folds(weight: np.ndarray, n_folds: int) -> np.ndarray:
    """Part of every row: slices of like weight, in the order of the rows, int64.

    The order should have nothing to do with the rows' content. Parts without rows are
    left out.

    Examples
    --------
    >>> folds(np.array([1.0, 1.0, 2.0, 1.0, 1.0]), 3)
    array([0, 0, 1, 2, 2])
    """
    middle = np.cumsum(weight) - 0.5 * weight
    part = np.minimum(n_folds * middle / np.sum(weight), n_folds - 1).astype(np.int64)
    return np.unique(part, return_inverse=True)[1]


def _path(tree: Tree) -> PruningPath:
    """Subtrees by the price of a degree of freedom, in units of squared error."""
    return weakest_links(
        tree, tree.train_error * tree.weight, 1.0 + model_degrees(tree)
    )


def _typical_prices(alphas: np.ndarray) -> np.ndarray:
    """A price from within the range in which each subtree is the best."""
    return np.append(np.sqrt(alphas[:-1] * alphas[1:]), np.inf)


def _cheapest(tree: Tree, path: PruningPath, error: np.ndarray) -> tuple[Tree, float]:
    best = int(np.flatnonzero(error <= error.min() * (1 + _TIE))[-1])
    return path.subtree(tree, best), float(error[best])
