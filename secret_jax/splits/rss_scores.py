"""Gains of cuts: of all of them from first moments, of a few from their models."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from secret_jax.runtime.linalg import (
    AnyArray,
    definite_solve,
    matmul,
    namespace,
    safe_divide,
)
from secret_jax.splits.rss_nodes import ROUNDING, Nodes

# A quantile of 128 rows is off by some 4 % of the rows: less than the 6 % that sixteen
# thresholds lie apart.
_QUANTILE_ROWS = 128
# In place of infinity, whose product with zero is not zero.
_LARGEST = np.float32(1e18)
# A direction that the models nearly span: beyond it the side's covariance, as the
# closed formula takes it to be, would be singular.
_MOST_NARROW = 0.99


class Cuts(NamedTuple):
    """Values at which directions may be cut, and what lies between them."""

    value: AnyArray  # (n_nodes, n_directions, n_cuts): rising; values that occur
    # mean, square (n_nodes, n_directions, n_cuts + 1): of the values up to each cut and
    # their squares, and of those above the last one.
    mean: AnyArray
    square: AnyArray


def cuts_of(
    rows: Any,
    values: Float[AnyArray, "n_directions n_rows"],
    weight: AnyArray,
    n: int,
) -> Cuts:
    """Quantiles of the first rows of the nodes, and means between them.

    ``weight`` (n_rows,) or (n_directions, n_rows): zero for rows that do not count. The
    smallest value is the first cut: its group may be rare.
    """
    xp, most = rows.xp, min(_QUANTILE_ROWS, rows.longest)
    head, mass = rows.head(values, most), rows.head(weight, most)
    mass = mass if mass.ndim == head.ndim else mass[:, None]
    share = (np.arange(n, dtype=np.float32) + np.float32(0.5)) / np.float32(n)
    share[0] = 0.0
    head, mass, place = _ordered(
        head + xp.where(mass > 0, 0.0, xp.inf).astype(head.dtype), mass, share
    )
    value = xp.take_along_axis(head, place, axis=-1)
    # Rows of one value are on one side: sums go to the last of them.
    last = xp.take_along_axis(_ends(head), place, axis=-1)
    last = xp.concatenate([last, xp.full_like(last[..., :1], most - 1)], axis=-1)
    known = xp.minimum(head, _LARGEST)
    first = mass * known
    mass, first, second = (
        _differences(xp.take_along_axis(xp.cumsum(each, axis=-1), last, axis=-1))
        for each in (mass, first, first * known)
    )
    share = 1 / xp.where(mass > 0, mass, xp.inf)
    return Cuts(value, first * share, second * share)


def _ordered(
    values: AnyArray, mass: AnyArray, share: np.ndarray
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Values that rise, their masses, and the first places that reach shares of these.

    Infinite values have no mass, and come last.
    """
    xp, n_rows = namespace(values), values.shape[-1]
    enough = share * xp.sum(mass, axis=-1, keepdims=True) * np.float32(1 - ROUNDING)
    heaviest = xp.max(mass, axis=-1, keepdims=True)
    if xp is np and ((mass == heaviest) | (mass == 0)).all():  # a third of the time
        values = np.sort(values, axis=-1)
        mass = np.isfinite(values) * heaviest
        place = np.ceil(enough / np.where(heaviest > 0, heaviest, 1)).astype(int) - 1
    else:
        order = xp.argsort(values, axis=-1)
        values = xp.take_along_axis(values, order, axis=-1)
        mass = xp.take_along_axis(xp.broadcast_to(mass, order.shape), order, axis=-1)
        below = xp.cumsum(mass, axis=-1)
        # From the end: what is there without mass adds nothing.
        enough = xp.minimum(enough, below[..., -1:])
        place = xp.sum(below[..., None] < enough[..., None, :], axis=-2)
    place = xp.broadcast_to(place, (*values.shape[:-1], len(share)))
    return values, mass, xp.clip(place, 0, n_rows - 1)


def _ends(ordered: AnyArray) -> AnyArray:
    """Of values that rise, the place of the last one that is equal to each."""
    xp, n = namespace(ordered), ordered.shape[-1]
    end = xp.where(ordered[..., 1:] != ordered[..., :-1], np.arange(n - 1), n - 1)
    end = xp.concatenate([end, xp.full_like(end[..., :1], n - 1)], axis=-1)
    if xp is np:
        return np.minimum.accumulate(end[..., ::-1], axis=-1)[..., ::-1]
    return jax.lax.cummin(end, axis=end.ndim - 1, reverse=True)


def _differences(sums: AnyArray) -> AnyArray:
    """What rising sums are sums of."""
    parts = [sums[..., :1], sums[..., 1:] - sums[..., :-1]]
    return namespace(sums).concatenate(parts, axis=-1)


def gains_of_cuts(
    nodes: Nodes,
    left: Float[AnyArray, "n_nodes n_directions n_sums n_cuts"],
    whole: Float[AnyArray, "n_nodes n_directions n_sums"],
    own: Float[AnyArray, "2 n_nodes n_directions n_cuts"],
    own_whole: Float[AnyArray, "2 n_nodes n_directions"],
    slope: Float[AnyArray, "n_nodes n_directions n_model"],
) -> Float[AnyArray, "n_nodes n_directions n_cuts"]:
    r"""Approximate gains of many cuts, from first moments of their sides.

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

    ``left``, ``whole``: sums of the moments left of each cut, and over the node;
    ``own``, ``own_whole``: of the projection that is cut, and of its square; ``slope``:
    of whitened coordinates on the standardised projection. Minus infinity where a side
    has too little weight.
    """
    xp, n = namespace(left), nodes.n_model
    total = whole[..., 0]
    mean, square = own_whole[0] / total, own_whole[1] / total
    scale = safe_divide(1, xp.sqrt(xp.maximum(square - mean**2, 0.0)))
    mean, scale = mean[..., None], scale[..., None]
    weight = _both_sides(left[:, :, 0], total)
    share = 1 / xp.maximum(weight, ROUNDING)
    center = _both_sides(own[0], own_whole[0]) * share
    spread = _both_sides(own[1], own_whole[1]) * share
    spread = (spread - center**2) * scale**2
    center = (center - mean) * scale
    strength = xp.sum(slope**2, axis=2)[..., None]
    narrower = xp.minimum(1 - spread, _MOST_NARROW / xp.maximum(strength, _MOST_NARROW))
    rest = 1 - strength * narrower + ROUNDING
    gain = xp.zeros_like(weight)
    for first in range(1, left.shape[2], 1 + n):
        # What is right of a cut is the whole less what is left of it: its moments are
        # not needed, only their products with few vectors.
        moment = left[:, :, first + 1 : first + 1 + n]
        of_whole = whole[:, :, first + 1 : first + 1 + n]
        of_left = matmul(xp.stack([slope, of_whole], axis=2), moment)
        squares = xp.sum(moment**2, axis=2)
        other = squares - 2 * of_left[:, :, 1]
        other = other + xp.sum(of_whole**2, axis=2)[..., None]
        squared = xp.stack([squares, other]) * share**2
        along = _both_sides(of_left[:, :, 0], xp.sum(slope * of_whole, axis=2)) * share
        level = _both_sides(left[:, :, first], whole[:, :, first]) * share
        shift = center * level
        # |b|^2 and s'b of the derivation.
        squared = squared + shift * (shift * strength - 2 * along)
        along = along - shift * strength
        gain = gain + level**2 + squared + along**2 * narrower / rest
    gain = xp.sum(gain * weight, axis=0)
    least = xp.min(weight, axis=0)
    allowed = (least >= nodes.min_weight[:, None, None]) & (least > 0)
    return xp.where(allowed & xp.isfinite(gain), gain, -xp.inf)


def _both_sides(left: AnyArray, whole: AnyArray) -> AnyArray:
    """Sums left of cuts, and right of them."""
    return namespace(left).stack([left, whole[..., None] - left])


class Sides(NamedTuple):
    """Exact gains of splits, and the models of their sides."""

    # (n_nodes, n_splits): minus infinity where a side has too little weight.
    gain: AnyArray
    # (n_nodes, n_splits, 2, 1 + n_model, n_outputs): intercepts, and slopes in the
    # coordinates, of the left and the right side.
    models: AnyArray


def exact_sides(
    nodes: Nodes, left: Bool[AnyArray, "n_splits n_rows"], ridge: float
) -> Sides:
    """Drops of the penalised residual sum of squares by models of both sides."""
    rows, xp, n = nodes.rows, nodes.rows.xp, nodes.n_seen

    def products(rows, _, arrays):
        weighted, design, left = arrays
        masked = left[..., :, None, :] * weighted[..., None, :, :]
        flat = masked.reshape(*masked.shape[:-3], -1, masked.shape[-1])
        return (rows.products(flat, design),)

    seen = nodes.weighted[..., :n, :], nodes.design[..., :n, :]
    (one,) = rows.total(products, (), (*seen, left))
    one = one.reshape(len(one), -1, n, n)
    sides = xp.stack([one, nodes.gram[:, None, :n, :n] - one], axis=2)
    inner = np.r_[0, 1 + nodes.n_outputs : n]
    weight = sides[..., 0, 0]
    share = 1 / xp.maximum(weight, ROUNDING)[..., None, None]
    moment = sides[..., inner, 1 : 1 + nodes.n_outputs]
    matrix = sides[..., inner[:, None], inner] * share
    penalty = np.full(len(inner), ridge + ROUNDING, matrix.dtype)
    penalty[0] = ROUNDING
    matrix = matrix + np.diag(penalty)
    models = definite_solve(matrix, moment * share)
    gain = xp.sum(models * moment, axis=(2, 3, 4))
    least = xp.min(weight, axis=2)
    enough = (least >= nodes.min_weight[:, None]) & (least > 0)
    return Sides(xp.where(enough & xp.isfinite(gain), gain, -xp.inf), models)
