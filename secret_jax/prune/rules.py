"""Pruning rules that need a grown tree and its training rows alone, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from secret_jax.data.table import Table
from secret_jax.prune.path import by_criterion
from secret_jax.tree.structure import Tree

PruningRule = Callable[[Tree, Table, np.ndarray, np.ndarray], tuple[Tree, float]]
"""From (tree, table, y, weight) to the subtree that is kept, and its value.

The tree is grown and has a model in every node; ``y`` is in standardised units. With
``oblique="auto"`` two trees are pruned, and the one of the lower value is kept.
"""

PRUNING_RULES: dict[str, PruningRule] = {
    name: functools.partial(by_criterion, criterion=name)
    for name in ("aic", "bic", "icomp")
}
"""What ``prune`` may be besides "auto", "holdout", "cross-validation" and None.

CONTRIBUTING.md adds one as an example.
"""
