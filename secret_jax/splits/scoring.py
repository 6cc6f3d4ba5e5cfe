"""How much two linear models fit better than one: scores of many splits at once.

A split is scored by the drop in the penalised residual sum of squares when each child
gets a ridge model of its own, on top of the node's. Everything is computed in whitened
coordinates, from one matrix of products of columns: weighted sums of its rows are Gram
matrices, whether the weights are sides of a split, labels or responsibilities.

All thresholds of all directions are screened by a formula that needs only the first
moments of each side; the best few then get their Gram matrices and exact scores.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.runtime.arrays import products_of_pairs, sums_below, weighted_quantiles
from secret_jax.runtime.linalg import (
    AnyArray,
    definite_solve,
    inverse_cholesky,
    matmul,
    matvec,
    namespace,
    safe_divide,
    small_matmul,
    vecmat,
)
from secret_jax.runtime.pieces import Pieces, for_rows, heads, over_rows

# A quantile of 128 rows is off by some 4 % of the rows: less than the 6 % that sixteen
# thresholds lie apart.
_QUANTILE_ROWS = 128
# A direction that the models nearly span: beyond it the side's covariance, as `screen`
# takes it to be, would be singular.
_MOST_NARROW = 0.99
# Float32 rounding of sums of about a thousand products.
_ROUNDING = 1e-6


class NodeRows(NamedTuple):
    """Rows of nodes in whitened coordinates, ready for Grams.

    Attributes
    ----------
    coordinates : Array of shape (..., n_rows, n_coordinates)
        Whitened; those that span the models' regressors come first.
    residual : Array of shape (..., n_rows, n_outputs)
        Of the node's own model, of about unit variance.
    weight : Array of shape (..., n_rows)
        Zero for padding.
    products : Array of shape (..., n_rows, n_products)
        Products of the columns [1, model coordinates, residuals, other coordinates],
        upper triangle column by column: those of the models are a prefix.
    total : Array of shape (..., n_products)
        Weighted sum of the products.
    penalty : Array of shape (..., n_coordinates, n_coordinates)
        The identity in units of the attributes, as the coordinates see it.
    pieces : Pieces or None
        Of the rows of many nodes: before their axis then comes one of pieces.
    """

    coordinates: AnyArray
    residual: AnyArray
    weight: AnyArray
    products: AnyArray
    total: AnyArray
    penalty: AnyArray
    pieces: Pieces | None = None

    def take(self, chosen: np.ndarray) -> NodeRows:
        """Select nodes by a mask; arrays of NumPy."""
        mask, pieces = chosen, None
        if self.pieces is not None:
            mask, pieces = self.pieces.take(chosen)
        return NodeRows(
            coordinates=self.coordinates[mask],
            residual=self.residual[mask],
            weight=self.weight[mask],
            products=self.products[mask],
            total=self.total[chosen],
            penalty=self.penalty[chosen],
            pieces=pieces,
        )


class SideModels(NamedTuple):
    """Exact scores of splits, and the models of their sides.

    Attributes
    ----------
    gain : Array of shape (..., n_splits)
        Drop of the penalised residual sum of squares; minus infinity where a side has
        too little weight.
    left, right : Array of shape (..., n_splits, 1 + n_model, n_outputs)
        Intercept and slopes in the coordinates.
    """

    gain: AnyArray
    left: AnyArray
    right: AnyArray


def triangle(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of an upper triangle, column by column.

    The triangle of the leading columns is a prefix of the whole.
    """
    column, row = np.tril_indices(width)
    return row, column


def unpack(
    packed: Float[AnyArray, "... n_products"], columns: Int[np.ndarray, " n"]
) -> Float[AnyArray, "... n n"]:
    """Symmetric matrices of some columns, from packed triangles.

    Parameters
    ----------
    packed : Array of shape (..., n_products)
    columns : ndarray of shape (n,), int

    Returns
    -------
    Array of shape (..., n, n)
    """
    return packed[..., _places_of_pairs(tuple(columns.tolist()))]


@lru_cache(maxsize=1024)
def _places_of_pairs(columns: tuple[int, ...]) -> np.ndarray:
    low = np.minimum.outer(columns, columns)
    high = np.maximum.outer(columns, columns)
    return high * (high + 1) // 2 + low


def coordinate_columns(n_model: int, n_coordinates: int, n_outputs: int) -> np.ndarray:
    """Where the coordinates stand among [1, model, residuals, other]."""
    position = np.arange(1, n_coordinates + 1)
    return np.where(position > n_model, position + n_outputs, position)


def node_rows(
    basis: Float[AnyArray, "... n_rows n_coordinates"],
    residual: Float[AnyArray, "... n_rows n_outputs"],
    weight: Float[AnyArray, "... n_rows"],
    *,
    n_model: int,
    ridge: float,
    pieces: Pieces | None = None,
) -> tuple[NodeRows, AnyArray]:
    """Whiten the rows of nodes and multiply their columns.

    Parameters
    ----------
    basis : Array of shape (..., n_rows, n_coordinates)
        Attributes, or combinations of them, of zero mean and about unit variance.
    residual : Array of shape (..., n_rows, n_outputs)
        Of the node's own model, of about unit variance.
    weight : Array of shape (..., n_rows)
    n_model : int
        How many of the basis columns, the first ones, the models use.
    ridge : float
        Penalty of the models, in units of the attributes' variances.

    Returns
    -------
    whitener : Array of shape (..., n_coordinates, n_coordinates)
        Lower triangular; ``coordinates = basis @ whitener.T``.
    """
    xp = namespace(basis)
    n_coordinates = basis.shape[-1]
    ridged = covariance_of(basis, weight, pieces)
    ridged = ridged + ridge * xp.eye(n_coordinates, dtype=basis.dtype)
    whitener, _ = inverse_cholesky(ridged, 0.0)
    transposed = xp.swapaxes(whitener, -1, -2)
    coordinates = matmul(basis, for_rows(transposed, pieces))
    design = xp.concatenate(
        [
            xp.ones_like(residual[..., :1]),
            coordinates[..., :n_model],
            residual,
            coordinates[..., n_model:],
        ],
        axis=-1,
    )
    products = products_of_pairs(design)
    total = over_rows(vecmat(weight, products), pieces)
    penalty = ridge * small_matmul(whitener, transposed)
    rows = NodeRows(coordinates, residual, weight, products, total, penalty, pieces)
    return rows, whitener


def covariance_of(
    values: AnyArray, weight: AnyArray, pieces: Pieces | None = None
) -> AnyArray:
    """Weighted mean of the products of columns of mean zero, (..., n, n)."""
    xp = namespace(values)
    total = over_rows(xp.sum(weight, axis=-1), pieces)
    share = safe_divide(weight, for_rows(total, pieces)[..., None])
    products = matmul(xp.swapaxes(share[..., None] * values, -1, -2), values)
    return over_rows(products, pieces)


def quantiles(
    values: Float[AnyArray, "... n_directions n_rows"],
    weight: AnyArray,
    n: int,
    pieces: Pieces | None = None,
) -> Float[AnyArray, "... n_directions n"]:
    """Quantiles of a prefix of the rows.

    Parameters
    ----------
    values : Array of shape (..., n_directions, n_rows)
    weight : Array of shape (..., n_rows) or (..., n_directions, n_rows)
        Zero for padding, which comes last, and for rows that do not count.

    Returns
    -------
    Array of shape (..., n_directions, n)
        Values that occur; the smallest is the first.
    """
    share = (np.arange(n, dtype=np.float32) + np.float32(0.5)) / np.float32(n)
    share[0] = 0.0  # the smallest value: its group may be rare
    return quantiles_at(values, weight, share, pieces)


def quantiles_at(
    values: AnyArray,
    weight: AnyArray,
    share: np.ndarray | jax.Array,
    pieces: Pieces | None = None,
) -> AnyArray:
    """The quantiles at given shares, as in `quantiles`."""
    values, weight = (heads(a, pieces, _QUANTILE_ROWS) for a in (values, weight))
    return weighted_quantiles(values, weight, share)


def screen(
    rows: NodeRows,
    projection: Float[AnyArray, "... n_directions n_rows"],
    cuts: Float[AnyArray, "... n_directions n_cuts"],
    min_weight: Float[AnyArray, ...],
    *,
    n_model: int,
    along: Float[AnyArray, "... n_directions n_rows"] | None = None,
) -> Float[AnyArray, "... n_directions n_cuts"]:
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
    projection : Array of shape (..., n_directions, n_rows)
    cuts : Array of shape (..., n_directions, n_cuts)
    min_weight : Array of shape (...)
        Least weight on each side.
    along : Array of shape (..., n_directions, n_rows), optional
        What the models see of each direction, if that is not the projection.

    Returns
    -------
    Array of shape (..., n_directions, n_cuts)
        Minus infinity where a side has too little weight.
    """
    xp = namespace(projection)
    pieces, total = rows.pieces, rows.total[..., :1]
    along = projection if along is None else along
    mean = safe_divide(over_rows(matvec(along, rows.weight), pieces), total)
    centred = along - for_rows(mean, pieces)[..., None]
    variance = over_rows(matvec(centred**2, rows.weight), pieces)
    variance = safe_divide(variance, total)
    deviation = for_rows(xp.sqrt(variance), pieces)
    unit = safe_divide(centred, deviation[..., None])
    # Slope of each model coordinate on the direction.
    weighted = unit * rows.weight[..., None, :]
    slope = over_rows(matmul(weighted, rows.coordinates[..., :n_model]), pieces)
    slope = safe_divide(slope, total[..., None])
    strength = xp.sum(slope**2, axis=-1)[..., None]

    n_outputs = rows.residual.shape[-1]
    # Where the products of a residual with [1, model coordinates] stand.
    starts = [c * (c + 1) // 2 for c in range(n_model + 1, n_model + 1 + n_outputs)]
    places = [slice(start, start + 1 + n_model) for start in starts]
    moments = [rows.products[..., place] for place in places]
    columns = xp.concatenate([xp.ones_like(moments[0][..., :1]), *moments], axis=-1)
    own = xp.stack([unit, unit**2], axis=-1)
    sums, own_sums = sums_below(projection, cuts, rows.weight, columns, own, pieces)
    whole = [rows.total[..., :1], *(rows.total[..., place] for place in places)]
    whole = xp.concatenate(whole, axis=-1)[..., None, None, :]
    own_whole = over_rows(vecmat(rows.weight[..., None, :], own), pieces)[..., None, :]
    # Both sides of all splits in one batch: a program of half as many steps.
    sums = xp.concatenate([sums, whole - sums], axis=-2)
    own_sums = xp.concatenate([own_sums, own_whole - own_sums], axis=-2)

    weight = xp.maximum(sums[..., 0], _ROUNDING)
    center = own_sums[..., 0] / weight
    spread = own_sums[..., 1] / weight - center**2
    narrower = xp.minimum(1 - spread, _MOST_NARROW / xp.maximum(strength, _MOST_NARROW))
    rest = 1 - strength * narrower + _ROUNDING
    gain = xp.zeros_like(weight)
    for output in range(n_outputs):
        first = 1 + output * (1 + n_model)
        level = sums[..., first] / weight
        moment = sums[..., first + 1 : first + 1 + n_model] / weight[..., None]
        along_slope = matvec(moment, slope)
        shift = center * level
        # |b|^2 and s'b of the derivation above.
        squared = xp.sum(moment**2, axis=-1) + shift * (
            shift * strength - 2 * along_slope
        )
        own_moment = along_slope - shift * strength
        gain = gain + (level**2 + squared + own_moment**2 * narrower / rest)
    gain = weight * gain

    n_cuts = cuts.shape[-1]
    gain = gain[..., :n_cuts] + gain[..., n_cuts:]
    least = xp.minimum(sums[..., :n_cuts, 0], sums[..., n_cuts:, 0])
    allowed = (least >= xp.asarray(min_weight)[..., None, None]) & (least > 0)
    return xp.where(allowed & xp.isfinite(gain), gain, -xp.inf)


def fit_sides(
    rows: NodeRows,
    left: Bool[AnyArray, "... n_splits n_rows"],
    min_weight: Float[AnyArray, ...],
    *,
    n_model: int,
) -> SideModels:
    """Exact gains of splits, and the ridge models of their sides.

    Parameters
    ----------
    left : Array of shape (..., n_splits, n_rows), bool
    min_weight : Array of shape (...)
    """
    xp = namespace(left)
    n_products = n_model_products(rows, n_model)
    weight = xp.where(left, rows.weight[..., None, :], 0.0)
    packed = over_rows(matmul(weight, rows.products[..., :n_products]), rows.pieces)
    # Both sides of all splits in one batch: a program of half as many steps.
    other = rows.total[..., None, :n_products] - packed
    sides = xp.stack([packed, other], axis=-3)
    return fit_sums(rows, sides, min_weight, n_model=n_model)


def n_model_products(rows: NodeRows, n_model: int) -> int:
    """How many of the products the models need: the first ones."""
    n_joint = n_model + 1 + rows.residual.shape[-1]
    return n_joint * (n_joint + 1) // 2


def fit_sums(
    rows: NodeRows,
    sides: Float[AnyArray, "... 2 n_splits n_products"],
    min_weight: Float[AnyArray, ...],
    *,
    n_model: int,
) -> SideModels:
    """`fit_sides` from weighted sums of the products over both sides of each split."""
    xp = namespace(sides)
    n = n_model + 1
    gram = unpack(sides, np.arange(n + rows.residual.shape[-1]))
    slopes = rows.penalty[..., :n_model, :n_model]
    pairs = [(0, 0)] * (slopes.ndim - 2) + [(1, 0)] * 2
    penalty = xp.pad(slopes, pairs) + _ROUNDING * xp.eye(n, dtype=sides.dtype)
    weight = xp.maximum(gram[..., :1, :1], _ROUNDING)
    moment = gram[..., :n, n:]
    ridged = gram[..., :n, :n] + weight * penalty[..., None, None, :, :]
    models = definite_solve(ridged, moment)
    gains = xp.sum(models * moment, axis=(-2, -1))
    least = xp.min(sides[..., 0], axis=-2)
    gain = xp.sum(gains, axis=-2)
    enough = least >= xp.asarray(min_weight)[..., None]
    gain = xp.where(enough & (least > 0) & xp.isfinite(gain), gain, -xp.inf)
    return SideModels(gain, models[..., 0, :, :, :], models[..., 1, :, :, :])
