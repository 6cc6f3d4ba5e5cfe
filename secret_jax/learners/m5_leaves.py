"""M5's leaf models: backward elimination of terms, smoothing along the path."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Bool, Float

from secret_jax.models.interface import LeafModel, Levels, Models
from secret_jax.models.linear import means
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.values import real
from secret_jax.tree.structure import SplitKind, StopReason, Tree

# Regressors are standardised over the table: a smaller variance is rounding.
_CONSTANT_VARIANCE = 1e-12
# Squared errors below this share of the output's are rounding.
_ROUNDING = 1e-12
# Estimated errors closer than this are equal up to rounding, and fewer terms win.
_TIE = 1e-9


@dataclass(frozen=True, kw_only=True)
class M5Linear(LeafModel):
    """Least squares with few terms, smoothed along the path to the root.

    Regressors are dropped one by one, each time the one that raises the squared error
    least. Of these models the one is kept whose error times ``(n + v) / (n - v)`` is
    least, with n the number of rows of the node and v that of its parameters.
    The prediction of a leaf is then averaged with those of its ancestors: on the path
    to the root the prediction p of a node with n rows becomes
    ``(n p + k q) / (n + k)``, where q is the prediction of its parent's own model.
    The result is a linear model again.

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
    Quinlan measures the mean absolute residual; here it is the root of the mean square,
    which follows from statistics, and is proportional to it for normal residuals.
    He stops at the first term that pays; here all shorter models are looked at as well.

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
            slopes = eliminated(own)
            model[:, which, 1:] = slopes
            model[:, which, 0] -= np.einsum("ni,ni->n", slopes, own.mean[:, :-1])
            used = np.count_nonzero(slopes, axis=1)
            spent += used / statistics.n_outputs
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
            statistics = _without(statistics, ~asked_below(tree))
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
    """Mask of regressors used by the split of a node or by splits below it.

    A leaf that pruning made has those of its own model, since its subtree is gone.
    """
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


def _without(
    statistics: NodeStatistics, gone: Bool[np.ndarray, "n_nodes n_regressors"]
) -> NodeStatistics:
    """Treat some regressors of each node as constant."""
    scatter = statistics.scatter.copy()
    node, column = np.nonzero(gone)
    scatter[node, column] = 0.0
    scatter[node, :, column] = 0.0
    return statistics._replace(scatter=scatter)


def eliminated(statistics: NodeStatistics) -> Float[np.ndarray, "n_nodes n_regressors"]:
    """Slopes of each node after backward elimination of terms.

    ``statistics``: statistics of one output. 0 for terms that are left out,
    among them copies of others and constants.
    """
    n, weight = statistics.n_regressors, statistics.weight
    square = np.einsum("nii->ni", statistics.scatter)
    varies = square[:, :n] > _CONSTANT_VARIANCE * weight[:, None]
    scale = np.ones_like(square)
    scale[:, :n] = np.where(varies, np.sqrt(np.where(varies, square[:, :n], 1.0)), 1.0)
    table = statistics.scatter / (scale[:, :, None] * scale[:, None])
    floor = _ROUNDING * square[:, -1]
    used = _swept_in(table, varies, statistics)
    error = _estimated(np.maximum(table[:, -1, -1], floor), used, weight)
    best, slopes = error.copy(), np.where(used, table[:, :n, -1], 0.0)
    for _ in range(n):
        diagonal = np.einsum("nii->ni", table)[:, :n]
        safe = np.where(used, diagonal, -1.0)
        cost = np.where(used, -(table[:, :n, -1] ** 2) / safe, np.inf)
        chosen = np.argmin(cost, axis=1)
        going = used.any(axis=1)
        _sweep(table, np.flatnonzero(going), chosen[going], inwards=False)
        used[going, chosen[going]] = False
        error = _estimated(np.maximum(table[:, -1, -1], floor), used, weight)
        better = going & (error <= best * (1.0 + _TIE))
        best = np.where(better, np.minimum(error, best), best)
        slopes[better] = np.where(used, table[:, :n, -1], 0.0)[better]
    return slopes / scale[:, :n]


def _estimated(
    squares: np.ndarray, used: np.ndarray, weight: np.ndarray
) -> Float[np.ndarray, " n_nodes"]:
    """Root of the sum of squares, corrected for the number of parameters."""
    spent = 1.0 + np.count_nonzero(used, axis=1)
    left = weight - spent
    factor = np.where(left > 0, (weight + spent) / np.where(left > 0, left, 1.0), 0.0)
    # Without a row to spare no error can be told: any shorter model is better.
    return np.where(left > 0, factor * np.sqrt(squares), np.inf)


def _swept_in(
    table: np.ndarray, varies: np.ndarray, statistics: NodeStatistics
) -> Bool[np.ndarray, "n_nodes n_regressors"]:
    """Sweep in the regressors of each node, the most useful first; return the mask.

    One that others leave nothing of stays out, and so do more than there are rows for.
    """
    n = varies.shape[1]
    used = np.zeros_like(varies)
    for _ in range(n):
        diagonal = np.einsum("nii->ni", table)[:, :n]
        free = varies & ~used & (diagonal > n * statistics.rounding[:, None])
        free &= (np.count_nonzero(used, axis=1) + 2 < statistics.weight)[:, None]
        gain = np.where(free, table[:, :n, -1] ** 2 / np.where(free, diagonal, 1.0), -1)
        chosen = np.argmax(gain, axis=1)
        going = np.flatnonzero(free.any(axis=1))
        _sweep(table, going, chosen[going], inwards=True)
        used[going, chosen[going]] = True
    return used


def _sweep(
    table: np.ndarray, node: np.ndarray, column: np.ndarray, *, inwards: bool
) -> None:
    """Apply a Gauss-Jordan sweep of a column per node, or its reverse, in place.

    For columns that are in, the table holds the negative inverse of their products, and
    the slopes of the others on them; for those that are out, products of residuals.
    """
    if not len(node):
        return
    part, which = table[node], np.arange(len(node))
    pivot = part[which, column, column]
    row = part[which, column]
    part -= row[:, :, None] * row[:, None, :] / pivot[:, None, None]
    moved = row / (pivot if inwards else -pivot)[:, None]
    part[which, column] = moved
    part[which, :, column] = moved
    part[which, column, column] = -1.0 / pivot
    table[node] = part
