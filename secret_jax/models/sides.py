"""Predictions of the sides of splits, in the order that directions of columns ask for.

Between two sides is a *level*, at which predictions are clipped (the boosters' bound
between sides), or a *border* between the models, a linear function that has the right
signs itself: what changes the predictions less. Columns stay within their range in
training, so "below" a border is the largest value of a linear function in a box.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from secret_jax.models.statistics import NodeStatistics
from secret_jax.tree.structure import SplitKind, Tree

# Variances of regressors grow by this share of one, the variance over the table, in the
# metric of projections: what does not vary in a node is left as it is.
_RIDGE = 1e-3
# Shares of the way from the border's slopes to the model's that are tried.
_SHARES = np.array(list(product(np.linspace(0.0, 1.0, 9), repeat=2)))
# Levels that are tried, up to so many deviations from the means of the sides.
_N_LEVELS, _DEVIATIONS = 65, 2.0
# A smaller variance is rounding; so is what normal values have beyond so many
# deviations, and by how much borders that touch overlap.
_LEAST, _FAR, _OVERLAP = 1e-20, 40.0, 1e-12


class NodeRows(NamedTuple):
    """What is known of the rows of a node; see `_metric` and `_boxes`."""

    weight: float  # their sum
    mean: np.ndarray
    metric: np.ndarray
    box: np.ndarray


class Limits(NamedTuple):
    """What the model and the range of a node must respect."""

    # ceilings, floors (n_borders, 1 + n_regressors): linear functions that the models
    # may not exceed, or not fall below.
    ceilings: np.ndarray
    floors: np.ndarray
    # (1 + n_regressors,): the nearest of them, which respects all others in the node's
    # box.
    anchor: np.ndarray | None = None
    # Clipping keeps an order of models only if both ends of the ranges have it: none
    # may begin above, or end below.
    most_low: float = np.inf
    least_high: float = -np.inf


class Side(NamedTuple):
    """A child with its model, range and limits, and what they change in its rows."""

    model: np.ndarray
    ends: np.ndarray  # (2,)
    limits: Limits
    cost: float  # weighted square of the change


def put_in_order(
    tree: Tree,
    statistics: NodeStatistics,
    models: Float[np.ndarray, "n_nodes _"],
    ranges: Float[np.ndarray, "2 n_nodes"],
) -> None:
    """Move the models and the ranges of one output, in place, to their sides."""
    n = statistics.n_regressors
    boxes, signed = _boxes(tree, n), models.copy()
    rows = [
        NodeRows(
            statistics.weight[i], statistics.mean[i, :n], metric_of(statistics, i), box
        )
        for i, box in enumerate(boxes)
    ]
    asked = tree.direction * directions_of_columns(tree)
    none = np.empty((0, 1 + n))
    limits = [Limits(none, none)] * tree.n_nodes
    for node in np.flatnonzero(~tree.is_leaf).tolist():  # parents come first
        limit, children = limits[node], [tree.left[node], tree.right[node]]
        low, high = np.clip(ranges[:, children], *ranges[:, [node]])
        low, high = np.minimum(low, limit.most_low), np.maximum(high, limit.least_high)
        given = signed[children], [rows[child] for child in children]
        sides = _sides(*given, np.stack([low, high]), [limit, limit])
        if orders := _orders(tree.kind[node], asked[node]):
            border = _border(tree, node, signed, statistics, asked[node] != 0)
            if limit.anchor is not None:
                border = _within(border, limit, rows[node])
            options = [_sides(*given, *_by_border(sides, border, orders))]
            level = _level(sides, given[1], ranges[:, node], orders)
            if level is not None:
                options.append(_sides(*given, *_by_level(sides, level, orders)))
            sides = min(options, key=lambda option: sum(side.cost for side in option))
        for child, side in zip(children, sides, strict=True):
            models[child], ranges[:, child], limits[child], _ = side


def directions_of_columns(tree: Tree) -> Float[np.ndarray, " n_columns"]:
    """Direction of every encoded column: 1, -1, or 0 without a constraint."""
    found = np.zeros(tree.schema.n_columns)
    for attribute, direction in tree.schema.monotonic:
        found[tree.schema.position_of(attribute)] = direction
    return found


def metric_of(statistics: NodeStatistics, node: int) -> Float[np.ndarray, "n n"]:
    """Second moments of the regressors in a node, about their means."""
    n = statistics.n_regressors
    weight = max(float(statistics.weight[node]), 1e-300)
    return statistics.scatter[node, :n, :n] / weight + _RIDGE * np.eye(n)


def _orders(kind: int, asked: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of sides, 0 and 1, of a split of which the first may not predict more.

    ``asked``: the split's factors, signed by the directions of their columns. There are
    two pairs, which leaves one function for both sides, where a sum asks for columns in
    contrary directions.
    """
    if kind == SplitKind.DISCRETE:
        return []
    rising = [(0, 1)] if (asked > 0).any() else []
    return [*rising, (1, 0)] if (asked < 0).any() else rising


def _sides(
    models: Float[np.ndarray, "2 _"],
    rows: Sequence[NodeRows],
    ends: Float[np.ndarray, "2 2"],
    limits: Sequence[Limits],
) -> list[Side]:
    """Move the models of two children within limits; ``ends``: low and high ones."""
    sides = []
    for model, own, (low, high), limit in zip(
        models, rows, ends.T, limits, strict=True
    ):
        moved = model if limit.anchor is None else _within(model, limit, own)
        change, told = _told(moved - model, own), _told(moved, own)
        cost = change @ change + _beyond(told, high, 1) + _beyond(told, low, -1)
        cost = float(own.weight * cost)
        sides.append(Side(moved, np.array([low, high]), limit, cost))
    return sides


def _by_border(
    sides: Sequence[Side], border: np.ndarray, orders: Sequence[tuple[int, int]]
) -> tuple[np.ndarray, list[Limits]]:
    """Ranges and limits of two sides with a border between their models."""
    ends = np.stack([side.ends for side in sides], axis=1)
    limits = [side.limits._replace(anchor=border) for side in sides]
    lowest, highest = float(ends[0].min()), float(ends[1].max())
    for below, above in orders:
        ceilings = np.vstack([limits[below].ceilings, border])
        limits[below] = limits[below]._replace(ceilings=ceilings, most_low=lowest)
        floors = np.vstack([limits[above].floors, border])
        limits[above] = limits[above]._replace(floors=floors, least_high=highest)
        ends[0, below], ends[1, above] = lowest, highest
    return ends, limits


def _by_level(
    sides: Sequence[Side], level: float, orders: Sequence[tuple[int, int]]
) -> tuple[np.ndarray, list[Limits]]:
    """Ranges and limits of two sides whose predictions are clipped at a level."""
    ends = np.stack([side.ends for side in sides], axis=1)
    ((below, above),) = orders
    ends[:, below] = np.minimum(ends[:, below], level)
    ends[:, above] = np.maximum(ends[:, above], level)
    return ends, [side.limits for side in sides]


def _level(
    sides: Sequence[Side],
    rows: Sequence[NodeRows],
    around: Float[np.ndarray, " 2"],
    orders: Sequence[tuple[int, int]],
) -> float | None:
    """Level at which clipping changes two sides least, in their range; None: none."""
    limits = sides[0].limits
    low, high = max(around[0], limits.least_high), min(around[1], limits.most_low)
    if len(orders) > 1 or not np.isfinite(around).all() or low > high:
        return None
    told = [_told(side.model, own) for side, own in zip(sides, rows, strict=True)]
    reach = np.array(told) @ [[1.0, 1.0], [-_DEVIATIONS, _DEVIATIONS]]
    levels = np.linspace(reach.min(), reach.max(), _N_LEVELS).clip(low, high)
    ((below, above),) = orders
    cost = rows[below].weight * _beyond(told[below], levels, 1)
    cost += rows[above].weight * _beyond(told[above], levels, -1)
    return float(levels[np.argmin(cost)])


def _told(model: Float[np.ndarray, " _"], rows: NodeRows) -> Float[np.ndarray, " 2"]:
    """Mean and deviation of a model's values on the rows of a node."""
    slopes = model[1:]
    variance = max(float(slopes @ rows.metric @ slopes), _LEAST)
    return np.array([model[0] + slopes @ rows.mean, variance**0.5])


def _beyond(told: Float[np.ndarray, " 2"], end: Any, side: int) -> Any:
    """Mean square of what normal values have above an end, or below it (-1)."""
    mean, deviation = told
    over = np.maximum(side * (mean - end), -_FAR * deviation)
    ratio = over / deviation
    density = np.exp(-0.5 * ratio**2) / np.sqrt(2.0 * np.pi)
    return (over**2 + deviation**2) * ndtr(ratio) + over * deviation * density


def _boxes(tree: Tree, n_regressors: int) -> Float[np.ndarray, "n_nodes 2 n"]:
    """Least and greatest values of the regressors in every node."""
    schema = tree.schema
    missing = dict(schema.missing_columns)
    first = n_regressors - schema.n_indicators
    indicators = [i for i in missing.values() if i < n_regressors]
    whole = np.array(schema.saturation)[:, :n_regressors]
    whole[:, [*range(first, n_regressors), *indicators]] = [[0.0], [1.0]]
    boxes = np.tile(whole, (tree.n_nodes, 1, 1))  # there may be several roots
    for node in np.flatnonzero(~tree.is_leaf):  # parents come first
        left, right = tree.left[node], tree.right[node]
        boxes[left] = boxes[right] = boxes[node]
        column = int(tree.attribute[node])
        if tree.kind[node] == SplitKind.AXIS and column < first:
            # A missing value stands at zero, whichever side it is sent to.
            cut = float(tree.threshold[node])
            low, high = (min(cut, 0), max(cut, 0)) if column in missing else (cut, cut)
            boxes[left, 1, column] = min(boxes[node, 1, column], high)
            boxes[right, 0, column] = max(boxes[node, 0, column], low)
    return boxes


def _border(
    tree: Tree,
    node: int,
    models: np.ndarray,
    statistics: NodeStatistics,
    asked: np.ndarray,
) -> Float[np.ndarray, " _"]:
    """Linear function between the models of two children.

    It has their mean slopes, none in the constrained columns of the split, and their
    mean value at the boundary's point that is nearest to the node's mean row.
    """
    n = statistics.n_regressors
    sides = [tree.left[node], tree.right[node]]
    weight = np.maximum(statistics.weight[sides], 1e-300)
    slopes = np.where(asked[:n], 0.0, weight @ models[sides, 1:] / weight.sum())
    along, mean = tree.direction[node, :n].astype(np.float64), statistics.mean[node, :n]
    length = along @ along
    step = (along @ mean - tree.threshold[node]) / length if length > 0 else 0.0
    point = mean - step * along
    value = np.mean(models[sides, 0] + models[sides, 1:] @ point)
    return np.concatenate([[value - slopes @ point], slopes])


def _within(
    model: Float[np.ndarray, " _"], limits: Limits, rows: NodeRows
) -> np.ndarray:
    """Model near a given one that respects borders in a box.

    Of slopes between the anchor's and the model's, each with the constant nearest to
    the model's mean, the one with the least squared difference on the node's rows.
    Slopes that are steeper than the anchor's have a share of their own.
    """
    _, mean, metric, box = rows
    anchor, wanted = limits.anchor, model[0] + model[1:] @ mean
    assert anchor is not None
    way = model[1:] - anchor[1:]
    steep = way * (np.abs(anchor[1:]) < np.abs(model[1:]))
    slopes = anchor[1:] + _SHARES[:, :1] * steep + _SHARES[:, 1:] * (way - steep)

    def room(borders: np.ndarray, low: int) -> np.ndarray:
        """What each border leaves for the constant, (n_slopes, n_borders)."""
        rise = slopes[:, None, :] - borders[:, 1:]
        worst = np.where(rise > 0, box[1 - low], box[low])
        return borders[:, 0] - np.einsum("ijk,ijk->ij", rise, worst)

    most = room(limits.ceilings, 0).min(axis=1, initial=np.inf)
    least = room(limits.floors, 1).max(axis=1, initial=-np.inf)
    constant = np.clip(wanted - slopes @ mean, least, most)
    change = slopes - model[1:]
    cost = np.einsum("ij,jk,ik->i", change, metric, change)
    cost += (constant + slopes @ mean - wanted) ** 2
    cost[least > most + _OVERLAP] = np.inf
    best = int(np.argmin(cost))
    if np.isinf(cost[best]):  # of rounding: the anchor itself is allowed
        return anchor
    return np.concatenate([constant[best : best + 1], slopes[best]])
