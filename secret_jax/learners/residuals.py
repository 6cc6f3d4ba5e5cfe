"""Residuals of the nodes' own models, and which thresholds are tried for them."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from secret_jax.learners.side_models import SideModels
from secret_jax.learners.thresholds import PURE, ROUNDING, Ranked, moments, ranked
from secret_jax.runtime.values import SHARE, at_least, is_integer
from secret_jax.splits.axis import leading_component
from secret_jax.splits.interface import Level

Thresholds: TypeAlias = (
    Literal["all"] | Annotated[int, at_least(1)] | Annotated[float, SHARE]
)
"""Thresholds to try: all, a number of quantiles, or a share of the rows' values from a
random start on."""

# Minimum number of rows per coefficient of a side's linear model: with fewer it would
# follow their noise.
_ROWS_PER_COEFFICIENT = 2.0
# Multiples of it, less their whole parts, fill an interval as evenly as can be.
_GOLDEN = 0.618033988749895


class Residuals(NamedTuple):
    """Residuals of the models of the nodes of a level."""

    # (rows,): of one output, or first principal component of several; centred.
    leading: np.ndarray
    residual: np.ndarray  # (n_outputs, rows): centred
    z: np.ndarray  # (n_columns, rows), standardised in their nodes; constants are zero
    # center, scale (n_nodes, n_columns): by which they were.
    units: tuple[np.ndarray, np.ndarray]
    models: SideModels  # of parts of the nodes
    least: np.ndarray  # (n_nodes,): least weight of a side
    offset: np.ndarray  # (n_nodes, n_outputs): mean residual, before it was centred
    pure: np.ndarray  # (n_nodes,), bool: whether only rounding is left


def residuals(
    level: Level, *, linear: bool, ridge: float, most: int | None = None
) -> Residuals:
    """Residuals of the nodes' models, and rows for models of their parts.

    ``linear``: whether parts get linear models, or constants; ``ridge``: penalty of
    their models, in units of the regressors' variances; ``most``: principal components
    that they see.
    """
    rows, n = level.rows, level.n_regressors
    x = level.x.astype(np.float64)
    slopes = level.model[:, :, 1:].astype(np.float64)
    fitted = rows.spread(level.model[:, :, 0]) + rows.transformed(slopes, x[:n])
    raw = level.targets - fitted
    residual, spread = moments(level, raw)
    z, deviation = moments(level, x)
    varies = deviation > PURE
    scale = np.where(varies, deviation, 1.0)
    z = np.where(rows.spread(varies), z / rows.spread(scale), 0.0)
    n_model = n if linear else 0
    back, penalty = components(level, z[:n_model], ridge)
    if most is not None:
        back, penalty = back[:, -most:], penalty[:, -most:]
    ones = np.ones((1, x.shape[1]))
    design = [ones, rows.transformed(back, z[:n_model]), residual]
    penalty = np.concatenate([np.zeros((level.n_nodes, 1)), penalty], axis=1)
    n_slopes = varies[:, :n_model].sum(axis=1)
    enough = np.where(n_slopes > 0, _ROWS_PER_COEFFICIENT * (1.0 + n_slopes), 0.0)
    total = rows.sums(level.weight.astype(np.float64))[:, None]
    return Residuals(
        leading=leading_component(residual, level),
        residual=residual,
        z=z,
        units=(rows.sums(level.weight * x) / total, scale),
        models=SideModels(level, np.concatenate(design), penalty),
        least=np.maximum(level.min_weight, enough),
        offset=rows.sums(level.weight * raw) / total,
        pure=spread.max(axis=1) <= PURE,
    )


def components(
    level: Level, z: Float[np.ndarray, "n rows"], ridge: float
) -> tuple[Float[np.ndarray, "n_nodes n n"], Float[np.ndarray, "n_nodes n"]]:
    """Principal components of about unit variance, and a ridge in their units.

    ``z``: columns of mean zero; ``ridge``: in units of their variances. Returns the
    matrix that makes components of the columns.
    """
    rows = level.rows
    total = rows.sums(level.weight.astype(np.float64))[:, None, None]
    value, vector = np.linalg.eigh(rows.products(level.weight * z, z) / total)
    ridged = np.maximum(value, 0.0) + ridge
    back = np.swapaxes(vector / np.sqrt(ridged)[:, None], 1, 2)
    return np.ascontiguousarray(back), ridge / ridged


def best_thresholds(
    level: Level,
    left: Residuals,
    projection: Float[np.ndarray, "n rows"],
    allowed: Bool[np.ndarray, "n_nodes n"],
    thresholds: Thresholds,
) -> tuple[Float[np.ndarray, "n_nodes n"], Float[np.ndarray, "n_nodes n"]]:
    """Gain and threshold of each projection that a node is allowed.

    See `SideModels.best`: the best gain of a node is right, others may be too small.
    """
    gain, threshold = np.full((2, *allowed.shape), -np.inf)
    some = np.flatnonzero(allowed.any(axis=0))
    order = ranked(level, projection[some], left.least)
    tried = tried_cuts(level, order, thresholds, left.least)
    tried &= np.repeat(allowed[:, some], level.rows.length, axis=0).T
    gain[:, some], threshold[:, some] = left.models.best(order, tried)
    return gain, threshold


def tried_cuts(
    level: Level,
    order: Ranked,
    thresholds: Thresholds,
    least: Float[np.ndarray, " n_nodes"],
) -> Bool[np.ndarray, "n rows"]:
    """Which of the cuts are tried; ``least``: least weight of a side.

    A share of the values starts from the last random number of its node.
    """
    if thresholds == "all":
        return order.cut
    rows = level.rows
    n_each = np.full(level.n_nodes, thresholds)
    if not is_integer(thresholds):
        n_each = np.ceil(thresholds * rows.sums((level.weight > 0).astype(int)))
        n_each = n_each.astype(int)
    node = np.repeat(np.arange(level.n_nodes), n_each)
    nth = np.arange(len(node)) - np.repeat(np.cumsum(n_each) - n_each, n_each)
    if is_integer(thresholds):
        share = (nth + 0.5) / thresholds
        if thresholds > 1:
            share[nth == 0] = 0.0  # the smallest value: its group may be rare
    else:
        share = (level.random[node, -1] + _GOLDEN * nth) % 1.0
        # Of few there should be none that leaves a side too little.
        total = rows.sums(level.weight.astype(np.float64))
        lowest = np.minimum(least / total, 0.5)[node]
        share = lowest + share * (1.0 - 2.0 * lowest)
    tried = np.zeros(order.cut.shape, bool)
    np.put_along_axis(tried, quantile_places(level, order, node, share), True, axis=1)
    return tried & order.cut


def quantile_places(
    level: Level,
    order: Ranked,
    node: np.ndarray,
    share: np.ndarray,
) -> np.ndarray:
    """Where quantiles of nodes stand in the order: the last row of their value.

    ``node``, ``share`` (m,). Returns (n, m).
    """
    rows, last = level.rows, level.rows.first + level.rows.length - 1
    total = order.left[:, last]
    # Weights of all nodes one after the other, so that one search finds them all.
    before = np.cumsum(total, axis=1) - total
    below = order.left + np.repeat(before, rows.length, axis=1)
    enough = before[:, node] + share * total[:, node] * (1 - ROUNDING)
    place = np.array(list(map(np.searchsorted, below, enough)), int)
    place = place.reshape(enough.shape)
    place = np.clip(place, rows.first[node], last[node])
    # All rows of one value are on one side.
    number = np.arange(order.value.shape[1])
    ends = np.full(order.value.shape, number[-1])
    differs = order.value[:, 1:] != order.value[:, :-1]
    ends[:, :-1] = np.where(differs, number[:-1], number[-1])
    ends[:, last] = last
    ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    return np.take_along_axis(ends, place, axis=1)


def quantiles(
    level: Level,
    projection: Float[np.ndarray, "n rows"],
    share: Float[np.ndarray, " k"],
) -> Float[np.ndarray, "n_nodes n k"]:
    """Quantiles of projections over every node."""
    order = ranked(level, projection, level.min_weight)
    node = np.repeat(np.arange(level.n_nodes), len(share))
    place = quantile_places(level, order, node, np.tile(share, level.n_nodes))
    found = np.take_along_axis(order.value, place, axis=1)
    return found.reshape(len(found), level.n_nodes, len(share)).swapaxes(0, 1)
