"""Weakest-link pruning with a price that cross-validation chooses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax.data.table import Table
from secret_jax.prune.path import PruningPath, model_degrees, weakest_links
from secret_jax.prune.reduced_error import pruning_errors
from secret_jax.tree.structure import Tree

# Errors closer than this are equal up to rounding, and the smaller tree wins.
_TIE = 1e-9


class CrossValidated(NamedTuple):
    """What cross-validation makes of a tree.

    Attributes
    ----------
    tree : Tree
        The subtree at the best price.
    error : float
        Cross-validated sum of squared errors, in units of the target squared.
    fold_trees : list of Tree
        The subtrees at that price of the trees of the parts.
    """

    tree: Tree
    error: float
    fold_trees: list[Tree]


def by_cross_validation(
    trees: list[Tree],
    fold_trees: list[list[Tree]],
    fold: np.ndarray,
    table: Table,
    y: np.ndarray,
    weight: np.ndarray,
) -> list[CrossValidated]:
    """Prune trees at the price of a degree of freedom that cross-validates best.

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
    list of CrossValidated
        For each tree; of equals the smallest.
    """
    paths = [_path(tree) for tree in trees]
    prices = [_typical_prices(path.alphas) for path in paths]
    errors = [np.zeros(len(path.alphas)) for path in paths]
    fold_paths = [[_path(tree) for tree in grown] for grown in fold_trees]
    for part, grown in enumerate(fold_trees):
        inside = np.flatnonzero(fold == part)
        held = Table(table.x[inside], table.codes[inside])
        for which, tree in enumerate(grown):
            path = fold_paths[part][which]
            error = pruning_errors(tree, held, y[inside], weight[inside])
            index = _index_at(path, prices[which])
            scale = tree.schema.target_scale**2
            errors[which] += scale * path.totals(error)[index]
    found = []
    for which, (tree, path, error) in enumerate(zip(trees, paths, errors, strict=True)):
        best = int(np.flatnonzero(error <= error.min() * (1 + _TIE))[-1])
        price = prices[which][best]
        parts = [
            path[which].subtree(grown[which], int(_index_at(path[which], price)))
            for path, grown in zip(fold_paths, fold_trees, strict=True)
        ]
        found.append(
            CrossValidated(path.subtree(tree, best), float(error[best]), parts)
        )
    return found


def _index_at(path: PruningPath, price: np.ndarray | float) -> np.ndarray:
    """Which subtrees are the best at prices."""
    return np.searchsorted(path.alphas, price, side="right") - 1


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
