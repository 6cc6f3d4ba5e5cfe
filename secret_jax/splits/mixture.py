"""Two-component Gaussian mixtures: their densities, and rows in which they are round.

`secret_jax.splits.em` fits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from secret_jax.runtime.linalg import AnyArray, inverse_cholesky, matmul, safe_divide
from secret_jax.splits.discriminant import DEPENDENT
from secret_jax.splits.interface import Level


class MixtureStatus(IntEnum):
    """How one run of EM ended."""

    CONVERGED = 0
    ITERATION_LIMIT = 1
    COLLAPSED = 2
    TOO_FEW_ROWS = 3


class LogForms(NamedTuple):
    r"""Joint log-densities as :math:`c_i - \frac{1}{2} \lVert A_i (1, z) \rVert^2`.

    With the inverse :math:`G_i^{-1}` of the Cholesky factor of a covariance and a mean
    :math:`\mu_i`, :math:`A_i` is :math:`(-G_i^{-1} \mu_i, G_i^{-1})`.
    """

    constant: AnyArray  # (n_nodes, ..., 2), up to what both have in common
    factor: AnyArray  # (n_nodes, ..., 2, n_dimensions, 1 + n_dimensions)

    def densities(
        self, rows: Any, z: Float[AnyArray, "... n_joint rows"]
    ) -> tuple[AnyArray, AnyArray]:
        r"""Joint log-densities :math:`\log \alpha_i p_i(z)` of rows, (..., rows) each.

        ``z``: as in `MixtureRows`. The axes of several mixtures stand before the rows.
        """
        n_nodes, *shape, n_joint = self.factor.shape
        flat = self.factor.reshape(n_nodes, -1, n_joint)
        scaled = rows.transformed(flat, z)
        scaled = scaled.reshape(*scaled.shape[:-2], *shape, scaled.shape[-1])
        squares = (scaled * scaled).sum(axis=-2)
        both = rows.spread(self.constant) - 0.5 * squares
        return both[..., 0, :], both[..., 1, :]


class MixtureRows(NamedTuple):
    """Rows of nodes as EM reads them."""

    rows: Any
    # (1 + n_dimensions, rows), float32: a one, and whitened (regressors, outputs);
    # inactive dimensions, which follow from the earlier ones, are zero.
    z: AnyArray
    weight: AnyArray  # (rows,), float32
    total: AnyArray  # (n_nodes, n_joint, n_joint): weighted products of z with itself
    active: AnyArray  # (n_nodes, n_dimensions), bool

    @property
    def n_active(self) -> AnyArray:
        """Number of active dimensions, (n_nodes,), float32."""
        return self.active.sum(axis=-1, dtype=self.total.dtype)

    def take(self, nodes: np.ndarray) -> MixtureRows:
        """Select nodes by position or by a mask, on the host."""
        rows, place = self.rows.take(nodes)
        z, weight = self.z[:, place], self.weight[place]
        return MixtureRows(rows, z, weight, self.total[nodes], self.active[nodes])


class Whitened(NamedTuple):
    """Rows in units in which they look like a unit sphere (section 4)."""

    rows: MixtureRows
    mean: AnyArray  # (n_nodes, n_dimensions)
    deviation: AnyArray  # (n_nodes, n_dimensions): 1 for columns without any
    correlation: AnyArray  # (n_nodes, n_dimensions, n_dimensions)
    whitener: AnyArray  # (n_nodes, n_dimensions, n_dimensions)

    @property
    def back(self) -> AnyArray:
        """From whitened to standardised columns, (n_nodes, d, d)."""
        return matmul(self.correlation, self.whitener.swapaxes(-1, -2))


def whiten(level: Level) -> Whitened:
    """Whiten (regressors, outputs) of every node by their own moments."""
    rows, xp, n = level.rows, level.rows.xp, level.n_regressors
    arrays = level.x[..., :n, :], level.targets, level.weight
    # Moments about the first row: an offset does not eat the digits.
    first = [rows.head(array, 1)[..., 0] for array in arrays[:2]]
    shift = xp.concatenate(first, axis=-1)
    weight, moment = rows.total(_moments, (shift,), arrays)
    mean = shift + safe_divide(moment, weight[:, None])
    (scatter,) = rows.total(_scatters, (mean,), arrays)
    covariance = safe_divide(scatter, weight[:, None, None])
    deviation = xp.sqrt(xp.diagonal(covariance, axis1=-2, axis2=-1))
    deviation = xp.where(deviation > 0, deviation, 1.0)
    correlation = covariance / deviation[:, :, None] / deviation[:, None, :]
    whitener, active = inverse_cholesky(correlation, DEPENDENT)
    scaled = whitener / deviation[:, None, :]
    (z,) = rows.each(_coordinates, (mean, scaled), arrays)
    (total,) = rows.total(moments_of, (), (z, level.weight))
    whitened = MixtureRows(rows, z, level.weight, total, active)
    return Whitened(whitened, mean, deviation, correlation, whitener)


def moments_of(rows: Any, _: Any, arrays: Sequence[AnyArray]) -> tuple[AnyArray]:
    """Weighted products of (1, z) with itself; ``arrays``: z and the weight."""
    z, weight = arrays
    return (rows.products(weight[..., None, :] * z, z),)


def _centred(rows: Any, center: AnyArray, arrays: Sequence[AnyArray]) -> AnyArray:
    """(regressors, outputs) of some rows, less what their node has."""
    return rows.xp.concatenate(arrays[:2], axis=-2) - rows.spread(center)


def _moments(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray, AnyArray]:
    apart, weight = _centred(rows, of_nodes[0], arrays), arrays[2]
    moment = rows.products(weight[..., None, :], apart)[..., 0, :]
    return rows.sums(weight), moment


def _scatters(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray]:
    return moments_of(rows, (), (_centred(rows, of_nodes[0], arrays), arrays[2]))


def _coordinates(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray]:
    mean, matrix = of_nodes
    z = rows.transformed(matrix, _centred(rows, mean, arrays))
    ones = rows.xp.ones_like(z[..., :1, :])
    return (rows.xp.concatenate([ones, z], axis=-2),)
