"""Residuals of a node's own model, prepared for tests and for models of its parts."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from secret_jax.learners.thresholds import (
    Cuts,
    Thresholds,
    best_threshold,
    cuts_of,
    least_weight,
)
from secret_jax.runtime.linalg import matmul
from secret_jax.runtime.pieces import weighted_moments
from secret_jax.splits.axis import leading_component
from secret_jax.splits.interface import Node
from secret_jax.splits.scoring import NodeRows, node_rows

# Below this deviation, in units of the whole table, a column is constant or rounding.
CONSTANT = 1e-6


class Residuals(NamedTuple):
    """Residuals of a node's model."""

    # (n_rows,): residuals of one output, or first principal component of several;
    # centred.
    leading: jax.Array
    # (n_rows, n_columns): columns of mean zero and unit variance in the node; constant
    # ones are zero.
    z: jax.Array
    # center, scale (n_columns,): by which they were standardised.
    center: jax.Array
    scale: jax.Array
    rows: NodeRows  # for models of parts of the node
    unit: jax.Array  # (): deviation of the residuals, in which ``rows`` are measured
    n_model: int  # number of columns that these models use
    least: jax.Array  # (): least weight of a part
    pure: jax.Array  # (), bool: whether the model leaves nothing but rounding

    def cuts(
        self, projection: jax.Array, random: jax.Array, thresholds: Thresholds
    ) -> Cuts:
        """Choose the thresholds to try along a projection; see `cuts_of`."""
        return cuts_of(projection, self.rows.weight, self.least, random, thresholds)

    def best(self, projection: jax.Array, cuts: Cuts) -> tuple[jax.Array, jax.Array]:
        """Find the threshold whose sides' models gain most; see `best_threshold`."""
        rows, n_model = self.rows, self.n_model
        return best_threshold(rows, projection, cuts, self.least, n_model=n_model)


def residuals(node: Node, *, linear: bool, ridge: float) -> Residuals:
    """Compute the residuals of the node's model, and rows for models of its parts.

    ``linear``: whether parts get linear models, or constants; ``ridge``: penalty of
    their models, in units of the regressors' variances.
    """
    n = node.columns.n_regressors
    fitted = node.coefficient[:, 0] + matmul(node.x[:, :n], node.coefficient[:, 1:].T)
    residual = node.targets - fitted
    _, mean, spread = weighted_moments(residual, node.weight)
    present = (node.weight > 0)[:, None]
    residual = jnp.where(present, residual - mean, 0.0)
    _, center, deviation = weighted_moments(node.x, node.weight)
    varies = deviation > CONSTANT
    scale = jnp.where(varies, deviation, 1.0)
    z = jnp.where(varies & present, (node.x - center) / scale, 0.0)
    unit = jnp.maximum(jnp.sqrt(jnp.mean(spread**2)), CONSTANT)
    n_model = n if linear else 0
    rows, _ = node_rows(
        z[:, :n_model], residual / unit, node.weight, n_model=n_model, ridge=ridge
    )
    return Residuals(
        leading=leading_component(residual, node.weight),
        z=z,
        center=center,
        scale=scale,
        rows=rows,
        unit=unit,
        n_model=n_model,
        least=least_weight(node.min_weight, varies[:n_model]),
        pure=(spread <= CONSTANT).all(),
    )
