"""How much two linear models fit better than one: scores of many splits at once.

A split is scored by the drop in the penalised residual sum of squares when each child
gets a ridge model of its own, on top of the node's. Along one direction the Grams of
all thresholds are one matrix product, and one batched Cholesky factorisation gives
their scores: the square of the last diagonal is the residual sum of squares.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from secret_jax.numerics import guarded_solve, last_pivot, matmul

# Quantiles of this many rows are good enough as thresholds.
_QUANTILE_ROWS = 512


class GramRows(NamedTuple):
    """Rows [1, regressors, residual] of one node, ready for Grams.

    Attributes
    ----------
    design : Array of shape (n_rows, width)
        Intercept, standardised regressors, standardised residual.
    products : Array of shape (n_rows, width * (width + 1) / 2)
        Weighted products of the design's columns, upper triangle.
    packed_total : Array of shape (width * (width + 1) / 2,)
    total : Array of shape (width, width)
        Gram of all rows, and its upper triangle.
    weight : Array of shape (n_rows,)
    """

    design: jax.Array
    products: jax.Array
    packed_total: jax.Array
    total: jax.Array
    weight: jax.Array


class ThresholdScores(NamedTuple):
    """Best threshold along each direction.

    Attributes
    ----------
    gain : Array of shape (n_directions,)
        Drop of the residual sum of squares; minus infinity where none is allowed.
    threshold : Array of shape (n_directions,)
    """

    gain: jax.Array
    threshold: jax.Array


def gram_rows(
    regressors: jax.Array, residual: jax.Array, weight: jax.Array
) -> GramRows:
    """Prepare the rows of a node.

    Parameters
    ----------
    regressors : Array of shape (n_rows, n_regressors)
        Standardised in the node.
    residual : Array of shape (n_rows,)
        Of the node's own model, of about unit variance.
    weight : Array of shape (n_rows,)

    Returns
    -------
    GramRows
    """
    ones = jnp.ones_like(residual)[:, None]
    design = jnp.concatenate([ones, regressors, residual[:, None]], axis=1)
    row, column = jnp.triu_indices(design.shape[1])
    products = design[:, row] * design[:, column] * weight[:, None]
    packed_total = jnp.sum(products, axis=0)
    total = _unpack(packed_total, design.shape[1])
    return GramRows(design, products, packed_total, total, weight)


def _unpack(packed: jax.Array, width: int) -> jax.Array:
    """Symmetric matrices of shape (..., width, width) from their upper triangles."""
    row, column = jnp.triu_indices(width)
    position = jnp.zeros((width, width), jnp.int32)
    index = jnp.arange(len(row), dtype=jnp.int32)
    position = position.at[row, column].set(index).at[column, row].set(index)
    return packed[..., position]


def penalty(width: int, ridge: float, dtype) -> jax.Array:
    """Diagonal added to a Gram, per unit of its weight: ridge on the slopes."""
    return jnp.full(width, ridge, dtype).at[0].set(1e-6).at[-1].set(1e-6)


def residual_sum(packed: jax.Array, width: int, ridge: float) -> jax.Array:
    """Penalised residual sum of squares of the last column on the others.

    Parameters
    ----------
    packed : Array of shape (n, width * (width + 1) / 2)
        Upper triangles of Grams.
    width : int
    ridge : float
        Per unit of weight, in units of the regressors' variance.

    Returns
    -------
    Array of shape (n,)
        Infinite where the Gram is not positive definite.
    """
    gram = jnp.moveaxis(_unpack(packed, width), 0, -1)
    weight = jnp.maximum(gram[0, 0], 1e-6)
    extra = jnp.diag(penalty(width, ridge, packed.dtype))[:, :, None] * weight
    return last_pivot(gram + extra)


def side_models(
    rows: GramRows, left: jax.Array, ridge: float
) -> tuple[jax.Array, jax.Array]:
    """Ridge models of the two sides of a split, shape (width - 1,) each."""
    gram = _unpack(matmul(left, rows.products), rows.design.shape[1])

    def solve(gram):
        width = gram.shape[0]
        weight = jnp.maximum(gram[0, 0], 1e-6)
        extra = weight * penalty(width, ridge, gram.dtype)[:-1]
        matrix = gram[:-1, :-1] + jnp.diag(extra)
        return guarded_solve(matrix, gram[:-1, -1], 0.0)

    return solve(gram), solve(rows.total - gram)


def thresholds(
    projection: jax.Array, weight: jax.Array, n_thresholds: int
) -> jax.Array:
    """Quantiles of a prefix of the rows, shape (n_thresholds, n_directions).

    Parameters
    ----------
    projection : Array of shape (n_rows, n_directions)
    weight : Array of shape (n_rows,)
        Zero for padding, which comes last.
    """
    head, mass = projection[:_QUANTILE_ROWS], weight[:_QUANTILE_ROWS]
    order = jnp.argsort(jnp.where(mass[:, None] > 0, head, jnp.inf), axis=0)
    share = (jnp.arange(n_thresholds, dtype=head.dtype) + 0.5) / n_thresholds
    share = share.at[0].set(0.0)  # the smallest value: its group may be rare

    def quantiles(values, order):
        below = jnp.cumsum(mass[order])
        position = jnp.searchsorted(below, share * below[-1])
        return values[order[jnp.minimum(position, len(values) - 1)]]

    return jax.vmap(quantiles, in_axes=1, out_axes=1)(head, order)


def score_directions(
    rows: GramRows,
    projection: jax.Array,
    min_weight: jax.Array,
    *,
    n_thresholds: int,
    ridge: float,
) -> ThresholdScores:
    """Best threshold along each direction.

    Parameters
    ----------
    rows : GramRows
    projection : Array of shape (n_rows, n_directions)
    min_weight : Array of shape ()
        Least weight on each side.
    n_thresholds : int
        Quantiles that are tried.
    ridge : float

    Returns
    -------
    ThresholdScores
    """
    cuts = thresholds(projection, rows.weight, n_thresholds)

    def along(direction):
        values, cuts = direction
        return best_cut(rows, values, cuts, min_weight, ridge=ridge)

    return jax.lax.map(along, (projection.T, cuts.T))


def best_cut(
    rows: GramRows,
    values: jax.Array,
    cuts: jax.Array,
    min_weight: jax.Array,
    *,
    ridge: float,
) -> ThresholdScores:
    """Best of several thresholds along one direction.

    Parameters
    ----------
    rows : GramRows
    values : Array of shape (n_rows,)
        The rows' projections.
    cuts : Array of shape (n_thresholds,)
    min_weight : Array of shape ()
    ridge : float

    Returns
    -------
    ThresholdScores
        Scalars.
    """
    width = rows.design.shape[1]
    total_weight = rows.total[0, 0]
    left = (values[None, :] <= cuts[:, None]).astype(values.dtype)
    packed = matmul(left, rows.products)
    left_weight = packed[:, 0]
    least = jnp.minimum(left_weight, total_weight - left_weight)
    gain = (
        rows.total[-1, -1]
        - residual_sum(packed, width, ridge)
        - residual_sum(rows.packed_total - packed, width, ridge)
    )
    allowed = (least >= min_weight) & (least > 0) & jnp.isfinite(gain)
    gain = jnp.where(allowed, gain, -jnp.inf)
    best = jnp.argmax(gain)
    return ThresholdScores(gain[best], cuts[best])
