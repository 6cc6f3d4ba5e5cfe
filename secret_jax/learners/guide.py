"""GUIDE's split finder: tests of residual signs choose the attribute.

The attribute is chosen by the association of its values with the signs of the
residuals, not by the gain of the best of its thresholds: attributes with many
thresholds have no advantage (Loh 2002).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from secret_jax.learners.residuals import (
    Residuals,
    Thresholds,
    quantile_places,
    residuals,
    tried_cuts,
)
from secret_jax.learners.sign_tests import (
    Groups,
    advantage_of_discrete,
    chance_scores,
    groups_of,
    sign_scores,
)
from secret_jax.learners.thresholds import Ranked, ranked
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant, LeastSquares
from secret_jax.runtime.values import POSITIVE, at_least
from secret_jax.splits.axis import Attributes, AxisGains, AxisSplits, attributes
from secret_jax.splits.chosen import chosen_rows
from secret_jax.splits.interface import Level
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

    def gains(self, level: Level) -> AxisGains:
        left = residuals(level, linear=self.model == "linear", ridge=self.ridge)
        axis = attributes(level, left.leading)
        order = ranked(level, axis.projection, left.least)
        tried = tried_cuts(level, order, self.thresholds, left.least)
        usable = np.logical_or.reduceat(tried, level.rows.first, axis=1).T
        usable &= axis.allowed
        chosen = _chosen(self, level, left, axis, order, usable)
        one = Ranked(*(chosen_rows(array, chosen, level)[None] for array in order))
        gain, threshold = left.models.best(one, chosen_rows(tried, chosen, level)[None])
        is_chosen = np.arange(len(axis.kind)) == chosen[:, None]
        return (
            axis,
            np.where(is_chosen & usable, gain, -np.inf),
            np.broadcast_to(threshold, usable.shape),
            left.pure,
        )


def _chosen(
    finder: GuideSplits,
    level: Level,
    left: Residuals,
    axis: Attributes,
    order: Ranked,
    usable: np.ndarray,
) -> np.ndarray:
    """The attribute that is split in every node."""
    two, curvature = _clearest(
        finder, level, left, axis, groups_of(level, axis, order), usable
    )
    # Of two continuous attributes the better split, else the clearer curvature. One
    # split each: the best of many would favour attributes with many values.
    node = np.arange(level.n_nodes)
    place = quantile_places(level, order, node, np.full(level.n_nodes, 0.5))
    sides = []
    for which in two.T:
        median = level.rows.spread(order.value[which, place[which, node]])
        sides.append(chosen_rows(axis.projection, which, level) <= median)
    preferred = left.models.saved(np.stack(sides), left.least)
    by_curvature = (axis.kind == SplitKind.DISCRETE)[two] | ~np.isfinite(preferred)
    own = np.take_along_axis(curvature, two, axis=1)
    preferred = np.where(by_curvature.any(axis=1, keepdims=True), own, preferred)
    can_be = np.take_along_axis(usable, two, axis=1)
    best = np.argmax(np.where(can_be, preferred, -np.inf), axis=1)
    return two[node, best]


def _clearest(
    finder: GuideSplits,
    level: Level,
    left: Residuals,
    axis: Attributes,
    groups: Groups,
    usable: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Attributes of the most significant test (two, or one twice), and curvatures."""
    positive = (left.leading > 0)[None]
    found = sign_scores(positive, groups, interactions=finder.interactions)
    curvature, interaction = found.curvature[:, 0], found.interaction[:, 0]
    pairs, is_discrete = groups.pairs, groups.is_discrete
    possible = axis.allowed[:, pairs].all(axis=2) & usable[:, pairs].any(axis=2)
    if finder.n_bootstraps and is_discrete.any() and not is_discrete.all():
        chance = chance_scores(
            level, left, groups, finder.n_bootstraps, interactions=finder.interactions
        )
        advantage = advantage_of_discrete(chance, groups, usable, possible)[:, None]
        curvature = curvature - np.where(is_discrete, advantage, 0.0)
        of_discrete = is_discrete[pairs[: interaction.shape[1]]].any(axis=1)
        interaction = interaction - np.where(of_discrete, advantage, 0.0)
    curvature = np.where(usable, curvature, -np.inf)
    best = np.argmax(curvature, axis=1)
    two = np.stack([best, best], axis=1)
    if interaction.shape[1]:
        interaction = np.where(possible, interaction, -np.inf)
        clearer = interaction.max(axis=1) > curvature.max(axis=1)
        pair = pairs[np.argmax(interaction, axis=1)]
        two = np.where(clearer[:, None], pair, two)
    return two, curvature
