"""RETIS's split finder: one attribute, every threshold, linear models."""

from dataclasses import dataclass

from secret_jax.learners.residuals import ResidualSplits, best_thresholds
from secret_jax.learners.thresholds import Thresholds
from secret_jax.splits.axis import AxisGains, AxisSplits, attributes
from secret_jax.splits.interface import Level


@dataclass(frozen=True, kw_only=True)
class RetisSplits(ResidualSplits, AxisSplits):
    """Splits on one attribute by the largest drop of the error of linear models.

    The search that SECRET replaces (Dobra & Gehrke 2002, section 3.2): a linear model
    on each side of every threshold; the least residual sum of squares decides.

    Attributes
    ----------
    thresholds : "all", int or float, default="all"
        Every threshold between two rows; a number of quantiles of the rows, 1 the
        median; or, as 0.01, the values of a share of the rows, spread from a random
        start.
    ridge : float, default=1e-4
        Penalty of the children's models, in units of the regressors' variances.

    Notes
    -----
    A side has at least twice as many rows as its model has coefficients. Categories
    are divided in the order of their mean residuals. RETIS shrinks the errors of parts
    with few rows toward that of all rows; that is not done here.

    References
    ----------
    A. Karalic. Employing Linear Regression in Regression Tree Leaves. European
    Conference on Artificial Intelligence, 1992.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import RetisSplits
    >>> SecretRegressor(splits=RetisSplits(thresholds=0.01), leaf="linear").leaf
    'linear'
    """

    thresholds: Thresholds = "all"

    def gains(self, level: Level) -> AxisGains:
        left = self.residuals(level)
        axis = attributes(level, left.leading)
        found = best_thresholds(level, left, axis, self.thresholds)
        return axis, *found, left.pure
