"""Short equations: the shortest model that predicts nearly as a node's own.

A leaf's shrunken model has a term for every column. The short one is its projection on
few of them: targets are not used again, so nothing is selected by chance, and the
shrinkage is passed on. The allowed difference from the full model is a share of the
noise in the leaf, smaller where the tree explains little, on rows like those of the
leaf and, to a lesser degree, like those of its ancestors.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from secret_jax.data.schema import TableSchema
from secret_jax.models.errors import mean_squared_errors
from secret_jax.models.linear import CONSTANT, TIE, selected_forward
from secret_jax.models.statistics import NodeStatistics
from secret_jax.tree.degrees import noise_variance
from secret_jax.tree.structure import SplitKind, Tree

# Rows for which the parent's second moments count in those of a node: without them an
# equation fits the few rows of a small leaf, and fails beside them. 30 to 50 are best.
_BORROWED = 30.0
# A column is a copy of others where they leave no more than this share of its variance
# unexplained; where an equation cannot do without copies, the next one holds.
_COPIES = (1e-3, 1e-6, 1e-9)
# Products of terms that are held at once: of some nodes, and these stay in a cache.
_AT_ONCE = 1 << 20


def shortened(
    tree: Tree,
    statistics: NodeStatistics,
    tolerance: float,
    spread: tuple[np.ndarray, np.ndarray] | None = None,
) -> Tree:
    """Shorten the equations of all nodes, and compute their standard errors.

    ``tree``: a single tree with models; gates are taken as hard splits; ``statistics``:
    statistics of the rows that the standard errors describe; ``tolerance``: by so much,
    times the share of the variance that the tree explains, a node's short equation may
    differ from the full one: a share of the node's noise variance, in the mean over
    rows like those of the node. 0: none is shortened. ``spread`` tuple of ndarray of
    shape (n_nodes, n_outputs) and (n_outputs,): noise, and the share of the variance
    that the tree explains; by default from the tree's squared errors, which are then
    measured again. The new tree has the same mean value in every node, the degrees of
    freedom of the full models (which were spent), and squared errors measured anew.
    Standard errors are those of squared errors; for a loss see
    `secret_jax.models.short_models`.

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
    weight = np.maximum(tree.weight, 1e-300)
    if spread is None:  # of targets of variance 1
        noise = noise_variance(tree)
        explained = np.maximum(1.0 - noise[0], 0.0)
    else:
        noise, explained = spread
    limit = (
        tolerance * explained * noise if tolerance > 0 else np.full(noise.shape, -1.0)
    )
    error, mean = noise / weight[:, None], statistics.mean
    covariance = _moments(tree, statistics)
    coefficient, standard_error = (np.empty(tree.coefficient.shape) for _ in range(2))
    standard_error[..., 0] = np.sqrt(error)
    for output in range(tree.n_outputs):
        constant, full = tree.coefficient[:, output, 0], tree.coefficient[:, output, 1:]
        sets = _sets(tree.schema, full, some=tolerance > 0)
        n_terms = full.shape[1] + sets.shape[2]
        slopes, variance = np.empty(full.shape), np.empty(full.shape)
        at_once = _AT_ONCE // max(n_terms, 1) ** 2 + 1
        for first in range(0, tree.n_nodes, at_once):
            some = slice(first, first + at_once)
            slopes[some], variance[some] = _short(
                covariance[some], full[some], sets[some], limit[some, output]
            )
        moved = np.einsum("ni,ni->n", full - slopes, mean[:, : full.shape[1]])
        coefficient[:, output, 0] = constant + moved
        coefficient[:, output, 1:] = slopes
        standard_error[:, output, 1:] = np.sqrt(error[:, output, None] * variance)
    if tolerance > 0:
        tree = replace(tree, coefficient=coefficient)
    if tolerance > 0 and spread is None:
        tree = replace(tree, train_error=mean_squared_errors(statistics, coefficient))
    return replace(tree, standard_error=standard_error)


def _moments(
    tree: Tree, statistics: NodeStatistics
) -> Float[np.ndarray, "n_nodes n_regressors n_regressors"]:
    """Second moments of the nodes, blended with their parents'; of what still varies.

    A regressor is fixed if a split above used its column and it no longer varies; so is
    a constant sum of such regressors, like that of the indicators of remaining
    categories.
    """
    n, schema, weight = statistics.n_regressors, tree.schema, statistics.weight
    inputs, discrete = (
        np.array(columns, int) for columns in (schema.input_columns, schema.discrete)
    )
    asked = np.zeros((tree.n_nodes, 1 + max([*inputs, *discrete], default=0)), bool)
    used = np.zeros_like(asked)
    for kind, column in ((SplitKind.AXIS, inputs), (SplitKind.DISCRETE, discrete)):
        one = np.flatnonzero(tree.kind == kind)
        used[tree.node_of[one], column[tree.attribute[one]]] = True
    covariance = (
        statistics.scatter[:, :n, :n] / np.maximum(weight, 1e-300)[:, None, None]
    )
    own = (tree.weight / (tree.weight + _BORROWED))[:, None, None]
    for level in range(1, tree.max_depth + 1):
        node = np.flatnonzero(tree.depth == level)
        parent = tree.parent[node]
        covariance[node] *= own[node]
        covariance[node] += (1.0 - own[node]) * covariance[parent]
        asked[node] = asked[parent] | used[parent]
    for column in np.flatnonzero(asked.any(axis=0)):
        place, node = (
            np.flatnonzero(inputs[:n] == column),
            np.flatnonzero(asked[:, column]),
        )
        square, axes = np.linalg.eigh(statistics.scatter[np.ix_(node, place, place)])
        rounding = statistics.rounding[node] * square.max(axis=1, initial=0.0)
        least = np.maximum(CONSTANT * np.maximum(weight[node], 1.0), rounding)
        varies = square > least[:, None]
        fixed = ~varies.all(axis=1)
        axes = np.where(varies[fixed, None], axes[fixed], 0.0)
        varying, node = axes @ axes.transpose(0, 2, 1), node[fixed, None]
        covariance[node, place] = varying @ covariance[node, place]
        covariance[node, :, place] = varying @ covariance[node, :, place]
    return covariance


def _sets(
    schema: TableSchema, slopes: Float[np.ndarray, "n_nodes n"], *, some: bool
) -> Float[np.ndarray, "n_nodes n n_sets"]:
    """Candidate terms beside the columns: sets of levels adjacent by coefficient.

    A set holds the levels beyond some place in the order of the coefficients, on the
    side away from the levels without a column, whose coefficient is zero. Some nodes
    have fewer than others, and then empty ones.
    """
    n_nodes, n = slopes.shape
    levels: dict[int, list[int]] = {}
    for position, (attribute, _) in enumerate(
        schema.indicators, n - schema.n_indicators
    ):
        levels.setdefault(attribute, []).append(position)
    found = [np.zeros((n_nodes, n, 0))]
    for place in levels.values() if some else ():
        number = np.arange(len(place) - 1)
        member, before = (
            np.zeros((n_nodes, n, len(number))),
            np.zeros((n_nodes, 1), int),
        )
        for sign in (-1, 1):
            size = np.maximum(sign * slopes[:, place], 0.0)
            rank = np.argsort(np.argsort(-size, axis=1, kind="stable"), axis=1)
            count = np.count_nonzero(size, axis=1)[:, None]
            last = number - before + 2  # levels of each set of this side
            last = np.where((last >= 2) & (last <= count), last, 0)
            member[:, place] += rank[:, :, None] < last[:, None]
            before += np.maximum(count - 1, 0)
        found.append(member)
    return np.concatenate(found, axis=2)


def _short(
    covariance: Float[np.ndarray, "n_nodes n n"],
    full: Float[np.ndarray, "n_nodes n"],
    sets: Float[np.ndarray, "n_nodes n n_sets"],
    limit: Float[np.ndarray, " n_nodes"],
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of short equations, and variances over the noise; NaN where open."""
    transposed = sets.transpose(0, 2, 1)
    across = covariance @ sets
    gram = np.block(
        [[covariance, across], [across.transpose(0, 2, 1), transposed @ across]]
    )
    projected = covariance @ full[:, :, None]
    moment = np.concatenate([projected, transposed @ projected], axis=1)[:, :, 0]
    whole = np.einsum("ni,ni->n", full, projected[:, :, 0])
    chosen, unexplained = np.full(moment.shape, -1), whole.copy()
    going = np.arange(len(full))
    for copy in _COPIES:
        chosen[going], unexplained[going] = selected_forward(
            gram[going], moment[going], whole[going], limit[going], copy
        )
        going = np.flatnonzero(unexplained > limit)
        if not len(going):
            break
    chosen = _backward(gram, moment, chosen, whole, limit)
    inverse, wanted = _inside(gram, moment, chosen)
    columns = np.broadcast_to(np.eye(full.shape[1]), covariance.shape)
    member = np.concatenate([columns, sets], axis=2)
    of_terms = (
        np.take_along_axis(member, chosen[:, None], axis=2) * (chosen >= 0)[:, None]
    )
    variance = np.einsum("nij,nij->ni", of_terms @ inverse, of_terms)
    slopes = (of_terms @ (inverse @ wanted[:, :, None]))[:, :, 0]
    slopes = np.where((unexplained <= limit)[:, None], slopes, full)
    known = (variance > 0) | (slopes == 0)
    return slopes, np.where(known, np.maximum(variance, 0.0), np.nan)


def _inside(
    gram: np.ndarray, moment: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Inverses of products of chosen terms, and their moments; else zero."""
    there = chosen >= 0
    both = there[:, :, None] & there[:, None]
    node = np.arange(len(chosen))[:, None]
    found = gram[node[:, :, None], chosen[:, :, None], chosen[:, None]]
    inverse = np.linalg.inv(np.where(both, found, np.eye(chosen.shape[1])))
    return np.where(both, inverse, 0.0), np.where(there, moment[node, chosen], 0.0)


def _backward(
    gram: Float[np.ndarray, "n_nodes n_terms n_terms"],
    moment: Float[np.ndarray, "n_nodes n_terms"],
    chosen: Int[np.ndarray, "n_nodes n_chosen"],
    variance: Float[np.ndarray, " n_nodes"],
    limit: Float[np.ndarray, " n_nodes"],
) -> Int[np.ndarray, "n_nodes most"]:
    """Drop terms that can be spared, the least useful first, of ties the last."""
    most = np.count_nonzero(chosen >= 0, axis=1).max(initial=0)
    chosen = chosen[:, :most].copy()
    going = np.flatnonzero((chosen >= 0).any(axis=1))
    while len(going):
        own = chosen[going]
        inverse, wanted = _inside(gram[going], moment[going], own)
        slopes = (inverse @ wanted[:, :, None])[:, :, 0]
        unexplained = variance[going] - np.einsum("ni,ni->n", wanted, slopes)
        # Of near copies rounding may make a variance negative: one can be spared.
        variances = np.einsum("nii->ni", inverse)
        known = variances > 0
        worth = np.where(known, slopes**2 / np.where(known, variances, 1.0), 0.0)
        worth = np.where(own >= 0, worth, np.inf)
        least = worth.min(axis=1)
        last = (
            most - 1 - np.argmax(worth[:, ::-1] <= (1.0 + TIE) * least[:, None], axis=1)
        )
        worth = worth[np.arange(len(going)), last]
        spared = unexplained + worth <= limit[going]
        going, last = going[spared], last[spared]
        chosen[going, last] = -1
        going = going[(chosen[going] >= 0).any(axis=1)]
    return chosen
