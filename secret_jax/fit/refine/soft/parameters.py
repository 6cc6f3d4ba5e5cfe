"""Gate widths of a tree, and what of a soft tree is trained.

Widths are in deviations of a split's projection among the rows of its node.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.shapes import padded
from secret_jax.tree.routing import apply
from secret_jax.tree.soft import SoftRouting, paths, soft_routing
from secret_jax.tree.structure import SplitKind, Tree

# A deviation is an estimate: more rows do not make a better gate.
_MOST_ROWS = 65536
# Least width, in deviations of the attributes over the table: a split between two rows
# that nearly coincide must not become a cliff that no gradient climbs.
_LEAST_WIDTH = 1e-3
# Minimum norm of a gate's direction: below it all rows get nearly equal shares.
_SHORTEST = 1e-12


def deviations(tree: Tree, rows: Rows) -> np.ndarray:
    """Standard deviation of every split's projection among the rows of its node.

    ``rows``: in random order. Returns (n_nodes,), float64: 0 in leaves, at splits on
    discrete attributes and in nodes without two rows.
    """
    rows = rows.take(slice(None, _MOST_ROWS))
    inner = np.flatnonzero(~tree.is_leaf)
    deviation = np.zeros(tree.n_nodes)
    along = paths(tree.left, tree.parent, n_inner=len(inner), n_leaves=tree.n_leaves)
    number = np.cumsum(tree.is_leaf) - 1
    leaf = number[apply(tree, rows.table)]
    for i, node in enumerate(inner):
        inside = (along.left[:, i] + along.right[:, i] > 0)[leaf]
        weight = rows.weight[inside]
        if len(weight) < 2 or tree.kind[node] == SplitKind.DISCRETE:
            continue
        projection = rows.table.x[inside] @ tree.direction[node].astype(np.float64)
        mean = np.average(projection, weights=weight)
        deviation[node] = np.sqrt(np.average((projection - mean) ** 2, weights=weight))
    return deviation


def with_widths(tree: Tree, relative: float, deviation: np.ndarray) -> Tree:
    """Soften a tree with gates of one width, in units of each node's deviation.

    ``deviation`` (n_nodes,): see `deviations`. A width of 0 makes the tree hard.
    """
    least = _LEAST_WIDTH * np.linalg.norm(tree.direction, axis=1)
    width = np.maximum(relative * deviation, least) if relative > 0 else 0 * least
    return replace(tree, gate_width=width.astype(np.float32))


class Parameters(NamedTuple):
    """Trained arrays of a soft tree, named as in `SoftRouting`; padding stays zero.

    Directions and thresholds are in units of the gate's width.
    """

    direction: AnyArray  # (n_inner, n_continuous), float32
    threshold: AnyArray  # (n_inner,), float32
    coefficient: AnyArray  # (n_leaves, n_outputs, 1 + n_regressors), float32


class Structure(NamedTuple):
    """Arrays of a soft tree that stay as they are."""

    routing: SoftRouting  # with the parameters of the start, and without clipping
    free: AnyArray  # (n_inner, n_continuous), float32: 1 where the direction may change

    def start(self) -> Parameters:
        """Parameters where the training starts."""
        return Parameters(*(getattr(self.routing, name) for name in Parameters._fields))

    def routed(self, parameters: Parameters) -> SoftRouting:
        """Soft tree of other parameters, which predicts with `mixed`."""
        free = parameters._replace(direction=self.free * parameters.direction)
        return self.routing._replace(**free._asdict())


def trainable(tree: Tree, *, oblique: bool, n_leaves: int) -> Structure:
    """Pad a tree whose linear splits are gates, in units of the gates' widths.

    ``oblique``: whether the direction of a split on one attribute may come to hold
    others; ``n_leaves``: number of leaves after padding.
    """
    inner = ~tree.is_leaf & (tree.kind != SplitKind.DISCRETE)
    width = np.where(inner, tree.gate_width, 1.0).astype(np.float64)
    direction = tree.direction / width[:, None]
    scaled = {"direction": direction, "threshold": tree.threshold / width}
    scaled |= {"gate_width": inner.astype(np.float32), "clip_leaves": False}
    routing = soft_routing(replace(tree, **scaled), n_leaves)
    free = inner[:, None] & (True if oblique else direction != 0)
    free = np.broadcast_to(free, direction.shape)[~tree.is_leaf].astype(np.float32)
    unbounded = np.full(tree.n_outputs, np.inf, np.float32)
    routing = routing._replace(lowest=-unbounded, highest=unbounded)
    return Structure(routing, padded(free, len(routing.threshold)))


def to_tree(tree: Tree, parameters: Parameters) -> Tree:
    """Write trained parameters back into the tree.

    Directions of several attributes get unit length, so that widths are in units of the
    projection; splits on one attribute keep that form.
    """
    inner, leaf = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)
    gate = tree.kind[inner] != SplitKind.DISCRETE
    steep = np.asarray(parameters.direction, np.float64)[: len(inner)][gate]
    offset = np.asarray(parameters.threshold, np.float64)[: len(inner)][gate]
    # What a missing value counts as is no direction of its own.
    along = steep.copy()
    for column, indicator in tree.schema.missing_columns:
        along[along[:, column] != 0, indicator] = 0
    one = (along != 0).sum(axis=1) == 1
    length = np.where(one, np.abs(along).sum(axis=1), np.linalg.norm(steep, axis=1))
    length = np.maximum(length, _SHORTEST)
    changed = {
        "direction": steep / length[:, None],
        "threshold": offset / length,
        "gate_width": 1.0 / length,
        "kind": np.where(one, SplitKind.AXIS, SplitKind.OBLIQUE),
        "attribute": np.where(one, (along != 0) @ np.arange(along.shape[1]), -1),
    }
    arrays = {name: getattr(tree, name).copy() for name in changed}
    for name, found in changed.items():
        arrays[name][inner[gate]] = found
    coefficient = tree.coefficient.copy()
    coefficient[leaf] = np.asarray(parameters.coefficient)[: len(leaf)]
    return replace(tree, coefficient=coefficient, clip_leaves=False, **arrays)
