"""M5: splits by standard deviations, models of few terms, smoothing, pruning."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from secret_jax.fit.interface import Evidence, Pruned, PruningRule
from secret_jax.fit.prune.path import TIE_OF_ERRORS
from secret_jax.learners.thresholds import PURE, best_cuts, moments
from secret_jax.losses.numbers import Quantile
from secret_jax.models.fitting import fit_models, node_errors
from secret_jax.models.interface import LeafModel, Levels, Models
from secret_jax.models.linear import CONSTANT, means, selected_forward
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.linalg import safe_divide
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.values import real
from secret_jax.splits.axis import (
    AxisGains,
    AxisSplits,
    attributes,
    leading_component,
)
from secret_jax.splits.interface import Level
from secret_jax.tree.reshape import compact
from secret_jax.tree.structure import SplitKind, StopReason, Tree
from secret_jax.tree.totals import model_degrees

# Of no rows sums are zero, and so are their means.
_NO_WEIGHT = 1e-30
# Squared errors below this share of the output's are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class M5Splits(AxisSplits):
    """Splits on one attribute by the largest drop of the standard deviation.

    A split of a node of n rows and the standard deviation s into parts of n_i rows
    gains ``n s - sum(n_i s_i)``: unlike the drop of the variance this does not favour
    parts of few rows far away so much. Every threshold between two rows is tried.

    Attributes
    ----------
    least_deviation : float, default=0.05
        A node whose output varies less, as a share of its standard deviation in all
        rows, is not split.

    Notes
    -----
    Categories are divided in two, in the order of their means, as in Wang & Witten
    (1997). Of several outputs the gains are added, each in units of its deviation.

    References
    ----------
    J. R. Quinlan. Learning with Continuous Classes. Australian Joint Conference on
    Artificial Intelligence, 1992.

    Y. Wang and I. H. Witten. Inducing Model Trees for Continuous Classes. ECML, poster
    papers, 1997.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import M5Splits
    >>> SecretRegressor(splits=M5Splits(), leaf="linear").splits.least_deviation
    0.05
    """

    least_deviation: Annotated[float, real(0.0)] = 0.05

    def gains(self, level: Level) -> AxisGains:
        centred, deviation = moments(level, level.targets)
        variance = level.rows.spread(deviation**2)
        # About their means: sums over many rows keep their digits.
        squares = np.where(level.weight > 0, centred**2 - variance, 0.0)
        values = np.concatenate([centred, squares])
        axis = attributes(level, leading_component(centred, level))

        def less_deviation(sums: np.ndarray, weight: np.ndarray) -> np.ndarray:
            """How much less than the node's the standard deviation is, times weight."""
            # A difference of two roots would be rounding where a node is large: it is
            # that of their squares over their sum.
            mean, excess = np.split(sums / np.maximum(weight, _NO_WEIGHT), 2)
            whole = variance[:, None]
            less = np.minimum(mean**2 - excess, whole)
            deviations = np.sqrt(whole) + np.sqrt(whole - less)
            return weight * np.sum(safe_divide(less, deviations), axis=0)

        gain, threshold = best_cuts(level, axis.projection, values, less_deviation)
        pure = (deviation <= max(self.least_deviation, PURE)).all(axis=1)
        return axis, gain, threshold, pure


@dataclass(frozen=True, kw_only=True)
class M5Linear(LeafModel):
    """Least squares with few terms, smoothed along the path to the root.

    Regressors are dropped one by one, each time the one that raises the squared error
    least; of these models that one is kept whose error times ``(n + v) / (n - v)`` is
    least, for n rows and v parameters. On the path from a leaf to the root the
    prediction p of a node then becomes ``(n p + k q) / (n + k)``, where q is that of
    its parent's own model: a linear model again.

    Attributes
    ----------
    smoothing : float, default=15.0
        The k above; 0: none.
    attributes : {"all", "tested"}, default="all"
        Which regressors a model starts from. ``"tested"``, as in the literature: those
        that splits below the node ask for in the tree as it was grown. What growth has
        left a leaf is a constant; a leaf that pruning made has a linear model.

    Notes
    -----
    Quinlan measures the mean absolute residual, here it is the root of the mean square,
    and stops at the first term that pays; here all shorter models are looked at.

    References
    ----------
    Quinlan (1992), and Wang & Witten (1997): see `M5Splits`.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import M5Linear
    >>> SecretRegressor(leaf=M5Linear(smoothing=0.0)).leaf.smoothing
    0.0
    """

    smoothing: Annotated[float, real(0.0)] = 15.0
    attributes: Literal["all", "tested"] = "all"

    def fit(self, statistics: NodeStatistics, parent: np.ndarray) -> Models:
        """Fit the nodes' own models after elimination, not smoothed yet."""
        model, spent = means(statistics), np.ones(len(statistics.weight))
        for which in range(statistics.n_outputs):
            own = statistics.output(which)
            model[:, which, 1:] = slopes = eliminated(own)
            model[:, which, 0] -= np.einsum("ni,ni->n", slopes, own.mean[:, :-1])
            spent += np.count_nonzero(slopes, axis=1) / statistics.n_outputs
        return Models(model, np.minimum(statistics.weight, spent), False)

    def fit_tree(
        self,
        tree: Tree,
        statistics: NodeStatistics,
        levels: Levels,
        stage: Stage = UNTOLD,
    ) -> Models:
        """Fit the nodes' own models and smooth them; the degrees are those before."""
        if self.attributes == "tested":
            scatter = statistics.scatter.copy()
            node, column = np.nonzero(~asked_below(tree))
            scatter[node, column] = scatter[node, :, column] = 0.0
            statistics = statistics._replace(scatter=scatter)
        own = super().fit_tree(tree, statistics, levels, stage)
        coefficient = own.coefficient.copy()
        # A prediction is a share of the node's own, plus a model from above.
        share = np.ones(len(tree.parent))
        above = np.zeros_like(coefficient)
        for node in np.flatnonzero(tree.parent >= 0):  # parents come first
            parent = tree.parent[node]
            total = statistics.weight[node] + self.smoothing
            part = self.smoothing / total if total > 0 else 1.0
            share[node] = share[parent] * (1.0 - part)
            above[node] = share[parent] * part * own.coefficient[parent] + above[parent]
            coefficient[node] = share[node] * own.coefficient[node] + above[node]
        return own._replace(coefficient=coefficient)


def asked_below(tree: Tree) -> Bool[np.ndarray, "n_nodes n_regressors"]:
    """Mask of regressors of splits at or below a node; of a pruned one of its model."""
    n, schema = tree.schema.n_regressors, tree.schema
    column = np.array(schema.input_columns, int)
    found = np.zeros((tree.n_nodes, n), bool)
    was_split = tree.stop_reason == StopReason.PRUNED
    found[was_split] = (tree.coefficient[was_split, :, 1:] != 0).any(axis=1)
    for node in np.flatnonzero(~tree.is_leaf)[::-1]:  # children before parents
        found[node] = found[tree.left[node]] | found[tree.right[node]]
        for one in tree.comparisons_at(node):
            asked = column[tree.direction[one] != 0]
            if tree.kind[one] == SplitKind.DISCRETE:
                asked = [schema.discrete[tree.attribute[one]]]
            found[node] |= np.isin(column[:n], asked)
    return found


def eliminated(statistics: NodeStatistics) -> Float[np.ndarray, "n_nodes n_regressors"]:
    """Slopes of one output after backward elimination: zero for terms left out."""
    n, weight = statistics.n_regressors, statistics.weight
    table = statistics.scatter / np.where(weight > 0, weight, 1.0)[:, None, None]
    square, variance = table[:, -1, -1], np.einsum("nii->ni", table)[:, :n]
    scale = np.sqrt(np.where(variance > CONSTANT, variance, 1.0))
    gram = table[:, :n, :n] / (scale[:, :, None] * scale[:, None])
    moment = table[:, :n, -1] / scale
    gram[variance <= CONSTANT] = 0.0
    copies = n * statistics.rounding[:, None]
    chosen, _ = selected_forward(gram, moment, square, square - np.inf, copies)
    chosen[np.arange(n) + 2 >= weight[:, None]] = n  # more than there are rows for
    used = (chosen[:, :, None] == np.arange(n)).any(axis=1)
    both = used[:, :, None] & used[:, None]
    inverse = np.linalg.inv(np.where(both, gram, np.eye(n)))
    slopes = np.einsum("nij,nj->ni", inverse, np.where(used, moment, 0.0))
    left = square - np.einsum("ni,ni->n", slopes, moment)
    best, kept, node = np.full(len(weight), np.inf), slopes, np.arange(len(weight))
    for n_dropped in range(n + 1):
        size = np.sqrt(np.maximum(left, _ROUNDING * square))
        error = _estimated(size, 1.0 + np.count_nonzero(used, axis=1), weight)
        better = error <= best * (1.0 + TIE_OF_ERRORS)
        best = np.where(better, np.minimum(error, best), best)
        kept = np.where(better[:, None], slopes, kept)
        if n_dropped == n:
            break
        pivot = np.where(used, np.einsum("nii->ni", inverse), 1.0)
        gone = np.argmin(np.where(used, slopes**2 / pivot, np.inf), axis=1)
        column, own, pivot = inverse[node, gone], slopes[node, gone], pivot[node, gone]
        left = left + own**2 / pivot
        inverse -= column[:, :, None] * column[:, None] / pivot[:, None, None]
        used[node, gone] = False
        slopes = np.where(used, slopes - (own / pivot)[:, None] * column, 0.0)
    return kept / scale


def _estimated(error: Any, spent: Any, n: Any) -> Any:
    """Errors on new rows, from those on n rows and numbers of parameters."""
    spare = n - spent
    # Without a row to spare no error can be told: any shorter model is better.
    estimate = error * (n + spent) / np.where(spare > 0, spare, 1.0)
    return np.where(spare > 0, estimate, np.inf)


@dataclass(frozen=True, kw_only=True)
class M5Pruning(PruningRule):
    """Bottom-up pruning by the estimated error of a node against its subtree.

    The mean absolute residual of a node's n training rows, times ``(n + v) / (n - v)``
    with v the parameters of its model (`model_degrees`), estimates its error on other
    rows. The subtree below the node is one model of the same rows: its v are the
    parameters of all its leaves, and one for every split. With a loss the mean loss
    replaces the mean absolute residual. M5's leaf models (`M5Linear`) are judged before
    they are smoothed.

    Notes
    -----
    The subtree's v are those of M5', the program of Wang & Witten. By their paper the
    error of a subtree is the mean of its leaves' estimates: then a split costs nothing,
    and two to three times as many leaves are kept.

    References
    ----------
    Quinlan (1992), and Wang & Witten (1997): see `M5Splits`.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import M5Pruning
    >>> SecretRegressor(leaf="m5", prune="m5").set_params(prune=M5Pruning()).prune
    M5Pruning()
    """

    def __call__(self, tree: Tree, evidence: Evidence) -> Pruned:
        """Prune; the value is the estimated error, summed over the rows."""
        judged = tree
        if isinstance(evidence.leaf, M5Linear):
            own_models = replace(evidence.leaf, smoothing=0.0)
            judged = fit_models([tree], [evidence.training], own_models)[0]
        spent = tree.loss.degrees_of_row(model_degrees(judged), tree.n_outputs)
        n = judged.weight
        loss = Quantile() if tree.loss.least_squares else tree.loss  # of sizes
        error = node_errors(judged, evidence.training, loss=loss)
        best = _estimated(error, spent, n)
        keep = np.zeros(tree.n_nodes, bool)
        for node in np.flatnonzero(~tree.is_leaf)[::-1]:  # children before parents
            children = [tree.left[node], tree.right[node]]
            below_error, below_spent = error[children].sum(), spent[children].sum() + 1
            below = _estimated(below_error, below_spent, float(n[node]))
            keep[node] = below < best[node] * (1 - TIE_OF_ERRORS)
            if keep[node]:  # from here on the node stands for what is below it
                error[node], spent[node], best[node] = below_error, below_spent, below
        return Pruned(compact(tree, keep), float(best[0]))
