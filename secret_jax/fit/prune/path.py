"""Nested subtrees of a tree, from the whole tree to its root.

Weakest-link pruning (Breiman, Friedman, Olshen & Stone 1984, chapter 3) orders the
subtrees of a grown tree in one sequence; a penalty for size chooses among them.
"""

from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.models.errors import node_errors
from secret_jax.tree.reshape import compact
from secret_jax.tree.structure import Tree

# Errors closer than this are equal up to rounding, and the smaller tree wins.
TIE = 1e-9
# Minimum share of spare degrees assumed for the noise of a tree that spent nearly all.
_LEAST_LEFT = 0.3


class PruningPath(NamedTuple):
    """Nested subtrees of a tree, from the whole tree to its root."""

    # (n_subtrees,), float64: the penalty of a unit of size from which on each subtree
    # is the best; rising, the first is zero.
    alphas: np.ndarray
    # (n_nodes,), int64: the first subtree in which the node is no longer split; 0 for
    # leaves.
    step: np.ndarray
    parent: np.ndarray  # (n_nodes,), int

    def totals(
        self, values: np.ndarray, of_splits: np.ndarray | None = None
    ) -> np.ndarray:
        """Sum ``values`` (n_nodes,) over the leaves of every subtree, (n_subtrees,).

        ``of_splits`` (n_nodes,): what the nodes above the leaves add.
        """
        n_subtrees = len(self.alphas)
        # A node is a leaf from its own step on, until its parent is one.
        last = np.where(self.parent < 0, n_subtrees, self.step[self.parent])
        real = self.step < last
        change = np.zeros(n_subtrees + 1)
        np.add.at(change, self.step[real], values[real])
        np.add.at(change, last[real], -values[real])
        if of_splits is not None:
            change[0] += of_splits.sum()
            np.add.at(change, self.step, -of_splits)
        return np.cumsum(change)[:-1]

    @property
    def n_leaves(self) -> np.ndarray:
        """Number of leaves of every subtree, shape (n_subtrees,)."""
        return self.totals(np.ones(len(self.step)))

    def index_at(self, penalty: np.ndarray | float) -> np.ndarray:
        """Indices of the best subtrees at given penalties."""
        return np.searchsorted(self.alphas, penalty, side="right") - 1

    def typical_penalties(self) -> np.ndarray:
        """Geometric mean of the penalties between which each subtree is the best."""
        return np.append(np.sqrt(self.alphas[:-1] * self.alphas[1:]), np.inf)

    def subtree(self, tree: Tree, index: int) -> Tree:
        """Cut the tree of this path to the subtree of an index."""
        return compact(tree, self.step > index)


def weakest_links(
    tree: Tree, error: np.ndarray, size: np.ndarray | None = None
) -> PruningPath:
    """Order the subtrees of a tree by the penalty at which each is the best.

    The subtree with the least ``error + alpha * size``, summed over its leaves, shrinks
    from the whole tree to the root as alpha rises; the next split to go is the one
    that saves the least error per unit of size. Subtrees that are never alone the best
    are left out.

    ``error``, ``size`` (n_nodes,): of every node as a leaf; by default a size of one.
    Leaves whose models leave terms out may spend less than the node above them: that
    one then counts for one less than they do, as if only the split was saved.
    """
    # Numbers of Python: the nodes are few, and are looked at one by one.
    left, right, parent = tree.left.tolist(), tree.right.tolist(), tree.parent.tolist()
    inner = np.flatnonzero(~tree.is_leaf).tolist()[::-1]  # children come first
    own_error = error.astype(np.float64).tolist()
    own_size = (np.ones(tree.n_nodes) if size is None else size * 1.0).tolist()
    for node in inner:  # a split that adds nothing would be cut by no penalty
        least = own_size[left[node]] + own_size[right[node]] - 1.0
        own_size[node] = min(own_size[node], least)
    error_below, size_below = own_error.copy(), own_size.copy()
    per_unit = [np.inf] * tree.n_nodes  # of leaves, and fixed splits, infinite
    fixed = np.isinf(tree.gain)
    for node in inner:
        error_below[node] = error_below[left[node]] + error_below[right[node]]
        size_below[node] = size_below[left[node]] + size_below[right[node]]
        saved = own_error[node] - error_below[node]
        if not fixed[node]:
            per_unit[node] = saved / (size_below[node] - own_size[node])
    step = np.zeros(tree.n_nodes, np.int64)
    alphas = [0.0]
    for _ in range(tree.n_nodes):
        least = min(per_unit)
        if least == np.inf:
            break
        node = per_unit.index(least)
        if least > alphas[-1]:
            alphas.append(least)
        below = [node]
        while below:
            gone = below.pop()
            if per_unit[gone] < np.inf:
                per_unit[gone], step[gone] = np.inf, len(alphas) - 1
                below += (left[gone], right[gone])
        less_error = error_below[node] - own_error[node]
        less_size = size_below[node] - own_size[node]
        error_below[node], size_below[node] = own_error[node], own_size[node]
        while (node := parent[node]) >= 0:
            error_below[node] -= less_error
            size_below[node] -= less_size
            saved = own_error[node] - error_below[node]
            if not fixed[node]:
                per_unit[node] = saved / (size_below[node] - own_size[node])
    step[fixed] = len(alphas)  # split in every subtree
    return PruningPath(np.array(alphas), step, tree.parent)


def training_errors(tree: Tree) -> np.ndarray:
    """Squared error of every node on its training rows, summed over outputs."""
    return tree.weight * tree.train_error.sum(axis=1)


def of_size(tree: Tree, n_leaves: int) -> Tree:
    """Largest subtree on the weakest-link path with at most ``n_leaves`` leaves."""
    path = weakest_links(tree, training_errors(tree))
    small = np.flatnonzero(path.n_leaves <= n_leaves)  # none: all splits are fixed
    return path.subtree(tree, int(small[0]) if len(small) else len(path.alphas) - 1)


def training_path(tree: Tree, rows: Rows) -> tuple[PruningPath, np.ndarray]:
    """Weakest-link path of a tree on its training rows, in the targets' units.

    Its alphas are penalties of one leaf in units of the targets squared. Also returns
    the mean squared error (n_subtrees,) of every subtree's (clipped) predictions,
    summed over the outputs.
    """
    units = tree.loss.error_units(np.array(tree.schema.target_scales))
    error = node_errors(tree, rows, units) / np.sum(rows.weight)
    path = weakest_links(tree, error)
    return path, path.totals(error)


def penalised(tree: Tree, penalty: float) -> Tree:
    """Prune to the least training error plus a penalty per parameter.

    The penalty is in noise variances, as the leaves of the tree estimate it, for each
    degree of freedom of a leaf's model and for each split.
    """
    leaf, error, total = tree.is_leaf, training_errors(tree), tree.weight[0]
    spent = tree.degrees[leaf].sum() + tree.n_leaves - 1
    noise = error[leaf].sum() / max(total - spent, _LEAST_LEFT * total)
    cost = error + penalty * noise * tree.degrees
    return compact(tree, best_splits(tree, cost, penalty * noise))


def best_splits(tree: Tree, cost: np.ndarray, split_cost: float = 0.0) -> np.ndarray:
    """Find the splits of the subtree of least total cost; of equals, the smallest.

    ``cost`` (n_nodes,): of every node as a leaf; ``split_cost``: of a split. Returns
    (n_nodes,), bool: whether its children are kept, if it is.
    """
    best, keep = cost.copy(), np.zeros(tree.n_nodes, bool)
    for node in np.flatnonzero(~tree.is_leaf)[::-1]:  # children before parents
        below = best[tree.left[node]] + best[tree.right[node]] + split_cost
        keep[node] = below < cost[node] - TIE * abs(cost[node])
        keep[node] |= np.isinf(tree.gain[node])  # of a fixed split
        best[node] = below if keep[node] else cost[node]
    return keep


def smallest_within(value: np.ndarray, most: float | None = None) -> int:
    """Index of the smallest subtree whose value is at most ``most``, or the least."""
    least = float(value.min()) if most is None else most
    return int(np.flatnonzero(value <= least + TIE * abs(least))[-1])
