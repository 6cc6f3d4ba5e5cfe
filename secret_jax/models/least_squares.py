"""Leaf models without shrinkage: least squares, means, and models from a mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from secret_jax.models.interface import LeafModel, Models
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.tree.structure import Tree

# Regressors are standardised over the table: a smaller variance is rounding.
_CONSTANT_VARIANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class LeastSquares(LeafModel):
    """Least squares on the rows of the node (Dobra & Gehrke 2002, section 4.2.3).

    Examples
    --------
    >>> from secret_jax import LeastSquares, SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> model = SecretRegressor(leaf=LeastSquares(clip_margin=None)).fit(X, y)
    >>> model.tree_.clip_margin is None
    True
    """

    def toward(self, statistics: NodeStatistics, base: np.ndarray) -> Models:
        """Fit least squares, of least norm if ambiguous; see `least_squares`."""
        del base
        coefficient = least_squares(statistics)
        width = float(coefficient.shape[2])
        return Models(coefficient, np.minimum(statistics.weight, width))


@dataclass(frozen=True, kw_only=True)
class Constant(LeafModel):
    """Mean of the node; every continuous attribute is split-only."""

    uses_regressors: ClassVar[bool] = False

    def toward(self, statistics: NodeStatistics, base: np.ndarray) -> Models:
        """Return the mean of the outputs."""
        del base
        return Models(means(statistics), np.minimum(statistics.weight, 1.0))


@dataclass(frozen=True, kw_only=True)
class Implied(LeastSquares):
    """Linear model implied by the finder's Gaussian mixture; least squares in the root.

    Dobra & Gehrke 2002, section 4.2.3, second method. Only finders that fit a mixture
    imply models: ``splits="secret"``.
    """

    def fit(
        self, statistics: NodeStatistics, tree: Tree, stage: Stage = UNTOLD
    ) -> Models:
        """Return the models that growing stored in the tree; fit those of the roots."""
        fitted = super().fit(statistics, tree, stage)
        coefficient = tree.coefficient.astype(np.float64)
        root = tree.parent < 0
        coefficient[root] = fitted.coefficient[root]
        return fitted._replace(coefficient=coefficient)


def means(statistics: NodeStatistics) -> np.ndarray:
    """Mean of each node as a model, (n_nodes, n_outputs, 1 + n_regressors)."""
    n_nodes, n_regressors = len(statistics.weight), statistics.n_regressors
    model = np.zeros((n_nodes, statistics.n_outputs, 1 + n_regressors))
    model[:, :, 0] = statistics.mean[:, n_regressors:]
    return model


def least_squares(
    statistics: NodeStatistics,
) -> Float[np.ndarray, "n_nodes n_outputs _"]:
    """Fit a least-squares model for each node.

    The solution is the one of least norm, with every regressor in units of its standard
    deviation in the node: dependent and constant columns, and nodes with fewer rows
    than regressors, need no special treatment.

    Returns
    -------
    ndarray of shape (n_nodes, n_outputs, 1 + n_regressors), float64
        Intercept and slopes.
    """
    model = means(statistics)
    n = statistics.n_regressors
    if n == 0:
        return model
    variance = np.einsum("nii->ni", statistics.scatter)[:, :n]
    weight = np.where(statistics.weight > 0, statistics.weight, 1.0)
    per_row = variance / weight[:, None]
    scale = np.where(per_row > _CONSTANT_VARIANCE, np.sqrt(variance), np.inf)
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
