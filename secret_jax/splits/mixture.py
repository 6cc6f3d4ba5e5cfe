r"""Two-component Gaussian mixtures by EM, for one node; `vmap` gives the batch.

Dobra & Gehrke 2002, sections 2.3 and 4.1. Everything goes through the Cholesky factors
:math:`G_i` of the covariances. The covariance update is the MAP estimate under a weak
prior, :math:`\Sigma_i = S_i / n_i + (n / n_i) \epsilon I`, so that the penalised
log-likelihood

.. math:: \frac{1}{n} \sum_j w_j \log p(z_j) - \frac{\epsilon}{2} \sum_i
          \mathrm{tr}\, \Sigma_i^{-1}

never falls, not even where a component becomes flat.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from secret_jax.runtime.linalg import inverse_cholesky, is_written_out, matmul


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


# Status of a run that goes on.
_RUNNING = -1
# On an accelerator the host is asked only after so many steps whether any run goes on.
STEPS_TOGETHER = 10
# The prior of a component grows as its share falls, to this one.
_LEAST_SHARE = 1e-6


class MixtureParameters(NamedTuple):
    """Two Gaussians in whitened coordinates.

    Attributes
    ----------
    log_weight : Array of shape (2,)
    mean : Array of shape (2, n_dimensions)
    inverse_factor : Array of shape (2, n_dimensions, n_dimensions)
        Inverses of the lower Cholesky factors of the covariances.
    """

    log_weight: jax.Array
    mean: jax.Array
    inverse_factor: jax.Array

    @property
    def covariance(self) -> np.ndarray:
        """Covariance matrices, shape (2, n_dimensions, n_dimensions), float64.

        For looking at a mixture on the host; EM itself never needs them.
        """
        factor = np.linalg.inv(np.asarray(self.inverse_factor, np.float64))
        return factor @ factor.transpose(0, 2, 1)


class MixtureFit(NamedTuple):
    """Result of EM.

    Attributes
    ----------
    parameters : MixtureParameters
    objective : Array of shape ()
        Penalised log-likelihood per unit of weight.
    n_iterations : Array of shape (), int32
    status : Array of shape (), int32
        A `MixtureStatus`.
    """

    parameters: MixtureParameters
    objective: jax.Array
    n_iterations: jax.Array
    status: jax.Array


def log_densities(
    parameters: MixtureParameters, z: Float[Array, "n_rows n_dimensions"]
) -> Float[Array, "2 n_rows"]:
    r"""Joint log-densities :math:`\log \alpha_i p_i(z)`, up to a common constant.

    Parameters
    ----------
    parameters : MixtureParameters
    z : Array of shape (n_rows, n_dimensions)

    Returns
    -------
    Array of shape (2, n_rows)
    """

    def component(log_weight, mean, inverse):
        scaled = matmul(z - mean, inverse.T)
        # A pivot lost to rounding makes this infinite: the component has collapsed.
        log_determinant = -jnp.sum(jnp.log(jnp.diagonal(inverse)))
        return log_weight - log_determinant - 0.5 * jnp.sum(scaled * scaled, axis=1)

    return jax.vmap(component)(*parameters)


def maximise(
    z: Float[Array, "n_rows n_dimensions"],
    weight: Float[Array, " n_rows"],
    responsibility: Float[Array, " n_rows"],
    active: Bool[Array, " n_dimensions"],
    floor: float,
) -> tuple[MixtureParameters, jax.Array]:
    """Parameters from responsibilities (M step).

    Parameters
    ----------
    z : Array of shape (n_rows, n_dimensions)
    weight : Array of shape (n_rows,)
    responsibility : Array of shape (n_rows,)
        Of the first component.
    active : Array of shape (n_dimensions,), bool
        Dimensions that carry information; the others are zero in ``z``.
    floor : float
        The prior's variance, in whitened units.

    Returns
    -------
    parameters : MixtureParameters
    mass : Array of shape (2,)
        Weight of each component.
    """
    total = jnp.sum(weight)

    def component(share):
        mass = jnp.sum(share)
        safe_mass = jnp.maximum(mass, jnp.finfo(z.dtype).tiny)
        mean = matmul(share, z) / safe_mass
        centred = z - mean
        scatter = matmul((share[:, None] * centred).T, centred)
        prior = floor * total / jnp.maximum(mass, _LEAST_SHARE * total)
        # Inactive dimensions are all zero; a one there adds nothing to the densities.
        covariance = scatter / safe_mass + jnp.diag(jnp.where(active, prior, 1.0))
        inverse, _ = inverse_cholesky(covariance, 0.0)
        return mass, mean, inverse

    shares = weight * jnp.stack([responsibility, 1 - responsibility])
    mass, mean, inverse = jax.vmap(component)(shares)
    fraction = jnp.maximum(mass / total, jnp.finfo(z.dtype).tiny)
    return MixtureParameters(jnp.log(fraction), mean, inverse), mass


def expect(
    parameters: MixtureParameters,
    z: jax.Array,
    weight: jax.Array,
    active: jax.Array,
    floor: float,
) -> tuple[Float[Array, " n_rows"], Float[Array, ""]]:
    """Responsibilities of the first component, and the penalised log-likelihood.

    Returns
    -------
    responsibility : Array of shape (n_rows,)
    objective : Array of shape ()
    """
    first, second = log_densities(parameters, z)
    responsibility = jax.nn.sigmoid(first - second)
    log_likelihood = matmul(weight, jnp.logaddexp(first, second)) / jnp.sum(weight)
    precision = jnp.where(active, parameters.inverse_factor, 0.0) ** 2
    penalty = 0.5 * floor * jnp.sum(precision)
    return responsibility, log_likelihood - penalty


def fit_mixture(
    z: Float[Array, "n_rows n_dimensions"],
    weight: Float[Array, " n_rows"],
    responsibility: Float[Array, " n_rows"],
    active: Bool[Array, " n_dimensions"],
    *,
    max_iter: int | Int[Array, ""],
    tolerance: float,
    floor: float,
) -> MixtureFit:
    """Fit two Gaussians to whitened rows, from given responsibilities.

    Parameters
    ----------
    z : Array of shape (n_rows, n_dimensions), float32
        Whitened (regressors, output); inactive dimensions are zero.
    weight : Array of shape (n_rows,), float32
        Zero for padding.
    responsibility : Array of shape (n_rows,), float32
        The start: of the first component.
    active : Array of shape (n_dimensions,), bool
    max_iter : int or Array of shape (), int32
        Most M steps.
    tolerance : float
        EM has converged when the penalised log-likelihood per unit of weight rises by
        less.
    floor : float
        Smallest variance, in whitened units.

    Returns
    -------
    MixtureFit
        With status COLLAPSED if the weight of a component fell to the number of
        dimensions or below: its covariance would be singular.
    """
    n_active = jnp.sum(active).astype(z.dtype)
    n_dimensions = z.shape[1]

    def proceed(carry):
        _, state = carry
        return (state.status == _RUNNING) & (state.n_iterations < max_iter)

    def iterate(carry):
        responsibility, before = carry
        parameters, mass = maximise(z, weight, responsibility, active, floor)
        responsibility, objective = expect(parameters, z, weight, active, floor)
        sound = (jnp.min(mass) > n_active) & jnp.isfinite(objective)
        converged = objective - before.objective < tolerance
        status = jnp.where(converged, MixtureStatus.CONVERGED, _RUNNING)
        status = jnp.where(sound, status, MixtureStatus.COLLAPSED)
        state = MixtureFit(parameters, objective, before.n_iterations + 1, status)
        return responsibility, state

    nothing = MixtureParameters(
        jnp.zeros(2, z.dtype),
        jnp.zeros((2, n_dimensions), z.dtype),
        jnp.broadcast_to(
            jnp.eye(n_dimensions, dtype=z.dtype), (2, *[n_dimensions] * 2)
        ),
    )
    enough = jnp.sum(weight) > 2 * n_active
    status = jnp.where(enough, _RUNNING, MixtureStatus.TOO_FEW_ROWS)
    lowest = jnp.asarray(-jnp.inf, z.dtype)
    start = MixtureFit(nothing, lowest, jnp.int32(0), status.astype(jnp.int32))

    def iterate_unless_done(_, carry):
        going = proceed(carry)
        return jax.tree.map(
            lambda new, old: jnp.where(going, new, old), iterate(carry), carry
        )

    def iterate_often(carry):
        return jax.lax.fori_loop(0, STEPS_TOGETHER, iterate_unless_done, carry)

    step = iterate_often if is_written_out() else iterate
    _, fit = jax.lax.while_loop(proceed, step, (responsibility, start))
    unfinished = fit.status == _RUNNING
    return fit._replace(
        status=jnp.where(unfinished, MixtureStatus.ITERATION_LIMIT, fit.status)
    )
