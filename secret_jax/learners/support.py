"""SUPPORT's split finder: t tests of rows above against those below the model."""

from dataclasses import dataclass
from typing import Annotated, Literal

import jax.numpy as jnp
import numpy as np

from secret_jax.learners.residuals import residuals
from secret_jax.learners.sign_tests import (
    class_means,
    groups_of,
    normal_score,
    sign_scores,
    t_statistics,
)
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant, LeastSquares
from secret_jax.runtime.linalg import matmul
from secret_jax.runtime.values import POSITIVE
from secret_jax.splits.node_axis import AxisGains, AxisSplits, projections
from secret_jax.splits.one_node import Node
from secret_jax.splits.scoring import fit_sides
from secret_jax.tree.structure import SplitKind


@dataclass(frozen=True, kw_only=True)
class SupportSplits(AxisSplits):
    """Splits midway between the means of rows above and below the node's model.

    The signs of the residuals make two classes. In each attribute a two-sample t test
    looks for a difference of their means, and another for one of their variances, by
    the distances from the means of the classes (Levene's test). The attribute of the
    clearest test is split at the average of the two class means: no threshold is
    searched.

    Attributes
    ----------
    model : {"linear", "constant"}, default="linear"
        Whose residuals are tested.
    ridge : float, default=1e-4
        Penalty of the children's models, in units of the regressors' variances. They
        determine the gain of a split, which orders the splits of a tree.

    Notes
    -----
    What differs from the paper: it fits polynomials of any degree, and knows no
    discrete attributes. Here these are tested by the chi-squared statistic of signs and
    categories, made comparable as in `GuideSplits`, and the ranks of their mean
    residuals are split. An attribute whose split would leave a side with too few rows
    gives way to the next.

    References
    ----------
    P. Chaudhuri, M.-C. Huang, W.-Y. Loh and R. Yao. Piecewise-Polynomial Regression
    Trees. Statistica Sinica 4, 1994.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import SupportSplits
    >>> SecretRegressor(splits=SupportSplits(), leaf="linear").splits.model
    'linear'
    """

    model: Literal["linear", "constant"] = "linear"
    ridge: Annotated[float, POSITIVE] = 1e-4

    @property
    def node_model(self) -> LeafModel:
        """Model whose residuals are tested."""
        return LeastSquares() if self.model == "linear" else Constant()

    def gains(self, node: Node) -> AxisGains:
        left = residuals(node, linear=self.model == "linear", ridge=self.ridge)
        axis = projections(node, left.leading)
        above = jnp.where(left.leading > 0, node.weight, 0.0)
        below = node.weight - above
        mean, rest = class_means(axis.projection, above, below)
        statistic = jnp.maximum(
            t_statistics(axis.projection, above, below) ** 2,
            t_statistics(jnp.abs(rest), above, below) ** 2,
        )
        score = normal_score(statistic, jnp.ones_like(statistic))
        is_discrete = axis.kind == SplitKind.DISCRETE
        if is_discrete.any():
            positive = (above > 0).astype(node.x.dtype)
            groups = groups_of(node, axis)
            table = sign_scores(positive, node.weight, groups, interactions=False)
            score = jnp.where(is_discrete, table.curvature, score)
        threshold = 0.5 * (mean[0] + mean[1])
        goes_left = axis.projection <= threshold[:, None]
        side = matmul(goes_left.astype(node.x.dtype), node.weight)
        side = jnp.minimum(side, jnp.sum(node.weight) - side)
        usable = axis.allowed & (side >= left.least) & (side > 0)
        clearest = jnp.argmax(jnp.where(usable, score, -jnp.inf))
        saved = fit_sides(
            left.rows, goes_left[clearest][None], left.least, n_model=left.n_model
        ).gain[0]
        at = np.arange(len(axis.kind)) == clearest
        gain = jnp.where(at & usable, saved * left.unit**2, -jnp.inf)
        return axis, gain, threshold, left.pure
