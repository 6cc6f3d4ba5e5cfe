"""Nodes prepared for scoring, and candidates of all kinds with their gains.

Arrays are those of one node, or of a batch of nodes along their first axis, of NumPy or
of JAX.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secret_jax.runtime.arrays import taken
from secret_jax.runtime.linalg import AnyArray, matmul, namespace, unit_vectors
from secret_jax.runtime.pieces import for_rows
from secret_jax.splits.directions import sparse
from secret_jax.splits.discriminant import oriented
from secret_jax.splits.node_axis import Projections, leading_component, projections
from secret_jax.splits.node_chosen import Candidates, roles_of
from secret_jax.splits.one_node import Node
from secret_jax.splits.scoring import (
    NodeRows,
    SideModels,
    covariance_of,
    fit_sides,
    node_rows,
)
from secret_jax.splits.screening import quantiles, screen
from secret_jax.tree.structure import SplitKind

# An `RssSplits`, whose module imports this one.
Options = Any


class PreparedNodes(NamedTuple):
    """Nodes prepared for scoring; before these axes arrays have those of the nodes."""

    z: AnyArray  # (n_rows, n_columns), standardised in the node
    rows: NodeRows
    back: AnyArray  # (n_coordinates, n_columns), from coordinates to z
    covariance: AnyArray  # (n_columns, n_columns) of z
    min_weight: AnyArray
    allowed: AnyArray  # (n_columns,), 1 where a direction may go, else 0
    axis: Projections | None
    n_model: int

    def take(self, chosen: np.ndarray) -> PreparedNodes:
        """Select nodes by a mask, without their attributes; arrays of NumPy."""
        mask, pieces = chosen, self.rows.pieces
        if pieces is not None:
            mask, _ = pieces.take(chosen)
        return PreparedNodes(
            z=self.z[mask],
            rows=self.rows.take(chosen),
            back=self.back[chosen],
            covariance=self.covariance[chosen],
            min_weight=self.min_weight[chosen],
            allowed=self.allowed[chosen],
            axis=None,
            n_model=self.n_model,
        )


def prepared(
    z: AnyArray, residual: AnyArray, batch: Node, finder: Options
) -> PreparedNodes:
    xp = namespace(z)
    n_model = min(batch.columns.n_regressors, finder.most_regressors)
    loading = batch.extra.get("loading")
    basis, covariance = z, covariance_of(z, batch.weight, batch.pieces)
    of_basis = covariance
    if loading is not None:
        basis = matmul(z, for_rows(loading, batch.pieces))
        of_basis = matmul(xp.swapaxes(loading, -1, -2), matmul(covariance, loading))
    rows, whitener = node_rows(
        basis,
        residual,
        batch.weight,
        n_model=n_model,
        ridge=finder.ridge,
        pieces=batch.pieces,
        covariance=of_basis,
    )
    back = whitener
    if loading is not None:
        back = matmul(whitener, xp.swapaxes(loading, -1, -2))
    # Sums of indicators are hard to read: sets of categories, and the side of missing
    # values, are splits of their own.
    combined = roles_of(batch).combined & batch.allowed[..., : z.shape[-1]]
    score = leading_component(residual, batch.weight, batch.pieces)
    return PreparedNodes(
        z=z,
        rows=rows,
        back=back,
        covariance=covariance,
        min_weight=batch.min_weight,
        allowed=combined.astype(z.dtype),
        axis=projections(batch, score),
        n_model=n_model,
    )


def scored(
    projection: AnyArray,
    node: PreparedNodes,
    finder: Options,
    weight: AnyArray | None = None,
    along: AnyArray | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Gain and threshold of the best cut along each direction, approximately.

    ``weight``, where given, chooses the rows whose quantiles are tried; for ``along``
    see `screen`.
    """
    xp = namespace(projection)
    weight = node.rows.weight if weight is None else weight
    cuts = quantiles(projection, weight, finder.n_thresholds, node.rows.pieces)
    gain = screen(
        node.rows, projection, cuts, node.min_weight, n_model=node.n_model, along=along
    )
    best = xp.argmax(gain, axis=-1)
    return xp.max(gain, axis=-1), taken(cuts, best, best.ndim)


def axis_candidates(node: PreparedNodes, finder: Options) -> Candidates:
    """Every attribute at its best threshold, by approximate gain."""
    axis = node.axis
    assert axis is not None
    gain, cuts = scored(axis.projection, node, finder, axis.weight, axis.value)
    return axis.candidates(gain - axis.chance, cuts)


def along_coordinates(
    coordinates: AnyArray, node: PreparedNodes, finder: Options
) -> Candidates:
    """Splits along directions given in the coordinates, by approximate gain."""
    direction = matmul(coordinates, node.back) * node.allowed[..., None, :]
    if finder.max_split_features:
        kept, direction = finder.max_split_features, unit_vectors(direction)
        direction = sparse(direction, node.covariance, kept, finder.ridge)
    return along_directions(oriented(direction), node, finder)


def along_directions(
    direction: AnyArray, node: PreparedNodes, finder: Options
) -> Candidates:
    """Splits along directions in the standardised columns, by approximate gain."""
    xp = namespace(direction)
    projection = projected(direction, node)
    gain, cuts = scored(projection, node, finder)
    return Candidates(
        gain=gain,
        projection=projection,
        direction=direction,
        threshold=cuts,
        kind=xp.full(gain.shape, SplitKind.OBLIQUE, xp.int32),
        attribute=xp.full(gain.shape, -1, xp.int32),
        chance=xp.zeros_like(gain),
    )


def projected(direction: AnyArray, node: PreparedNodes) -> AnyArray:
    """Rows along directions in the standardised columns."""
    z = namespace(direction).swapaxes(node.z, -1, -2)
    return matmul(for_rows(direction, node.rows.pieces), z)


def exact_models(candidates: Candidates, node: PreparedNodes) -> SideModels:
    """Models of both sides of each split, and how much they gain."""
    threshold = for_rows(candidates.threshold, node.rows.pieces)
    left = candidates.projection <= threshold[..., None]
    return fit_sides(node.rows, left, node.min_weight, n_model=node.n_model)
