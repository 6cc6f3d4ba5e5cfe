"""Directions that may be worth splitting along.

All work in the whitened coordinates of `secret_jax.splits.scoring`, with Gram matrices
from its products of columns: many label vectors cost one matrix product.
"""

from typing import Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float, Int

from secret_jax.runtime.arrays import largest, taken
from secret_jax.runtime.eigenvectors import leading_eigenvectors
from secret_jax.runtime.linalg import (
    AnyArray,
    definite_solve,
    matmul,
    matvec,
    namespace,
    safe_divide,
    unit_vectors,
)
from secret_jax.runtime.pieces import for_rows, over_rows
from secret_jax.splits.scoring import NodeRows, coordinate_columns, unpack

# Residuals beyond so many deviations do not bend more: a bound against heavy tails.
_MOST_BENDING = 3.0
# Float32 rounding of sums of about a thousand products.
_ROUNDING = 1e-6
# A class with a smaller share of the weight has no mean worth the name.
_EMPTY = 1e-9


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

    ``first``, ``second``: weight of every row in the first and in the second class.
    In the coordinates.
    """
    xp = namespace(first)
    n_coordinates = rows.coordinates.shape[-1]
    columns = coordinate_columns(n_model, n_coordinates, rows.residual.shape[-1])
    products = rows.products
    packed = matmul(xp.concatenate([first, second], axis=-2), products)
    packed = over_rows(packed, rows.pieces)
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
    """
    xp = namespace(rows.residual)
    n_outputs = rows.residual.shape[-1]
    columns = coordinate_columns(n_model, rows.coordinates.shape[-1], n_outputs)
    total, pieces = rows.total[..., :1], rows.pieces
    bounded = xp.clip(rows.residual, -_MOST_BENDING, _MOST_BENDING)
    bounded = xp.swapaxes(bounded, -1, -2)
    mean = safe_divide(over_rows(matvec(bounded, rows.weight), pieces), total)
    bounded = bounded - for_rows(mean, pieces)[..., None]
    weighted = rows.weight[..., None, :] * bounded
    packed = over_rows(matmul(weighted, rows.products), pieces)
    packed = safe_divide(packed, total[..., None])
    hessian = unpack(packed, columns)
    if n_outputs == 1:
        return leading_eigenvectors(hessian[..., 0, :, :], n)
    # The squares of several have the same eigenvectors, and add up.
    return leading_eigenvectors(xp.sum(matmul(hessian, hessian), axis=-3), n)


def sparse(
    direction: Float[AnyArray, "... n_directions n_attributes"],
    covariance: Float[AnyArray, "... n_attributes n_attributes"],
    n_kept: int | Int[np.ndarray, " n_directions"],
    ridge: float,
) -> Float[AnyArray, "... n_directions n_attributes"]:
    """The directions in few attributes that come closest to given ones.

    The attributes with the largest effects are kept, and the projection is regressed
    on them.

    ``direction``: in standardised attributes; what is zero stays zero; ``n_kept`` for
    all or for each direction.
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
