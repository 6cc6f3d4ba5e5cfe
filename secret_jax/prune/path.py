"""Pruning on the training rows alone: weakest links and information criteria.

Weakest-link pruning (Breiman, Friedman, Olshen & Stone 1984, chapter 3) orders the
subtrees of a grown tree in one nested sequence; a price of a leaf, or a criterion,
chooses among them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax.data.table import Table
from secret_jax.models.leaves import NodeStatistics, node_statistics
from secret_jax.prune.reduced_error import pruning_errors
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import SplitKind, Tree, compact

# Squared errors below this share of the target's variance are float32's rounding.
_ROUNDING = 1e-12


class PruningPath(NamedTuple):
    """The nested subtrees of a tree, from the whole tree to its root.

    Attributes
    ----------
    alphas : ndarray of shape (n_subtrees,), float64
        The price of a unit of size from which on each subtree is the best; rising,
        the first is zero.
    step : ndarray of shape (n_nodes,), int64
        The first subtree in which the node is no longer split; 0 for leaves.
    parent : ndarray of shape (n_nodes,), int
    """

    alphas: np.ndarray
    step: np.ndarray
    parent: np.ndarray

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Sums of a quantity of the nodes over the leaves of every subtree.

        Parameters
        ----------
        values : ndarray of shape (n_nodes,)

        Returns
        -------
        ndarray of shape (n_subtrees,), float64
        """
        n_subtrees = len(self.alphas)
        # A node is a leaf from its own step on, until its parent is one.
        last = np.where(self.parent < 0, n_subtrees, self.step[self.parent])
        real = self.step < last
        change = np.zeros(n_subtrees + 1)
        np.add.at(change, self.step[real], values[real])
        np.add.at(change, last[real], -values[real])
        return np.cumsum(change)[:-1]

    def subtree(self, tree: Tree, index: int) -> Tree:
        """One of the subtrees of the tree that the path was made from."""
        return compact(tree, self.step > index)


def weakest_links(
    tree: Tree, error: np.ndarray, size: np.ndarray | None = None
) -> PruningPath:
    """Order the subtrees of a tree by the price at which each is the best.

    The subtree with the least ``error + alpha * size``, summed over its leaves, shrinks
    from the whole tree to the root as alpha rises; always that split goes next that
    saves the least error per unit of size.

    Parameters
    ----------
    tree : Tree
    error : ndarray of shape (n_nodes,)
        Error of every node as a leaf, in units that add up.
    size : ndarray of shape (n_nodes,), optional
        What every node adds to the size as a leaf; by default one. A subtree must be
        larger than its root.

    Returns
    -------
    PruningPath
        Subtrees that are never alone the best are left out.
    """
    size = np.ones(tree.n_nodes) if size is None else size
    error_below = error.astype(np.float64)
    size_below = size.astype(np.float64)
    for node in np.flatnonzero(~tree.is_leaf)[::-1]:  # children before parents
        children = [tree.left[node], tree.right[node]]
        error_below[node] = error_below[children].sum()
        size_below[node] = size_below[children].sum()
    split = ~tree.is_leaf
    step = np.zeros(tree.n_nodes, np.int64)
    alphas = [0.0]
    while split.any():
        saved = np.where(split, error - error_below, np.inf)
        price = saved / np.where(split, size_below - size, 1.0)
        node = int(np.argmin(price))
        if price[node] > alphas[-1]:
            alphas.append(float(price[node]))
        gone = _below(tree, node) & split
        split &= ~gone
        step[gone] = len(alphas) - 1
        less_error = error_below[node] - error[node]
        less_size = size_below[node] - size[node]
        while node >= 0:
            error_below[node] -= less_error
            size_below[node] -= less_size
            node = int(tree.parent[node])
    return PruningPath(np.array(alphas), step, tree.parent)


def _below(tree: Tree, node: int) -> np.ndarray:
    """Mask of a node and its descendants."""
    mask = np.zeros(tree.n_nodes, bool)
    waiting = [node]
    while waiting:
        current = waiting.pop()
        mask[current] = True
        if tree.left[current] >= 0:
            waiting += [int(tree.left[current]), int(tree.right[current])]
    return mask


def training_path(
    tree: Tree, table: Table, y: np.ndarray, weight: np.ndarray
) -> tuple[PruningPath, np.ndarray]:
    """The weakest-link path of a tree on its training rows, in the target's units.

    Parameters
    ----------
    tree : Tree
    table : Table
    y : ndarray of shape (n_rows,), float64
        In standardised units.
    weight : ndarray of shape (n_rows,)

    Returns
    -------
    path : PruningPath
        Its alphas are prices of one leaf in units of the target squared.
    errors : ndarray of shape (n_subtrees,), float64
        Mean squared error of every subtree's (clipped) predictions.
    """
    error = pruning_errors(tree, table, y, weight)
    error = error / np.sum(weight) * tree.schema.target_scale**2
    path = weakest_links(tree, error)
    return path, path.totals(error)


def cost_complexity(
    tree: Tree, table: Table, y: np.ndarray, weight: np.ndarray, ccp_alpha: float
) -> Tree:
    """The subtree with the least ``mean squared error + ccp_alpha * n_leaves``.

    Of several the smallest. Parameters as in `training_path`.
    """
    path, _ = training_path(tree, table, y, weight)
    index = int(np.searchsorted(path.alphas, ccp_alpha, side="right")) - 1
    return path.subtree(tree, index)


def model_degrees(tree: Tree) -> np.ndarray:
    """Effective degrees of freedom of every node's model, with its ancestors' share.

    A node's own correction spends ``tree.degrees``; what it corrects, its parent's
    model, was fitted on the parent's rows and brings along their share of its degrees,
    as far as the correction leaves it in place. Exact for least squares (one degree a
    coefficient) and for ridge without any shrinkage.

    Returns
    -------
    ndarray of shape (n_nodes,), float64
    """
    most = 1.0 + tree.schema.n_regressors
    degrees = np.minimum(tree.degrees, most).astype(np.float64)
    for node in range(1, tree.n_nodes):  # parents come before children
        above = tree.parent[node]
        share = tree.weight[node] / max(tree.weight[above], 1e-300)
        left_in_place = 1.0 - tree.degrees[node] / most
        degrees[node] += max(left_in_place, 0.0) * share * degrees[above]
    return np.minimum(degrees, most)


def split_degrees(tree: Tree) -> np.ndarray:
    """Numbers that describe every node's split: zero in leaves, float64.

    A threshold is one; an oblique split is a direction up to its length, and a
    threshold; a set of categories is one yes or no per category up to its complement.
    """
    degrees = np.zeros(tree.n_nodes)
    degrees[tree.kind == SplitKind.AXIS] = 1.0
    oblique = tree.kind == SplitKind.OBLIQUE
    degrees[oblique] = np.count_nonzero(tree.direction[oblique], axis=1)
    categories = np.array([len(c) for c in tree.schema.categories] or [0])
    discrete = tree.kind == SplitKind.DISCRETE
    degrees[discrete] = np.maximum(categories[tree.attribute[discrete]] - 1, 1)
    return degrees


def by_criterion(
    tree: Tree, table: Table, y: np.ndarray, weight: np.ndarray, criterion: str
) -> tuple[Tree, float]:
    """The subtree with the least information criterion on the training rows.

    The noise is taken as normal with one variance, so that twice the negative
    log-likelihood is ``n log(RSS / n)`` up to a constant. To it

    - ``"aic"`` adds ``2 n / (n - k - 1)`` for each of k parameters: Akaike's 2 with the
      correction of Hurvich & Tsai (1989), without which large trees look too good,
    - ``"bic"`` adds ``log n`` for every parameter (Schwarz 1978),
    - ``"icomp"`` adds ``2 C1(F⁻¹)``, where F⁻¹ is the covariance matrix of the
      estimated parameters and ``C1(S) = q/2 log(trace(S) / q) - 1/2 log det(S)``, q the
      rank of S (Bozdogan 1988): a covariance costs the more, the more unequal its
      eigenvalues are.

    Parameters are the effective degrees of freedom of the leaf models
    (`model_degrees`), the numbers in the splits (`split_degrees`) and the variance.
    For ICOMP the matrix is block diagonal: for each leaf with n rows and scatter S of
    the standardised regressors about their mean, ``σ²/n`` for the level at the mean
    and ``σ² (S + I)⁻¹`` for the slopes, and once ``2 σ⁴/N`` for σ². Adding I is a prior
    worth one row; without it a column that is constant in a leaf would make the trace
    infinite. Splits have no Fisher information and are charged as by AIC.

    A split is chosen because it saves much, so all three criteria think too well of
    it, the more so the more candidates there were.

    Parameters
    ----------
    tree : Tree
    table : Table
        The training rows, encoded.
    y : ndarray of shape (n_rows,), float64
        In standardised units.
    weight : ndarray of shape (n_rows,)
    criterion : {"aic", "bic", "icomp"}

    Returns
    -------
    tree : Tree
        One of the subtrees of the weakest-link path whose size is the number of
        parameters.
    value : float
        Its criterion, comparable between trees of the same rows.

    References
    ----------
    C. M. Hurvich and C.-L. Tsai. Regression and Time Series Model Selection in Small
    Samples. Biometrika 76, 1989.

    H. Bozdogan. ICOMP: A New Model-Selection Criterion. In H. H. Bock (ed.),
    Classification and Related Methods of Data Analysis. North-Holland, 1988.

    J. M. Lanning. A Kernelized Genetic Algorithm Decision Tree with Information
    Criteria. Dissertation, University of Tennessee, 2008, sections 1.1.2 and 3.2.2
    (where (3.23) must divide by the rows of the node, and the last line of (3.32) by
    the squared rows).
    """
    error = pruning_errors(tree, table, y, weight)
    n = float(np.sum(weight))
    splits = _splits_above(tree)
    degrees = model_degrees(tree)
    path = weakest_links(tree, error, degrees + splits)
    variance = np.maximum(path.totals(error) / n, _ROUNDING)
    parameters = path.totals(degrees + splits) + 1.0
    if criterion == "aic":
        # With as many parameters as rows nothing is left to estimate the noise from.
        spare = n - parameters - 1.0
        price = np.where(spare > 0, 2.0 * n / np.where(spare > 0, spare, 1.0), np.inf)
        penalty = price * parameters
    elif criterion == "bic":
        penalty = np.log(n) * parameters
    else:
        statistics = node_statistics(
            table.x[:, : tree.schema.n_regressors],
            y,
            weight,
            apply(tree, table),
            tree.parent,
            tree.depth,
        )
        penalty = 2.0 * covariance_complexity(path, statistics, variance)
        penalty = penalty + 2.0 * path.totals(splits)
    value = n * np.log(variance) + penalty
    best = len(value) - 1 - int(np.argmin(value[::-1]))  # of equals the smallest
    return path.subtree(tree, best), float(value[best])


def _splits_above(tree: Tree) -> np.ndarray:
    """Shares of the splits such that a subtree's leaves add up to its splits.

    A node passes what it got from above, and its own split, on to its children.
    """
    own = split_degrees(tree)
    share = np.zeros(tree.n_nodes)
    for node in range(1, tree.n_nodes):  # parents come before children
        above = tree.parent[node]
        share[node] = 0.5 * (share[above] + own[above])
    return share


def covariance_complexity(
    path: PruningPath, statistics: NodeStatistics, variance: np.ndarray
) -> np.ndarray:
    """Bozdogan's C1 of the parameters' covariance matrix, for every subtree.

    See `by_criterion` for the matrix.

    Parameters
    ----------
    path : PruningPath
    statistics : NodeStatistics
        Of the training rows.
    variance : ndarray of shape (n_subtrees,)
        Of the noise, as each subtree estimates it.

    Returns
    -------
    ndarray of shape (n_subtrees,), float64
    """
    weight = np.maximum(statistics.weight, 1e-300)
    scatter = statistics.scatter[:, :-1, :-1]
    values = np.linalg.eigvalsh(scatter + np.eye(scatter.shape[-1]))
    values = np.maximum(values, 1.0)
    # For a noise of variance one; the noise is a factor of every block but the last.
    trace = path.totals(1.0 / weight + np.sum(1.0 / values, axis=1))
    log_det = path.totals(-np.log(weight) - np.sum(np.log(values), axis=1))
    n_leaves = path.totals(np.ones(len(weight)))
    rank = n_leaves * (1 + scatter.shape[-1])
    last = 2.0 * variance**2 / weight[0]
    trace = variance * trace + last
    log_det = rank * np.log(variance) + log_det + np.log(last)
    rank = rank + 1
    return 0.5 * rank * np.log(trace / rank) - 0.5 * log_det
