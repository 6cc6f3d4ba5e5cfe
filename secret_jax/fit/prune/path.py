"""Nested subtrees of a tree, from the whole tree to its root.

Weakest-link pruning (Breiman, Friedman, Olshen & Stone 1984, chapter 3) orders the
subtrees of a grown tree in one sequence; a penalty for size chooses among them.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from secret_jax.data.rows import Rows
from secret_jax.models.fitting import node_errors
from secret_jax.tree.reshape import compact
from secret_jax.tree.structure import Tree

# Errors closer than this are equal up to rounding, and the smaller tree wins.
TIE_OF_ERRORS = 1e-9
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

    def index_at(self, penalty: np.ndarray | float) -> np.ndarray:
        """Indices of the best subtrees at given penalties."""
        return np.searchsorted(self.alphas, penalty, side="right") - 1

    def subtree(self, tree: Tree, index: int) -> Tree:
        """Cut the tree of this path to the subtree of an index."""
        return compact(tree, self.step > index)


def weakest_links(
    tree: Tree, error: np.ndarray, size: np.ndarray | None = None
) -> PruningPath:
    """Order the subtrees of a tree by the penalty at which each is the best.

    The subtree with the least ``error + alpha * size``, summed over its leaves, shrinks
    from the whole tree to the root as alpha rises; the next split to go is the one
    that saves the least error per unit of size.

    ``error``, ``size`` (n_nodes,): of every node as a leaf; None: sizes of one. Leaves
    whose models leave terms out may spend less than the node above them: that one then
    counts for one less than they do, as if only the split was saved. Subtrees that are
    never alone the best are left out.
    """
    size = np.ones(tree.n_nodes) if size is None else size
    alpha = _penalties_of_splits(tree, error, size)
    fixed = np.isinf(alpha) & ~tree.is_leaf
    alphas = np.unique(np.maximum(alpha[~tree.is_leaf & ~fixed], 0.0))
    alphas = alphas if len(alphas) and alphas[0] == 0 else np.append(0.0, alphas)
    step = np.searchsorted(alphas, np.maximum(alpha, 0.0))
    step[tree.is_leaf] = 0
    step[fixed] = len(alphas)  # split in every subtree
    return PruningPath(alphas, step, tree.parent)


def _penalties_of_splits(
    tree: Tree, error: np.ndarray, size: np.ndarray
) -> Float[np.ndarray, " n_nodes"]:
    """The penalty of a unit of size from which on each node is no longer split."""
    # The least ``error + alpha * size`` of a subtree bends down at every alpha at which
    # a split goes. The line of a node as a leaf cuts off what lies beyond their
    # crossing: splits below that would go later go with the node.
    inner = np.flatnonzero(~tree.is_leaf)
    triples = np.stack([inner, tree.left[inner], tree.right[inner]], axis=1).tolist()
    # Numbers of Python: nodes are looked at one by one.
    fixed, alpha = np.isinf(tree.gain).tolist(), [np.inf] * tree.n_nodes
    own, own_size = (each.astype(np.float64).tolist() for each in (error, size))
    # What is left of subtrees as alpha becomes infinite; what splits save, and cost.
    far, far_size = own.copy(), own_size.copy()
    saved, more = [0.0] * tree.n_nodes, [0.0] * tree.n_nodes
    going: dict[int, list[tuple[float, int]]] = {}  # rising: the last goes first
    for node, one, other in reversed(triples):  # children come first
        # A split that adds nothing would be cut by no penalty, however high.
        least = own_size[one] + own_size[other] - 1.0
        own_size[node] = far_size[node] = min(own_size[node], least)
        below, below_size = far[one] + far[other], far_size[one] + far_size[other]
        saved[node], more[node] = own[node] - below, below_size - own_size[node]
        later = going[node] = going.pop(one, [])
        later += going.pop(other, ())
        later.sort()
        if fixed[node]:
            far[node], far_size[node] = below, below_size
            continue
        while later and saved[node] < later[-1][0] * more[node]:
            # What it saves goes with the splits below it.
            last = -later.pop()[1]
            saved[node] += saved[last]
            more[node] += more[last]
        later.append((saved[node] / more[node], -node))
        alpha[node] = later[-1][0]
    for node, *children in triples:
        for child in children:
            alpha[child] = min(alpha[child], alpha[node])
    return np.array(alpha)


def training_errors(tree: Tree) -> np.ndarray:
    """Squared error of every node on its training rows, summed over outputs."""
    return tree.weight * tree.train_error.sum(axis=1)


def of_size(tree: Tree, n_leaves: int) -> Tree:
    """Largest subtree on the weakest-link path with at most ``n_leaves`` leaves."""
    path = weakest_links(tree, training_errors(tree))
    sizes = path.totals(np.ones(tree.n_nodes))
    small = np.flatnonzero(sizes <= n_leaves)  # none: all splits are fixed
    return path.subtree(tree, int(small[0]) if len(small) else len(path.alphas) - 1)


def training_path(tree: Tree, rows: Rows) -> tuple[PruningPath, np.ndarray]:
    """Weakest-link path of a tree on its training rows, in the targets' units.

    Returns ``path``: its alphas are penalties of one leaf in units of the targets
    squared; ``errors`` (n_subtrees,), float64: mean squared error of every subtree's
    (clipped) predictions, summed over the outputs.
    """
    error = node_errors(
        tree, rows, tree.loss.error_units(np.array(tree.schema.target_scales))
    )
    error = error / np.sum(rows.weight)
    path = weakest_links(tree, error)
    return path, path.totals(error)


def penalised(tree: Tree, penalty: float) -> Tree:
    """Prune to the least residual sum of squares plus a penalty per parameter.

    Degrees of freedom of models and splits cost so many noise variances of the leaves.
    """
    leaf = tree.is_leaf
    error = training_errors(tree)
    total = tree.weight[0]
    spent = tree.degrees[leaf].sum() + tree.n_leaves - 1
    noise = error[leaf].sum() / max(total - spent, _LEAST_LEFT * total)
    cost = error + penalty * noise * tree.degrees
    return compact(tree, best_splits(tree, cost, penalty * noise))


def best_splits(tree: Tree, cost: np.ndarray, split_cost: float = 0.0) -> np.ndarray:
    """Mask of the splits of the subtree of least total cost; of equals, the smallest.

    ``cost`` (n_nodes,): of every node as a leaf; ``split_cost``: of a split.
    """
    best, keep = cost.astype(np.float64).tolist(), np.isinf(tree.gain).tolist()  # fixed
    left, right = tree.left.tolist(), tree.right.tolist()
    for node in np.flatnonzero(~tree.is_leaf)[::-1].tolist():  # children come first
        below = best[left[node]] + best[right[node]] + split_cost
        keep[node] |= below < best[node] - TIE_OF_ERRORS * abs(best[node])
        best[node] = below if keep[node] else best[node]
    return np.array(keep) & ~tree.is_leaf


def smallest_within(value: np.ndarray, most: float | None = None) -> int:
    """Index of the smallest subtree of a path whose value is at most ``most``.

    By default that is the least value.
    """
    least = float(value.min()) if most is None else most
    return int(np.flatnonzero(value <= least + TIE_OF_ERRORS * abs(least))[-1])
