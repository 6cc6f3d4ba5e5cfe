"""Trees whose predictions only rise, or only fall, with given columns.

Two rows that differ in one constrained column part at most at a split that asks for it.
So it is enough that slopes have the right signs, and that of the two sides of such a
split all predictions of one lie below those of the other (`secret_jax.models.sides`).
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import lsq_linear

from secret_jax.data.rows import Table
from secret_jax.models.sides import directions_of_columns, metric_of, put_in_order
from secret_jax.models.statistics import NodeStatistics
from secret_jax.tree.plain import with_plain_splits
from secret_jax.tree.structure import Tree


def with_monotone_models(tree: Tree, statistics: NodeStatistics) -> Tree:
    """Constrain a tree's models by the directions of its schema.

    ``tree``: with a model in every node; ``statistics``: statistics of the rows of all
    nodes. Its models are near the given ones, in squared error on each node's
    rows, and ranges of predictions, such that no two rows violate a constraint, in any
    subtree. Without constraints the tree itself.
    """
    if not tree.schema.monotonic:
        return tree
    coefficient, ranges = _with_signs(tree, statistics), np.stack(tree.clip_range())
    for output in range(tree.n_outputs):
        put_in_order(tree, statistics, coefficient[:, output], ranges[..., output])
    margin, (low, high) = None if tree.clip_margin is None else 0.0, ranges
    return replace(
        tree, coefficient=coefficient, lower=low, upper=high, clip_margin=margin
    )


def with_final_thresholds(tree: Tree, table: Table) -> Tree:
    """Round the splits of a tree before its models are fitted, as in the end.

    The borders between the sides lie at thresholds. ``table``: rows that grow it.
    Without constraints the tree itself.
    """
    return with_plain_splits(tree, table) if tree.schema.monotonic else tree


def _with_signs(tree: Tree, statistics: NodeStatistics) -> np.ndarray:
    """Project the slopes of all models on those of the right signs.

    Bounded least squares: the nearest predictions on the rows of each node.
    """
    n = statistics.n_regressors
    direction = directions_of_columns(tree)[:n]
    least = np.where(direction > 0, 0.0, -np.inf)
    most = np.where(direction < 0, 0.0, np.inf)
    coefficient = tree.coefficient.copy()
    wrong = (coefficient[:, :, 1:] * direction < 0).any(axis=2)
    for node, output in zip(*np.nonzero(wrong), strict=True):
        slopes = coefficient[node, output, 1:]
        root = np.linalg.cholesky(metric_of(statistics, node)).T
        nearest = lsq_linear(root, root @ slopes, (least, most), method="bvls").x
        nearest = np.clip(nearest, least, most)  # of rounding
        coefficient[node, output, 0] += (slopes - nearest) @ statistics.mean[node, :n]
        coefficient[node, output, 1:] = nearest
    return coefficient
