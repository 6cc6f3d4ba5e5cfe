"""The default split finder: candidates of all kinds, one score.

Axis thresholds, orders of categories, principal Hessian directions (Li 1992) and hinge
steps by LDA (Breiman 1993) propose; the drop in the penalised
residual sum of squares of linear models in the children decides, as in RETIS (Karalic
1992), but of the residual of the node's own model (`secret_jax.splits.scoring`).
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from secret_jax.data.roles import ColumnOptions
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.values import POSITIVE, TupleOf, at_least, real
from secret_jax.splits.directions import Proposal
from secret_jax.splits.interface import Split
from secret_jax.splits.one_node import Columns, Node, OneNodeFinder
from secret_jax.splits.rss_search import CONSTANT, best_split


@dataclass(frozen=True, kw_only=True)
class RssSplits(OneNodeFinder):
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
    n_hinge : int, default=1
        Best candidates that are improved by hinge steps.
    hinge_steps : int, default=2
        Maximum number of steps; with one, some tables err clearly more.
    ridge : float, default=3e-2
        Penalty of the children's models, in units of the regressors' variances.
    most_regressors : int, default=24
        With more columns their leading principal components score the splits: the time
        of a score grows with the square of their number.
    gcv_factor : float, default=1.2
        Of the nodes' own models, see `secret_jax.Ridge`.
    proposals : tuple of callable, default=()
        Further functions that propose oblique directions, see
        `secret_jax.splits.directions.Proposal`. They are compiled, and the search with
        them; model files cannot hold them.

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
    n_hinge: Annotated[int, at_least(0)] = 1
    hinge_steps: Annotated[int, at_least(0)] = 2
    ridge: Annotated[float, POSITIVE] = 3e-2
    most_regressors: Annotated[int, at_least(1)] = 24
    gcv_factor: Annotated[float, real(0.0)] = 1.2
    proposals: tuple[Proposal, ...] = ()

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

    def needs_host_inputs(self, n_columns: int) -> bool:
        """Loadings of the columns where they are too many to stand for themselves."""
        return n_columns > self.most_regressors

    def host_inputs(
        self, x: np.ndarray, weight: np.ndarray, columns: Columns
    ) -> dict[str, np.ndarray]:
        """Loadings of the columns, if they are needed."""
        if not self.needs_host_inputs(x.shape[2]):
            return {}
        most, n = self.most_regressors, columns.n_regressors
        return {"loading": _loadings(x, weight, n, most)}

    def __call__(self, node: Node) -> Split:
        """Best split of one node, or of each of many.

        ``gain`` is the drop of the penalised residual sum of squares over the rows, in
        standardised units of the outputs; ``chance_gain`` what the coefficients of a
        further model are expected to save by chance alone.
        """
        return best_split(self, node)


def _loadings(
    x: np.ndarray, weight: np.ndarray, n_regressors: int, most: int
) -> np.ndarray:
    """Leading principal components of each node, those of the regressors first.

    Returns (n_nodes, n_columns, n_coordinates), float32: combinations of the
    standardised columns that stand for them.
    """
    n_columns = x.shape[2]
    n_model = min(n_regressors, most)
    n_other = min(n_columns - n_regressors, most - n_model)
    loading = np.zeros((len(x), n_columns, n_model + n_other), np.float32)
    for node in np.flatnonzero(weight.any(axis=1)):  # the others are padding
        share = weight[node] / weight[node].sum()
        centred = x[node] - share @ x[node]
        deviation = np.sqrt(share @ centred**2)
        centred /= np.where(deviation > CONSTANT, deviation, np.float32(np.inf))
        # Float32 is enough for what only scores splits, and half the time.
        covariance = (share[:, None] * centred).T @ centred
        model, other = slice(n_regressors), slice(n_regressors, None)
        loading[node, model, :n_model] = _components(covariance[model, model], n_model)
        loading[node, other, n_model:] = _components(covariance[other, other], n_other)
    return loading


def _components(covariance: np.ndarray, n: int) -> np.ndarray:
    """All columns, or their leading principal components, of shape (n_columns, n).

    They have unit length: a ridge means the same for them as for the columns.
    """
    if n == len(covariance):
        return np.eye(n)
    return np.linalg.eigh(covariance)[1][:, ::-1][:, :n]
