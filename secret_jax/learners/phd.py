"""Split finder by principal Hessian directions of the residuals."""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp

from secret_jax.learners.residuals import Residuals, Thresholds, residuals
from secret_jax.models.linear import LeastSquares
from secret_jax.runtime.linalg import matmul, unit_vectors
from secret_jax.runtime.values import POSITIVE, at_least
from secret_jax.splits.directions import hessian_directions
from secret_jax.splits.interface import Split
from secret_jax.splits.node_axis import projections
from secret_jax.splits.node_chosen import Candidates, roles_of, split_of
from secret_jax.splits.one_node import Node, OneNodeFinder
from secret_jax.splits.scoring import node_rows
from secret_jax.tree.structure import SplitKind


@dataclass(frozen=True, kw_only=True)
class PhdSplits(OneNodeFinder):
    """Splits along the direction in which the residuals curve most.

    The leading principal Hessian direction of the residuals of the node's linear model
    (Li 1992): the eigenvector, in whitened attributes, of the mean of residuals times
    squares and products of the attributes with the largest absolute eigenvalue. It is
    cut where linear models of both sides save most.

    Attributes
    ----------
    n_directions : int, default=1
        Leading directions that are tried.
    thresholds : "all", int or float, default=32
        Thresholds along each: every one, a number of quantiles, or as 0.01 the values
        of a share of the rows.
    ridge : float, default=1e-4
        Penalty of the children's models and of the whitening, in units of the
        attributes' variances.

    Notes
    -----
    What differs from the paper: its trees are grown by an analyst, who looks at the
    residuals along the direction and chooses the cut; here the residual sum of squares
    does. Residuals beyond three deviations count as three. The categories of discrete
    attributes, which have no place in a direction, compete with it, divided in the
    order of their mean residuals; so do the thresholds of single attributes where there
    is no direction or splits may not be oblique.

    References
    ----------
    K.-C. Li, H.-H. Lue and C.-H. Chen. Interactive Tree-Structured Regression via
    Principal Hessian Directions. Journal of the American Statistical Association 95,
    2000.

    K.-C. Li. On Principal Hessian Directions for Data Visualization and Dimension
    Reduction. Journal of the American Statistical Association 87, 1992.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import PhdSplits
    >>> SecretRegressor(oblique=True, splits=PhdSplits(), leaf="linear").oblique
    True
    """

    n_directions: Annotated[int, at_least(1)] = 1
    thresholds: Thresholds = 32
    ridge: Annotated[float, POSITIVE] = 1e-4

    @property
    def node_model(self) -> LeastSquares:
        """Model whose residuals are analysed."""
        return LeastSquares()

    def n_random(self, n_columns: int) -> int:
        """Number of random numbers: the start of the sampled values."""
        return 1

    def __call__(self, node: Node) -> Split:
        """Find the best split of a node; its gain is the drop of the sum of squares."""
        left = residuals(node, linear=True, ridge=self.ridge)
        axis = projections(node, left.leading)
        nothing = jnp.zeros(len(axis.kind), node.x.dtype)
        single = axis.candidates(nothing, nothing)
        allowed, candidates = axis.allowed, single
        if node.columns.oblique:
            along = _along_directions(self, node, left)
            bends = node.oblique & (jnp.abs(along.direction).max(axis=1) > 0)
            is_axis = axis.kind == SplitKind.AXIS
            allowed = allowed & ~(is_axis & bends.any())
            allowed = jnp.concatenate([bends, allowed])
            candidates = Candidates(
                *(jnp.concatenate(both) for both in zip(along, single, strict=True))
            )

        def best(projection):
            cuts = left.cuts(projection, node.random, self.thresholds)
            return left.best(projection, cuts)

        def best_if_allowed(each):
            nothing = jnp.full((), -jnp.inf, node.x.dtype)
            return jax.lax.cond(each[1], best, lambda _: (nothing, nothing), each[0])

        gain, threshold = jax.lax.map(best_if_allowed, (candidates.projection, allowed))
        candidates = candidates._replace(gain=gain * left.unit**2, threshold=threshold)
        return split_of(
            candidates.take(jnp.argmax(candidates.gain)),
            node,
            pure=left.pure,
            chance_gain=jnp.zeros((), node.x.dtype),
            center=left.center,
            scale=left.scale,
        )


def _along_directions(finder: PhdSplits, node: Node, left: Residuals) -> Candidates:
    """Leading directions of the columns that a split may combine."""
    n_columns = left.z.shape[1]
    combined = roles_of(node).combined & node.allowed[:n_columns]
    basis = jnp.where(combined, left.z, 0.0)
    rows, whitener = node_rows(
        basis, left.rows.residual, node.weight, n_model=n_columns, ridge=finder.ridge
    )
    n = min(finder.n_directions, n_columns)
    found = hessian_directions(rows, n, n_model=n_columns)
    direction = unit_vectors(jnp.where(combined, matmul(found, whitener), 0.0))
    return Candidates(
        gain=jnp.zeros(n, node.x.dtype),
        projection=matmul(direction, left.z.T),
        direction=direction,
        threshold=jnp.zeros(n, node.x.dtype),
        kind=jnp.full(n, SplitKind.OBLIQUE, jnp.int32),
        attribute=jnp.full(n, -1, jnp.int32),
        chance=jnp.zeros(n, node.x.dtype),
    )
