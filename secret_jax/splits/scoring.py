"""How much two linear models fit better than one: scores of many splits at once.

A split is scored by the drop in the penalised residual sum of squares when each child
gets a ridge model of its own, on top of the node's. Everything is computed in whitened
coordinates, from one matrix of products of columns: weighted sums of its rows are Gram
matrices, whether the weights are sides of a split, labels or responsibilities.

All thresholds of all directions are screened by a formula that needs only the first
moments of each side; the best few then get their Gram matrices and exact scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from secret_jax.runtime.linalg import (
    guarded_solve,
    inverse_cholesky,
    is_written_out,
    matmul,
    safe_divide,
    small_matmul,
)

# A quantile of 128 rows is off by some 4 % of the rows: less than the 6 % that sixteen
# thresholds lie apart.
_QUANTILE_ROWS = 128
# A direction that the models nearly span: beyond it the side's covariance, as `screen`
# takes it to be, would be singular.
_MOST_NARROW = 0.99
# Float32 rounding of sums of about a thousand products.
_ROUNDING = 1e-6
# Columns that a product of matrices computes at once on a processor.
_LANES = 32
# So many rows of a node together: the smallest nodes are one tile.
_TILE = 128


class NodeRows(NamedTuple):
    """Rows of one node in whitened coordinates, ready for Grams.

    Attributes
    ----------
    coordinates : Array of shape (n_rows, n_coordinates)
        Whitened; those that span the models' regressors come first.
    residual : Array of shape (n_rows, n_outputs)
        Of the node's own model, of about unit variance.
    weight : Array of shape (n_rows,)
        Zero for padding.
    products : Array of shape (n_rows, n_products)
        Products of the columns [1, model coordinates, residuals, other coordinates],
        upper triangle column by column: those of the models are a prefix.
    total : Array of shape (n_products,)
        Weighted sum of the products.
    penalty : Array of shape (n_coordinates, n_coordinates)
        The identity in units of the attributes, as the coordinates see it.
    """

    coordinates: jax.Array
    residual: jax.Array
    weight: jax.Array
    products: jax.Array
    total: jax.Array
    penalty: jax.Array


class SideModels(NamedTuple):
    """Exact scores of splits, and the models of their sides.

    Attributes
    ----------
    gain : Array of shape (n_splits,)
        Drop of the penalised residual sum of squares; minus infinity where a side has
        too little weight.
    left, right : Array of shape (n_splits, 1 + n_model, n_outputs)
        Intercept and slopes in the coordinates.
    """

    gain: jax.Array
    left: jax.Array
    right: jax.Array


def triangle(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of an upper triangle, column by column.

    The triangle of the leading columns is a prefix of the whole.
    """
    column, row = np.tril_indices(width)
    return row, column


def unpack(
    packed: Float[Array, "... n_products"], columns: Int[np.ndarray, " n"]
) -> Float[Array, "... n n"]:
    """Symmetric matrices of some columns, from packed triangles.

    Parameters
    ----------
    packed : Array of shape (..., n_products)
    columns : ndarray of shape (n,), int

    Returns
    -------
    Array of shape (..., n, n)
    """
    low = np.minimum.outer(columns, columns)
    high = np.maximum.outer(columns, columns)
    return packed[..., high * (high + 1) // 2 + low]


def coordinate_columns(n_model: int, n_coordinates: int, n_outputs: int) -> np.ndarray:
    """Where the coordinates stand among [1, model, residuals, other]."""
    position = np.arange(1, n_coordinates + 1)
    return np.where(position > n_model, position + n_outputs, position)


def node_rows(
    basis: Float[Array, "n_rows n_coordinates"],
    residual: Float[Array, "n_rows n_outputs"],
    weight: Float[Array, " n_rows"],
    *,
    n_model: int,
    ridge: float,
) -> tuple[NodeRows, jax.Array]:
    """Whiten the rows of a node and multiply their columns.

    Parameters
    ----------
    basis : Array of shape (n_rows, n_coordinates)
        Attributes, or combinations of them, of zero mean and about unit variance.
    residual : Array of shape (n_rows, n_outputs)
        Of the node's own model, of about unit variance.
    weight : Array of shape (n_rows,)
    n_model : int
        How many of the basis columns, the first ones, the models use.
    ridge : float
        Penalty of the models, in units of the attributes' variances.

    Returns
    -------
    rows : NodeRows
    whitener : Array of shape (n_coordinates, n_coordinates)
        Lower triangular; ``coordinates = basis @ whitener.T``.
    """
    n_coordinates = basis.shape[1]
    share = safe_divide(weight, jnp.sum(weight))
    covariance = matmul((share[:, None] * basis).T, basis)
    ridged = covariance + ridge * jnp.eye(n_coordinates, dtype=basis.dtype)
    whitener, _ = inverse_cholesky(ridged, 0.0)
    coordinates = matmul(basis, whitener.T)
    design = jnp.concatenate(
        [
            jnp.ones_like(residual[:, :1]),
            coordinates[:, :n_model],
            residual,
            coordinates[:, n_model:],
        ],
        axis=1,
    )
    products = _products(design)
    total = matmul(weight, products)
    penalty = ridge * small_matmul(whitener, whitener.T)
    return NodeRows(coordinates, residual, weight, products, total, penalty), whitener


def _products(design: jax.Array) -> jax.Array:
    """Products of columns, in the order of `triangle`, (n_rows, n_products)."""
    width = design.shape[1]
    if is_written_out():
        row, column = triangle(width)
        return design[:, row] * design[:, column]
    # A processor takes runs of neighbours in half the time of single columns.
    runs = [design[:, : last + 1] * design[:, last, None] for last in range(width)]
    return jnp.concatenate(runs, axis=1)


def quantiles(
    values: Float[Array, "n_directions n_rows"], weight: jax.Array, n: int
) -> Float[Array, "n_directions n"]:
    """Quantiles of a prefix of the rows, by counting instead of sorting.

    Parameters
    ----------
    values : Array of shape (n_directions, n_rows)
    weight : Array of shape (n_rows,) or (n_directions, n_rows)
        Zero for padding, which comes last, and for rows that do not count.
    n : int

    Returns
    -------
    Array of shape (n_directions, n)
        Values that occur; the smallest is the first.
    """
    share = (jnp.arange(n, dtype=values.dtype) + 0.5) / n
    share = share.at[0].set(0.0)  # the smallest value: its group may be rare
    return quantiles_at(values, weight, share)


def quantiles_at(values: jax.Array, weight: jax.Array, share: jax.Array) -> jax.Array:
    """The quantiles at given shares, as in `quantiles`."""
    head, mass = values[:, :_QUANTILE_ROWS], weight[..., :_QUANTILE_ROWS]

    def along(head, mass):
        enough = share * jnp.sum(mass) * (1 - _ROUNDING)
        below = matmul((head[None, :] <= head[:, None]).astype(mass.dtype), mass)
        usable = (below[None, :] >= enough[:, None]) & (mass > 0)
        return jnp.min(jnp.where(usable, head, jnp.inf), axis=1)

    return jax.vmap(along, in_axes=(0, None if mass.ndim == 1 else 0))(head, mass)


def sums_over_rows(
    sums_of: Callable[..., Any],
    weight: Float[Array, " n_rows"],
    arrays: tuple[jax.Array, ...],
    of_directions: tuple[jax.Array, ...],
) -> Any:
    """Sums over the rows of a node, tile by tile and without the padding.

    What is computed of a tile stays in the cache of a processor. An accelerator takes
    all rows at once, and so are rows taken that are no whole number of tiles.

    Parameters
    ----------
    sums_of : callable
        From some rows of all arrays to arrays that add up over rows.
    weight : Array of shape (n_rows,)
        Zero for padding, which comes last.
    arrays : tuple of Arrays of shape (n_rows, ...)
    of_directions : tuple of Arrays of shape (n_directions, n_rows, ...)

    Returns
    -------
    pytree of Arrays
    """
    n_rows = len(weight)
    if is_written_out() or n_rows % _TILE:
        return sums_of(*arrays, *of_directions)
    last = jnp.max(jnp.where(weight > 0, jnp.arange(1, n_rows + 1), 0))

    def of_tile(tile):
        def cut(array, axis):
            return jax.lax.dynamic_slice_in_dim(array, tile * _TILE, _TILE, axis)

        return sums_of(
            *(cut(array, 0) for array in arrays),
            *(cut(array, 1) for array in of_directions),
        )

    nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(of_tile, 0))

    def add(tile, sums):
        return jax.tree.map(jnp.add, sums, of_tile(tile))

    return jax.lax.fori_loop(0, (last + _TILE - 1) // _TILE, add, nothing)


def screen(
    rows: NodeRows,
    projection: Float[Array, "n_directions n_rows"],
    cuts: Float[Array, "n_directions n_cuts"],
    min_weight: Float[Array, ""],
    *,
    n_model: int,
    along: Float[Array, "n_directions n_rows"] | None = None,
) -> Float[Array, "n_directions n_cuts"]:
    r"""Approximate gains of many splits, from first moments of their sides.

    Of a side of weight :math:`w`, with model coordinates :math:`u` and residual
    :math:`r`, the gain is :math:`w (\bar r^2 + b^T (C + P)^{-1} b)`, with the side's
    covariances :math:`b` of :math:`u` with :math:`r` and :math:`C` of :math:`u`, and
    the penalty :math:`P`. The rows are whitened: over the node :math:`C + P = I`. Of a
    side :math:`\bar r` and :math:`E[u r]` are measured; what is taken from the node is
    how :math:`u` goes along with the projection :math:`t` (of unit variance in the
    node): :math:`E[u | t] = s t`, and a covariance given :math:`t` that does not
    depend on it, both exact for elliptical attributes. Then, with the mean :math:`c`
    and the variance :math:`v` of :math:`t` on the side,

    .. math:: b = E[u r] - s c \bar r, \qquad C + P = I - (1 - v) s s^T,

    whose inverse is :math:`I + (1 - v) s s^T / (1 - (1 - v) s^T s)` (Sherman &
    Morrison 1950): a few sums for each cut, and no matrix.

    Parameters
    ----------
    rows : NodeRows
    projection : Array of shape (n_directions, n_rows)
    cuts : Array of shape (n_directions, n_cuts)
    min_weight : Array of shape ()
        Least weight on each side.
    n_model : int
    along : Array of shape (n_directions, n_rows), optional
        What the models see of each direction, if that is not the projection.

    Returns
    -------
    Array of shape (n_directions, n_cuts)
        Minus infinity where a side has too little weight.
    """
    total = rows.total[0]
    along = projection if along is None else along
    mean = safe_divide(matmul(along, rows.weight), total)
    centred = along - mean[:, None]
    variance = safe_divide(matmul(centred**2, rows.weight), total)
    unit = safe_divide(centred, jnp.sqrt(variance)[:, None])
    # Slope of each model coordinate on the direction.
    slope = matmul(unit * rows.weight, rows.coordinates[:, :n_model])
    slope = safe_divide(slope, total)
    strength = jnp.sum(slope**2, axis=1)[:, None]

    n_outputs = rows.residual.shape[1]
    # Where the products of a residual with [1, model coordinates] stand.
    starts = [c * (c + 1) // 2 for c in range(n_model + 1, n_model + 1 + n_outputs)]
    places = [slice(start, start + 1 + n_model) for start in starts]
    moments = [rows.products[:, place] for place in places]
    columns = jnp.concatenate([jnp.ones_like(moments[0][:, :1]), *moments], axis=1)
    n_directions, n_cuts = cuts.shape
    n_columns = columns.shape[1]
    # Of few directions all sums are one product: of the numbers that each finds beside
    # its own, most stand in lanes that would else be empty.
    together = n_columns + 2 * n_directions <= _LANES and not is_written_out()

    def sums_of(weight, columns, projection, unit):
        left = jnp.where(projection[:, None, :] <= cuts[:, :, None], weight, 0.0)
        if not together:
            own = jnp.stack([unit, unit**2], axis=-1)
            return matmul(left, columns), jax.vmap(matmul)(left, own)
        every = jnp.concatenate([columns, unit.T, (unit**2).T], axis=1)
        return matmul(left.reshape(-1, left.shape[-1]), every)

    found = sums_over_rows(
        sums_of, rows.weight, (rows.weight, columns), (projection, unit)
    )
    if together:
        found = found.reshape(n_directions, n_cuts, -1)
        own_sums = found[:, :, n_columns:].reshape(n_directions, n_cuts, 2, -1)
        each = jnp.arange(n_directions)
        found = found[:, :, :n_columns], own_sums[each, :, :, each]
    sums, own_sums = found
    whole = jnp.concatenate([rows.total[:1], *(rows.total[p] for p in places)])
    own = jnp.stack([unit, unit**2], axis=-1)
    own_whole = matmul(rows.weight, own)[:, None, :]

    def gain(sums, own_sums):
        weight = jnp.maximum(sums[..., 0], _ROUNDING)
        center = own_sums[..., 0] / weight
        spread = own_sums[..., 1] / weight - center**2
        narrower = jnp.minimum(
            1 - spread, _MOST_NARROW / jnp.maximum(strength, _MOST_NARROW)
        )
        total = jnp.zeros_like(weight)
        for output in range(n_outputs):
            first = 1 + output * (1 + n_model)
            level = sums[..., first] / weight
            moment = sums[..., first + 1 : first + 1 + n_model] / weight[..., None]
            along_slope = jnp.sum(moment * slope[:, None, :], axis=-1)
            # |b|^2 and s'b of the derivation above.
            squared = (
                jnp.sum(moment**2, axis=-1)
                - 2 * center * level * along_slope
                + (center * level) ** 2 * strength
            )
            own_moment = along_slope - center * level * strength
            rest = 1 - strength * narrower + _ROUNDING
            total = total + (level**2 + squared + own_moment**2 * narrower / rest)
        return weight * total

    least = jnp.minimum(sums[..., 0], total - sums[..., 0])
    allowed = (least >= min_weight) & (least > 0)
    both = gain(sums, own_sums) + gain(whole - sums, own_whole - own_sums)
    return jnp.where(allowed & jnp.isfinite(both), both, -jnp.inf)


def fit_sides(
    rows: NodeRows,
    left: Bool[Array, "n_splits n_rows"],
    min_weight: Float[Array, ""],
    *,
    n_model: int,
) -> SideModels:
    """Exact gains of splits, and the ridge models of their sides.

    Parameters
    ----------
    rows : NodeRows
    left : Array of shape (n_splits, n_rows), bool
    min_weight : Array of shape ()
    n_model : int

    Returns
    -------
    SideModels
    """
    n_products = n_model_products(rows, n_model)
    packed = matmul(jnp.where(left, rows.weight, 0.0), rows.products[:, :n_products])
    # Both sides of all splits in one batch: a program of half as many steps.
    sides = jnp.stack([packed, rows.total[:n_products] - packed])
    return fit_sums(rows, sides, min_weight, n_model=n_model)


def n_model_products(rows: NodeRows, n_model: int) -> int:
    """How many of the products the models need: the first ones."""
    n_joint = n_model + 1 + rows.residual.shape[1]
    return n_joint * (n_joint + 1) // 2


def fit_sums(
    rows: NodeRows,
    sides: Float[Array, "2 n_splits n_products"],
    min_weight: Float[Array, ""],
    *,
    n_model: int,
) -> SideModels:
    """`fit_sides` from weighted sums of the products over both sides of each split."""
    columns = np.arange(n_model + 1 + rows.residual.shape[1])
    penalty = jnp.zeros((n_model + 1, n_model + 1), sides.dtype)
    penalty = penalty.at[1:, 1:].set(rows.penalty[:n_model, :n_model])
    penalty = penalty + _ROUNDING * jnp.eye(n_model + 1, dtype=sides.dtype)

    def fit(packed):
        gram = unpack(packed, columns)
        moment = gram[: n_model + 1, n_model + 1 :]
        weight = jnp.maximum(gram[0, 0], _ROUNDING)
        ridged = gram[: n_model + 1, : n_model + 1] + weight * penalty
        model = guarded_solve(ridged, moment, 0.0)
        return jnp.sum(model * moment), model

    gains, models = jax.vmap(jax.vmap(fit))(sides)
    least = jnp.min(sides[:, :, 0], axis=0)
    gain = jnp.sum(gains, axis=0)
    allowed = (least >= min_weight) & (least > 0) & jnp.isfinite(gain)
    return SideModels(jnp.where(allowed, gain, -jnp.inf), models[0], models[1])
