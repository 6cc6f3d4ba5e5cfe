"""Last steps of a tree with any loss: bounds, short equations, standard errors."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.losses.interface import LONGEST_STEP, Likelihood, Loss
from secret_jax.models.fitting import node_statistics, with_losses, with_monotone_models
from secret_jax.models.glm import smoothed
from secret_jax.models.interface import LeafModel, RowGroups, groups_of_levels
from secret_jax.models.shorten import shortened
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


# Minimum share of a term that others do not explain, for its error to be determined.
_LEAST_UNEXPLAINED = 1e-8
# Share, of the rows that determine the minimum, over which corners are rounded.
_ROUNDING = 0.15
# Minimum number of rows per coefficient, weighted by curvature, for a standard error.
_FEWEST = 5.0


def with_standard_errors(tree: Tree, levels: Iterator[RowGroups]) -> Tree:
    """Compute the standard errors of the equations of a tree with a loss.

    For a likelihood they are those of the inverse information. For any other loss they
    are those of the sandwich estimator, with the second derivatives of the loss on both
    sides of the squares of its slopes (Huber 1967); the density at a quantile is that
    of a logistic kernel about it (Powell 1991). Where few rows say what a coefficient
    is, as far out in a tail, and of the scores of several classes, which are fixed up
    to a common term only, there are none: NaN.

    References
    ----------
    P. J. Huber. The Behavior of Maximum Likelihood Estimates under Nonstandard
    Conditions. Proceedings of the Fifth Berkeley Symposium 1, 1967.

    J. L. Powell. Estimation of Monotonic Regression Models under Quantile Restrictions.
    In Nonparametric and Semiparametric Methods in Econometrics, 1991.
    """
    loss = tree.loss
    error = np.full(tree.coefficient.shape, np.nan)
    if loss.n_free(tree.n_outputs) < tree.n_outputs:
        return replace(tree, standard_error=error)
    for group in levels:
        value = group.values(tree.coefficient[group.node])
        smooth = smoothed(loss, group, value, _ROUNDING)
        slopes, _ = loss.derivatives(group.targets, value)
        _, curvatures = smooth.derivatives(group.targets, value)
        for output in range(tree.n_outputs):
            slope, curvature = slopes[:, output], curvatures[:, output]
            for node, rows in zip(group.node, group.rows, strict=True):
                weight = group.weight[rows]
                error[node, output] = _errors(
                    loss,
                    group.x[rows] - tree.center[node],
                    _members(tree.schema, tree.coefficient[node, output, 1:]),
                    weight * curvature[rows],
                    weight * slope[rows] ** 2,
                )
    return replace(tree, standard_error=error)


def _members(
    schema: TableSchema, slopes: Float[np.ndarray, " n_regressors"]
) -> Float[np.ndarray, "n_regressors n_terms"]:
    """Terms of an equation: columns, and levels that share a coefficient."""
    n = len(slopes)
    first = n - schema.n_indicators
    attributes = {at: name for at, (name, _) in enumerate(schema.indicators, first)}
    terms: dict[tuple[int, float], list[int]] = {}
    for position in np.flatnonzero(slopes).tolist():
        attribute = attributes.get(position, -1 - position)
        terms.setdefault((attribute, float(slopes[position])), []).append(position)
    member = np.zeros((n, len(terms)))
    for term, positions in enumerate(terms.values()):
        member[positions, term] = 1.0
    return member


def _errors(
    loss: Loss,
    x: Float[np.ndarray, "n_rows n_regressors"],
    member: Float[np.ndarray, "n_regressors n_terms"],
    curvature: Float[np.ndarray, " n_rows"],
    squares: Float[np.ndarray, " n_rows"],
) -> Float[np.ndarray, " _"]:
    """Standard errors at the center and of slopes: 0 without a term, NaN if open."""
    design = np.column_stack([np.ones(len(x)), x @ member])
    bread = (curvature[:, None] * design).T @ design
    if curvature.sum() ** 2 < _FEWEST * len(bread) * (curvature @ curvature):
        return np.full(1 + len(member), np.nan)
    # Terms that do not depend linearly on others, by pivoted Cholesky.
    square = np.diagonal(bread)
    unit = np.where(square > 0, 1.0 / np.sqrt(np.where(square > 0, square, 1.0)), 0.0)
    _, pivot, rank, _ = lapack.dpstrf(  # pyright: ignore[reportAttributeAccessIssue]
        bread * unit * unit[:, None], tol=_LEAST_UNEXPLAINED
    )
    known = np.sort(pivot[:rank] - 1)
    inverse = np.linalg.inv(bread[np.ix_(known, known)])
    with np.errstate(over="ignore", invalid="ignore"):  # of hardly any curvature
        covariance = inverse
        if not isinstance(loss, Likelihood):
            slopes = design[:, known]
            covariance = inverse @ ((squares[:, None] * slopes).T @ slopes) @ inverse
    error, variance = np.full(design.shape[1], np.nan), np.diagonal(covariance)
    variance = np.where(np.isfinite(variance), variance, np.nan)
    error[known] = np.sqrt(np.maximum(variance, 0.0))
    position, term = np.nonzero(member)
    of_columns = np.zeros(len(member))
    of_columns[position] = error[1 + term]
    return np.append(error[0], of_columns)
