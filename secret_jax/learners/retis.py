"""RETIS's split finder: one attribute, every threshold, linear models."""

from dataclasses import dataclass
from typing import Annotated

from secret_jax.learners.residuals import best_thresholds, residuals
from secret_jax.learners.thresholds import Thresholds
from secret_jax.models.linear import LeastSquares
from secret_jax.runtime.values import POSITIVE
from secret_jax.splits.axis import AxisGains, AxisSplits, attributes
from secret_jax.splits.interface import Level


@dataclass(frozen=True, kw_only=True)
class RetisSplits(AxisSplits):
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
        Penalty of the children's models, in units of the regressors' variances: enough
        to keep float32 from dividing by nothing.

    Notes
    -----
    A side has at least twice as many rows as its model has coefficients. The
    categories of a discrete attribute are divided in the order of their mean residuals.
    RETIS weighs the errors of parts with few rows by an estimate that is shrunk toward
    that of all rows; that is not done here.

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
    ridge: Annotated[float, POSITIVE] = 1e-4

    @property
    def node_model(self) -> LeastSquares:
        """Model that splits are compared with."""
        return LeastSquares()

    def n_random(self, n_columns: int) -> int:
        """Number of random numbers: the start of the sampled values."""
        return 1

    def gains(self, level: Level) -> AxisGains:
        left = residuals(level, linear=True, ridge=self.ridge)
        axis = attributes(level, left.leading)
        found = best_thresholds(level, left, axis, self.thresholds)
        return axis, *found, left.pure
