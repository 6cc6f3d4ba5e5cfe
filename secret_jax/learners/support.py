"""SUPPORT's split finder: t tests of rows above against those below the model."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from secret_jax.learners.guide import normal_score, table_scores
from secret_jax.learners.residuals import ResidualSplits
from secret_jax.runtime.linalg import safe_divide
from secret_jax.splits.axis import AxisGains, AxisSplits, attributes
from secret_jax.splits.chosen import chosen_rows
from secret_jax.splits.interface import Level
from secret_jax.tree.structure import SplitKind


@dataclass(frozen=True, kw_only=True)
class SupportSplits(ResidualSplits, AxisSplits):
    """Splits midway between the means of rows above and below the node's model.

    The signs of the residuals make two classes. In each attribute a two-sample t test
    looks for a difference of their means, and another for one of their variances, by
    the distances from the means (Levene's test). The attribute of the clearest test is
    split at the average of the two means: no threshold is searched.

    Attributes
    ----------
    model : {"linear", "constant"}, default="linear"
        Whose residuals are tested.
    ridge : float, default=1e-4
        Penalty of the children's models, in units of the regressors' variances; what
        they save is the gain of a split.

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

    def n_random(self, n_columns: int) -> int:
        return 0

    def gains(self, level: Level) -> AxisGains:
        rows = level.rows
        left = self.residuals(level)
        axis = attributes(level, left.leading)
        above = left.leading > 0
        mean, rest, of_means = compared(level, axis.projection, above)
        *_, of_variances = compared(level, np.abs(rest), above)
        statistic = np.maximum(of_means**2, of_variances**2)
        score = normal_score(statistic, np.ones_like(statistic))
        is_discrete = axis.kind == SplitKind.DISCRETE
        values = np.stack([level.weight, level.weight * above])
        table = table_scores(level.rows, level.codes, level.n_categories, values)
        score[:, is_discrete] = table[:, 0]
        threshold = mean.mean(axis=1)
        goes_left = axis.projection <= rows.spread(threshold)
        side = rows.sums(np.where(goes_left, level.weight, 0.0))
        side = np.minimum(side, rows.sums(level.weight)[:, None] - side)
        usable = axis.allowed & (side >= left.least[:, None]) & (side > 0)
        clearest = np.argmax(np.where(usable, score, -np.inf), axis=1)
        goes_left = chosen_rows(goes_left, clearest, level)[None]
        saved = left.models.saved(goes_left, left.least)
        is_clearest = np.arange(len(axis.kind)) == clearest[:, None]
        gain = np.where(is_clearest & usable, saved, -np.inf)
        return axis, gain, threshold, left.pure


def compared(
    level: Level,
    values: Float[np.ndarray, "n rows"],
    above: Bool[np.ndarray, " rows"],
) -> tuple[
    Float[np.ndarray, "n_nodes 2 n"],
    Float[np.ndarray, "n rows"],
    Float[np.ndarray, "n_nodes n"],
]:
    """Compare two classes of the rows of every node; ``above``: the first class.

    Returns their means, the values less these, and Student's t for the difference, with
    equal variances: zero where a class is empty or the values do not vary.
    """
    rows, values = level.rows, values.astype(np.float64)
    weight = level.weight * np.stack([above, ~above]).astype(np.float64)
    mass = rows.sums(weight)
    mean = safe_divide(rows.products(weight, values), mass[..., None])
    first, second = (rows.spread(mean[:, which]) for which in range(2))
    rest = values - np.where(above, first, second)
    degrees = np.maximum(mass.sum(axis=1) - 2.0, 1.0)
    share = np.sum(safe_divide(1.0, mass), axis=1) / degrees
    variance = rows.sums(level.weight * rest**2) * share[:, None]
    sound = (mass.min(axis=1) > 0)[:, None] & (variance > 0)
    root = np.sqrt(np.where(sound, variance, 1.0))
    return mean, rest, np.where(sound, (mean[:, 0] - mean[:, 1]) / root, 0.0)
