"""Last steps of a tree with any loss: bounds, short equations, standard errors."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import LONGEST_STEP
from secret_jax.models.fitting import node_statistics, with_losses
from secret_jax.models.interface import LeafModel
from secret_jax.models.monotone import with_monotone_models
from secret_jax.models.row_groups import RowGroups, groups_of_levels
from secret_jax.models.shorten import shortened
from secret_jax.models.standard_errors import with_standard_errors
from secret_jax.models.statistics import NodeStatistics
from secret_jax.tree.degrees import ROUNDING, model_degrees
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import leaf_totals

# Share of the largest magnitude by which rounding may move a target away from zero.
_NEAR_ZERO = 1e-6


def with_short_equations(
    tree: Tree,
    statistics: NodeStatistics,
    rows: Rows,
    leaf: LeafModel,
    tolerance: float,
) -> Tree:
    """Bound the predictions of a tree, shorten its equations, and add standard errors.

    ``tree``: with full models; ``rows``: rows that trained the models, or a sample of
    them; ``tolerance``: see `shortened`.
    """
    tree, full_error = _bounded(tree, statistics.lower[0], statistics.upper[0]), None
    if tolerance > 0:
        full_error = tuple(tree.leaf_error.tolist())
    spread = _spread(tree, rows)
    short = shortened(tree, statistics, tolerance, spread)
    levels = partial(groups_of_levels, tree, rows)
    if spread is not None and tolerance > 0:
        short = _recentred(short, tree, levels())
        short = with_losses(short, levels(), leaf)
    short = with_monotone_models(short, statistics, levels)
    if spread is not None:
        short = with_standard_errors(short, levels())
    return replace(short, full_error=full_error)


def numbers_of_leaves(tree: Tree, rows: Rows, tolerance: float) -> np.ndarray:
    """Count the numbers in the short equations that nodes would have as leaves.

    ``rows``: rows that trained the models; ``tolerance``: see `shortened`. Returns
    (n_nodes,), int.
    """
    statistics = node_statistics(tree, rows)
    short = shortened(tree, statistics, tolerance, _spread(tree, rows))
    return np.count_nonzero(short.coefficient[..., 1:], axis=(1, 2)) + tree.n_outputs


def _spread(tree: Tree, rows: Rows) -> tuple[np.ndarray, np.ndarray] | None:
    """Noise of nodes and share of variance explained; None with squared errors."""
    loss, weight = tree.loss, rows.weight
    if loss.least_squares:
        return None
    value = values(tree, rows.table).astype(np.float64)
    degrees = leaf_totals(tree, np.minimum(model_degrees(tree), tree.weight))[0]
    used = min(degrees / max(tree.weight[0], 1e-300), 0.5)
    error = loss.typical(rows.targets, value, weight) / (1.0 - used)
    noise = loss.noise(np.broadcast_to(error, tree.mean.shape), tree.mean)
    noise = np.maximum(noise, ROUNDING**2)
    mean = weight @ value / weight.sum()
    variance = weight @ (value - mean) ** 2 / weight.sum()
    explained = np.maximum(variance - used * noise[0], 0.0)
    return noise, explained / (explained + noise[0])


def _recentred(short: Tree, full: Tree, levels: Iterator[RowGroups]) -> Tree:
    """Adjust constants of short equations: nodes keep their mean predictions."""
    loss, coefficient = short.loss, short.coefficient.copy()
    if not loss.predicts_mean:
        return short
    for group in levels:
        wanted = loss.prediction(group.values(full.coefficient[group.node]))
        for _ in range(2):
            for output in range(short.n_outputs):
                value = group.values(coefficient[group.node])
                slope, curvature = map(group.sums, loss.working(wanted, value))
                step = slope[:, output] / curvature[:, output]
                step = np.clip(step, -LONGEST_STEP, LONGEST_STEP)
                coefficient[group.node, output, 0] += step
    return replace(short, coefficient=coefficient)


def _bounded(
    tree: Tree,
    lower: Float[np.ndarray, " n_outputs"],
    upper: Float[np.ndarray, " n_outputs"],
) -> Tree:
    """Bound predictions at zero where no target crosses it, as of prices."""
    if not tree.says_targets:
        return tree
    schema = tree.schema
    center, scale = np.array(schema.target_centers), np.array(schema.target_scales)
    zero = -center / scale
    near = _NEAR_ZERO * np.abs([zero, lower, upper]).max(axis=0)
    lowest = np.where(lower >= zero - near, _rounded(center, scale, 1.0), -np.inf)
    highest = np.where(upper <= zero + near, _rounded(center, scale, -1.0), np.inf)
    if np.isinf(lowest).all() and np.isinf(highest).all():
        return tree
    return replace(tree, bounds=(tuple(lowest.tolist()), tuple(highest.tolist())))


def _rounded(center: np.ndarray, scale: np.ndarray, side: float) -> np.ndarray:
    """Nearest float32 numbers to zero on one side of it, in standardised units."""
    with np.errstate(over="ignore"):  # far away, and no bound then
        value = (-center / scale).astype(np.float32)
    beyond = side * (value.astype(np.float64) * scale + center) < 0
    next_one = np.nextafter(value, np.float32(side * np.inf))
    return np.where(beyond, next_one, value).astype(np.float64)
