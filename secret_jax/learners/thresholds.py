"""Every threshold of every attribute, by sums in the order of its values.

What the literature's finders share on the host: rows in the order of an attribute
within their nodes, sums over those up to each, and the best of the cuts between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.data.ragged import RaggedRows
from secret_jax.runtime.values import SHARE, at_least, is_integer
from secret_jax.splits.interface import Level

# A deviation below this, in units of the whole table, is rounding.
PURE = 1e-6
# Rounding of sums of weights in float32.
ROUNDING = 1e-6
# Numbers that are worked on at once.
_AT_ONCE = 1 << 17
# Multiples of it, less their whole parts, fill an interval as evenly as can be.
_GOLDEN = 0.618033988749895

Thresholds: TypeAlias = (
    Literal["all"] | Annotated[int, at_least(1)] | Annotated[float, SHARE]
)
"""Thresholds to try: all, a number of quantiles, or a share of the rows' values from a
random start on."""

Purity = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From sums of values (k, ...) and of weights (...) over rows to what they gain."""


def moments(
    level: Level, values: Float[np.ndarray, "k rows"]
) -> tuple[Float[np.ndarray, "k rows"], Float[np.ndarray, "n_nodes k"]]:
    """Values less their nodes' means, in float64, and their deviations.

    Zero where a row has no weight.
    """
    rows, weight = level.rows, level.weight.astype(np.float64)
    total = rows.sums(weight)[:, None]
    mean = rows.sums(weight * values) / total
    centred = np.where(weight > 0, values - rows.spread(mean), 0.0)
    return centred, np.sqrt(rows.sums(weight * centred**2) / total)


def running(
    rows: RaggedRows, values: Float[np.ndarray, "... n_rows"]
) -> Float[np.ndarray, "... n_rows"]:
    """Sums over the rows of a node up to each of them, in float64."""
    found = np.cumsum(values, axis=-1, dtype=np.float64)
    before = np.zeros((*found.shape[:-1], rows.n_nodes))
    before[..., 1:] = found[..., rows.first[1:] - 1]
    found -= np.repeat(before, rows.length, axis=-1)
    return found


class Ranked(NamedTuple):
    """Rows of each node in the order of each of some projections."""

    order: Int[np.ndarray, "n rows"]  # positions of the rows; those of no weight last
    value: Float[np.ndarray, "n rows"]
    left: Float[np.ndarray, "n rows"]  # weight of the node's rows up to each
    right: Float[np.ndarray, "n rows"]  # and of those after it
    # Whether a cut after a row leaves enough weight on both sides, between two values.
    cut: Bool[np.ndarray, "n rows"]


def ranked(
    level: Level,
    projection: Float[np.ndarray, "n rows"],
    least: Float[np.ndarray, " n_nodes"],
) -> Ranked:
    """Order the rows; ``least``: least weight on each side of a cut."""
    rows = level.rows
    last = rows.first + rows.length - 1
    value = np.where(level.weight > 0, projection, np.inf).astype(np.float32)
    order = rows.sorted_by(value)
    value = np.take_along_axis(value, order, axis=1)
    left = running(rows, level.weight[order])
    right = np.repeat(left[:, last], rows.length, axis=1) - left
    cut = np.zeros(value.shape, bool)
    cut[:, :-1] = value[:, 1:] > value[:, :-1]
    cut[:, last] = False
    side = np.minimum(left, right)
    cut &= (side >= np.repeat(least, rows.length)) & (side > 0) & np.isfinite(value)
    return Ranked(order, value, left, right, cut)


def best_in(
    rows: RaggedRows, gain: Float[np.ndarray, "n rows"], value: np.ndarray
) -> tuple[Float[np.ndarray, "n_nodes n"], Float[np.ndarray, "n_nodes n"]]:
    """The largest gain of each node along each projection, and the first value of it.

    ``gain``, ``value`` (n, rows): of the rows in their order.
    """
    most = np.maximum.reduceat(gain, rows.first, axis=1)
    is_best = gain == np.repeat(most, rows.length, axis=1)
    place = np.where(is_best, np.arange(gain.shape[1]), gain.shape[1])
    place = np.minimum.reduceat(place, rows.first, axis=1)
    return most.T, np.take_along_axis(value, place, axis=1).T


def best_cuts(
    level: Level,
    projection: Float[np.ndarray, "n rows"],
    values: Float[np.ndarray, "k rows"],
    purity: Purity,
) -> tuple[Float[np.ndarray, "n_nodes n"], Float[np.ndarray, "n_nodes n"]]:
    """Of each projection the threshold with the purest sides; rows up to it go left.

    ``values``: what ``purity`` gets sums of. Returns ``gain``: minus infinity where no
    cut is allowed; ``threshold``: the largest value on the left.
    """
    rows, weighted = level.rows, level.weight * values
    last, found = rows.first + rows.length - 1, []
    step = max(_AT_ONCE // values.size, 1)  # as many projections as a cache holds
    for start in range(0, max(len(projection), 1), step):
        order = ranked(level, projection[start : start + step], level.min_weight)
        left = running(rows, weighted[:, order.order])
        whole = np.repeat(left[..., last], rows.length, axis=-1)
        gain = purity(left, order.left) + purity(whole - left, order.right)
        gain -= purity(whole, order.left + order.right)
        found.append(best_in(rows, np.where(order.cut, gain, -np.inf), order.value))
    gain, threshold = (
        np.concatenate(each, axis=1) for each in zip(*found, strict=True)
    )
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
    n_each, rows = np.full(level.n_nodes, thresholds), level.rows
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
    np.put_along_axis(tried, _quantile_places(level, order, node, share), True, axis=1)
    return tried & order.cut


def quantiles(
    level: Level, order: Ranked, share: Sequence[float] | np.ndarray
) -> Float[np.ndarray, "n_nodes n k"]:
    """Quantiles of projections over every node: values that occur."""
    node = np.repeat(np.arange(level.n_nodes), len(share))
    place = _quantile_places(level, order, node, np.tile(share, level.n_nodes))
    found = np.take_along_axis(order.value, place, axis=1)
    return found.reshape(len(found), level.n_nodes, len(share)).swapaxes(0, 1)


def _quantile_places(
    level: Level, order: Ranked, node: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Where quantiles (m,) stand in the order, (n, m): the last rows of their values"""
    rows, last = level.rows, level.rows.first + level.rows.length - 1
    total = order.left[:, last]
    # Weights of all nodes one after the other, so that one search finds them all.
    before = np.cumsum(total, axis=1) - total
    below = order.left + np.repeat(before, rows.length, axis=1)
    enough = before[:, node] + share * total[:, node] * (1 - ROUNDING)
    # All rows of one value are on one side.
    ends = np.ones(order.value.shape, bool)
    ends[:, :-1] = order.value[:, 1:] != order.value[:, :-1]
    ends[:, last] = True
    found = np.empty(enough.shape, int)
    for which, wanted in enumerate(enough):
        end = np.flatnonzero(ends[which])
        lowest, highest = np.searchsorted(end, [rows.first[node], last[node]])
        place = np.searchsorted(below[which, end], wanted)
        found[which] = end[np.clip(place, lowest, highest)]
    return found
