"""The split finder of GUIDE: tests of residual signs choose the attribute.

Which attribute is split on is decided by how clearly its values go along with the signs
of the residuals, not by how much the best of its thresholds saves: attributes with many
thresholds have no advantage (Loh 2002).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils._param_validation import StrOptions

from secret_jax.models.interface import LeafModel
from secret_jax.models.least_squares import Constant, LeastSquares
from secret_jax.runtime.linalg import matmul, safe_divide, weighted_moments
from secret_jax.runtime.values import at_least, real
from secret_jax.splits.axis import (
    Projections,
    leading_component,
    projections,
    split_of,
)
from secret_jax.splits.interface import Node, Split, SplitFinder
from secret_jax.splits.scoring import fit_sides, node_rows, quantiles, quantiles_at
from secret_jax.tree.structure import SplitKind

# Below this deviation, in units of the whole table, a column is constant or rounding.
_CONSTANT = 1e-6
# A curvature test looks at quartiles, an interaction test at both sides of the median
# (Loh 2002, algorithms 1 and 2).
_QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, kw_only=True)
class GuideSplits(SplitFinder):
    """Splits on the attribute whose values go along with the signs of the residuals.

    Chi-squared tests of the signs against the quartiles of a continuous attribute or
    the categories of a discrete one (*curvature*), and against the four quadrants of
    two continuous ones (*interaction*), made comparable by the cube-root transform of
    Wilson & Hilferty (1931). Of the pair of the clearest interaction the attribute with
    the better split is taken.

    Attributes
    ----------
    model : {"linear", "constant"}, default="linear"
        Whose residuals are tested, and what the children are fitted by.
    n_thresholds : int, default=32
        Quantiles of the chosen attribute that are tried, by the residual sum of squares
        of the children's models; 1: the median.
    interactions : bool, default=True
        Whether pairs are tested.
    ridge : float, default=1e-4
        Penalty of the children's models, in units of the regressors' variances: enough
        to keep float32 from dividing by nothing.

    References
    ----------
    W.-Y. Loh. Regression Trees with Unbiased Variable Selection and Interaction
    Detection. Statistica Sinica 12, 2002.

    E. B. Wilson and M. M. Hilferty. The Distribution of Chi-Square. PNAS 17, 1931.

    Examples
    --------
    >>> from secret_jax import GuideSplits, SecretRegressor
    >>> SecretRegressor(splits=GuideSplits(n_thresholds=1), leaf="linear").leaf
    'linear'
    """

    model: Literal["linear", "constant"] = "linear"
    n_thresholds: int = 32
    interactions: bool = True
    ridge: float = 1e-4

    _parameter_constraints: ClassVar[dict] = {
        "model": [StrOptions({"linear", "constant"})],
        "n_thresholds": [at_least(1)],
        "interactions": ["boolean"],
        "ridge": [real(0.0, closed="neither")],
    }

    may_be_oblique: ClassVar[bool] = False

    @property
    def node_model(self) -> LeafModel:
        """The model whose residuals are tested."""
        return LeastSquares() if self.model == "linear" else Constant()

    @property
    def max_attributes(self) -> int:
        """See `SplitFinder`."""
        return 1

    @property
    def numbers_per_cell(self) -> int:
        """A side for each threshold."""
        return self.n_thresholds

    def __call__(self, node: Node) -> Split:
        """Best split of one node."""
        n = node.columns.n_regressors
        fitted = node.coefficient[:, 0] + matmul(
            node.x[:, :n], node.coefficient[:, 1:].T
        )
        residual = node.targets - fitted
        _, mean, spread = weighted_moments(residual, node.weight)
        present = (node.weight > 0)[:, None]
        residual = jnp.where(present, residual - mean, 0.0)
        leading = leading_component(residual, node.weight)
        axis = projections(node, leading)

        # Every attribute at its best threshold: cheap, and what pairs are judged by.
        _, center, deviation = weighted_moments(node.x, node.weight)
        varies = (deviation > _CONSTANT) & present
        z = jnp.where(
            varies, (node.x - center) / jnp.where(varies, deviation, 1.0), 0.0
        )
        n_model = n if self.model == "linear" else 0
        unit = jnp.maximum(jnp.sqrt(jnp.mean(spread**2)), _CONSTANT)
        rows, _ = node_rows(
            z[:, :n_model],
            residual / unit,
            node.weight,
            n_model=n_model,
            ridge=self.ridge,
        )
        cuts = quantiles(axis.projection, node.weight, self.n_thresholds)
        if self.n_thresholds == 1:
            cuts = quantiles_at(axis.projection, node.weight, jnp.full(1, 0.5))

        def best_threshold(projection, cuts):
            left = projection <= cuts[:, None]
            gain = fit_sides(rows, left, node.min_weight, n_model=n_model).gain
            best = jnp.argmax(gain)
            return gain[best], cuts[best]

        gain, threshold = jax.lax.map(
            lambda both: best_threshold(*both), (axis.projection, cuts)
        )
        candidates = axis.candidates(gain * unit**2, threshold)
        clearness = _clearness(self, node, axis, leading)
        usable = jnp.isfinite(candidates.gain)
        clearness = jnp.where(usable, clearness, -jnp.inf)
        # The attributes of the clearest test; more than one only of an interaction.
        clearest = usable & (clearness >= jnp.max(clearness))
        pick = jnp.argmax(jnp.where(clearest, candidates.gain, -jnp.inf))
        return split_of(
            candidates.take(pick),
            node,
            pure=(spread <= _CONSTANT).all(),
            chance_gain=jnp.zeros((), node.x.dtype),
        )


def _clearness(
    finder: GuideSplits, node: Node, axis: Projections, residual: jax.Array
) -> jax.Array:
    """The clearest test that each attribute takes part in, shape (n_attributes,)."""
    projection, kind = axis.projection, axis.kind
    sign = (
        jnp.stack([residual > 0, residual <= 0]).astype(projection.dtype) * node.weight
    )
    continuous = np.flatnonzero(kind != SplitKind.DISCRETE)
    discrete = np.flatnonzero(kind == SplitKind.DISCRETE)
    clearness = jnp.full(len(kind), -jnp.inf, projection.dtype)
    if len(continuous):
        values = projection[continuous]
        quartile = quantiles_at(values, node.weight, jnp.array(_QUARTILES))
        group = jnp.sum(values[:, :, None] > quartile[:, None, :], axis=2)
        curvature = jax.vmap(lambda g: _normal_score(sign, g, 4))(group)
        clearness = clearness.at[continuous].set(curvature)
    if len(discrete):
        n = node.columns.n_categories
        curvature = jax.vmap(lambda g: _normal_score(sign, g, n))(node.codes.T)
        clearness = clearness.at[discrete].set(curvature)
    if finder.interactions and len(continuous) > 1:
        first, second = np.triu_indices(len(continuous), 1)
        upper = (values > quartile[:, 1:2]).astype(jnp.int32)

        def interaction(pair):
            return _normal_score(sign, 2 * upper[pair[0]] + upper[pair[1]], 4)

        # One pair at a time: the quadrants of all of them would fill the memory.
        pairs = jax.lax.map(interaction, (jnp.asarray(first), jnp.asarray(second)))
        allowed = axis.allowed[continuous]
        pairs = jnp.where(allowed[first] & allowed[second], pairs, -jnp.inf)
        clearness = clearness.at[continuous[first]].max(pairs)
        clearness = clearness.at[continuous[second]].max(pairs)
    return clearness


def _normal_score(sign: jax.Array, group: jax.Array, n_groups: int) -> jax.Array:
    """The chi-squared statistic of signs and groups as a standard normal one.

    Parameters
    ----------
    sign : Array of shape (2, n_rows)
        Weights of the rows with positive and with other residuals.
    group : Array of shape (n_rows,), int
    n_groups : int

    Returns
    -------
    Array of shape ()
        By Wilson & Hilferty; minus infinity with a single group.
    """
    member = (group[:, None] == jnp.arange(n_groups)).astype(sign.dtype)
    observed = matmul(sign, member)
    row, column = jnp.sum(observed, axis=1), jnp.sum(observed, axis=0)
    expected = safe_divide(row[:, None] * column, jnp.sum(observed))
    statistic = jnp.sum(safe_divide((observed - expected) ** 2, expected))
    degrees = jnp.maximum(jnp.sum(column > 0) - 1, 0).astype(sign.dtype)
    safe = jnp.maximum(degrees, 1.0)
    share = 2.0 / (9.0 * safe)
    score = (jnp.cbrt(statistic / safe) - (1.0 - share)) / jnp.sqrt(share)
    return jnp.where(degrees > 0, score, -jnp.inf)
