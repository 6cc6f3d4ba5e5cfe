"""Leaf models without shrinkage, and forward selection of the terms of models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from secret_jax.models.interface import LeafModel, Levels, Models
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.tree.structure import Tree

# Regressors are standardised over the table: a smaller variance is rounding.
CONSTANT_VARIANCE = 1e-12
# Terms whose worth differs by a smaller share are worth the same.
TIE_OF_TERMS = 1e-6
# The same, where terms are selected.
CONSTANT = 1e-10


@dataclass(frozen=True, kw_only=True)
class LeastSquares(LeafModel):
    """Least squares on the rows of the node (Dobra & Gehrke 2002, section 4.2.3).

    Examples
    --------
    >>> from secret_jax import LeastSquares, SecretRegressor
    >>> model = SecretRegressor(leaf=LeastSquares(clip_margin=None))
    >>> model.fit([[0], [1], [2]], [0, 1, 5]).tree_.clip_margin is None
    True
    """

    def fit(self, statistics: NodeStatistics, parent: np.ndarray) -> Models:
        coefficient = least_squares(statistics)
        width = float(coefficient.shape[2])
        return Models(coefficient, np.minimum(statistics.weight, width))


@dataclass(frozen=True, kw_only=True)
class Constant(LeafModel):
    """Mean of the node; every continuous attribute is split-only."""

    uses_regressors: ClassVar[bool] = False

    def fit(self, statistics: NodeStatistics, parent: np.ndarray) -> Models:
        return Models(means(statistics), np.minimum(statistics.weight, 1.0))


@dataclass(frozen=True, kw_only=True)
class MixtureLeaf(LeastSquares):
    """Linear model implied by the finder's Gaussian mixture.

    See section 4.2.3 of Dobra & Gehrke 2002. Only finders that fit a mixture imply
    models: ``splits="secret"``. The root, and the sides of splits that were not found
    but fixed, have least squares.
    """

    def conflict(self, options: Mapping[str, Any]) -> str:
        if options["splits"].implies_models:
            return ""
        return "another one with these splits: they imply no models of the leaves"

    def fit_tree(
        self,
        tree: Tree,
        statistics: NodeStatistics,
        levels: Levels,
        stage: Stage = UNTOLD,
    ) -> Models:
        fitted = super().fit_tree(tree, statistics, levels, stage)
        coefficient = tree.coefficient.astype(np.float64)
        none = (tree.parent < 0) | np.isinf(tree.gain[tree.parent])
        coefficient[none] = fitted.coefficient[none]
        return fitted._replace(coefficient=coefficient)


@dataclass(frozen=True, kw_only=True)
class SimpleLinear(LeafModel):
    """Least squares on the regressor of least squared error, each output on its own.

    Treed regression: a line in every leaf, which can be drawn (Alexander & Grimshaw.
    Treed Regression. Journal of Computational and Graphical Statistics 5, 1996).

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import SecretRegressor
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> model = SecretRegressor(leaf="simple", max_depth=0).fit(X, X[:, 1] ** 3)
    >>> (model.tree_.coefficient[0, 0, 1:] != 0).tolist()
    [False, True, False]
    """

    def fit(self, statistics: NodeStatistics, parent: np.ndarray) -> Models:
        # Where none varies, or two rows or fewer could only be joined, it is the mean.
        model, n = means(statistics), statistics.n_regressors
        spent = np.ones(model.shape[:2])
        if n > 0:
            square = np.einsum("nii->ni", statistics.scatter)[:, :n]
            least = CONSTANT_VARIANCE * statistics.weight
            usable = (square > least[:, None]) & (statistics.weight > 2)[:, None]
            safe = np.where(usable, square, 1.0)
            node = np.arange(len(model))
            for output in range(statistics.n_outputs):
                product = statistics.scatter[:, :n, n + output]
                explained = np.where(usable, product**2 / safe, -1.0)
                best = np.argmax(explained, axis=1)
                helps = explained[node, best] > 0
                slope = np.where(helps, product[node, best] / safe[node, best], 0.0)
                model[node, output, 1 + best] = slope
                model[:, output, 0] -= slope * statistics.mean[node, best]
                spent[:, output] += helps
        degrees = np.minimum(statistics.weight, spent.mean(axis=1))
        return Models(model, degrees, corrects_parent=False)


def means(statistics: NodeStatistics) -> np.ndarray:
    """Mean of each node as a model, (n_nodes, n_outputs, 1 + n_regressors)."""
    n_nodes, n_regressors = len(statistics.weight), statistics.n_regressors
    model = np.zeros((n_nodes, statistics.n_outputs, 1 + n_regressors))
    model[:, :, 0] = statistics.mean[:, n_regressors:]
    return model


def least_squares(
    statistics: NodeStatistics,
) -> Float[np.ndarray, "n_nodes n_outputs _"]:
    """Fit least squares for each node, of least norm where they are ambiguous.

    Regressors count in units of their standard deviations in the node: dependent and
    constant columns, and nodes with fewer rows than regressors, are no special cases.
    """
    model = means(statistics)
    n = statistics.n_regressors
    if n == 0:
        return model
    variance = np.einsum("nii->ni", statistics.scatter)[:, :n]
    weight = np.where(statistics.weight > 0, statistics.weight, 1.0)
    per_row = variance / weight[:, None]
    scale = np.where(per_row > CONSTANT_VARIANCE, np.sqrt(variance), np.inf)
    correlation = statistics.scatter[:, :n, :n] / (scale[:, :, None] * scale[:, None])
    moment = statistics.scatter[:, :n, n:] / scale[:, :, None]
    values, vectors = np.linalg.eigh(correlation)
    # Directions with less of the largest variance are treated as dependent.
    kept = values > statistics.rounding[:, None] * np.maximum(values[:, -1:], 0.0)
    kept &= values > 0
    coordinate = np.einsum("nij,nio->njo", vectors, moment)
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    slopes = np.einsum("nij,njo->noi", vectors, coordinate * inverse[:, :, None])
    slopes /= scale[:, None, :]
    model[:, :, 1:] = slopes
    model[:, :, 0] -= np.einsum("noi,ni->no", slopes, statistics.mean[:, :n])
    return model


def selected_forward(
    gram: Float[np.ndarray, "n_nodes n_terms n_terms"],
    moment: Float[np.ndarray, "n_nodes n_terms"],
    unexplained: Float[np.ndarray, " n_nodes"],
    limit: Float[np.ndarray, " n_nodes"],
    copy: float | Float[np.ndarray, "n_nodes 1"],
    most: int | None = None,
) -> tuple[Int[np.ndarray, "n_nodes n_steps"], Float[np.ndarray, " n_nodes"]]:
    """Select terms by pivoted partial Cholesky; return them and what is unexplained.

    ``gram`` and ``moment`` are products of the terms, and of these with what is to be
    explained. Each step adds the term that explains most, of ties the first, until no
    more than ``limit`` of the variance is ``unexplained``, ``most`` are chosen, or all
    others are copies: those chosen leave no more than the share ``copy`` of their
    variance. -1 comes after the last one of a node.
    """
    n_nodes, n_terms = moment.shape
    node = np.arange(n_nodes)
    variance = np.einsum("nii->ni", gram)
    left, moment, unexplained = variance.copy(), moment.copy(), unexplained.copy()
    n_steps = n_terms if most is None else most
    factors = np.empty((n_nodes, n_steps, n_terms))
    chosen, waiting = np.full((n_nodes, n_steps), -1), variance > CONSTANT
    for step in range(n_steps):
        usable = waiting & (left > copy * variance)
        worth = np.where(usable, moment**2 / np.where(usable, left, 1.0), 0.0)
        greatest = worth.max(axis=1, initial=0.0)
        going = (unexplained > limit) & (greatest > 0)
        if not going.any():
            break
        best = np.argmax(worth >= (1.0 - TIE_OF_TERMS) * greatest[:, None], axis=1)
        chosen[going, step], waiting[node, best] = best[going], False
        pivot = np.sqrt(np.where(going, left[node, best], np.inf))
        before = factors[:, :step]
        known = (before[node, :, best][:, None] @ before)[:, 0]
        factors[:, step] = column = (gram[node, best] - known) / pivot[:, None]
        rest = moment[node, best] / pivot
        moment -= rest[:, None] * column
        left -= column**2
        unexplained -= rest**2
    return chosen, unexplained
