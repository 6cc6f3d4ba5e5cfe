"""Leaf models with a single regressor: the one that explains the most variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from secret_jax.models.interface import LeafModel, Models
from secret_jax.models.least_squares import means
from secret_jax.models.statistics import NodeStatistics

# Regressors are standardised over the table: a smaller variance is rounding.
_CONSTANT_VARIANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class SimpleLinear(LeafModel):
    """Least squares on the regressor of least squared error.

    Treed regression of Alexander & Grimshaw: a line in every leaf, which can be drawn.
    Each output takes the regressor that is best for it.

    References
    ----------
    W. P. Alexander and S. D. Grimshaw. Treed Regression. Journal of Computational and
    Graphical Statistics 5, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import SecretRegressor
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> model = SecretRegressor(leaf="simple", max_depth=0).fit(X, X[:, 1] ** 3)
    >>> (model.tree_.coefficient[0, 0, 1:] != 0).tolist()
    [False, True, False]
    """

    corrects_parent: ClassVar[bool] = False

    def toward(self, statistics: NodeStatistics, base: np.ndarray) -> Models:
        """Fit the mean, and the slope of the regressor that explains most variance.

        Where none varies, or two rows or fewer could only be joined, it is the mean; of
        equals the first regressor is taken.
        """
        del base
        model, n = means(statistics), statistics.n_regressors
        spent = np.ones(model.shape[:2])
        if n > 0:
            square = np.einsum("nii->ni", statistics.scatter)[:, :n]
            least = _CONSTANT_VARIANCE * statistics.weight
            usable = (square > least[:, None]) & (statistics.weight > 2)[:, None]
            safe = np.where(usable, square, 1.0)
            node = np.arange(len(model))
            for output in range(statistics.n_outputs):
                product = statistics.scatter[:, :n, n + output]
                explained = np.where(usable, product**2 / safe, -1.0)
                best = np.argmax(explained, axis=1)
                found = explained[node, best] > 0
                slope = np.where(found, product[node, best] / safe[node, best], 0.0)
                model[node, output, 1 + best] = slope
                model[:, output, 0] -= slope * statistics.mean[node, best]
                spent[:, output] += found
        degrees = np.minimum(statistics.weight, spent.mean(axis=1))
        return Models(model, degrees)
