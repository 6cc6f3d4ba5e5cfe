r"""Two-component Gaussian mixtures by EM, for one node; `vmap` gives the batch.

Dobra & Gehrke 2002, sections 2.3 and 4.1. Everything goes through the Cholesky factors
:math:`G_i` of the covariances. The covariance update is the MAP estimate under a weak
prior, :math:`\Sigma_i = S_i / n_i + (n / n_i) \epsilon I`, so that the penalised
log-likelihood

.. math:: \frac{1}{n} \sum_j w_j \log p(z_j) - \frac{\epsilon}{2} \sum_i
          \mathrm{tr}\, \Sigma_i^{-1}

never falls, not even where a component becomes flat.

A step reads the rows once, tile by tile: both densities of a tile are one product of
matrices, and its part of the moments another. What the second component has is what the
first leaves of the total.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from secret_jax.runtime.linalg import inverse_cholesky, is_written_out, matmul
from secret_jax.splits.mixture import (
    LogForms,
    MixtureFit,
    MixtureParameters,
    MixtureRows,
    MixtureStatus,
)
from secret_jax.splits.tiles import sum_of

# Status of a run that goes on.
_RUNNING = -1
# On an accelerator the host is asked only after so many steps whether any run goes on.
STEPS_TOGETHER = 10
# The prior of a component grows as its share falls, to this one.
_LEAST_SHARE = 1e-6


def moments_of(
    rows: MixtureRows, share: Float[Array, "n_tiles n_tile_rows"]
) -> Float[Array, "n_joint n_joint"]:
    """Weighted products of (1, z) with itself, summed over the rows."""

    def products(z, weight, share):
        return matmul(weight * share * z, z.T)

    return sum_of(products, rows.n_tiles, rows.z, rows.weight, share)


def maximise(
    first: Float[Array, "n_joint n_joint"],
    total: Float[Array, "n_joint n_joint"],
    active: Bool[Array, " n_dimensions"],
    floor: float,
) -> tuple[MixtureParameters, jax.Array]:
    """Parameters from the moments of the first component and of all rows (M step).

    ``first``, ``total``: from `moments_of`; ``active``: dimensions that carry
    information; the others are zero in ``z``; ``floor``: the prior's variance, in
    whitened units. Returns ``mass`` (2,): weight of each component.
    """
    weight = total[0, 0]
    tiny = jnp.finfo(total.dtype).tiny

    def component(moments):
        mass = moments[0, 0]
        # A smaller component has collapsed; its parameters must only be finite.
        safe_mass = jnp.maximum(mass, jnp.maximum(_LEAST_SHARE * weight, tiny))
        mean = moments[0, 1:] / safe_mass
        scatter = moments[1:, 1:] / safe_mass - mean[:, None] * mean[None, :]
        prior = floor * weight / safe_mass
        # Inactive dimensions are all zero; a one there adds nothing to the densities.
        covariance = scatter + jnp.diag(jnp.where(active, prior, 1.0))
        inverse, _ = inverse_cholesky(covariance, 0.0)
        return mass, mean, inverse

    mass, mean, inverse = jax.vmap(component)(jnp.stack([first, total - first]))
    fraction = jnp.maximum(mass / jnp.maximum(weight, tiny), tiny)
    return MixtureParameters(jnp.log(fraction), mean, inverse), mass


def expect(
    parameters: MixtureParameters,
    rows: MixtureRows,
    total: Float[Array, "n_joint n_joint"],
    active: Bool[Array, " n_dimensions"],
    floor: float,
) -> tuple[Float[Array, "n_joint n_joint"], Float[Array, ""]]:
    """Moments of the first component, and the penalised log-likelihood (E step).

    The latter less that of one Gaussian, of which float32 keeps more digits.

    The objective is minus infinity where a component has no density.
    """
    forms = LogForms.of(parameters)
    # Those of the lighter component are summed: a difference would eat their digits.
    swapped = parameters.log_weight[0] > parameters.log_weight[1]
    sign = jnp.where(swapped, -1.0, 1.0).astype(total.dtype)
    usual = of_one_gaussian(active)

    def of_tile(z, weight):
        first, second = forms.densities(z)
        odds = sign * (first - second)
        least = jnp.exp(-jnp.abs(odds))
        share = jnp.where(odds > 0, 1.0, least) / (1.0 + least)
        likelihood = jnp.maximum(first, second) + jnp.log(1.0 + least)
        return matmul(weight * share * z, z.T), jnp.sum(weight * (likelihood - usual))

    lighter, likelihood = sum_of(of_tile, rows.n_tiles, rows.z, rows.weight)
    penalty = (
        0.5 * floor * jnp.sum(jnp.where(active, parameters.inverse_factor, 0) ** 2)
    )
    objective = likelihood / total[0, 0] - penalty
    objective = jnp.where(jnp.isfinite(objective), objective, -jnp.inf)
    return jnp.where(swapped, total - lighter, lighter), objective


def of_one_gaussian(active: Bool[Array, " n_dimensions"]) -> Float[Array, ""]:
    """Log-likelihood per unit of weight of whitened rows under one Gaussian."""
    return -0.5 * jnp.sum(active).astype(jnp.float32)


def fit_mixture(
    rows: MixtureRows,
    responsibility: Float[Array, "n_tiles n_tile_rows"],
    active: Bool[Array, " n_dimensions"],
    *,
    max_iter: int | Int[Array, ""],
    tolerance: float,
    floor: float,
) -> MixtureFit:
    """Fit two Gaussians to whitened rows, from given responsibilities.

    ``responsibility``: the start, that of the first component. ``max_iter``: most M
    steps; ``tolerance``: EM has converged when the penalised log-likelihood per unit of
    weight rises by less; ``floor``: smallest variance, in whitened units. The status is
    COLLAPSED if the weight of a component fell to the number of dimensions or below:
    its covariance would be singular.
    """
    n_dimensions, dtype = len(active), rows.z.dtype
    n_active = jnp.sum(active).astype(dtype)
    total = moments_of(rows, jnp.ones_like(rows.weight))
    first = moments_of(rows, responsibility)

    def proceed(carry):
        _, state = carry
        return (state.status == _RUNNING) & (state.n_iterations < max_iter)

    def iterate(carry):
        first, before = carry
        parameters, mass = maximise(first, total, active, floor)
        first, objective = expect(parameters, rows, total, active, floor)
        sound = (jnp.min(mass) > n_active) & jnp.isfinite(objective)
        converged = objective - before.objective < tolerance
        status = jnp.where(converged, MixtureStatus.CONVERGED, _RUNNING)
        status = jnp.where(sound, status, MixtureStatus.COLLAPSED)
        state = MixtureFit(parameters, objective, before.n_iterations + 1, status)
        return first, state

    nothing = MixtureParameters(
        jnp.zeros(2, dtype),
        jnp.zeros((2, n_dimensions), dtype),
        jnp.broadcast_to(jnp.eye(n_dimensions, dtype=dtype), (2, *[n_dimensions] * 2)),
    )
    enough = total[0, 0] > 2 * n_active
    status = jnp.where(enough, _RUNNING, MixtureStatus.TOO_FEW_ROWS)
    lowest = jnp.asarray(-jnp.inf, dtype)
    start = MixtureFit(nothing, lowest, jnp.int32(0), status.astype(jnp.int32))

    def iterate_unless_done(_, carry):
        going = proceed(carry)
        return jax.tree.map(
            lambda new, old: jnp.where(going, new, old), iterate(carry), carry
        )

    def iterate_often(carry):
        return jax.lax.fori_loop(0, STEPS_TOGETHER, iterate_unless_done, carry)

    step = iterate_often if is_written_out() else iterate
    _, fit = jax.lax.while_loop(proceed, step, (first, start))
    unfinished = fit.status == _RUNNING
    return fit._replace(
        objective=fit.objective + of_one_gaussian(active),
        status=jnp.where(unfinished, MixtureStatus.ITERATION_LIMIT, fit.status),
    )
