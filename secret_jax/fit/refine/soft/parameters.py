"""Gate widths of a tree, and trainable parameters of a tree.

Widths are in deviations of a split's projection among the rows of its node.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.runtime.linalg import AnyArray, matmul
from secret_jax.runtime.shapes import padded
from secret_jax.tree.routing import apply
from secret_jax.tree.soft import HARD_LOGIT, Lists, Paths, leaf_shares, paths
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

    ``rows``: in random order: of many rows the first 65536 are read. Returns
    (n_nodes,), float64: 0 in leaves, at splits on discrete attributes and in nodes
    without two rows.
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
    """Soften the tree with gates of one relative width.

    ``relative``: width in units of each node's deviation; 0 makes the tree hard;
    ``deviation`` (n_nodes,): as `deviations` gives it.
    """
    least = _LEAST_WIDTH * np.linalg.norm(tree.direction, axis=1)
    width = np.maximum(relative * deviation, least) if relative > 0 else 0 * least
    return replace(tree, gate_width=width.astype(np.float32))


def with_range_of_nodes(tree: Tree) -> Tree:
    """Widen the clipping range of a tree to that of all nodes.

    Log-odds of leaves may lie far beyond those of the root.
    """
    lower, upper = tree.lower.copy(), tree.upper.copy()
    lower[0], upper[0] = lower.min(axis=0), upper.max(axis=0)
    return replace(tree, lower=lower, upper=upper)


class Parameters(NamedTuple):
    """Trainable arrays of a soft tree; padding is zero and stays zero."""

    # (n_inner, n_continuous), float32: in units of the gate's width: the logit is
    # ``offset - direction @ x``.
    direction: AnyArray
    offset: AnyArray  # (n_inner,), float32
    coefficient: AnyArray  # (n_leaves, n_outputs, 1 + n_regressors), float32


class Structure(NamedTuple):
    """Fixed arrays of a soft tree."""

    along: Paths
    free: AnyArray  # (n_inner, n_continuous), float32: 1 where the direction may change
    lists: Lists
    start: Parameters  # where training started


def to_parameters(
    tree: Tree, *, oblique: bool, n_inner: int, n_leaves: int
) -> tuple[Parameters, Structure]:
    """Convert a tree whose linear splits are gates to padded parameters.

    ``oblique``: whether the direction of a split on one attribute may come to hold
    others; ``n_inner``, ``n_leaves``: sizes after padding.
    """
    inner, leaf = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)

    discrete = tree.kind[inner] == SplitKind.DISCRETE
    width = np.where(discrete, 1.0, tree.gate_width[inner]).astype(np.float64)
    direction = tree.direction[inner] / width[:, None]
    free = np.ones_like(direction) if oblique else direction != 0
    free = np.where(discrete[:, None], 0, free)
    parameters = Parameters(
        direction=padded(direction, n_inner).astype(np.float32),
        offset=padded(tree.threshold[inner] / width, n_inner).astype(np.float32),
        coefficient=padded(tree.coefficient[leaf], n_leaves).astype(np.float32),
    )
    structure = Structure(
        along=paths(tree.left, tree.parent, n_inner=n_inner, n_leaves=n_leaves),
        free=padded(free, n_inner).astype(np.float32),
        lists=Lists.of(tree, n_inner),
        start=parameters,
    )
    return parameters, structure


def flat(parameters: Parameters, xp: Any = np) -> Any:
    """Put the numbers of all parameters into one vector."""
    return xp.concatenate([array.ravel() for array in parameters])


def parted(values: AnyArray, like: Parameters) -> Parameters:
    """Take the parameters from their vector, in the shapes of others."""
    direction, offset, _ = (array.size for array in like)
    first, second = direction, direction + offset
    parts = values[:first], values[first:second], values[second:]
    shapes = (array.shape for array in like)
    return Parameters(*(part.reshape(s) for part, s in zip(parts, shapes, strict=True)))


def gate_logits(
    parameters: Parameters,
    structure: Structure,
    x: AnyArray,
    codes: AnyArray,
    xp: Any = jnp,
) -> tuple[Any, Any]:
    """Compute the logits of all splits, and whether parameters can change them."""
    logit = parameters.offset - matmul(x, parameters.direction.T)
    moves = xp.abs(logit) < HARD_LOGIT
    logit = xp.clip(logit, -HARD_LOGIT, HARD_LOGIT)
    if codes.shape[1]:
        discrete = structure.lists.attribute >= 0
        hard = xp.where(structure.lists.left(logit, codes, xp), HARD_LOGIT, -HARD_LOGIT)
        logit = xp.where(discrete, hard.astype(logit.dtype), logit)
        moves = moves & ~discrete
    return logit, moves


def leaf_values(parameters: Parameters, x: AnyArray, xp: Any = jnp) -> list[Any]:
    """Predict with every leaf: for each output, shape (n_rows, n_leaves)."""
    coefficient = parameters.coefficient
    regressors = x[:, : coefficient.shape[2] - 1]
    return [
        matmul(regressors, coefficient[:, output, 1:].T) + coefficient[:, output, 0]
        for output in range(coefficient.shape[1])
    ]


def forward(
    parameters: Parameters,
    structure: Structure,
    x: AnyArray,
    codes: AnyArray,
    xp: Any = jnp,
) -> Any:
    """Predict the mixture of leaves before clipping, shape (n_rows, n_outputs)."""
    logit, _ = gate_logits(parameters, structure, x, codes, xp)
    shares = leaf_shares(logit, structure.along, xp)
    every = leaf_values(parameters, x, xp)
    return xp.stack([xp.sum(shares * value, axis=1) for value in every], axis=1)


def to_tree(tree: Tree, parameters: Parameters) -> Tree:
    """Write trained parameters back into the tree.

    Directions of several attributes get unit length, so that widths are in units of the
    projection; splits on one attribute keep that form.

    ``tree``: tree that the parameters were made of. Weights, ranges and errors
    are still those of ``tree``.
    """
    inner, leaf = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)
    gate = tree.kind[inner] != SplitKind.DISCRETE
    steep = np.asarray(parameters.direction, np.float64)[: len(inner)][gate]
    offset = np.asarray(parameters.offset, np.float64)[: len(inner)][gate]
    length = np.maximum(np.linalg.norm(steep, axis=1), _SHORTEST)
    node = inner[gate]
    direction, threshold = tree.direction.copy(), tree.threshold.copy()
    width, kind = tree.gate_width.copy(), tree.kind.copy()
    attribute = tree.attribute.copy()
    # What a missing value counts as is no direction of its own.
    along = steep.copy()
    for column, indicator in tree.schema.missing_columns:
        along[along[:, column] != 0, indicator] = 0
    one = (along != 0).sum(axis=1) == 1
    length = np.where(one, np.maximum(np.abs(along).sum(axis=1), _SHORTEST), length)
    direction[node] = steep / length[:, None]
    threshold[node] = offset / length
    width[node] = 1.0 / length
    kind[node] = np.where(one, SplitKind.AXIS, SplitKind.OBLIQUE)
    attribute[node] = np.where(one, (along != 0) @ np.arange(along.shape[1]), -1)
    coefficient = tree.coefficient.copy()
    coefficient[leaf] = np.asarray(parameters.coefficient)[: len(leaf)]
    return replace(
        tree,
        direction=direction,
        threshold=threshold,
        gate_width=width,
        kind=kind,
        attribute=attribute,
        coefficient=coefficient,
        clip_leaves=False,
    )
