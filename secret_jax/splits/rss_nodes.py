"""Nodes of a level ready for scoring by linear models: whitened rows and their sums.

A split is scored by the drop of the penalised residual sum of squares when each side
gets a ridge model of its own, on top of the node's. All arrays are those of
`secret_jax.splits.interface.Level`: rows last, nodes first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secret_jax.runtime.eigenvectors import leading_eigenvectors
from secret_jax.runtime.linalg import (
    AnyArray,
    inverse_cholesky,
    matmul,
    namespace,
    small_matmul,
)
from secret_jax.splits.interface import Level

# Below this deviation, in units of the whole table, an attribute is constant.
CONSTANT = 1e-6
# A residual with a smaller deviation, in the same units, is float32 rounding.
PURE = 1e-5
# Float32 rounding of sums of about a thousand products.
ROUNDING = 1e-6
# By chance alone models do not spend more degrees of freedom than this share of rows.
_MOST_SPENT = 0.25


class Nodes(NamedTuple):
    """Rows of nodes and sums over them, in units of the nodes.

    The design of a row is its residuals, one, and its coordinates: the columns, or
    where these are many their leading components; those that models see come first.
    """

    rows: Any
    # Row arrays:
    z: AnyArray  # (n_columns, rows): standardised; zero where constant
    design: AnyArray  # (n_outputs + 1 + n_coordinates, rows)
    weight: AnyArray  # (rows,)
    # (1 + n_outputs * (1 + n_model), rows): weighted [1, residual, residual * whitened
    # coordinates], the last two of every output.
    moments: AnyArray
    # Node arrays:
    total: AnyArray  # (n_nodes,): weight
    whole: AnyArray  # (n_nodes, 1 + n_outputs * (1 + n_model)): sums of the moments
    # (n_nodes, n_design, n_design): sums of weighted products of the design.
    gram: AnyArray
    covariance: AnyArray  # (n_nodes, n_columns, n_columns) of z
    loading: (
        AnyArray | None
    )  # (n_nodes, n_columns, n_coordinates), where there are many
    # (n_nodes, n_model, n_model): lower triangular; of coordinates with the penalty.
    whitener: AnyArray
    # (n_nodes, n_columns, n_model): covariance of z with whitened coordinates.
    cross: AnyArray
    min_weight: AnyArray  # (n_nodes,)
    combined: AnyArray  # (n_nodes, n_columns): 1 where a direction may go, else 0

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.gram.shape[-1] - 1 - self.n_coordinates

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates."""
        columns = self.covariance if self.loading is None else self.loading
        return columns.shape[-1]

    @property
    def n_model(self) -> int:
        """How many of the coordinates models see: the first ones."""
        return self.whitener.shape[-1]

    @property
    def n_seen(self) -> int:
        """Length of the part of the design that models need: its first numbers."""
        return 1 + self.n_outputs + self.n_model


class Units(NamedTuple):
    """What the nodes' units are in those of the table; see `Split` for the rest."""

    center: AnyArray  # (n_nodes, n_columns)
    scale: AnyArray  # (n_nodes, n_columns): infinite where constant
    residual: AnyArray  # (n_nodes,): one for all outputs, so that their gains add up
    pure: AnyArray  # (n_nodes,), bool
    chance_gain: AnyArray  # (n_nodes,)


def prepared(level: Level, ridge: float, most_regressors: int) -> tuple[Nodes, Units]:
    """Standardise and whiten the rows of a level, and sum up their products."""
    rows, xp, n = level.rows, level.rows.xp, level.n_regressors
    total = rows.sums(level.weight)
    residual, x, center, offset = _centred(level, total)
    n_columns, weight = level.x.shape[-2], level.weight[..., None, :]
    one = xp.ones_like(weight)
    design = xp.concatenate([residual, one, x], axis=-2)
    gram = rows.products(weight * design, design)

    first = design.shape[-2] - n_columns
    variance = xp.diagonal(gram, axis1=1, axis2=2) / total[:, None]
    spread, deviation = variance[:, : first - 1], xp.sqrt(variance[:, first:])
    pure = (spread <= PURE**2).all(axis=1)
    unit = xp.where(pure, 1.0, xp.sqrt(xp.mean(spread, axis=1)))
    scale = xp.where(deviation > CONSTANT, deviation, xp.inf)
    units = [*[unit[:, None]] * (first - 1), xp.ones_like(total[:, None]), scale]
    inverse = (1 / xp.concatenate(units, axis=1)).astype(design.dtype)
    design *= rows.spread(inverse)
    gram *= inverse[:, :, None] * inverse[:, None, :]

    z, loading = design[..., first:, :], None
    covariance = gram[:, first:, first:] / total[:, None, None]
    n_model = min(n, most_regressors)
    cross = covariance[:, :, :n_model]
    if n_columns > most_regressors:
        loading = loadings(covariance, n, most_regressors)
        cross = matmul(covariance, loading[:, :, :n_model])
        basis = rows.transformed(xp.swapaxes(loading, 1, 2), z)
        design = xp.concatenate([design[..., :first, :], basis], axis=-2)
        gram = rows.products(weight * design, design)
    of_basis = gram[:, first : first + n_model, first : first + n_model]
    penalty = ridge * xp.eye(n_model, dtype=design.dtype)
    whitener, _ = inverse_cholesky(of_basis / total[:, None, None] + penalty, 0.0)
    turned = xp.swapaxes(whitener, 1, 2)
    of_white = small_matmul(gram[:, : first - 1, first : first + n_model], turned)
    one = gram[:, first - 1]
    whole = [one[:, first - 1 : first]]
    for output in range(first - 1):
        whole += [one[:, output, None], of_white[:, output]]
    nodes = Nodes(
        rows=rows,
        z=z,
        design=design,
        weight=level.weight,
        moments=_moments(rows, design, weight, whitener, first - 1),
        total=total,
        whole=xp.concatenate(whole, axis=1),
        gram=gram,
        covariance=covariance,
        loading=loading,
        whitener=whitener,
        cross=matmul(cross, turned),
        min_weight=level.min_weight,
        combined=(level.allowed[:, :n_columns] & level.roles.combined).astype(z.dtype),
    )
    # A model with a ridge spends less than one degree of freedom on a regressor; the
    # split itself and the second mean are two more.
    spent = 2 + n_model - ridge * xp.sum(whitener**2, axis=(1, 2))
    left_over = xp.maximum(total - level.degrees, 1.0)
    noise = total * xp.sum(spread + offset**2, axis=1) / left_over
    chance = noise * xp.minimum(spent, _MOST_SPENT * total)
    return nodes, Units(center, scale, unit, pure, chance)


def _centred(level: Level, total: AnyArray) -> tuple[AnyArray, ...]:
    """What models leave of the targets; columns about their means; means; mean errors.

    Of shape (n_outputs, rows), (n_columns, rows), and with a first axis of nodes.
    """
    rows, xp, n = level.rows, level.rows.xp, level.n_regressors
    joint = xp.concatenate([level.targets, level.x], axis=-2)
    n_outputs = joint.shape[-2] - level.x.shape[-2]
    # Means of values about those of the first row: an offset does not eat the digits.
    shift = rows.head(joint, 1)[..., 0]
    joint -= rows.spread(shift)
    mean = rows.products(level.weight[..., None, :], joint)[:, 0] / total[:, None]
    joint -= rows.spread(mean)
    center = shift + mean
    # Rows about their means need no intercept.
    slopes = level.model[:, :, 1:]
    fitted = rows.transformed(slopes, joint[..., n_outputs : n_outputs + n, :])
    offset = center[:, :n_outputs] - level.model[:, :, 0]
    offset = offset - xp.sum(
        slopes * center[:, None, n_outputs : n_outputs + n], axis=2
    )
    residual = joint[..., :n_outputs, :] - fitted
    return residual, joint[..., n_outputs:, :], center[:, n_outputs:], offset


def _moments(
    rows: Any,
    design: AnyArray,
    weight: AnyArray,
    whitener: AnyArray,
    n_outputs: int,
) -> AnyArray:
    """See `Nodes`."""
    xp, first = rows.xp, 1 + n_outputs
    seen = design[..., first : first + whitener.shape[-1], :]
    white, parts = rows.transformed(whitener, seen), [weight]
    for output in range(n_outputs):
        residual = weight * design[..., output : output + 1, :]
        parts += [residual, residual * white]
    if xp is not np:
        return xp.concatenate(parts, axis=-2)
    # Products with a sparse matrix read all numbers of a row at once.
    by_row = np.empty((weight.shape[-1], sum(map(len, parts))), white.dtype)
    return np.concatenate(parts, out=by_row.T)


def loadings(covariance: AnyArray, n_regressors: int, most: int) -> AnyArray:
    """Leading components of columns, those of the regressors first.

    Returns (n_nodes, n_columns, n_coordinates).
    """
    xp, n = namespace(covariance), n_regressors
    n_others = covariance.shape[-1] - n
    n_model = min(n, most)
    own = _components(covariance[:, :n, :n], n_model)
    others = _components(covariance[:, n:, n:], min(n_others, most - n_model))
    return xp.concatenate(
        [
            xp.pad(own, [(0, 0), (0, n_others), (0, 0)]),
            xp.pad(others, [(0, 0), (n, 0), (0, 0)]),
        ],
        axis=2,
    )


def _components(covariance: AnyArray, n: int) -> AnyArray:
    """All columns, or their leading principal components, of unit length."""
    xp, n_columns = namespace(covariance), covariance.shape[-1]
    if n == n_columns:
        one = xp.eye(n, dtype=covariance.dtype)
        return xp.broadcast_to(one, (len(covariance), n, n))
    if n == 0:
        return covariance[:, :, :0]
    return xp.swapaxes(leading_eigenvectors(covariance, n), 1, 2)
