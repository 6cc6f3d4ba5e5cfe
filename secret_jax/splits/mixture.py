"""Two-component Gaussian mixtures: parameters, densities, what a fit came to.

For one node; `secret_jax.splits.em` fits them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secret_jax.runtime.linalg import inverse_cholesky, matmul, safe_divide
from secret_jax.splits.labelled import DEPENDENT
from secret_jax.splits.one_node import Node
from secret_jax.splits.tiles import Tiles, each_of, in_tiles, n_used, sum_of


class MixtureStatus(IntEnum):
    """How one run of EM ended."""

    CONVERGED = 0
    ITERATION_LIMIT = 1
    COLLAPSED = 2
    TOO_FEW_ROWS = 3

    @property
    def usable(self) -> bool:
        """Whether the parameters describe two components."""
        return self <= MixtureStatus.ITERATION_LIMIT


class MixtureParameters(NamedTuple):
    """Two Gaussians in whitened coordinates."""

    log_weight: jax.Array  # (2,)
    mean: jax.Array  # (2, n_dimensions)
    # (2, n_dimensions, n_dimensions): inverses of the lower Cholesky factors of the
    # covariances.
    inverse_factor: jax.Array

    @property
    def covariance(self) -> np.ndarray:
        """Covariance matrices, shape (2, n_dimensions, n_dimensions), float64.

        For looking at a mixture on the host; EM itself never needs them.
        """
        factor = np.linalg.inv(np.asarray(self.inverse_factor, np.float64))
        return factor @ factor.transpose(0, 2, 1)


class MixtureFit(NamedTuple):
    """Result of EM."""

    parameters: MixtureParameters
    objective: jax.Array  # (): penalised log-likelihood per unit of weight
    n_iterations: jax.Array  # (), int32
    status: jax.Array  # (), int32: a `MixtureStatus`


class MixtureRows(NamedTuple):
    """Rows as EM reads them."""

    # (n_tiles, 1 + n_dimensions, n_tile_rows), float32: a one, and whitened
    # (regressors, output); inactive dimensions are zero.
    z: jax.Array
    weight: jax.Array  # (n_tiles, n_tile_rows), float32: zero for padding
    n_tiles: jax.Array  # (), int32: the tiles after these are padding

    @classmethod
    def of(
        cls, z: Float[Array, "n_rows n_dimensions"], weight: Float[Array, " n_rows"]
    ) -> MixtureRows:
        """Rows one after the other, cut into tiles."""
        tiles = in_tiles(jnp.concatenate([jnp.ones_like(z[:, :1]), z], axis=1))
        cut_weight = in_tiles(weight)
        return cls(tiles.swapaxes(1, 2), cut_weight, n_used(cut_weight))


class LogForms(NamedTuple):
    r"""Joint log-densities as :math:`c_i - \frac{1}{2} \lVert A_i (1, z) \rVert^2`."""

    constant: jax.Array  # (2,)
    # (2 * n_dimensions, 1 + n_dimensions): of the first component, then of the second.
    factor: jax.Array

    @classmethod
    def of(cls, parameters: MixtureParameters) -> LogForms:
        """Up to a constant that both have in common."""

        def component(log_weight, mean, inverse):
            # A pivot lost to rounding makes this infinite: the component has collapsed.
            log_determinant = -jnp.sum(jnp.log(jnp.diagonal(inverse)))
            moved = -matmul(inverse, mean)
            factor = jnp.concatenate([moved[:, None], inverse], axis=1)
            return log_weight - log_determinant, factor

        constant, factor = jax.vmap(component)(*parameters)
        return cls(constant, factor.reshape(-1, factor.shape[2]))

    def densities(
        self, z: Float[Array, "n_joint n_rows"]
    ) -> tuple[Float[Array, " n_rows"], Float[Array, " n_rows"]]:
        r"""Joint log-densities :math:`\log \alpha_i p_i(z)` of rows.

        ``z``: as in `MixtureRows`.
        """
        scaled = matmul(self.factor, z)
        squares = (scaled * scaled).reshape(2, -1, scaled.shape[1])
        first, second = self.constant[:, None] - 0.5 * jnp.sum(squares, axis=1)
        return first, second


class Whitened(NamedTuple):
    """Rows in units in which they look like a unit sphere (section 4)."""

    rows: MixtureRows
    active: jax.Array
    mean: jax.Array
    deviation: jax.Array
    correlation: jax.Array
    whitener: jax.Array

    def standardised(self, joint: jax.Array) -> jax.Array:
        """(regressors, outputs) in units of their deviations in the node."""
        return (joint - self.mean) / self.deviation


def joint(node: Node, x: jax.Array, targets: jax.Array) -> jax.Array:
    """(regressors, outputs) of some rows."""
    return jnp.concatenate([x[..., : node.columns.n_regressors], targets], axis=-1)


def whiten(node: Node, tiles: Tiles) -> Whitened:
    n_tiles = tiles.n_used
    # Moments about the first row: an offset does not eat the digits.
    shift = joint(node, node.x[0], node.targets[0])

    def moments(x, targets, weight):
        return jnp.sum(weight), matmul(weight, joint(node, x, targets) - shift)

    def scatters(x, targets, weight):
        centred = joint(node, x, targets) - mean
        return matmul((weight[:, None] * centred).T, centred)

    arrays = tiles.x, tiles.targets, tiles.weight
    total, moment = sum_of(moments, n_tiles, *arrays)
    mean = shift + safe_divide(moment, total)
    covariance = safe_divide(sum_of(scatters, n_tiles, *arrays), total)
    deviation = jnp.sqrt(jnp.diagonal(covariance))
    scale = jnp.where(deviation > 0, deviation, 1.0)
    correlation = covariance / scale / scale[:, None]
    whitener, active = inverse_cholesky(correlation, DEPENDENT)

    def coordinates(x, targets):
        z = matmul(whitener, ((joint(node, x, targets) - mean) / scale).T)
        return jnp.concatenate([jnp.ones_like(z[:1]), z])

    z = each_of(coordinates, n_tiles, tiles.x, tiles.targets)
    rows = MixtureRows(z, tiles.weight, n_tiles)
    return Whitened(rows, active, mean, scale, correlation, whitener)
