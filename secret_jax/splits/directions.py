"""Directions that may be worth splitting along, for one node.

All work in the whitened coordinates of `secret_jax.splits.scoring`, with Gram matrices
from its products of columns: many label vectors cost one matrix product.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from secret_jax.runtime.linalg import (
    guarded_solve,
    inverse_cholesky,
    leading_eigenvectors,
    matmul,
    safe_divide,
    small_matmul,
    turns,
    unit_vectors,
)
from secret_jax.splits.scoring import (
    NodeRows,
    coordinate_columns,
    triangle,
    unpack,
)

# Smallest variance of a component in a short EM run, in whitened units: its few steps
# only propose, and a component of a tenth of the spread is narrow enough.
_FLOOR = 1e-2
# A pivot of a component's covariance below this share of the floor is rounding.
_LEAST_PIVOT = 0.1 * _FLOOR
# Residuals beyond so many deviations do not bend more: a bound against heavy tails.
_MOST_BENDING = 3.0
# Float32 rounding of sums of about a thousand products.
_ROUNDING = 1e-6
# A class with a smaller share of the weight has no mean worth the name.
_EMPTY = 1e-9
# How steeply starts divide the rows: a deviation from the middle is a share of .88.
_START_STEEPNESS = 2.0


@runtime_checkable
class Proposal(Protocol):
    """Proposes oblique splits of a node; pure and traceable."""

    def __call__(self, rows: NodeRows, *, n_model: int) -> jax.Array:
        """Directions in the coordinates, of shape (n_directions, n_coordinates)."""
        ...


def discriminants(
    rows: NodeRows,
    first: Float[Array, "n_labels n_rows"],
    second: Float[Array, "n_labels n_rows"],
    *,
    n_model: int,
) -> Float[Array, "n_labels n_coordinates"]:
    """Ridged LDA directions between weighted classes, of unit length, or zero.

    Parameters
    ----------
    rows : NodeRows
    first, second : Array of shape (n_labels, n_rows)
        Weight of every row in the first and in the second class.
    n_model : int

    Returns
    -------
    Array of shape (n_labels, n_coordinates)
        In the coordinates.
    """
    n_coordinates = rows.coordinates.shape[1]
    columns = coordinate_columns(n_model, n_coordinates, rows.residual.shape[1])
    products = rows.products[: first.shape[1]]
    floor = _ROUNDING * jnp.eye(n_coordinates, dtype=products.dtype)

    def moments(packed):
        gram = unpack(packed, np.concatenate([[0], columns]))
        mass = gram[0, 0]
        mean = safe_divide(gram[0, 1:], mass)
        return mass, mean, gram[1:, 1:] - mass * mean[:, None] * mean[None, :]

    def direction(packed):
        masses, means, scatters = jax.vmap(moments)(packed)
        mass = masses[0] + masses[1]
        within = safe_divide(scatters[0] + scatters[1], mass)
        within = within + rows.penalty + floor
        sound = jnp.minimum(masses[0], masses[1]) > _EMPTY * mass
        solved = guarded_solve(within, means[0] - means[1], 0.0)
        return jnp.where(sound, solved, 0.0)

    packed = jnp.stack([matmul(first, products), matmul(second, products)], axis=1)
    return unit_vectors(jax.vmap(direction)(packed))


def hessian_directions(
    rows: NodeRows, n: int, *, n_model: int
) -> Float[Array, "n n_coordinates"]:
    """Principal Hessian directions (Li 1992): where the residuals bend most.

    Eigenvectors of E[r u u'], u whitened, with the largest absolute eigenvalues.

    Returns
    -------
    Array of shape (n, n_coordinates)
    """
    n_outputs = rows.residual.shape[1]
    columns = coordinate_columns(n_model, rows.coordinates.shape[1], n_outputs)
    total = jnp.sum(rows.weight)
    bounded = jnp.clip(rows.residual, -_MOST_BENDING, _MOST_BENDING).T
    bounded = bounded - safe_divide(matmul(bounded, rows.weight), total)[:, None]
    packed = safe_divide(matmul(rows.weight * bounded, rows.products), total)
    hessian = unpack(packed, columns)
    if n_outputs == 1:
        return leading_eigenvectors(hessian[0], n)
    # The squares of several have the same eigenvectors, and add up.
    return leading_eigenvectors(jnp.einsum("oij,ojk->ik", hessian, hessian), n)


def start_responsibilities(projection: jax.Array, weight: jax.Array) -> jax.Array:
    """Soft halves of the rows along each projection, shape (n_starts, n_rows)."""
    share = safe_divide(weight, jnp.sum(weight))
    centred = projection - matmul(projection, share)[:, None]
    deviation = jnp.sqrt(matmul(centred**2, share))[:, None]
    return jax.nn.sigmoid(_START_STEEPNESS * safe_divide(centred, deviation))


def mixture_labels(
    rows: NodeRows,
    responsibility: Float[Array, "n_starts n_rows"],
    *,
    n_steps: int,
) -> Float[Array, "n_starts n_rows"]:
    """Short EM runs of two Gaussians in (attributes, residuals), side by side.

    With two components one is the total minus the other, and their log-odds are one
    quadratic form: both steps of all runs are one product with the same matrix.

    Parameters
    ----------
    rows : NodeRows
    responsibility : Array of shape (n_starts, n_rows)
        Of the first component at the start; may cover a prefix of the rows only.
    n_steps : int

    Returns
    -------
    Array of shape (n_starts, n_rows)
        Responsibilities of the first component.
    """
    n_rows = responsibility.shape[1]
    products, weight = rows.products[:n_rows], rows.weight[:n_rows]
    n_joint = rows.coordinates.shape[1] + rows.residual.shape[1]
    width = n_joint + 1
    total = matmul(weight, products)
    row, column = triangle(width)
    # A quadratic form as a sum over the triangle: what is off the diagonal is twice.
    twice = jnp.asarray(np.where(row == column, 1.0, 2.0), products.dtype)

    def log_density(packed):
        gram = unpack(packed, np.arange(width))
        mass = jnp.maximum(gram[0, 0], _ROUNDING * total[0])
        mean = gram[0, 1:] / mass
        covariance = gram[1:, 1:] / mass - mean[:, None] * mean[None, :]
        floor = _FLOOR * jnp.eye(n_joint, dtype=gram.dtype)
        inverse, independent = inverse_cholesky(covariance + floor, _LEAST_PIVOT)
        precision = small_matmul(inverse.T, inverse)
        diagonal = jnp.where(independent, jnp.diagonal(inverse), 1.0)
        pulled = matmul(precision, mean)
        constant = (
            jnp.log(mass / total[0])
            + jnp.sum(jnp.log(diagonal))
            - 0.5 * jnp.sum(mean * pulled)
        )
        form = jnp.zeros((width, width), gram.dtype)
        form = form.at[0, 0].set(constant).at[0, 1:].set(0.5 * pulled)
        form = form.at[1:, 1:].set(-0.5 * precision)
        return form[row, column] * twice

    def step(_, responsibility):
        first = matmul(responsibility * weight, products)
        both = jax.vmap(jax.vmap(log_density))(jnp.stack([first, total - first]))
        return jax.nn.sigmoid(matmul(both[0] - both[1], products.T))

    return turns(n_steps, step, responsibility)


def sparse(
    direction: Float[Array, "n_directions n_attributes"],
    covariance: Float[Array, "n_attributes n_attributes"],
    n_kept: int | Int[np.ndarray, " n_directions"],
    ridge: float,
) -> Float[Array, "n_directions n_attributes"]:
    """The directions in few attributes that come closest to given ones.

    The attributes with the largest effects are kept, and the projection is regressed
    on them.

    Parameters
    ----------
    direction : Array of shape (n_directions, n_attributes)
        In standardised attributes; what is zero stays zero.
    covariance : Array of shape (n_attributes, n_attributes)
    n_kept : int or ndarray of shape (n_directions,), int
    ridge : float

    Returns
    -------
    Array of shape (n_directions, n_attributes)
    """
    n_attributes = direction.shape[1]
    most = min(int(np.max(n_kept)), n_attributes)
    identity = jnp.eye(most, dtype=direction.dtype)
    index, order = jnp.arange(n_attributes), jnp.arange(most)
    earlier = index[None, :] < index[:, None]

    def refit(direction, n_kept):
        # Counted: a sort of so few takes longer.
        size = jnp.abs(direction)
        before = size[None, :] > size[:, None]
        before = before | ((size[None, :] == size[:, None]) & earlier)
        rank = jnp.sum(before, axis=1)
        # The largest are taken out: a small system instead of one of all attributes.
        place = jnp.sum(jnp.where(rank == order[:, None], index, 0), axis=1)
        kept = ((size[place] > 0) & (order < n_kept)).astype(direction.dtype)
        moment = kept * small_matmul(covariance[place], direction)
        both = kept[:, None] * kept[None, :]
        matrix = both * covariance[place[:, None], place] + jnp.diag(1 - kept)
        found = kept * guarded_solve(matrix + ridge * identity, moment, 0.0)
        return jnp.sum(jnp.where(place[:, None] == index, found[:, None], 0.0), axis=0)

    each = jnp.broadcast_to(jnp.asarray(n_kept, jnp.int32), len(direction))
    return unit_vectors(jax.vmap(refit)(direction, each))
