"""Ridge regression shrunk toward the parent's model, with strength chosen by GCV."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack
from scipy.stats import norm

from secret_jax.models.interface import LeafModel, Models
from secret_jax.models.linear import selected_forward
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.linalg import definite_solve
from secret_jax.runtime.values import real

# Beyond this share of degrees of freedom a row, each counted `gcv_factor` times, the
# cross-validation score divides by a small difference and cannot be trusted.
_MOST_SPENT = 0.4
# Ridge strengths in units of the regressors' variances: from none (float32 keeps no
# smaller eigenvalues apart) to one that leaves a three-hundredth of every slope.
_STRENGTHS = np.logspace(-6, 2.5, 18)
# Regressors are standardised over the table: a smaller deviation is rounding.
_CONSTANT = 1e-6
# Maximum number of regressors: of more the most useful are selected, at a charge, since
# the time of a decomposition grows with the cube of their number.
_MOST_REGRESSORS = 128
# Unexplained share of a regressor's variance below which it adds nothing.
_LEAST_UNEXPLAINED = 1e-6
# Errors below this share of the output's variance are rounding.
_ROUNDING = 1e-12
# With no more weight than this nothing but the mean is fitted.
_LEAST_WEIGHT = 2.0
# Least share of degrees of freedom that is left to "no change but the mean".
_LEAST_LEFT = 1e-3
# Nodes whose penalties are followed together: their numbers stay in a cache.
_TOGETHER = 1024
# Of so many nodes with so few regressors long operations over all nodes take half of
# the time of LAPACK, which reduces matrix by matrix.
_MANY, _NARROW = 96, 12


@dataclass(frozen=True, kw_only=True)
class Ridge(LeafModel):
    """Ridge regression shrunk toward the parent's own shrunken model.

    The residual of the parent's model is regressed with the ridge strength of least
    generalised cross-validation error (Golub, Heath & Wahba 1979); infinite strength
    is among the choices, so that "no change but the mean" can win.

    Attributes
    ----------
    gcv_factor : float, default=1.2
        How often a degree of freedom counts in the cross-validation. A factor of 1.2
        to 1.4 guards against its now and then far too weak penalties (Kim & Gu 2004).

    References
    ----------
    G. H. Golub, M. Heath and G. Wahba. Generalized Cross-Validation as a Method for
    Choosing a Good Ridge Parameter. Technometrics 21, 1979.

    Y.-J. Kim and C. Gu. Smoothing Spline Gaussian Regression: More Scalable Computation
    via Efficient Approximation. Journal of the Royal Statistical Society B 66, 2004.

    Examples
    --------
    >>> from secret_jax import Ridge, SecretRegressor
    >>> SecretRegressor(leaf=Ridge(gcv_factor=1.0)).get_params()["leaf__gcv_factor"]
    1.0
    """

    gcv_factor: Annotated[float, real(0.0)] = 1.2

    def fit(self, statistics: NodeStatistics, parent: np.ndarray) -> Models:
        # Outputs are regressed one by one, each with a strength of its own.
        models, degrees, _ = zip(
            *(
                shrunken(statistics.output(i), parent[:, i], self.gcv_factor)
                for i in range(statistics.n_outputs)
            ),
            strict=True,
        )
        return Models(np.stack(models, axis=1), np.mean(degrees, axis=0))


def shrunken(
    statistics: NodeStatistics, base: Float[np.ndarray, "n_nodes _"], gcv_factor: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit the ridge correction of a given model of one output for each node, by GCV.

    Returns models (n_nodes, 1 + n_regressors), degrees of freedom that the corrections
    spent, and strengths: penalties per row, in units of the regressors' variances,
    infinite where only the mean is corrected.
    """
    weight = np.where(statistics.weight > 0, statistics.weight, 1.0)
    slopes = base[:, 1:]
    mean, scatter = statistics.mean, statistics.scatter / weight[:, None, None]
    covariance = scatter[:, :-1, :-1]
    moment = scatter[:, :-1, -1] - np.einsum("nij,nj->ni", covariance, slopes)
    residual_variance = np.maximum(
        scatter[:, -1, -1]
        - np.einsum("ni,ni->n", slopes, moment + scatter[:, :-1, -1]),
        0.0,
    )
    shift = mean[:, -1] - base[:, 0] - np.einsum("ni,ni->n", slopes, mean[:, :-1])
    correction, degrees, strength = _ridge_by_cross_validation(
        covariance, moment, residual_variance, weight, gcv_factor
    )
    model = base.copy()
    model[:, 1:] += correction
    model[:, 0] += shift - np.einsum("ni,ni->n", correction, mean[:, :-1])
    empty = statistics.weight <= 0
    model = np.where(empty[:, None], base, model)
    return model, np.where(empty, 0.0, degrees), strength


def _ridge_by_cross_validation(
    covariance: np.ndarray,
    moment: np.ndarray,
    variance: np.ndarray,
    weight: np.ndarray,
    gcv_factor: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slopes, degrees of freedom and strength at the least GCV error."""
    n_nodes, n_regressors = moment.shape
    if n_regressors == 0:
        return np.zeros((n_nodes, 0)), np.ones(n_nodes), np.full(n_nodes, np.inf)
    deviation = np.sqrt(np.maximum(np.einsum("nii->ni", covariance), 0.0))
    # Regressors are standardised over the table: less than this does not vary.
    scale = np.where(deviation > _CONSTANT, deviation, np.inf)
    correlation = covariance / (scale[:, :, None] * scale[:, None, :])
    slope = moment / scale
    price = np.ones(n_nodes)
    if n_regressors > _MOST_REGRESSORS:
        n_varying = np.count_nonzero(np.isfinite(scale), axis=1)
        price = _price_of_choice(_MOST_REGRESSORS, n_varying)
        least, most = np.full(n_nodes, -np.inf), _MOST_REGRESSORS
        kept, _ = selected_forward(
            correlation, slope, variance, least, _LEAST_UNEXPLAINED, most=most
        )
        kept = kept[:, : max(np.count_nonzero(kept >= 0, axis=1).max(initial=0), 1)]
        node, there = np.arange(n_nodes)[:, None], kept >= 0
        both = there[:, :, None] & there[:, None]
        correlation = correlation[node[:, :, None], kept[:, :, None], kept[:, None]]
        correlation = np.where(both, correlation, 0.0)
        slope = np.where(there, slope[node, kept], 0.0)
    paths = penalty_paths(correlation, slope, _STRENGTHS)
    if paths.indefinite.any():  # as rounding of float32 sums makes them
        some = paths.indefinite
        value, vector = np.linalg.eigh(correlation[some])
        positive = vector * np.maximum(value, 0.0)[:, None, :]
        correlation[some] = np.matmul(positive, vector.transpose(0, 2, 1))
        again = penalty_paths(correlation[some], slope[some], _STRENGTHS)
        for number, part in zip(paths, again, strict=True):
            number[some] = part
    stays = np.clip(slope.shape[1] - _STRENGTHS * paths.trace, 0.0, slope.shape[1])
    degrees = 1.0 + price[:, None] * stays
    error = variance[:, None] - paths.explained - _STRENGTHS * paths.change
    error = np.maximum(error, _ROUNDING * variance[:, None])
    spent = gcv_factor * degrees / weight[:, None]
    left_over = 1.0 - np.minimum(spent, _MOST_SPENT)
    score = np.where(spent < _MOST_SPENT, error / left_over**2, np.inf)
    nothing = variance / np.maximum(1.0 - gcv_factor / weight, _LEAST_LEFT) ** 2
    best = np.argmin(score, axis=1)
    node = np.arange(n_nodes)
    changed = (score[node, best] < nothing) & (weight > _LEAST_WEIGHT)
    strength = np.where(changed, _STRENGTHS[best], np.inf)
    slopes = np.zeros_like(slope)
    penalty = strength[changed, None, None] * np.eye(slope.shape[1])
    slopes[changed] = definite_solve(correlation[changed] + penalty, slope[changed])
    if n_regressors > _MOST_REGRESSORS:
        few, slopes = slopes, np.zeros((n_nodes, n_regressors + 1))
        np.put_along_axis(slopes, np.where(there, kept, n_regressors), few, axis=1)
        slopes = slopes[:, :-1]
    slopes = slopes / scale
    return slopes, np.where(changed, degrees[node, best], 1.0), strength


def _price_of_choice(n_kept: int, n_offered: np.ndarray) -> np.ndarray:
    """Degrees of freedom charged for each selected regressor."""
    # One without effect reduces the error by a chi-squared variable of one degree; this
    # is the mean of the largest of several independent ones, by the normal tail.
    share = np.minimum(n_kept / np.maximum(n_offered, 1), 1.0)
    least = norm.isf(share / 2)
    return 1.0 + 2.0 * least * norm.pdf(least) / share


class PenaltyPaths(NamedTuple):
    """Ridge regressions with matrix C and moments m at each penalty p."""

    explained: np.ndarray  # (n_nodes, n_penalties): m' (C + p)^-1 m
    change: np.ndarray  # (n_nodes, n_penalties): m' (C + p)^-2 m
    trace: np.ndarray  # (n_nodes, n_penalties): of (C + p)^-1
    # (n_nodes,), bool: whether C has eigenvalues clearly below zero, for which the
    # others are wrong.
    indefinite: np.ndarray


def penalty_paths(
    matrix: Float[np.ndarray, "n_nodes n n"],
    moment: Float[np.ndarray, "n_nodes n"],
    penalty: Float[np.ndarray, " n_penalties"],
) -> PenaltyPaths:
    """Follow ridge regressions along their penalties, without a regression of each.

    Matrix and moments are reduced by reflections to a band of three diagonals, on which
    the error and the degrees of freedom of a penalty are a short recurrence (Eldén. A
    Note on the Computation of the Generalized Cross-Validation Function for
    Ill-Conditioned Least Squares Problems. BIT 24, 1984). Eigenvectors, which say the
    same, take twice as long.
    """
    n_nodes, n = moment.shape
    numbers, indefinite = np.empty((3, len(penalty), n_nodes)), np.zeros(n_nodes, bool)
    bands = _bands_of_many if n_nodes >= _MANY and n <= _NARROW else _bands
    for start in range(0, n_nodes, _TOGETHER):
        some = slice(start, start + _TOGETHER)
        diagonal, beside = bands(matrix[some], moment[some])
        rate, trace, ratio = np.zeros((3, len(penalty), diagonal.shape[1]))
        column, least = penalty[:, None], np.argmin(penalty)
        lowest = np.full(diagonal.shape[1], np.inf)
        # Nobody reads the numbers of indefinite matrices, which may be too large.
        with np.errstate(over="ignore", invalid="ignore"):
            for j in range(n, 0, -1):
                pivot = diagonal[j] + column
                pivot -= ratio
                np.fmin(lowest, pivot[least], out=lowest)
                # Rounding must not take more than there is.
                np.maximum(pivot, column, out=pivot)
                rate *= ratio
                rate += 1.0
                rate /= pivot  # of the pivot's logarithm
                trace += rate
                np.divide(beside[j - 1], pivot, out=ratio)
            indefinite[some] = lowest < 0.5 * penalty[least]
            numbers[:, :, some] = ratio, ratio * rate, trace
    explained, change, trace = numbers.transpose(0, 2, 1)
    return PenaltyPaths(explained, change, trace, indefinite)


def _bands(matrix: np.ndarray, moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Diagonals of bands, moments first, and squares of the numbers beside them."""
    n_nodes, n = moment.shape
    bordered = np.zeros((n_nodes, n + 1, n + 1))
    bordered[:, 1:, 1:], bordered[:, 0, 1:] = matrix, moment
    reduced = lapack.dsytrd  # pyright: ignore[reportAttributeAccessIssue]
    diagonal, beside = np.empty((n_nodes, n + 1)), np.empty((n_nodes, n))
    for node, own in enumerate(bordered):
        # In the order of Fortran, what is right of the diagonal is below it: the first
        # row is not turned, and its length becomes the first number beside.
        _, diagonal[node], beside[node], *_ = reduced(own.T, lower=1, overwrite_a=1)
    return diagonal.T, beside.T**2


def _bands_of_many(
    matrix: np.ndarray, moment: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same by Householder's reflections, all nodes at once and last in memory."""
    n_nodes, n = moment.shape
    rest, vector = matrix.transpose(1, 2, 0).copy(), moment.T.copy()
    diagonal, beside = np.zeros((n + 1, n_nodes)), np.empty((n, n_nodes))
    room = np.empty_like(rest)
    for place in range(n):
        np.einsum("in,in->n", vector, vector, out=beside[place])
        if place < n - 1:
            length = np.sqrt(beside[place])
            vector[0] += np.copysign(length, vector[0])
            scale = np.abs(length * vector[0])
            np.divide(1.0, scale, out=scale, where=scale > 0)
            image = np.einsum("ijn,jn->in", rest, vector) * scale
            share = 0.5 * scale * np.einsum("in,in->n", image, vector)
            image -= share * vector
            product = room[place:, place:]
            np.multiply(vector[:, None], image, out=product)
            rest -= product
            rest -= product.transpose(1, 0, 2)
        diagonal[place + 1] = rest[0, 0]
        vector, rest = rest[0, 1:], rest[1:, 1:]
    return diagonal, beside
