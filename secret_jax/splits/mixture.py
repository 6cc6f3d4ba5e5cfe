r"""Two-component Gaussian mixtures by EM, from several starts in every node of a level.

Dobra & Gehrke 2002, sections 2.3 and 4.1. Everything goes through the Cholesky factors
:math:`G_i` of the covariances. The covariance update is the MAP estimate under a weak
prior, :math:`\Sigma_i = S_i / n_i + (n / n_i) \epsilon I`, so that the penalised
log-likelihood

.. math:: \frac{1}{n} \sum_j w_j \log p(z_j) - \frac{\epsilon}{2} \sum_i
          \mathrm{tr}\, \Sigma_i^{-1}

never falls, not even where a component becomes flat.

A step reads the rows once: all densities are one product of matrices, and the moments
another. What the heavier component has is what the lighter one leaves of the total.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from secret_jax.runtime.linalg import (
    AnyArray,
    inverse_cholesky,
    matmul,
    namespace,
    safe_divide,
    where_each,
)
from secret_jax.splits.interface import Level, write_nodes
from secret_jax.splits.labelled import DEPENDENT

# Status of a run that goes on.
_RUNNING = -1
# On an accelerator the host is asked only after so many steps whether any run goes on.
STEPS_TOGETHER = 10


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
    (scatter,) = rows.total(_scatter, (mean,), arrays)
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
    if rows.xp is np:
        moment = rows.products(weight[None], apart)[:, 0]
        return rows.sums(weight), moment
    return rows.sums(weight), rows.sums(weight[:, None] * apart)


def _scatter(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray]:
    return moments_of(rows, (), (_centred(rows, of_nodes[0], arrays), arrays[2]))


def _coordinates(rows: Any, of_nodes: Any, arrays: Any) -> tuple[AnyArray]:
    mean, matrix = of_nodes
    z = rows.transformed(matrix, _centred(rows, mean, arrays))
    ones = rows.xp.ones_like(z[..., :1, :])
    return (rows.xp.concatenate([ones, z], axis=-2),)


class MixtureFit(NamedTuple):
    """Results of EM, of each start in each node."""

    forms: LogForms
    # (n_nodes, n_starts, n_joint, n_joint): moments of one component, by the densities.
    moments: AnyArray
    # (n_nodes, n_starts): penalised log-likelihood per unit of weight, less that of one
    # Gaussian, of which float32 keeps more digits; minus infinity without a density.
    objective: AnyArray
    n_iterations: AnyArray  # (n_nodes, n_starts), int32
    status: AnyArray  # (n_nodes, n_starts), int32: a `MixtureStatus`


def maximise(
    moments: Float[AnyArray, "n_nodes n_starts n_joint n_joint"],
    known: MixtureRows,
    floor: float,
) -> tuple[LogForms, AnyArray, AnyArray]:
    """Densities from the moments of one component (M step), the lighter one first.

    ``floor``: the prior's variance, in whitened units. Returns also ``mass``, the
    weight of the lighter component, and ``penalty``, what the prior takes from the
    log-likelihood, (n_nodes, n_starts) each.
    """
    xp, active, total = namespace(moments), known.active, known.total[:, None]
    weight = total[..., 0, 0]
    # The lighter one is to be summed: a difference would eat its digits.
    heavier = moments[..., 0, 0] > 0.5 * weight
    lighter = xp.where(heavier[..., None, None], total - moments, moments)
    pair = lighter[:, :, None], (total - lighter)[:, :, None]
    both = xp.concatenate(pair, axis=2)
    mass = both[..., 0, 0]
    # Of inactive dimensions, which are all zero, it is the pivot.
    prior = floor * np.diag(np.arange(total.shape[-1]) > 0).astype(np.float32)
    prior = prior * weight[..., None, None, None]
    # Eliminated first, the one takes the means from the products.
    inverse, _ = inverse_cholesky(both + prior, 0.0)
    own, root = active[:, None, None], xp.sqrt(xp.maximum(mass, 0.0))
    factor = inverse[..., 1:, :] * xp.where(own, root[..., None], 0.0)[..., None]
    diagonal = xp.diagonal(factor[..., 1:], axis1=-2, axis2=-1)
    # A pivot lost to rounding makes this infinite: the component has collapsed.
    diagonal = xp.where(own, diagonal, 1.0)
    constant = xp.log(diagonal).sum(axis=-1) + 0.5 * known.n_active[:, None, None]
    constant = constant + xp.log(mass / weight[..., None])
    penalty = 0.5 * floor * (factor[..., 1:] ** 2).sum(axis=(-3, -2, -1))
    return LogForms(constant, factor), mass[..., 0], penalty


def fit_mixtures(
    known: MixtureRows,
    moments: Float[AnyArray, "n_nodes n_starts n_joint n_joint"],
    *,
    max_iter: int,
    tolerance: AnyArray | float,
    floor: float,
) -> MixtureFit:
    """Fit two Gaussians to the whitened rows of every node, from several starts.

    ``moments``: the starts, those of one component; ``max_iter``: most M steps;
    ``tolerance``: EM has converged when the penalised log-likelihood per unit of weight
    rises by less; ``floor``: smallest variance, in whitened units. The status is
    COLLAPSED if the weight of a component fell to the number of dimensions or below:
    its covariance would be singular.
    """
    xp, shape, dtype = known.rows.xp, moments.shape[:2], moments.dtype

    def proceeds(fit: MixtureFit) -> AnyArray:
        return (fit.status == _RUNNING) & (fit.n_iterations < max_iter)

    def step(known: MixtureRows, fit: MixtureFit, going: AnyArray) -> MixtureFit:
        forms, mass, penalty = maximise(fit.moments, known, floor)
        arrays = known.z, known.weight
        found = known.rows.expectation(forms, *arrays, going.any(axis=-1))
        objective = found[1] / known.total[:, :1, 0] - penalty
        sound = (mass > known.n_active[:, None]) & xp.isfinite(objective)
        objective = xp.where(sound, objective, -xp.inf)
        converged = objective - fit.objective < tolerance
        status = xp.where(converged, int(MixtureStatus.CONVERGED), _RUNNING)
        status = xp.where(sound, status, int(MixtureStatus.COLLAPSED))
        status = status.astype(xp.int32)
        new = MixtureFit(forms, found[0], objective, fit.n_iterations + 1, status)
        if xp is np and going.all():
            return new
        return jax.tree.map(lambda *pair: where_each(going, *pair), new, fit)

    n_joint = moments.shape[-1]
    constant = xp.zeros((*shape, 2), dtype)
    factor = xp.zeros((*shape, 2, n_joint - 1, n_joint), dtype)
    enough = known.total[:, 0, 0] > 2 * known.n_active
    status = xp.where(enough, _RUNNING, int(MixtureStatus.TOO_FEW_ROWS))
    status = xp.broadcast_to(status[:, None], shape).astype(xp.int32)
    lowest, none = xp.full(shape, -xp.inf, dtype), xp.zeros(shape, xp.int32)
    fit = MixtureFit(LogForms(constant, factor), moments, lowest, none, status)
    if xp is np:
        fit = _on_host(known, fit, step, proceeds)
    else:

        def one(_: Any, fit: MixtureFit) -> MixtureFit:
            return step(known, fit, proceeds(fit))

        def several(fit: MixtureFit) -> MixtureFit:
            return jax.lax.fori_loop(0, STEPS_TOGETHER, one, fit)

        fit = jax.lax.while_loop(lambda fit: proceeds(fit).any(), several, fit)
    unfinished = fit.status == _RUNNING
    status = xp.where(unfinished, int(MixtureStatus.ITERATION_LIMIT), fit.status)
    return fit._replace(status=status)


def _on_host(known: MixtureRows, fit: MixtureFit, step: Any, proceeds: Any) -> Any:
    """Steps as long as any run goes on, with fewer and fewer nodes."""
    every, nodes = jax.tree.map(np.copy, fit), np.arange(known.rows.n_nodes)

    while (going := proceeds(fit)).any():
        some = going.any(axis=-1)
        if 2 * some.sum() <= len(some):
            write_nodes(every, nodes, fit)
            nodes, known, going = nodes[some], known.take(some), going[some]
            fit = jax.tree.map(lambda array, some=some: array[some], fit)
        fit = step(known, fit, going)
    write_nodes(every, nodes, fit)
    return every
