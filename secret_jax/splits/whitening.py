"""Whitening of a node's regressors and outputs, for its mixture."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from secret_jax.runtime.linalg import inverse_cholesky, matmul, safe_divide
from secret_jax.splits.interface import Node
from secret_jax.splits.labelled import DEPENDENT
from secret_jax.splits.mixture import MixtureRows
from secret_jax.splits.tiles import Tiles, each_of, sum_of


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
