"""Trees whose predictions only rise, or only fall, with given columns.

Two rows that differ in one constrained column part at most at a split that asks for it.
So it is enough that slopes have the right signs, and that on one side of such a split
all models lie below, on the other above, a *border*: a linear function that has the
right signs itself. It is the boosters' bound between sides (a constant there), for
linear models. Columns stay within their range in training, so "below" is the largest
value of a linear function in a box.
"""

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import lsq_linear

from secret_jax.losses.numbers import SquaredError
from secret_jax.models.errors import squared_errors
from secret_jax.models.statistics import NodeStatistics
from secret_jax.tree.structure import SplitKind, Tree

# Variances of regressors grow by this share of one, the variance over the table, in the
# metric of projections: what does not vary in a node is left as it is.
_RIDGE = 1e-3
# Shares of the way from the border's slopes to the model's that are tried.
_SHARES = np.array(list(product(np.linspace(0.0, 1.0, 9), repeat=2)))


class Limits(NamedTuple):
    """Borders that the models of a node must respect."""

    # ceilings, floors (n_borders, 1 + n_regressors): linear functions that the models
    # may not exceed, or not fall below.
    ceilings: np.ndarray
    floors: np.ndarray
    # (1 + n_regressors,): the nearest of them, which respects all others in the node's
    # box.
    anchor: np.ndarray


def with_monotone_models(tree: Tree, statistics: NodeStatistics) -> Tree:
    """Constrain a tree's models by the directions of its schema.

    ``tree``: with a model in every node; ``statistics``: statistics of the rows of all
    nodes. Its models are near the given ones, in squared error on each node's
    rows, and ranges of predictions, such that no two rows violate a constraint, in any
    subtree. Without constraints the tree itself.
    """
    if not tree.schema.monotonic:
        return tree
    coefficient = _with_signs(tree, statistics)
    for output in range(tree.n_outputs):
        _respect_borders(tree, statistics, coefficient[:, output])
    lower, upper = tree.clip_range()
    tree = replace(
        tree,
        coefficient=coefficient,
        lower=_ordered(tree, lower, np.minimum),
        upper=_ordered(tree, upper, np.maximum),
        clip_margin=None if tree.clip_margin is None else 0.0,
    )
    if isinstance(tree.loss, SquaredError):
        count = np.where(statistics.weight > 0, statistics.weight, 1.0)[:, None]
        error = squared_errors(statistics, coefficient) / count
        tree = replace(tree, train_error=error)
    return tree


def _directions(tree: Tree) -> Float[np.ndarray, " n_columns"]:
    """Direction of every encoded column: 1, -1, or 0 without a constraint."""
    found = np.zeros(tree.schema.n_columns)
    for attribute, direction in tree.schema.monotonic:
        found[tree.schema.position_of(attribute)] = direction
    return found


def _orders(tree: Tree, node: int) -> list[tuple[int, int]]:
    """Pairs of sides of a split of which the first may not predict more.

    There are two, which leaves one function for both sides, where a sum asks for
    columns in contrary directions.
    """
    if tree.kind[node] in (SplitKind.DISCRETE, SplitKind.LEAF):
        return []
    left, right = int(tree.left[node]), int(tree.right[node])
    asked = tree.direction[node] * _directions(tree)
    rising = [(left, right)] if (asked > 0).any() else []
    return [*rising, (right, left)] if (asked < 0).any() else rising


def _metric(statistics: NodeStatistics, node: int) -> Float[np.ndarray, "n n"]:
    """Second moments of the regressors in a node, about their means."""
    n = statistics.n_regressors
    weight = max(float(statistics.weight[node]), 1e-300)
    return statistics.scatter[node, :n, :n] / weight + _RIDGE * np.eye(n)


def _with_signs(tree: Tree, statistics: NodeStatistics) -> np.ndarray:
    """Project the slopes of all models on those of the right signs.

    Bounded least squares: the nearest predictions on the rows of each node.
    """
    n = statistics.n_regressors
    direction = _directions(tree)[:n]
    least = np.where(direction > 0, 0.0, -np.inf)
    most = np.where(direction < 0, 0.0, np.inf)
    coefficient = tree.coefficient.copy()
    wrong = (coefficient[:, :, 1:] * direction < 0).any(axis=2)
    for node, output in zip(*np.nonzero(wrong), strict=True):
        slopes = coefficient[node, output, 1:]
        root = np.linalg.cholesky(_metric(statistics, node)).T
        nearest = lsq_linear(root, root @ slopes, (least, most), method="bvls").x
        nearest = np.clip(nearest, least, most)  # of rounding
        coefficient[node, output, 0] += (slopes - nearest) @ statistics.mean[node, :n]
        coefficient[node, output, 1:] = nearest
    return coefficient


def _respect_borders(
    tree: Tree, statistics: NodeStatistics, models: Float[np.ndarray, "n_nodes _"]
) -> None:
    """Move the models of one output, in place, to their sides of all borders."""
    n = statistics.n_regressors
    boxes, signed = _boxes(tree, n), models.copy()
    none = np.empty((0, 1 + n))
    limits: dict[int, Limits] = {}
    for node in range(tree.n_nodes):  # parents come first
        place = boxes[node], statistics.mean[node, :n], _metric(statistics, node)
        limit = limits.get(node)
        if limit is not None:
            models[node] = _within(signed[node], limit, *place)
            limits[int(tree.left[node])] = limits[int(tree.right[node])] = limit
        orders = _orders(tree, node)
        if not orders:
            continue
        border = _border(tree, node, signed, statistics)
        if limit is not None:
            border = _within(border, limit, *place)
        ceilings, floors, _ = limit or (none, none, border)
        for side in (int(tree.left[node]), int(tree.right[node])):
            below = [border for first, _ in orders if first == side]
            above = [border for _, second in orders if second == side]
            limits[side] = Limits(
                np.vstack([ceilings, *below]), np.vstack([floors, *above]), border
            )


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
    tree: Tree, node: int, models: np.ndarray, statistics: NodeStatistics
) -> Float[np.ndarray, " _"]:
    """Linear function between the models of two children.

    It has their mean slopes, none in the constrained columns of the split, and their
    mean value at the boundary's point that is nearest to the node's mean row.
    """
    n = statistics.n_regressors
    sides = [tree.left[node], tree.right[node]]
    weight = np.maximum(statistics.weight[sides], 1e-300)
    asked = (tree.direction[node] * _directions(tree) != 0)[:n]
    slopes = np.where(asked, 0.0, weight @ models[sides, 1:] / weight.sum())
    along, mean = tree.direction[node, :n].astype(np.float64), statistics.mean[node, :n]
    length = along @ along
    step = (along @ mean - tree.threshold[node]) / length if length > 0 else 0.0
    point = mean - step * along
    value = np.mean(models[sides, 0] + models[sides, 1:] @ point)
    return np.concatenate([[value - slopes @ point], slopes])


def _within(
    model: Float[np.ndarray, " _"],
    limit: Limits,
    box: Float[np.ndarray, "2 n"],
    mean: Float[np.ndarray, " n"],
    metric: Float[np.ndarray, "n n"],
) -> np.ndarray:
    """Model near a given one that respects borders in a box.

    Of slopes between the anchor's and the model's, each with the constant nearest to
    the model's mean, the one with the least squared difference on the node's rows.
    Slopes that are steeper than the anchor's have a share of their own.
    """
    anchor, wanted = limit.anchor, model[0] + model[1:] @ mean
    way = model[1:] - anchor[1:]
    steep = way * (np.abs(anchor[1:]) < np.abs(model[1:]))
    slopes = anchor[1:] + _SHARES[:, :1] * steep + _SHARES[:, 1:] * (way - steep)

    def room(borders: np.ndarray, low: int) -> np.ndarray:
        """What each border leaves for the constant, (n_slopes, n_borders)."""
        rise = slopes[:, None, :] - borders[:, 1:]
        worst = np.where(rise > 0, box[1 - low], box[low])
        return borders[:, 0] - np.einsum("ijk,ijk->ij", rise, worst)

    most = room(limit.ceilings, 0).min(axis=1, initial=np.inf)
    least = room(limit.floors, 1).max(axis=1, initial=-np.inf)
    constant = np.clip(wanted - slopes @ mean, least, most)
    change = slopes - model[1:]
    cost = np.einsum("ij,jk,ik->i", change, metric, change)
    cost += (constant + slopes @ mean - wanted) ** 2
    cost[least > most] = np.inf
    best = int(np.argmin(cost))
    if np.isinf(cost[best]):  # of rounding: the anchor itself is allowed
        return anchor
    return np.concatenate([constant[best : best + 1], slopes[best]])


def _ordered(tree: Tree, end: np.ndarray, outer: np.ufunc) -> np.ndarray:
    """Ends of ranges, moved so that they rise from the lower to the upper sides.

    Clipping keeps an order only if both ends of the ranges have it. The end between two
    sides is the outer one of them.
    """
    low, high = np.full(end.shape, -np.inf), np.full(end.shape, np.inf)
    for node in np.flatnonzero(~tree.is_leaf):  # parents come first
        left, right = int(tree.left[node]), int(tree.right[node])
        for side in (left, right):
            low[side], high[side] = low[node], high[node]
        between = np.clip(outer(end[left], end[right]), low[node], high[node])
        for below, above in _orders(tree, int(node)):
            high[below] = np.minimum(high[below], between)
            low[above] = np.maximum(low[above], between)
    return np.clip(end, low, high)
