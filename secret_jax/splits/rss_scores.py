"""Gains of cuts: of all of them from first moments, of a few from their models."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from secret_jax.data.ragged import sorted_pairs
from secret_jax.runtime.arrays import taken
from secret_jax.runtime.linalg import (
    AnyArray,
    definite_solve,
    namespace,
    small_matmul,
)
from secret_jax.splits.rss_nodes import ROUNDING, Nodes

# A quantile of 128 rows is off by some 4 % of the rows: less than the 6 % that sixteen
# thresholds lie apart.
_QUANTILE_ROWS = 128
# A direction that the models nearly span: beyond it the side's covariance, as the
# closed formula takes it to be, would be singular.
_MOST_NARROW = 0.99


def cuts_of(
    rows: Any,
    values: Float[AnyArray, "*tiles n_directions n_rows"],
    weight: AnyArray,
    n: int,
) -> Float[AnyArray, "n_nodes n_directions n"]:
    """Quantiles of the first rows of the nodes: values that occur, and rise.

    ``weight`` (n_rows,) or (n_directions, n_rows): zero for rows that do not count. The
    smallest value is the first: its group may be rare.
    """
    xp, most = rows.xp, min(_QUANTILE_ROWS, rows.longest)
    head, mass = rows.head(values, most), rows.head(weight, most)
    mass = mass if mass.ndim == head.ndim else mass[:, None]
    share = (np.arange(n, dtype=np.float32) + np.float32(0.5)) / np.float32(n)
    share[0] = 0.0
    enough = share * xp.sum(mass, axis=-1, keepdims=True) * np.float32(1 - ROUNDING)
    head = head + xp.where(mass > 0, 0.0, xp.inf).astype(head.dtype)
    heaviest = xp.max(mass, axis=-1, keepdims=True)
    if xp is not np:  # all pairs: a sort and what leads to it are many kernels
        upto = head[..., None, :] <= head[..., None]
        below = xp.sum(xp.where(upto, mass[..., None, :], 0), axis=-1)
        found = below[..., None, :] >= enough[..., None]
        return xp.min(xp.where(found, head[..., None, :], xp.inf), axis=-1)
    if ((mass == heaviest) | (mass == 0)).all():  # places in place of sums
        head = np.sort(head, axis=-1)
        place = np.ceil(enough / np.where(heaviest > 0, heaviest, 1)).astype(int) - 1
    else:
        head, mass = sorted_pairs(head, mass)
        below = np.cumsum(mass, axis=-1)
        # From the end: what is there without mass adds nothing.
        enough = np.minimum(enough, below[..., -1:])
        place = np.argmax(below[..., None, :] >= enough[..., None], axis=-1)
    place = np.broadcast_to(np.clip(place, 0, most - 1), (*head.shape[:-1], n))
    return taken(head, place, head.ndim - 1)


def gains_of_cuts(
    nodes: Any,
    left: Float[AnyArray, "n_nodes n_directions n_sums n_cuts"],
    own: Float[AnyArray, "n_nodes n_directions 2 n_cuts"],
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

    ``nodes``: `Nodes`, or what has ``whole``, ``n_model`` and ``min_weight`` of them;
    ``left``: sums of the moments left of each cut; ``own``: of the projection that is
    cut, of mean zero and unit variance in the node, and of its square; ``slope``: of
    whitened coordinates on it. Minus infinity where a side has too little weight.
    """
    xp, n, whole = namespace(left), nodes.n_model, nodes.whole[:, None]
    weight = _both_sides(left[:, :, 0], whole[..., 0])
    share = 1 / xp.maximum(weight, ROUNDING)
    center = xp.stack([own[:, :, 0], -own[:, :, 0]]) * share
    spread = _both_sides(own[:, :, 1], whole[..., 0]) * share - center**2
    strength = xp.sum(slope**2, axis=2)[..., None]
    narrower = xp.minimum(1 - spread, _MOST_NARROW / xp.maximum(strength, _MOST_NARROW))
    rest = 1 - strength * narrower + ROUNDING
    gain = xp.zeros_like(weight)
    for first in range(1, left.shape[2], 1 + n):
        # What is right of a cut is the whole less what is left of it: its moments are
        # not needed, only their products with few vectors.
        moment = left[:, :, first + 1 : first + 1 + n]
        of_whole = whole[:, :, first + 1 : first + 1 + n]
        vectors = xp.stack([slope, xp.broadcast_to(of_whole, slope.shape)], axis=2)
        of_left = small_matmul(vectors, moment)
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
    # `numpy.stack` looks at its arrays for longer than it takes to copy them.
    return namespace(left).concatenate([left[None], (whole[..., None] - left)[None]])


def best_cuts(gain: AnyArray, value: AnyArray) -> tuple[AnyArray, AnyArray]:
    """The best gain along each direction, and its cut."""
    xp = namespace(gain)
    best = xp.argmax(gain, axis=-1)
    return tuple(taken(array, best, gain.ndim - 1) for array in (gain, value))


def exact_sides(
    nodes: Nodes, left: Bool[AnyArray, "*tiles n_splits n_rows"], ridge: float
) -> tuple[AnyArray, AnyArray]:
    """Drops of the penalised residual sum of squares, and the models of both sides.

    Returns the gains (n_nodes, n_splits), minus infinity where a side has too little
    weight, and (n_nodes, n_splits, 2, 1 + n_model, n_outputs): intercepts, and slopes
    in the coordinates, of the left and the right side.
    """
    rows, xp, n = nodes.rows, nodes.rows.xp, nodes.n_seen

    def products(rows, _, arrays):
        weight, design, left = arrays
        masked = left * weight[..., None, :]
        masked = masked[..., :, None, :] * design[..., None, :, :]
        flat = masked.reshape(*masked.shape[:-3], -1, masked.shape[-1])
        return (rows.products(flat, design),)

    seen = nodes.weight, nodes.design[..., :n, :], left.astype(nodes.design.dtype)
    (one,) = rows.total(products, (), seen)
    one = one.reshape(len(one), -1, n, n)
    sides = xp.stack([one, nodes.gram[:, None, :n, :n] - one], axis=2)
    first = nodes.n_outputs
    weight = sides[..., first, first]
    moment, matrix = sides[..., first:, :first], sides[..., first:, first:]
    penalty = np.full(n - first, ridge + ROUNDING, matrix.dtype)
    penalty[0] = ROUNDING
    mass = xp.maximum(weight, ROUNDING)[..., None, None]
    models = definite_solve(matrix + mass * np.diag(penalty), moment)
    gain = xp.sum(models * moment, axis=(2, 3, 4))
    least = xp.min(weight, axis=2)
    enough = (least >= nodes.min_weight[:, None]) & (least > 0)
    return xp.where(enough & xp.isfinite(gain), gain, -xp.inf), models
