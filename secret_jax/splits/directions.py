"""Directions that may be worth splitting along.

All work in the whitened coordinates of `secret_jax.splits.scoring`, with Gram matrices
from its products of columns: many label vectors cost one matrix product.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float, Int

from secret_jax.runtime.arrays import largest, sigmoid, taken
from secret_jax.runtime.linalg import (
    AnyArray,
    definite_solve,
    inverse_cholesky,
    leading_eigenvectors,
    matmul,
    matvec,
    namespace,
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
    """Proposes oblique splits of one node; pure, and traceable by JAX."""

    def __call__(self, rows: NodeRows, *, n_model: int) -> jax.Array:
        """Directions in the coordinates, of shape (n_directions, n_coordinates)."""
        ...


def discriminants(
    rows: NodeRows,
    first: Float[AnyArray, "... n_labels n_rows"],
    second: Float[AnyArray, "... n_labels n_rows"],
    *,
    n_model: int,
) -> Float[AnyArray, "... n_labels n_coordinates"]:
    """Ridged LDA directions between weighted classes, of unit length, or zero.

    Parameters
    ----------
    first, second : Array of shape (..., n_labels, n_rows)
        Weight of every row in the first and in the second class; may cover a prefix of
        the rows only.

    Returns
    -------
    Array of shape (..., n_labels, n_coordinates)
        In the coordinates.
    """
    xp = namespace(first)
    n_coordinates = rows.coordinates.shape[-1]
    columns = coordinate_columns(n_model, n_coordinates, rows.residual.shape[-1])
    products = rows.products[..., : first.shape[-1], :]
    packed = matmul(xp.concatenate([first, second], axis=-2), products)
    gram = unpack(packed, np.concatenate([[0], columns]))
    mass = gram[..., 0, 0]
    mean = safe_divide(gram[..., 0, 1:], mass[..., None])
    between = mean[..., :, None] * mean[..., None, :]
    scatter = gram[..., 1:, 1:] - mass[..., None, None] * between

    n_labels = first.shape[-2]
    masses = mass[..., :n_labels], mass[..., n_labels:]
    within = scatter[..., :n_labels, :, :] + scatter[..., n_labels:, :, :]
    within = safe_divide(within, (masses[0] + masses[1])[..., None, None])
    floor = _ROUNDING * xp.eye(n_coordinates, dtype=products.dtype)
    within = within + (rows.penalty + floor)[..., None, :, :]
    apart = mean[..., :n_labels, :] - mean[..., n_labels:, :]
    sound = xp.minimum(*masses) > _EMPTY * (masses[0] + masses[1])
    found = definite_solve(within, apart)
    return unit_vectors(xp.where(sound[..., None], found, 0.0))


def hessian_directions(
    rows: NodeRows, n: int, *, n_model: int
) -> Float[AnyArray, "... n n_coordinates"]:
    """Principal Hessian directions (Li 1992): where the residuals bend most.

    Eigenvectors of E[r u u'], u whitened, with the largest absolute eigenvalues.

    Returns
    -------
    Array of shape (..., n, n_coordinates)
    """
    xp = namespace(rows.residual)
    n_outputs = rows.residual.shape[-1]
    columns = coordinate_columns(n_model, rows.coordinates.shape[-1], n_outputs)
    total = xp.sum(rows.weight, axis=-1)[..., None]
    bounded = xp.clip(rows.residual, -_MOST_BENDING, _MOST_BENDING)
    bounded = xp.swapaxes(bounded, -1, -2)
    mean = safe_divide(matvec(bounded, rows.weight), total)
    weighted = rows.weight[..., None, :] * (bounded - mean[..., None])
    packed = safe_divide(matmul(weighted, rows.products), total[..., None])
    hessian = unpack(packed, columns)
    if n_outputs == 1:
        return leading_eigenvectors(hessian[..., 0, :, :], n)
    # The squares of several have the same eigenvectors, and add up.
    return leading_eigenvectors(xp.sum(matmul(hessian, hessian), axis=-3), n)


def start_responsibilities(projection: AnyArray, weight: AnyArray) -> AnyArray:
    """Soft halves of the rows along each projection, shape (..., n_starts, n_rows)."""
    xp = namespace(projection)
    share = safe_divide(weight, xp.sum(weight, axis=-1)[..., None])
    centred = projection - matvec(projection, share)[..., None]
    deviation = xp.sqrt(matvec(centred**2, share))[..., None]
    return sigmoid(_START_STEEPNESS * safe_divide(centred, deviation))


def mixture_labels(
    rows: NodeRows,
    responsibility: Float[AnyArray, "... n_starts n_rows"],
    *,
    n_steps: int,
) -> Float[AnyArray, "... n_starts n_rows"]:
    """Short EM runs of two Gaussians in (attributes, residuals), side by side.

    With two components one is the total minus the other, and their log-odds are one
    quadratic form: both steps of all runs are one product with the same matrix.

    Parameters
    ----------
    responsibility : Array of shape (..., n_starts, n_rows)
        Of the first component at the start; may cover a prefix of the rows only.

    Returns
    -------
    Array of shape (..., n_starts, n_rows)
        Responsibilities of the first component.
    """
    xp = namespace(responsibility)
    n_rows = responsibility.shape[-1]
    products, weight = rows.products[..., :n_rows, :], rows.weight[..., None, :n_rows]
    n_joint = rows.coordinates.shape[-1] + rows.residual.shape[-1]
    width = n_joint + 1
    total = matmul(weight, products)
    all_mass = total[..., :1]
    row, column = triangle(width)
    # A quadratic form as a sum over the triangle: what is off the diagonal is twice.
    half = np.where(row == column, 0.5, 1.0).astype(products.dtype)
    floor = _FLOOR * xp.eye(n_joint, dtype=products.dtype)

    def log_densities(packed):
        gram = unpack(packed, np.arange(width))
        mass = xp.maximum(gram[..., 0, 0], _ROUNDING * all_mass[..., 0])
        mean = gram[..., 0, 1:] / mass[..., None]
        covariance = gram[..., 1:, 1:] / mass[..., None, None]
        covariance = covariance - mean[..., :, None] * mean[..., None, :] + floor
        inverse, independent = inverse_cholesky(covariance, _LEAST_PIVOT)
        precision = small_matmul(xp.swapaxes(inverse, -1, -2), inverse)
        diagonal = xp.diagonal(inverse, axis1=-2, axis2=-1)
        pulled = matvec(precision, mean)
        constant = (
            2 * xp.log(mass / all_mass[..., 0])
            + 2 * xp.sum(xp.log(xp.where(independent, diagonal, 1.0)), axis=-1)
            - xp.sum(mean * pulled, axis=-1)
        )
        head = xp.concatenate([constant[..., None], pulled], axis=-1)
        rest = xp.concatenate([pulled[..., None], -precision], axis=-1)
        form = xp.concatenate([head[..., None, :], rest], axis=-2)
        return form[..., row, column] * half

    def step(_, responsibility):
        first = matmul(responsibility * weight, products)
        n = first.shape[-2]
        both = log_densities(xp.concatenate([first, total - first], axis=-2))
        odds = both[..., :n, :] - both[..., n:, :]
        return sigmoid(matmul(odds, xp.swapaxes(products, -1, -2)))

    return turns(n_steps, step, responsibility)


def sparse(
    direction: Float[AnyArray, "... n_directions n_attributes"],
    covariance: Float[AnyArray, "... n_attributes n_attributes"],
    n_kept: int | Int[np.ndarray, " n_directions"],
    ridge: float,
) -> Float[AnyArray, "... n_directions n_attributes"]:
    """The directions in few attributes that come closest to given ones.

    The attributes with the largest effects are kept, and the projection is regressed
    on them.

    Parameters
    ----------
    direction : Array of shape (..., n_directions, n_attributes)
        In standardised attributes; what is zero stays zero.
    covariance : Array of shape (..., n_attributes, n_attributes)
    n_kept : int or ndarray of shape (n_directions,), int

    Returns
    -------
    Array of shape (..., n_directions, n_attributes)
    """
    xp = namespace(direction)
    n_directions, n_attributes = direction.shape[-2:]
    most = min(int(np.max(n_kept)), n_attributes)
    dtype = direction.dtype
    # The largest are taken out: a small system instead of one of all attributes.
    place = largest(xp.abs(direction), most)
    wanted = np.arange(most) < np.broadcast_to(n_kept, n_directions)[:, None]
    n_axes = direction.ndim - 2
    kept = taken(direction, place, n_axes + 1) != 0
    kept = (kept & wanted).astype(dtype)
    flat = place.reshape(*place.shape[:-2], -1)
    rows = taken(covariance, flat, n_axes)
    rows = rows.reshape(*place.shape, n_attributes)
    moment = kept * xp.sum(rows * direction[..., None, :], axis=-1)
    matrix = taken(xp.swapaxes(rows, -1, -2), place, n_axes + 1)
    matrix = kept[..., :, None] * kept[..., None, :] * matrix
    alone = ridge + (1 - kept)
    matrix = matrix + alone[..., None] * xp.eye(most, dtype=dtype)
    found = kept * definite_solve(matrix, moment)
    at = place[..., :, None] == np.arange(n_attributes)
    return unit_vectors(xp.sum(xp.where(at, found[..., None], 0.0), axis=-2))
