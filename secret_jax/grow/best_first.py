"""Where growth of trees with a most number of leaves may stop before it is done.

A node's split does not depend on when it is made, so trees grow level by level and are
cut to their best splits afterwards. What the cut cannot keep need not be searched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class BestFirst:
    """How many splits best-first growth makes before it comes to a node, at least.

    It takes the largest gain on the way next, so it comes to a node only after all
    splits of a larger least gain along their own way from the root.

    Parameters
    ----------
    max_leaf_nodes : sequence of int or None
        Of every tree; None: any number.
    """

    def __init__(self, max_leaf_nodes: Sequence[int | None]):
        n_trees = len(max_leaf_nodes)
        self._found = [np.zeros(0)] * n_trees
        limits = [np.inf if most is None else most - 1 for most in max_leaf_nodes]
        self._most = np.array(limits)
        # Of the nodes of the level that comes next.
        self._least = np.full(n_trees, np.inf)
        self._before = np.zeros(n_trees)

    def may_split(self, tree: np.ndarray) -> np.ndarray:
        """Which nodes of the level, of these trees, growth may come to, bool."""
        return self._before < self._most[tree]

    def of_use(
        self, tree: np.ndarray, node: np.ndarray, gain: np.ndarray
    ) -> np.ndarray:
        """Which splits of the level may be kept, (n_splits,), bool.

        Parameters
        ----------
        tree : ndarray of shape (n_splits,), int
        node : ndarray of shape (n_splits,), int
            Positions in the level.
        gain : ndarray of shape (n_splits,)
        """
        least = np.minimum(self._least[node], gain)
        return self._ranked(tree, least) < self._most[tree]

    def descend(self, tree: np.ndarray, node: np.ndarray, gain: np.ndarray) -> None:
        """These splits are made: their children, in turn, are the next level."""
        least = np.minimum(self._least[node], gain)
        before = self._ranked(tree, least)
        for which in np.unique(tree):
            own = [self._found[which], least[tree == which]]
            self._found[which] = np.concatenate(own)
        self._least = np.repeat(least, 2)
        self._before = np.repeat(before + 1, 2)

    def stay(self, chosen: np.ndarray) -> None:
        """Only some nodes of the next level are left, by a mask."""
        self._least, self._before = self._least[chosen], self._before[chosen]

    def _ranked(self, tree: np.ndarray, least: np.ndarray) -> np.ndarray:
        """How many splits of its own tree come before each, these ones included."""
        before = np.zeros(len(tree))
        for which in np.unique(tree):
            if np.isinf(self._most[which]):
                continue
            mine = tree == which
            every = np.sort(np.append(self._found[which], least[mine]))
            before[mine] = len(every) - np.searchsorted(every, least[mine], "right")
        return before
