"""Reduced-error pruning on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from secret_jax.models.errors import node_errors
from secret_jax.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.prune.path import TIE, weakest_links
from secret_jax.runtime.values import real
from secret_jax.tree.structure import Tree, compact


@dataclass(frozen=True, kw_only=True)
class HoldOut(PruningRule):
    """Subtree with the least error on held-out rows, or on those of ``eval_set``.

    Quinlan's reduced-error pruning (section 5.2 of Dobra & Gehrke 2002): bottom-up, a
    node becomes a leaf where its own model errs no more than its subtree.

    Attributes
    ----------
    fraction : float, default=0.25
        Share of the rows to hold out where no ``eval_set`` is given.
    refit : bool, default=True
        Grow the tree again on training and held-out rows together, and cut it to the
        size that was found. False: keep the tree of the training rows.

    Examples
    --------
    >>> from secret_jax import HoldOut, SecretRegressor
    >>> SecretRegressor(prune=HoldOut(fraction=0.3)).prune.fraction
    0.3
    """

    fraction: float = 0.25
    refit: bool = True

    _parameter_constraints: ClassVar[dict] = {
        "fraction": [real(0.0, 1.0, closed="neither")],
        "refit": ["boolean"],
    }

    @property
    def held_out_share(self) -> float:
        """See `PruningRule`."""
        return self.fraction

    @property
    def refits(self) -> bool:
        """See `PruningRule`."""
        return self.refit

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Choose the subtree of least size-penalised error, which is the value.

        The candidates are the weakest-link path of the subtree of least error.
        """
        if evidence.held_out is None:
            return Pruned(tree, 0.0)
        own = node_errors(tree, evidence.held_out)
        best = own.copy()
        keep = np.zeros(tree.n_nodes, bool)
        for depth in range(tree.max_depth - 1, -1, -1):
            node = np.flatnonzero((tree.depth == depth) & ~tree.is_leaf)
            below = best[tree.left[node]] + best[tree.right[node]]
            keep[node] = below < own[node] * (1 - TIE)
            best[node] = np.where(keep[node], below, own[node])
        found = compact(tree, keep)
        error = node_errors(found, evidence.held_out)
        path = weakest_links(found, error)
        n_leaves = path.totals(np.ones(found.n_nodes))
        value = evidence.priced(path.totals(error), n_leaves)
        cheapest = int(np.flatnonzero(value <= value.min() * (1 + TIE))[-1])
        return Pruned(path.subtree(found, cheapest), float(value[cheapest]))
