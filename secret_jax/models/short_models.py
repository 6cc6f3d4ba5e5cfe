"""Last steps of a tree with any loss: bounds, short equations, standard errors.

A leaf's shrunken model has a term for every column. The short one is its projection on
few of them: targets are not used again, so nothing is selected by chance, and the
shrinkage is passed on. The allowed difference from the full model is a share of the
noise in the leaf, smaller where the tree explains little, on rows like those of the
leaf and, to a lesser degree, like those of its ancestors.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import lapack

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.losses.interface import LONGEST_STEP, Likelihood, Loss
from secret_jax.models.fitting import node_statistics, with_losses, with_monotone_models
from secret_jax.models.glm import smoothed
from secret_jax.models.interface import LeafModel, RowGroups, groups_of_levels
from secret_jax.models.linear import CONSTANT, TIE_OF_TERMS, selected_forward
from secret_jax.models.statistics import NodeStatistics, mean_squared_errors
from secret_jax.tree.routing import values
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import ROUNDING, leaf_totals, model_degrees, noise_variance

# Share of the largest magnitude by which rounding may move a target away from zero.
_NEAR_ZERO = 1e-6
# Minimum share of a term that others do not explain, for its error to be determined.
_LEAST_UNEXPLAINED = 1e-8
# Share, of the rows that determine the minimum, over which corners are rounded.
_ROUNDING = 0.15
# Minimum number of rows per coefficient, weighted by curvature, for a standard error.
_FEWEST = 5.0
# Rows for which the parent's second moments count in those of a node: without them an
# equation fits the few rows of a small leaf, and fails beside them. 30 to 50 are best.
_BORROWED = 30.0
# A column is a copy of others where they leave no more than this share of its variance
# unexplained; where an equation cannot do without copies, the next one holds.
_COPIES = (1e-3, 1e-6, 1e-9)
# Products of terms that are held at once: of some nodes, and these stay in a cache.
_AT_ONCE = 1 << 20


def with_short_equations(
    tree: Tree,
    statistics: NodeStatistics,
    rows: Rows,
    leaf: LeafModel,
    tolerance: float,
) -> Tree:
    """Bound predictions, shorten equations (see `shortened`), add standard errors."""
    tree, full_error = _bounded(tree, statistics.lower[0], statistics.upper[0]), None
    if tolerance > 0:
        full_error = tuple(tree.leaf_error.tolist())
    short = shortened(tree, statistics, tolerance, rows)
    by_moments = tree.loss.least_squares
    levels = partial(groups_of_levels, tree, rows)
    if tolerance > 0 and not by_moments:
        short = with_losses(_recentred(short, tree, levels()), levels(), leaf)
    short = with_monotone_models(short, statistics, levels)
    if not by_moments:
        short = with_standard_errors(short, levels())
    return replace(short, full_error=full_error)


def numbers_of_leaves(
    tree: Tree, rows: Rows, tolerance: float, statistics: NodeStatistics | None = None
) -> np.ndarray:
    """Count the numbers in the short equations that nodes would have as leaves."""
    if statistics is None:
        statistics = node_statistics(tree, rows)
    short = shortened(tree, statistics, tolerance, rows)
    return np.count_nonzero(short.coefficient[..., 1:], axis=(1, 2)) + tree.n_outputs


def _spread(tree: Tree, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Noise, (n_nodes, n_outputs), and share of variance that is explained."""
    loss, weight = tree.loss, rows.weight
    if loss.least_squares:  # of targets of variance 1
        noise = noise_variance(tree)
        return noise, np.maximum(1.0 - noise[0], 0.0)
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
    # The nearest float32 numbers on the side of the targets.
    with np.errstate(over="ignore"):  # far away, and no bound then
        value = zero.astype(np.float32)
    back, infinity = value.astype(np.float64) * scale + center, np.float32(np.inf)
    above = np.where(back < 0, np.nextafter(value, infinity), value)
    below = np.where(back > 0, np.nextafter(value, -infinity), value)
    lowest = np.where(lower >= zero - near, above.astype(np.float64), -np.inf)
    highest = np.where(upper <= zero + near, below.astype(np.float64), np.inf)
    if np.isinf(lowest).all() and np.isinf(highest).all():
        return tree
    return replace(tree, bounds=(tuple(lowest.tolist()), tuple(highest.tolist())))


def with_standard_errors(tree: Tree, levels: Iterator[RowGroups]) -> Tree:
    """Compute the standard errors of the equations of a tree with a loss.

    For a likelihood they are those of the inverse information, for any other loss those
    of the sandwich estimator (Huber. The Behavior of Maximum Likelihood Estimates under
    Nonstandard Conditions. Proceedings of the Fifth Berkeley Symposium 1, 1967); the
    density at a quantile is that of a logistic kernel about it (Powell. Estimation of
    Monotonic Regression Models under Quantile Restrictions. 1991). NaN where few rows
    say what a coefficient is, as far out in a tail, and for the scores of several
    classes, which are fixed up to a common term only.
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


def shortened(
    tree: Tree,
    statistics: NodeStatistics,
    tolerance: float,
    rows: Rows,
) -> Tree:
    """Shorten the equations of all nodes, and compute their standard errors.

    With b the slopes of the full model of a node, C the second moments (blended with
    those of the parent, which count as thirty rows), s² the noise and R² the share that
    the tree explains, columns enter by pivoted partial Cholesky, the most useful first,
    until the part of b'Cb that they leave unexplained is at most ``tolerance R² s²``:
    where all that can be said is little, little of it is left out. Those that can be
    spared go again. The slopes are those of the projection, C_AA⁻¹ (C b)_A. Levels of
    an attribute with like coefficients may enter together as one term. What splits
    above have fixed is part of the constant. Where rounding keeps all columns together
    from saying enough, the full model stays, as it does with ``tolerance=0``. Other
    losses than squared errors are not measured again.
    """
    weight = np.maximum(tree.weight, 1e-300)
    noise, explained = _spread(tree, rows)
    limit = np.full(noise.shape, -1.0)
    if tolerance > 0:
        limit = tolerance * explained * noise
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
    tree = replace(tree, standard_error=standard_error)
    if tolerance > 0:
        tree = replace(tree, coefficient=coefficient)
    if tolerance > 0 and tree.loss.least_squares:
        tree = replace(tree, train_error=mean_squared_errors(statistics, coefficient))
    return tree


def _moments(
    tree: Tree, statistics: NodeStatistics
) -> Float[np.ndarray, "n_nodes n_regressors n_regressors"]:
    """Second moments of what varies in nodes, blended with those of the parents."""
    n, schema, weight = statistics.n_regressors, tree.schema, statistics.weight
    inputs = np.array(schema.input_columns, int)
    discrete = np.array(schema.discrete, int)
    asked = np.zeros((tree.n_nodes, 1 + max([*inputs, *discrete], default=0)), bool)
    used = np.zeros_like(asked)
    for kind, column in ((SplitKind.AXIS, inputs), (SplitKind.DISCRETE, discrete)):
        one = np.flatnonzero(tree.kind == kind)
        used[tree.node_of[one], column[tree.attribute[one]]] = True
    covariance = statistics.scatter[:, :n, :n].copy()
    covariance /= np.maximum(weight, 1e-300)[:, None, None]
    own = (tree.weight / (tree.weight + _BORROWED))[:, None, None]
    for level in range(1, tree.max_depth + 1):
        node = np.flatnonzero(tree.depth == level)
        parent = tree.parent[node]
        covariance[node] *= own[node]
        covariance[node] += (1.0 - own[node]) * covariance[parent]
        asked[node] = asked[parent] | used[parent]
    scatter, rounding, column = statistics.scatter, statistics.rounding, inputs[:n]
    least, count = CONSTANT * np.maximum(weight, 1.0), np.bincount(column)
    # What a single regressor says of its column is there, or it is not.
    square = np.einsum("nii->ni", scatter)[:, :n]
    noise = np.maximum(least[:, None], rounding[:, None] * np.maximum(square, 0.0))
    fixed = asked[:, column] & ~(square > noise) & (count[column] == 1)
    covariance[fixed] = 0.0
    covariance.transpose(0, 2, 1)[fixed] = 0.0
    for several in np.flatnonzero((count > 1) & asked[:, : len(count)].any(axis=0)):
        place = np.flatnonzero(column == several)
        node = np.flatnonzero(asked[:, several])
        square, axes = np.linalg.eigh(scatter[np.ix_(node, place, place)])
        noise = rounding[node] * square.max(axis=1, initial=0.0)
        varies = square > np.maximum(least[node], noise)[:, None]
        some = ~varies.all(axis=1)
        axes = np.where(varies[some, None], axes[some], 0.0)
        varying, node = axes @ axes.transpose(0, 2, 1), node[some, None]
        covariance[node, place] = varying @ covariance[node, place]
        covariance[node, :, place] = varying @ covariance[node, :, place]
    return covariance


def _sets(
    schema: TableSchema, slopes: Float[np.ndarray, "n_nodes n"], *, some: bool
) -> Float[np.ndarray, "n_nodes n n_sets"]:
    """Candidate terms beside the columns: sets of levels adjacent by coefficient."""
    n_nodes, n = slopes.shape
    levels: dict[int, list[int]] = {}
    for position, (attribute, _) in enumerate(
        schema.indicators, n - schema.n_indicators
    ):
        levels.setdefault(attribute, []).append(position)
    found = [np.zeros((n_nodes, n, 0))]
    for place in levels.values() if some else ():
        number = np.arange(len(place) - 1)
        member = np.zeros((n_nodes, n, len(number)))
        before = np.zeros((n_nodes, 1), int)
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
    # No equation is within a negative limit: then only the last try counts.
    for copy in _COPIES if (limit >= 0).any() else _COPIES[-1:]:
        chosen[going], unexplained[going] = selected_forward(
            gram[going], moment[going], whole[going], limit[going], copy
        )
        going = np.flatnonzero(unexplained > limit)
        if not len(going):
            break
    chosen, inverse, of_chosen = _backward(gram, moment, chosen, whole, limit)
    columns = np.broadcast_to(np.eye(full.shape[1]), covariance.shape)
    member = np.concatenate([columns, sets], axis=2)
    of_terms = np.take_along_axis(member, chosen[:, None], axis=2)
    of_terms = of_terms * (chosen >= 0)[:, None]
    variance = np.einsum("nij,nij->ni", of_terms @ inverse, of_terms)
    slopes = (of_terms @ of_chosen[:, :, None])[:, :, 0]
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
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Drop terms that can be spared, the least useful first, of ties the last.

    Returns the others, inverses of their products, and their slopes; else zero.
    """
    most = np.count_nonzero(chosen >= 0, axis=1).max(initial=0)
    chosen = chosen[:, :most].copy()
    inverses, slopes = np.zeros((len(chosen), most, most)), np.zeros(chosen.shape)
    going = np.flatnonzero((chosen >= 0).any(axis=1))
    while len(going):
        own = chosen[going]
        inverse, wanted = _inside(gram[going], moment[going], own)
        slope = (inverse @ wanted[:, :, None])[:, :, 0]
        inverses[going], slopes[going] = inverse, slope
        unexplained = variance[going] - np.einsum("ni,ni->n", wanted, slope)
        # Of near copies rounding may make a variance negative: one can be spared.
        variances = np.einsum("nii->ni", inverse)
        known = variances > 0
        worth = np.where(known, slope**2 / np.where(known, variances, 1.0), 0.0)
        worth = np.where(own >= 0, worth, np.inf)
        least = worth.min(axis=1)
        near = worth[:, ::-1] <= (1.0 + TIE_OF_TERMS) * least[:, None]
        last = most - 1 - np.argmax(near, axis=1)
        worth = worth[np.arange(len(going)), last]
        spared = unexplained + worth <= limit[going]
        going, last = going[spared], last[spared]
        chosen[going, last] = -1
        none = (chosen[going] < 0).all(axis=1)
        inverses[going[none]], slopes[going[none]] = 0.0, 0.0
        going = going[~none]
    return chosen, inverses, slopes
