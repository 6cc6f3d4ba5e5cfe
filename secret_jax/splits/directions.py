"""Directions that may be worth splitting along, for one node.

All work on attributes standardised in the node, and on the residual of its model.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from secret_jax.mixture import expect, fit_mixture
from secret_jax.numerics import (
    guarded_solve,
    inverse_cholesky,
    leading_eigenvectors,
    matmul,
)
from secret_jax.splits.discriminant import oriented


def _whitener(z: jax.Array, weight: jax.Array, ridge: float) -> jax.Array:
    """Inverse Cholesky factor of the ridged covariance, shape (n, n)."""
    share = weight / jnp.maximum(jnp.sum(weight), 1e-30)
    covariance = matmul((share[:, None] * z).T, z)
    inverse, _ = inverse_cholesky(covariance + ridge * jnp.eye(z.shape[1]), 0.0)
    return inverse


def discriminant(
    z: jax.Array, label: jax.Array, weight: jax.Array, ridge: float
) -> jax.Array:
    """Ridged LDA direction of soft labels, of unit length, or zero.

    Parameters
    ----------
    z : Array of shape (n_rows, n)
    label : Array of shape (n_rows,)
        Share of the first class, in [0, 1].
    weight : Array of shape (n_rows,)
    ridge : float
        In units of the within-class variances.

    Returns
    -------
    Array of shape (n,)
    """
    shares = weight * jnp.stack([label, 1 - label])
    mass = jnp.sum(shares, axis=1)
    mean = matmul(shares, z) / jnp.maximum(mass, 1e-20)[:, None]

    def scatter(share, mean):
        centred = z - mean
        return matmul((share[:, None] * centred).T, centred)

    within = jax.vmap(scatter)(shares, mean).sum(axis=0)
    within = within / jnp.maximum(jnp.sum(mass), 1e-20)
    within = within + jnp.diag(ridge * jnp.diagonal(within) + 1e-6)
    direction = guarded_solve(within, mean[0] - mean[1], 0.0)
    sound = (jnp.min(mass) > 1e-9 * jnp.sum(mass)) & jnp.isfinite(direction).all()
    return oriented(jnp.where(sound, direction, 0.0))


def mixture_directions(
    z: jax.Array,
    residual: jax.Array,
    weight: jax.Array,
    randomness: jax.Array,
    *,
    n_steps: int,
    ridge: float,
) -> jax.Array:
    """LDA directions of short EM runs in (attributes, residual).

    Parameters
    ----------
    z : Array of shape (n_rows, n)
    residual, weight : Array of shape (n_rows,)
    randomness : Array of shape (n_starts, n + 1)
        Numbers in (0, 1).
    n_steps : int
        EM steps of each start.
    ridge : float

    Returns
    -------
    Array of shape (n_starts, n)
    """
    whitened = matmul(z, _whitener(z, weight, ridge).T)
    joint = jnp.concatenate([whitened, residual[:, None]], axis=1)
    active = jnp.ones(joint.shape[1], bool)
    share = weight / jnp.maximum(jnp.sum(weight), 1e-30)
    n_joint = joint.shape[1]
    # Every third start looks at the attributes alone; the others weigh the residual
    # as much as all attributes together.
    pull = jnp.where(jnp.arange(len(randomness)) % 3 == 2, 0.0, jnp.sqrt(n_joint * 1.0))
    normal = ndtri(randomness).at[:, -1].multiply(pull)

    def run(normal):
        projection = matmul(joint, normal)
        center = jnp.sum(share * projection)
        deviation = jnp.sqrt(jnp.sum(share * (projection - center) ** 2)) + 1e-9
        start = jax.nn.sigmoid(2 * (projection - center) / deviation)
        fit = fit_mixture(
            joint, weight, start, active, max_iter=n_steps, tolerance=0.0, floor=1e-2
        )
        label, _ = expect(fit.parameters, joint, weight, active, 1e-2)
        return discriminant(z, label, weight, ridge)

    return jax.vmap(run)(normal)


def hessian_directions(
    z: jax.Array, residual: jax.Array, weight: jax.Array, *, n: int, ridge: float
) -> jax.Array:
    """Principal Hessian directions (Li 1992): where the residual bends most.

    Eigenvectors of S^-1/2 E[r z z'] S^-1/2 with the largest absolute eigenvalues.

    Returns
    -------
    Array of shape (n, n_attributes)
    """
    share = weight / jnp.maximum(jnp.sum(weight), 1e-30)
    bounded = jnp.clip(residual, -3, 3)
    bounded = bounded - jnp.sum(share * bounded)
    whitener = _whitener(z, weight, ridge)
    moment = matmul(((share * bounded)[:, None] * z).T, z)
    hessian = matmul(matmul(whitener, moment), whitener.T)
    vectors = leading_eigenvectors(0.5 * (hessian + hessian.T), n)
    return oriented(matmul(vectors, whitener))
