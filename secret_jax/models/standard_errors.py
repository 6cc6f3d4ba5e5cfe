"""Standard errors of models that are fitted to a loss."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack

from secret_jax.data.schema import TableSchema
from secret_jax.losses.interface import Likelihood, Loss
from secret_jax.models.newton import smoothed
from secret_jax.models.row_groups import RowGroups
from secret_jax.tree.structure import Tree

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
