"""Short equations: the shortest model that predicts nearly as a node's own.

A leaf's shrunken model has a term for every column. The short one is its projection on
few of them: targets are not used again, so nothing is selected by chance, and the
shrinkage is passed on. The allowed difference from the full model is a share of the
noise in the leaf, smaller where the tree explains little, on rows like those of the
leaf and, to a lesser degree, like those of its ancestors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from secret_jax.data.schema import TableSchema
from secret_jax.models.errors import squared_errors
from secret_jax.models.statistics import NodeStatistics
from secret_jax.tree.noise import noise_variance
from secret_jax.tree.structure import SplitKind, Tree

# Rows for which the parent's second moments count in those of a node: without them an
# equation fits the few rows of a small leaf, and fails beside them. 30 to 50 are best.
_BORROWED = 30.0
# Regressors are standardised over the table: a smaller variance is rounding.
_CONSTANT = 1e-10
# Terms whose worth differs by a smaller share are worth the same.
_TIE = 1e-6
# A column is a copy of others where they leave no more than this share of its variance
# unexplained; where an equation cannot do without copies, the next one holds.
_COPIES = (1e-3, 1e-6, 1e-9)


def shortened(
    tree: Tree,
    statistics: NodeStatistics,
    tolerance: float,
    spread: tuple[np.ndarray, np.ndarray] | None = None,
) -> Tree:
    """Shorten the equations of all nodes, and compute their standard errors.

    Parameters
    ----------
    tree : Tree
        A single tree with models; gates are taken as hard splits.
    statistics : NodeStatistics
        Statistics of the rows that the standard errors describe.
    tolerance : float
        By so much, times the share of the variance that the tree explains, a node's
        short equation may differ from the full one: a share of the node's noise
        variance, in the mean over rows like those of the node. 0: none is shortened.
    spread : tuple of ndarray of shape (n_nodes, n_outputs) and (n_outputs,), optional
        Noise, and the share of the variance that the tree explains; by default from the
        tree's squared errors, which are then measured again.

    Returns
    -------
    Tree
        With the same mean value in every node, the degrees of freedom of the full
        models (which were spent), and squared errors measured anew. Standard errors
        are those of squared errors; for a loss see
        `secret_jax.models.standard_errors`.

    Notes
    -----
    The second moments C of a node are blended with those of its parent, which count as
    thirty rows. With b the slopes of the full model, s² the noise and R² the share that
    the tree explains, columns enter by pivoted partial Cholesky, the most useful first,
    until the part of b'Cb that they leave unexplained is at most ``tolerance R² s²``:
    where all that can be said is little, little of it is left out. Those that can be
    spared go again. The slopes are those of the projection, C_AA⁻¹ (C b)_A. Levels of
    an attribute with like coefficients may enter together as one term. What splits
    above have fixed is part of the constant. Where rounding keeps all columns together
    from saying enough, the full model stays.
    """
    n = statistics.n_regressors
    weight = np.maximum(tree.weight, 1e-300)
    if spread is None:  # of targets of variance 1
        noise = noise_variance(tree)
        explained = np.maximum(1.0 - noise[0], 0.0)
    else:
        noise, explained = spread
    allowed = tolerance * explained * noise
    varying = _varying(tree, statistics)
    coefficient = tree.coefficient.copy()
    standard_error = np.full(coefficient.shape, np.nan)
    moments: dict[int, np.ndarray] = {}
    for node in range(tree.n_nodes):  # parents come before their children
        parent = int(tree.parent[node])
        total = max(statistics.weight[node], 1e-300)
        covariance = statistics.scatter[node, :n, :n] / total
        if parent >= 0:
            share = weight[node] / (weight[node] + _BORROWED)
            covariance = share * covariance + (1.0 - share) * moments[parent]
        covariance = varying[node] @ covariance @ varying[node]
        moments[node] = covariance
        mean = statistics.mean[node, :n]
        for output in range(tree.n_outputs):
            full = coefficient[node, output, 1:]
            terms = _terms(tree.schema, full) if tolerance > 0 else np.eye(n)
            limit = allowed[node, output] if tolerance > 0 else -1.0
            slopes, variance = _short(covariance, full, terms, limit)
            error = noise[node, output] / weight[node]
            standard_error[node, output, 0] = np.sqrt(error)
            standard_error[node, output, 1:] = np.sqrt(error * variance)
            coefficient[node, output, 0] += (full - slopes) @ mean
            coefficient[node, output, 1:] = slopes
    if tolerance > 0:
        tree = replace(tree, coefficient=coefficient)
    if tolerance > 0 and spread is None:
        measured = squared_errors(statistics, coefficient)
        count = np.where(statistics.weight > 0, statistics.weight, 1.0)
        tree = replace(tree, train_error=measured / count[:, None])
    return replace(tree, standard_error=standard_error)


def _varying(
    tree: Tree, statistics: NodeStatistics
) -> Float[np.ndarray, "n_nodes n_regressors n_regressors"]:
    """Projections on the regressors that the splits above a node have not fixed.

    A regressor is fixed if a split above used its column and it no longer varies; so is
    a constant sum of such regressors, like that of the indicators of remaining
    categories.
    """
    schema, n = tree.schema, statistics.n_regressors
    columns = np.array(schema.input_columns[:n])
    varying = np.tile(np.eye(n), (tree.n_nodes, 1, 1))
    asked: list[set[int]] = [set()]
    for node in range(1, tree.n_nodes):  # parents come before their children
        parent = int(tree.parent[node])
        asked.append(asked[parent] | _asked(tree, parent))
        constant = _CONSTANT * max(statistics.weight[node], 1.0)
        for column in asked[node]:
            own = np.flatnonzero(columns == column)
            place = np.ix_(own, own)
            square, axes = np.linalg.eigh(statistics.scatter[node][place])
            rounding = statistics.rounding[node] * square.max(initial=0.0)
            axes = axes[:, square > max(constant, rounding)]
            varying[node][place] = axes @ axes.T
    return varying


def _asked(tree: Tree, node: int) -> set[int]:
    """Input columns that a split on one column, or its conditions, use."""
    columns = {
        SplitKind.DISCRETE: tree.schema.discrete,
        SplitKind.AXIS: tree.schema.input_columns,
    }
    return {
        columns[kind][part.attribute[node]]
        for part in tree.comparisons
        for kind in columns
        if part.kind[node] == kind
    }


def _terms(
    schema: TableSchema, slopes: Float[np.ndarray, " n_regressors"]
) -> Float[np.ndarray, "n_regressors n_terms"]:
    """Candidate terms: columns, and sets of levels adjacent by coefficient.

    A set holds the levels beyond some place in the order of the coefficients, on the
    side away from the levels without a column, whose coefficient is zero.
    """
    n = len(slopes)
    first = n - schema.n_indicators
    levels: dict[int, list[int]] = {}
    for position, (attribute, _) in enumerate(schema.indicators, first):
        levels.setdefault(attribute, []).append(position)
    sets = []
    for positions in levels.values():
        place = np.array(positions)
        for side in (place[slopes[place] < 0], place[slopes[place] > 0]):
            ranked = side[np.argsort(-np.abs(slopes[side]), kind="stable")]
            sets += [ranked[:last] for last in range(2, len(ranked) + 1)]
    member = np.zeros((n, n + len(sets)))
    member[np.arange(n), np.arange(n)] = 1.0
    for term, members in enumerate(sets, n):
        member[members, term] = 1.0
    return member


def _short(
    covariance: Float[np.ndarray, "n n"],
    full: Float[np.ndarray, " n"],
    member: Float[np.ndarray, "n n_terms"],
    limit: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of the short equation, and their variances relative to the noise.

    At most ``limit`` of the variance of the full prediction is left unexplained. NaN:
    the variance of a slope that the others leave open.
    """
    projected = covariance @ full
    gram, moment = member.T @ (covariance @ member), member.T @ projected
    whole = float(full @ projected)
    chosen, unexplained = np.array([], int), whole
    for copy in _COPIES:
        chosen, unexplained = _forward(gram, moment, whole, limit, copy)
        if unexplained <= limit:
            break
    chosen = _backward(gram, moment, chosen, whole, limit)
    of_terms = member[:, chosen]
    inverse = np.linalg.inv(gram[np.ix_(chosen, chosen)])
    variance = np.einsum("ik,kl,il->i", of_terms, inverse, of_terms)
    slopes = of_terms @ (inverse @ moment[chosen]) if unexplained <= limit else full
    known = (variance > 0) | (slopes == 0)
    return slopes, np.where(known, np.maximum(variance, 0.0), np.nan)


def _forward(
    gram: np.ndarray, moment: np.ndarray, unexplained: float, limit: float, copy: float
) -> tuple[Int[np.ndarray, " n_chosen"], float]:
    """Select terms by pivoted partial Cholesky; return them and what is unexplained.

    Each step adds the term that explains most; of ties the first.
    """
    variance = np.diagonal(gram)
    left, moment = variance.copy(), moment.copy()
    factors = np.empty((len(gram), 0))
    chosen: list[int] = []
    while unexplained > limit:
        usable = (left > copy * variance) & (variance > _CONSTANT)
        usable[chosen] = False
        worth = np.where(usable, moment**2 / np.where(usable, left, 1.0), 0.0)
        most = worth.max(initial=0.0)
        if most <= 0:
            break
        best = int(np.flatnonzero(worth >= (1.0 - _TIE) * most)[0])
        pivot = np.sqrt(left[best])
        column = (gram[:, best] - factors @ factors[best]) / pivot
        rest = moment[best] / pivot
        moment -= rest * column
        left -= column**2
        unexplained -= rest**2
        factors = np.column_stack([factors, column])
        chosen.append(best)
    return np.array(chosen, int), unexplained


def _backward(
    gram: np.ndarray,
    moment: np.ndarray,
    chosen: np.ndarray,
    variance: float,
    limit: float,
) -> np.ndarray:
    """Drop the terms that can be spared, the least useful first.

    Of ties the term that was chosen last is dropped.
    """
    while len(chosen):
        inverse = np.linalg.inv(gram[np.ix_(chosen, chosen)])
        slopes = inverse @ moment[chosen]
        unexplained = variance - moment[chosen] @ slopes
        # Of near copies rounding may make a variance negative: one can be spared.
        variances = np.diagonal(inverse)
        known = variances > 0
        worth = np.where(known, slopes**2 / np.where(known, variances, 1.0), 0.0)
        least = int(np.flatnonzero(worth <= (1.0 + _TIE) * worth.min())[-1])
        if unexplained + worth[least] > limit:
            break
        chosen = np.delete(chosen, least)
    return chosen
