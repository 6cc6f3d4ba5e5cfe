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

import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.runtime.arrays import products_of_pairs
from secret_jax.runtime.linalg import (
    AnyArray,
    definite_solve,
    inverse_cholesky,
    matmul,
    namespace,
    safe_divide,
    small_matmul,
    vecmat,
)
from secret_jax.runtime.pieces import Pieces, for_rows, over_rows

# Float32 rounding of sums of about a thousand products.
_ROUNDING = 1e-6


class NodeRows(NamedTuple):
    """Rows of nodes in whitened coordinates, ready for Grams."""

    # (..., n_rows, n_coordinates): whitened; those that span the models' regressors
    # come first.
    coordinates: AnyArray
    # (..., n_rows, n_outputs): of the node's own model, of about unit variance.
    residual: AnyArray
    weight: AnyArray  # (..., n_rows): zero for padding
    # (..., n_rows, n_products): products of the columns [1, model coordinates,
    # residuals, other coordinates], upper triangle column by column: those of the
    # models are a prefix.
    products: AnyArray
    total: AnyArray  # (..., n_products): weighted sum of the products
    # (..., n_coordinates, n_coordinates): the identity in units of the attributes, as
    # the coordinates see it.
    penalty: AnyArray
    # (..., 1 + n_model, 1 + n_model): that of the models, whose intercept has none.
    model_penalty: AnyArray
    # Of the rows of many nodes: before their axis then comes one of pieces.
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
            model_penalty=self.model_penalty[chosen],
            pieces=pieces,
        )


class SideModels(NamedTuple):
    """Exact scores of splits, and the models of their sides."""

    # (..., n_splits): drop of the penalised residual sum of squares; minus infinity
    # where a side has too little weight.
    gain: AnyArray
    # left, right (..., n_splits, 1 + n_model, n_outputs): intercept and slopes in the
    # coordinates.
    left: AnyArray
    right: AnyArray


def unpack(
    packed: Float[AnyArray, "... n_products"], columns: Int[np.ndarray, " n"]
) -> Float[AnyArray, "... n n"]:
    """Symmetric matrices of some columns, from packed triangles."""
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
    covariance: AnyArray | None = None,
) -> tuple[NodeRows, AnyArray]:
    """Whiten the rows of nodes and multiply their columns.

    ``basis``: attributes, or combinations of them, of zero mean and about unit
    variance; ``residual``: of the node's own model, of about unit variance;
    ``n_model``: how many of the basis columns, the first ones, the models use;
    ``ridge``: penalty of the models, in units of the attributes' variances;
    ``covariance``: of the basis, if that is known. Returns
    ``whitener`` (..., n_coordinates, n_coordinates): lower triangular; ``coordinates =
    basis @ whitener.T``.
    """
    xp = namespace(basis)
    n_coordinates = basis.shape[-1]
    if covariance is None:
        covariance = covariance_of(basis, weight, pieces)
    ridged = covariance + ridge * xp.eye(n_coordinates, dtype=basis.dtype)
    whitener, _ = inverse_cholesky(ridged, 0.0)
    transposed = xp.swapaxes(whitener, -1, -2)
    coordinates = matmul(for_rows(whitener, pieces), xp.swapaxes(basis, -1, -2))
    coordinates = xp.swapaxes(coordinates, -1, -2)
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
    pairs = [(0, 0)] * (penalty.ndim - 2) + [(1, 0)] * 2
    of_models = xp.pad(penalty[..., :n_model, :n_model], pairs)
    of_models = of_models + _ROUNDING * xp.eye(1 + n_model, dtype=basis.dtype)
    rows = NodeRows(
        coordinates, residual, weight, products, total, penalty, of_models, pieces
    )
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


def fit_sides(
    rows: NodeRows,
    left: Bool[AnyArray, "... n_splits n_rows"],
    min_weight: Float[AnyArray, ...],
    *,
    n_model: int,
) -> SideModels:
    """Exact gains of splits, and the ridge models of their sides."""
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
    weight = xp.maximum(gram[..., :1, :1], _ROUNDING)
    moment = gram[..., :n, n:]
    ridged = gram[..., :n, :n] + weight * rows.model_penalty[..., None, None, :, :]
    models = definite_solve(ridged, moment)
    gains = xp.sum(models * moment, axis=(-2, -1))
    least = xp.min(sides[..., 0], axis=-2)
    gain = xp.sum(gains, axis=-2)
    enough = least >= xp.asarray(min_weight)[..., None]
    gain = xp.where(enough & (least > 0) & xp.isfinite(gain), gain, -xp.inf)
    return SideModels(gain, models[..., 0, :, :, :], models[..., 1, :, :, :])
