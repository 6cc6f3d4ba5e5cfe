"""Widths of gates: in deviations of the splits' projections."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.tree.routing import apply
from secret_jax.tree.soft import paths
from secret_jax.tree.structure import SplitKind, Tree

# A deviation is an estimate: more rows do not make a better gate.
_MOST_ROWS = 65536
# Least width, in deviations of the attributes over the table: a split between two rows
# that nearly coincide must not become a cliff that no gradient climbs.
_LEAST_WIDTH = 1e-3


def deviations(tree: Tree, rows: Rows) -> np.ndarray:
    """Standard deviation of every split's projection among the rows of its node.

    ``rows``: in random order. Returns (n_nodes,), float64: 0 in leaves, at splits on
    discrete attributes and in nodes without two rows.
    """
    rows = rows.take(slice(None, _MOST_ROWS))
    inner = np.flatnonzero(~tree.is_leaf)
    deviation = np.zeros(tree.n_nodes)
    along = paths(tree, n_inner=len(inner), n_leaves=tree.n_leaves)
    number = np.cumsum(tree.is_leaf) - 1
    leaf = number[apply(tree, rows.table)]
    for i, node in enumerate(inner):
        inside = (along.left[:, i] + along.right[:, i] > 0)[leaf]
        weight = rows.weight[inside]
        if len(weight) < 2 or tree.kind[node] == SplitKind.DISCRETE:
            continue
        projection = rows.table.x[inside] @ tree.direction[node].astype(np.float64)
        mean = np.average(projection, weights=weight)
        deviation[node] = np.sqrt(np.average((projection - mean) ** 2, weights=weight))
    return deviation


def with_widths(tree: Tree, relative: float, deviation: np.ndarray) -> Tree:
    """Soften a tree by gates of a width in deviations; 0 makes it hard."""
    least = _LEAST_WIDTH * np.linalg.norm(tree.direction, axis=1)
    width = np.maximum(relative * deviation, least) if relative > 0 else 0 * least
    return replace(tree, gate_width=width.astype(np.float32))
