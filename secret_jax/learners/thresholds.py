"""Every threshold of every attribute, by sums in the order of its values.

What the literature's finders share on the host: rows in the order of an attribute
within their nodes, sums over those up to each, and the best of the cuts between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.rows.ragged import RaggedRows
from secret_jax.splits.interface import Level

# A deviation below this, in units of the whole table, is rounding.
PURE = 1e-6
# Rounding of sums of weights in float32.
ROUNDING = 1e-6
# Numbers that are worked on at once.
_AT_ONCE = 1 << 17

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
    value = np.where(level.weight > 0, projection, np.inf).astype(np.float32)
    order = rows.sorted_by(value)
    value = np.take_along_axis(value, order, axis=1)
    left = running(rows, level.weight[order])
    right = np.repeat(left[:, rows.first + rows.length - 1], rows.length, axis=1) - left
    cut = np.zeros(value.shape, bool)
    cut[:, :-1] = value[:, 1:] > value[:, :-1]
    cut[:, rows.first + rows.length - 1] = False
    side = np.minimum(left, right)
    cut &= (side >= np.repeat(least * (1 - ROUNDING), rows.length)) & (side > 0)
    cut &= np.isfinite(value)
    return Ranked(order, value, left, right, cut)


def best_in(
    rows: RaggedRows, gain: Float[np.ndarray, "n rows"]
) -> tuple[Float[np.ndarray, "n_nodes n"], Int[np.ndarray, "n_nodes n"]]:
    """The largest gain of each node along each projection, and the first row of it."""
    most = np.maximum.reduceat(gain, rows.first, axis=1)
    is_best = gain == np.repeat(most, rows.length, axis=1)
    place = np.where(is_best, np.arange(gain.shape[1]), gain.shape[1])
    return most.T, np.minimum.reduceat(place, rows.first, axis=1).T


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
    last = rows.first + rows.length - 1
    found = []
    for some in blocks(projection, len(values)):
        order = ranked(level, some, level.min_weight)
        left = running(rows, weighted[:, order.order])
        whole = np.repeat(left[..., last], rows.length, axis=-1)
        gain = purity(left, order.left) + purity(whole - left, order.right)
        gain -= purity(whole, order.left + order.right)
        gain, place = best_in(rows, np.where(order.cut, gain, -np.inf))
        found.append((gain, np.take_along_axis(order.value.T, place, axis=0)))
    gain, threshold = (
        np.concatenate(each, axis=1) for each in zip(*found, strict=True)
    )
    return gain, threshold


def blocks(
    projection: Float[np.ndarray, "n rows"], k: int
) -> Iterator[Float[np.ndarray, "m rows"]]:
    """Some projections at a time, as many as a cache holds of ``k`` numbers each."""
    n, n_rows = projection.shape
    step = max(_AT_ONCE // (n_rows * k), 1)
    for start in range(0, max(n, 1), step):
        yield projection[start : start + step]
