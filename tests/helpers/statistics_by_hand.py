"""Statistics of rows of a few nodes."""

import numpy as np

from secret_jax.models.statistics import NodeStatistics, slice_statistics


def statistics_of(
    x: np.ndarray,
    targets: np.ndarray,
    weight: np.ndarray | None = None,
    node: np.ndarray | None = None,
    n_nodes: int = 1,
) -> NodeStatistics:
    """Of rows of several nodes, by default of one; empty where a node has none."""
    node = np.zeros(len(x), int) if node is None else node
    weight = np.ones(len(x)) if weight is None else weight
    targets = targets if targets.ndim == 2 else targets[:, None]
    order = np.argsort(node, kind="stable")
    ends = (
        np.searchsorted(node[order], np.arange(n_nodes), side)
        for side in ("left", "right")
    )
    return slice_statistics(x, None, targets, weight, x.shape[1], order, *ends)
