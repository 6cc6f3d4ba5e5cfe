"""The default split finder: candidates of all kinds, one score.

Axis thresholds, orders of categories, principal Hessian directions (Li 1992) and hinge
steps by LDA (Breiman 1993) propose; the drop in the penalised
residual sum of squares of linear models in the children decides, as in RETIS (Karalic
1992), but of the residual of the node's own model (`secret_jax.splits.rss_nodes`).
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from secret_jax.data.learning import ColumnOptions
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.values import POSITIVE, TupleOf, at_least, real
from secret_jax.splits.chosen import split_of
from secret_jax.splits.interface import Level, Split, SplitFinder
from secret_jax.splits.rss_axis import attributes_of, best_attribute, picked
from secret_jax.splits.rss_nodes import prepared
from secret_jax.splits.rss_oblique import Proposal, improved, proposed


@dataclass(frozen=True, kw_only=True)
class RssSplits(SplitFinder):
    """Splits by how much better linear models fit the two sides than one fits both.

    Attributes
    ----------
    max_split_features : int or None, default=5
        Most attributes of an oblique split: fewer read better. None: all.
    sparse_terms : tuple of int, default=(2, 3)
        An oblique split yields to a version of itself in so many attributes that loses
        at most five per cent of its gain.
    n_thresholds : int, default=16
        Quantiles tried along each direction; 8 to 32 are as good on 2048 rows.
    n_hessian : int, default=2
        Principal Hessian directions (Li 1992).
    n_finalists : int, default=5
        Candidates, of axis and of oblique splits, that get an exact score.
    hinge_steps : int, default=2
        Maximum number of steps; with one, some tables err clearly more.
    least_share : float, default=0.0
        Least share of the node's weight on each side. The model of a few rows at an end
        explains them by chance; boosters, which nobody prunes, gain by 1/16.
    ridge : float, default=3e-2
        Penalty of the children's models, in units of the regressors' variances.
    most_regressors : int, default=24
        With more columns their leading principal components score the splits: the time
        of a score grows with the square of their number.
    gcv_factor : float, default=1.2
        Of the nodes' own models, see `secret_jax.Ridge`.
    proposals : tuple of callable, default=()
        Further functions that propose oblique directions, see
        `secret_jax.splits.rss_oblique.Proposal`; model files cannot hold them.

    References
    ----------
    L. Breiman. Hinging Hyperplanes for Regression, Classification, and Function
    Approximation. IEEE Transactions on Information Theory 39, 1993.

    A. Karalic. Employing Linear Regression in Regression Tree Leaves. ECAI 1992.

    K.-C. Li. On Principal Hessian Directions for Data Visualization and Dimension
    Reduction. Journal of the American Statistical Association 87, 1992.

    Examples
    --------
    >>> from secret_jax import RssSplits, SecretRegressor
    >>> model = SecretRegressor(splits=RssSplits(max_split_features=2))
    >>> model.set_params(splits__n_thresholds=8).splits.n_thresholds
    8
    """

    max_split_features: Annotated[int, at_least(1)] | None = 5
    sparse_terms: Annotated[tuple[int, ...], TupleOf(at_least(2))] = (2, 3)
    n_thresholds: Annotated[int, at_least(2)] = 16
    n_hessian: Annotated[int, at_least(0)] = 2
    n_finalists: Annotated[int, at_least(1)] = 5
    hinge_steps: Annotated[int, at_least(0)] = 2
    least_share: Annotated[float, real(0.0, 0.5)] = 0.0
    ridge: Annotated[float, POSITIVE] = 3e-2
    most_regressors: Annotated[int, at_least(1)] = 24
    gcv_factor: Annotated[float, real(0.0)] = 1.2
    proposals: tuple[Proposal, ...] = ()

    compiled: ClassVar[bool] = True

    def columns_for(self, options: ColumnOptions) -> ColumnOptions:
        """As they are given."""
        return options

    @property
    def node_model(self) -> Ridge:
        """Splits are scored on the residual of this model."""
        return Ridge(gcv_factor=self.gcv_factor)

    @property
    def max_attributes(self) -> int | None:
        return self.max_split_features

    def find(self, level: Level) -> Split:
        """Best split of every node of a level.

        ``gain`` is the drop of the penalised residual sum of squares over the rows, in
        standardised units of the outputs; ``chance_gain`` what the coefficients of a
        further model are expected to save by chance alone.
        """
        nodes, units = prepared(level, self.ridge, self.most_regressors)
        if self.least_share:
            least = level.rows.xp.maximum(
                nodes.min_weight, self.least_share * nodes.total
            )
            nodes = nodes._replace(min_weight=least)
        oblique = level.any_oblique and level.x.shape[-2] > 1
        direction = proposed(nodes, oblique, self)
        attributes = attributes_of(level, nodes, direction, self.n_thresholds)
        best = best_attribute(
            attributes, nodes, self.n_finalists, self.ridge, alone=not oblique
        )
        if oblique:
            best = improved(nodes, best, direction, level.oblique, self)
        pick = picked(best, level, nodes, attributes)
        return split_of(
            pick._replace(gain=pick.gain * units.residual**2),
            level,
            pure=units.pure,
            chance_gain=units.chance_gain,
            units=(units.center, units.scale),
        )
