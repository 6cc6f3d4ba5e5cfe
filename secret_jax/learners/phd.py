"""Split finder by principal Hessian directions of the residuals."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from secret_jax.learners.residuals import (
    Residuals,
    ResidualSplits,
    best_thresholds,
    components,
)
from secret_jax.learners.thresholds import PURE, Thresholds
from secret_jax.runtime.linalg import leading_eigenvectors, unit_vectors
from secret_jax.runtime.values import at_least
from secret_jax.splits.axis import attributes, split_of
from secret_jax.splits.interface import Level, Split
from secret_jax.tree.structure import SplitKind

# Residuals beyond so many deviations do not bend more: a bound against heavy tails.
_MOST_BENDING = 3.0


@dataclass(frozen=True, kw_only=True)
class PhdSplits(ResidualSplits):
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
    In the paper an analyst looks at the residuals along the direction and chooses the
    cut. Residuals beyond three deviations count as three. Discrete attributes, which
    have no place in a direction, compete with it, divided in the order of their mean
    residuals; so do thresholds of single attributes where there is no direction.

    References
    ----------
    K.-C. Li, H.-H. Lue and C.-H. Chen. Interactive Tree-Structured Regression via
    Principal Hessian Directions. JASA 95, 2000.

    K.-C. Li (1992): see `secret_jax.RssSplits`.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import PhdSplits
    >>> SecretRegressor(oblique=True, splits=PhdSplits(), leaf="linear").oblique
    True
    """

    n_directions: Annotated[int, at_least(1)] = 1
    thresholds: Thresholds = 32

    def find(self, level: Level) -> Split:
        """The best split of every node; its gain is the drop of the sum of squares."""
        rows = level.rows
        left = self.residuals(level)
        axis = attributes(level, left.leading)
        direction = self._directions(level, left)
        n = direction.shape[1]
        along = rows.transformed(direction, left.z).astype(np.float32)
        bends = level.oblique[:, None] & (direction != 0).any(axis=2)
        single = (axis.kind == SplitKind.DISCRETE) | ~bends.any(axis=1, keepdims=True)
        # Directions stand before the attributes.
        kind = np.full(n, SplitKind.OBLIQUE, np.int32)
        axis = axis._replace(
            projection=np.concatenate([along, axis.projection]),
            kind=np.concatenate([kind, axis.kind]),
            attribute=np.concatenate([np.full_like(kind, -1), axis.attribute]),
            direction=np.pad(axis.direction.astype(np.float64), [(n, 0), (0, 0)]),
            allowed=np.concatenate([bends, axis.allowed & single], axis=1),
            chance=np.pad(axis.chance, [(0, 0), (n, 0)]),
        )
        gain, threshold = best_thresholds(level, left, axis, self.thresholds)
        node, best = np.arange(level.n_nodes), np.argmax(gain, axis=1)
        pick = axis.pick(best, gain, threshold, level)
        bent = best < n
        pick.direction[bent] = direction[node[bent], best[bent]]
        return split_of(pick, level, pure=left.pure, units=left.units)

    def _directions(
        self, level: Level, left: Residuals
    ) -> Float[np.ndarray, "n_nodes n_directions n_columns"]:
        """Leading directions of the columns that a split may combine, in units of z."""
        rows, n_columns = level.rows, len(left.z)
        if not level.any_oblique:
            return np.zeros((level.n_nodes, 0, n_columns))
        combined = level.roles.combined & level.allowed[:, :n_columns]
        basis = np.where(rows.spread(combined), left.z, 0.0)
        back, _ = components(level, basis, self.ridge)
        white, residual = rows.transformed(back, basis), left.residual
        total = rows.sums(level.weight.astype(np.float64))[:, None]
        square = rows.sums(level.weight * residual**2) / total
        unit = np.sqrt(np.mean(square, axis=1, keepdims=True))  # one for all outputs
        most = _MOST_BENDING * rows.spread(np.maximum(unit, PURE))
        bounded = np.clip(residual, -most, most)
        bounded -= rows.spread(rows.sums(level.weight * bounded) / total)
        hessian = [rows.products(level.weight * one * white, white) for one in bounded]
        # The squares of several outputs have the same eigenvectors, and add up.
        whole = hessian[0] if len(hessian) == 1 else sum(one @ one for one in hessian)
        n = min(self.n_directions, n_columns)
        found = leading_eigenvectors(whole, n) @ back
        return unit_vectors(np.where(combined[:, None], found, 0.0))
