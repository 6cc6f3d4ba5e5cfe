"""Residuals of a node's own model, prepared for tests and for models of its parts."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from secret_jax.learners.thresholds import least_weight
from secret_jax.runtime.linalg import matmul
from secret_jax.runtime.pieces import weighted_moments
from secret_jax.splits.axis import leading_component
from secret_jax.splits.interface import Node
from secret_jax.splits.scoring import NodeRows, node_rows

# Below this deviation, in units of the whole table, a column is constant or rounding.
CONSTANT = 1e-6


class Residuals(NamedTuple):
    """Residuals of a node's model.

    Attributes
    ----------
    leading : Array of shape (n_rows,)
        Residuals of one output, or first principal component of several; centred.
    z : Array of shape (n_rows, n_columns)
        Columns of mean zero and unit variance in the node; constant ones are zero.
    center, scale : Array of shape (n_columns,)
        By which they were standardised.
    rows : NodeRows
        For models of parts of the node.
    unit : Array of shape ()
        Deviation of the residuals, in which ``rows`` are measured.
    n_model : int
        Number of columns that these models use.
    least : Array of shape ()
        Least weight of a part.
    pure : Array of shape (), bool
        Whether the model leaves nothing but rounding.
    """

    leading: jax.Array
    z: jax.Array
    center: jax.Array
    scale: jax.Array
    rows: NodeRows
    unit: jax.Array
    n_model: int
    least: jax.Array
    pure: jax.Array


def residuals(node: Node, *, linear: bool, ridge: float) -> Residuals:
    """Compute the residuals of the node's model, and rows for models of its parts.

    Parameters
    ----------
    linear : bool
        Whether parts get linear models, or constants.
    ridge : float
        Penalty of their models, in units of the regressors' variances.
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
