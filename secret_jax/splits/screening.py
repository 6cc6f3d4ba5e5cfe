"""Approximate gains of all thresholds of all directions, from first moments."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Float

from secret_jax.runtime.arrays import sums_below, weighted_quantiles
from secret_jax.runtime.linalg import AnyArray, matmul, matvec, namespace, safe_divide
from secret_jax.runtime.pieces import Pieces, for_rows, heads, over_rows
from secret_jax.splits.scoring import NodeRows

# A quantile of 128 rows is off by some 4 % of the rows: less than the 6 % that sixteen
# thresholds lie apart.
_QUANTILE_ROWS = 128
# A direction that the models nearly span: beyond it the side's covariance, as `screen`
# takes it to be, would be singular.
_MOST_NARROW = 0.99
# Float32 rounding of sums of about a thousand products.
_ROUNDING = 1e-6


def quantiles(
    values: Float[AnyArray, "... n_directions n_rows"],
    weight: AnyArray,
    n: int,
    pieces: Pieces | None = None,
) -> Float[AnyArray, "... n_directions n"]:
    """Quantiles of a prefix of the rows.

    ``weight`` (..., n_rows) or (..., n_directions, n_rows): zero for padding, which
    comes last, and for rows that do not count. Values that occur; the smallest
    is the first.
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

    ``min_weight``: least weight on each side; ``along``: what the models see of each
    direction, if that is not the projection. Minus infinity where a side has
    too little weight.
    """
    xp = namespace(projection)
    pieces, total = rows.pieces, rows.total[..., :1]
    along = projection if along is None else along
    mean = safe_divide(over_rows(matvec(along, rows.weight), pieces), total)
    centred = along - for_rows(mean, pieces)[..., None]
    variance = over_rows(matvec(centred**2, rows.weight), pieces)
    variance = safe_divide(variance, total)
    deviation = xp.sqrt(variance)[..., None]
    # Slope of each model coordinate on the direction.
    weighted = centred * rows.weight[..., None, :]
    slope = over_rows(matmul(weighted, rows.coordinates[..., :n_model]), pieces)
    slope = safe_divide(slope, deviation * total[..., None])

    n_outputs = rows.residual.shape[-1]
    # Where the products of a residual with [1, model coordinates] stand.
    starts = [c * (c + 1) // 2 for c in range(n_model + 1, n_model + 1 + n_outputs)]
    places = [slice(start, start + 1 + n_model) for start in starts]
    places = [slice(1), *places]  # the first product is that of ones
    columns = [rows.products[..., place] for place in places]
    sums = sums_below(projection, cuts, rows.weight, columns, centred, pieces)
    whole = xp.concatenate([rows.total[..., place] for place in places], axis=-1)
    whole = xp.broadcast_to(whole[..., None, :], (*mean.shape, whole.shape[-1]))
    own_whole = [xp.zeros_like(variance), variance * total]
    whole = xp.concatenate([whole, xp.stack(own_whole, axis=-1)], axis=-1)
    # Both sides of all splits in one batch: a program of half as many steps.
    sums = xp.concatenate([sums, whole[..., None, :] - sums], axis=-2)

    weight = xp.maximum(sums[..., 0], _ROUNDING)
    center = safe_divide(sums[..., -2] / weight, deviation)
    spread = safe_divide(sums[..., -1] / weight, deviation**2) - center**2
    gain = gains_of_sides(sums[..., :-2], center, spread, slope, n_model=n_model)
    n_cuts = cuts.shape[-1]
    gain = gain[..., :n_cuts] + gain[..., n_cuts:]
    least = xp.minimum(sums[..., :n_cuts, 0], sums[..., n_cuts:, 0])
    allowed = (least >= xp.asarray(min_weight)[..., None, None]) & (least > 0)
    return xp.where(allowed & xp.isfinite(gain), gain, -xp.inf)


def gains_of_sides(
    sums: Float[AnyArray, "... n_directions n_sides n_sums"],
    center: Float[AnyArray, "... n_directions n_sides"],
    spread: Float[AnyArray, "... n_directions n_sides"],
    slope: Float[AnyArray, "... n_directions n_model"],
    *,
    n_model: int,
) -> Float[AnyArray, "... n_directions n_sides"]:
    """Gains of sides of splits; see `screen` for the formula.

    ``sums``: weighted sums over a side of [1, residual, residual * coordinates], the
    last two of every output; ``center``, ``spread``: mean and variance of the
    projection on the side, in units of the node; ``slope``: of each model coordinate on
    the projection.
    """
    xp = namespace(sums)
    weight = xp.maximum(sums[..., 0], _ROUNDING)
    strength = xp.sum(slope**2, axis=-1)[..., None]
    narrow = narrowing(spread, strength)
    gain = xp.zeros_like(weight)
    for first in range(1, sums.shape[-1], 1 + n_model):
        level = sums[..., first] / weight
        moment = sums[..., first + 1 : first + 1 + n_model] / weight[..., None]
        squared = xp.einsum("...i,...i", moment, moment)
        along = matvec(moment, slope)
        gain = gain + gain_of_sides(level, squared, along, center, strength, *narrow)
    return weight * gain


def narrowing(spread: AnyArray, strength: AnyArray) -> tuple[AnyArray, AnyArray]:
    """How much narrower sides are than their node, and what that leaves of one.

    ``strength``: squared length of the slopes of the model coordinates.
    """
    xp = namespace(spread)
    narrower = xp.minimum(1 - spread, _MOST_NARROW / xp.maximum(strength, _MOST_NARROW))
    return narrower, 1 - strength * narrower + _ROUNDING


def gain_of_sides(
    level: AnyArray,
    squared: AnyArray,
    along: AnyArray,
    center: AnyArray,
    strength: AnyArray,
    narrower: AnyArray,
    rest: AnyArray,
) -> AnyArray:
    """Gains of sides for one output, per unit of weight; see `screen`.

    ``level``: mean residual; ``squared``, ``along``: squared length of the mean of
    residual * coordinates, and its product with the coordinates' slopes; ``narrower``,
    ``rest``: see `narrowing`.
    """
    shift = center * level
    # |b|^2 and s'b of the derivation in `screen`.
    squared = squared + shift * (shift * strength - 2 * along)
    along = along - shift * strength
    return level**2 + squared + along**2 * narrower / rest
