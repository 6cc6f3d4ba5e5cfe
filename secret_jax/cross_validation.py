"""Weakest-link pruning with a price that cross-validation chooses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from secret_jax.complexity import PruningPath, training_path
from secret_jax.prune import pruning_errors
from secret_jax.table import Table
from secret_jax.tree import Tree

# Errors closer than this are equal up to rounding, and the smaller tree wins.
_TIE = 1e-9


def by_cross_validation(
    trees: list[Tree],
    table: Table,
    y: np.ndarray,
    weight: np.ndarray,
    grow: Callable[[np.ndarray], list[Tree]],
    n_folds: int,
) -> list[tuple[Tree, float]]:
    """Prune trees at the price of a leaf with the least cross-validated error.

    Breiman, Friedman, Olshen & Stone 1984, section 3.4.2: every part of the rows is
    predicted by a tree that was grown on the others; each subtree of the tree on all
    rows stands for the geometric mean of the prices between which it is the best.

    Parameters
    ----------
    trees : list of Tree
        Grown on all rows.
    table : Table
        The rows, in an order that has nothing to do with their content: the parts are
        slices of it.
    y : ndarray of shape (n_rows,), float64
        In standardised units.
    weight : ndarray of shape (n_rows,)
    grow : callable
        Trees of the same kinds as ``trees``, grown on the rows of an index.
    n_folds : int

    Returns
    -------
    list of tuple (Tree, float)
        A subtree of each tree, the smallest of equals, and the cross-validated sum of
        squared errors at its price, in units of the target squared.
    """
    paths = [training_path(tree, table, y, weight)[0] for tree in trees]
    prices = [_typical_prices(path.alphas) for path in paths]
    errors = [np.zeros(len(path.alphas)) for path in paths]
    fold = folds(weight, n_folds)
    for part in np.unique(fold):
        inside, outside = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
        if len(outside) == 0:  # a single row: nothing to choose
            continue
        held = Table(table.x[inside], table.codes[inside])
        rest = Table(table.x[outside], table.codes[outside])
        for which, tree in enumerate(grow(outside)):
            path, _ = training_path(tree, rest, y[outside], weight[outside])
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

    Examples
    --------
    >>> folds(np.array([1.0, 1.0, 2.0, 1.0, 1.0]), 3)
    array([0, 0, 1, 2, 2])
    """
    middle = np.cumsum(weight) - 0.5 * weight
    return np.minimum(n_folds * middle / np.sum(weight), n_folds - 1).astype(np.int64)


def _typical_prices(alphas: np.ndarray) -> np.ndarray:
    """A price from within the range in which each subtree is the best."""
    return np.append(np.sqrt(alphas[:-1] * alphas[1:]), np.inf)


def _cheapest(tree: Tree, path: PruningPath, error: np.ndarray) -> tuple[Tree, float]:
    best = int(np.flatnonzero(error <= error.min() * (1 + _TIE))[-1])
    return path.subtree(tree, best), float(error[best])
