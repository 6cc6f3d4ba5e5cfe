"""Options of the additive first stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from secret_jax.runtime.values import Value, at_least, real


@dataclass(frozen=True, kw_only=True)
class Additive(Value):
    """Sum of curves, one per column, in front of the tree.

    The tree learns what the sum leaves: rows' residuals from curves that were fitted
    without them. Where the target is a sum of effects, such as those of a weekday, a
    season and a trend, a tree alone has to multiply its leaves for each.

    Attributes
    ----------
    n_knots : int, default=10
        Places, at quantiles of a numeric column, where the slope of its curve may
        change; fewer of tables with very many columns.
    most_levels : int, default=32
        Maximum number of values of a column with a knot at each of them; fewer of
        tables with very many columns.
    n_folds : int, default=5
        Parts of the rows that curves are fitted without, for the residuals, where the
        pruning rule has no folds of its own.
    only_if_better : bool, default=False
        Whether trees with and without the curves are grown side by side, and compared
        on rows that neither has seen; ``additive="auto"`` is this. False: the curves
        are there in any case.
    gcv_factor : float, default=1.2
        Weight of a degree of freedom in the generalised cross-validation that
        chooses the penalty; 1 is the textbook's, more gives smoother curves.

    References
    ----------
    T. Hastie and R. Tibshirani. Generalized Additive Models. Chapman & Hall, 1990.

    Examples
    --------
    >>> from secret_jax import Additive, SecretRegressor
    >>> SecretRegressor(additive=Additive(n_knots=5)).additive.n_knots
    5
    """

    n_knots: int = 10
    most_levels: int = 32
    n_folds: int = 5
    only_if_better: bool = False
    gcv_factor: float = 1.2

    _parameter_constraints: ClassVar[dict] = {
        "n_knots": [at_least(0)],
        "most_levels": [at_least(2)],
        "n_folds": [at_least(2)],
        "only_if_better": ["boolean"],
        "gcv_factor": [real(0.0, 10.0, closed="both")],
    }
