"""GUIDE's split finder: tests of residual signs choose the attribute.

The attribute is chosen by the association of its values with the signs of the
residuals, not by the gain of the best of its thresholds: attributes with many
thresholds have no advantage (Loh 2002).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp

from secret_jax.learners.residuals import Residuals, Thresholds, residuals
from secret_jax.learners.sign_tests import (
    advantage_of_discrete,
    groups_of,
    pairs_of,
    sign_scores,
)
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant, LeastSquares
from secret_jax.runtime.values import POSITIVE, at_least
from secret_jax.splits.node_axis import AxisGains, AxisSplits, Projections, projections
from secret_jax.splits.one_node import Node
from secret_jax.tree.structure import SplitKind


@dataclass(frozen=True, kw_only=True)
class GuideSplits(AxisSplits):
    """Splits on the attribute most associated with the signs of the residuals.

    Chi-squared tests of the signs against the quartiles of a continuous attribute or
    the categories of a discrete one (*curvature*), and against the halves and the
    categories of two attributes together (*interaction*), made comparable by the
    cube-root transform of Wilson & Hilferty (1931). Of the pair of the clearest
    interaction the attribute with the better split at its median is taken, if both are
    continuous; else the one with the clearer curvature.

    Attributes
    ----------
    model : {"linear", "constant"}, default="linear"
        Whose residuals are tested, and what the children are fitted by.
    thresholds : "all", int or float, default=32
        Thresholds of the chosen attribute that are tried, by the residual sum of
        squares of the children's models: every one (GUIDE), a number of quantiles (1:
        the median), or as 0.01 the values of a share of the rows (GUIDE(S) in Dobra &
        Gehrke's section 5.3), spread from a random start.
    interactions : bool, default=True
        Whether pairs are tested.
    n_bootstraps : int, default=0
        Number of bootstrap samples per node, which estimate how much clearer tests
        of discrete attributes are by chance than those of continuous ones; 0: the
        scores are compared as they are.
    ridge : float, default=1e-4
        Penalty of the children's models, in units of the regressors' variances: enough
        to keep float32 from dividing by nothing.

    Notes
    -----
    A side with a linear model has at least twice as many rows as that has coefficients.
    The bootstrap moves the scores where the paper multiplies them: those of chance may
    be negative.

    References
    ----------
    W.-Y. Loh. Regression Trees with Unbiased Variable Selection and Interaction
    Detection. Statistica Sinica 12, 2002.

    E. B. Wilson and M. M. Hilferty. The Distribution of Chi-Square. PNAS 17, 1931.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import GuideSplits
    >>> SecretRegressor(splits=GuideSplits(thresholds=1), leaf="linear").leaf
    'linear'
    """

    model: Literal["linear", "constant"] = "linear"
    thresholds: Thresholds = 32
    interactions: bool = True
    n_bootstraps: Annotated[int, at_least(0)] = 0
    ridge: Annotated[float, POSITIVE] = 1e-4

    @property
    def node_model(self) -> LeafModel:
        """Model whose residuals are tested."""
        return LeastSquares() if self.model == "linear" else Constant()

    def n_random(self, n_columns: int) -> int:
        """Number of random numbers: a seed, and the start of the sampled values."""
        return 2

    def gains(self, node: Node) -> AxisGains:
        left = residuals(node, linear=self.model == "linear", ridge=self.ridge)
        axis = projections(node, left.leading)

        def cuts_along(projection):
            return left.cuts(projection, node.random[1:], self.thresholds)

        cuts = jax.lax.map(cuts_along, axis.projection)
        usable = axis.allowed & cuts.allowed.any(axis=1)
        two, curvature = _clearest(self, node, left, axis, usable)

        # Of two continuous attributes the better split, else the clearer curvature. One
        # split each: the best of many would favour attributes with many values.
        def of_median(which):
            projection = axis.projection[which]
            return left.best(projection, left.cuts(projection, node.random[1:], 1))[0]

        halves = jax.lax.cond(
            two[0] != two[1],
            lambda: jax.lax.map(of_median, two),
            lambda: jnp.zeros(2, node.x.dtype),
        )
        is_discrete = jnp.asarray(axis.kind == SplitKind.DISCRETE)[two]
        by_curvature = is_discrete.any() | ~jnp.isfinite(halves).any()
        preferred = jnp.where(by_curvature, curvature[two], halves)
        preferred = jnp.where(usable[two], preferred, -jnp.inf)
        chosen = two[jnp.argmax(preferred)]
        own = jax.tree.map(lambda array: array[chosen], cuts)
        gain, threshold = left.best(axis.projection[chosen], own)
        n = len(axis.kind)
        at = jnp.arange(n) == chosen
        gains = jnp.where(at & usable, gain * left.unit**2, -jnp.inf)
        return axis, gains, jnp.full(n, threshold), left.pure


def _clearest(
    finder: GuideSplits,
    node: Node,
    left: Residuals,
    axis: Projections,
    usable: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Attributes of the most significant test (two, or one twice), and curvatures."""
    groups = groups_of(node, axis)
    positive = ((left.leading > 0) & (node.weight > 0)).astype(node.x.dtype)
    curvature, interaction = sign_scores(
        positive, node.weight, groups, interactions=finder.interactions
    )
    pairs = pairs_of(groups)
    possible = axis.allowed[pairs].all(axis=1) & usable[pairs].any(axis=1)
    is_discrete = axis.kind == SplitKind.DISCRETE
    if finder.n_bootstraps and len(groups.continuous) and len(groups.discrete):
        advantage = advantage_of_discrete(
            node,
            left,
            groups,
            usable,
            possible,
            interactions=finder.interactions,
            n_samples=finder.n_bootstraps,
        )
        curvature = curvature - jnp.where(is_discrete, advantage, 0.0)
        of_discrete = is_discrete[pairs].any(axis=1)[: interaction.shape[0]]
        interaction = interaction - jnp.where(of_discrete, advantage, 0.0)
    curvature = jnp.where(usable, curvature, -jnp.inf)
    best = jnp.argmax(curvature)
    two = jnp.stack([best, best])
    if len(interaction):
        interaction = jnp.where(possible, interaction, -jnp.inf)
        first = jnp.argmax(interaction)
        clearer = interaction[first] > curvature[best]
        two = jnp.where(clearer, jnp.asarray(pairs, two.dtype)[first], two)
    return two, curvature
