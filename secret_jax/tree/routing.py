"""Rows through a fitted tree: leaves, paths, shares and predictions.

Few rows are routed on the host, where a call costs nothing; many go through compiled
programs in blocks, which several processors share.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.device import block_of
from secret_jax.data.rows import ROW_BLOCK, bucket, in_blocks, next_power_of_two
from secret_jax.data.table import Table
from secret_jax.runtime.compiling import jit
from secret_jax.runtime.devices import rows_at_once
from secret_jax.runtime.linalg import AnyArray
from secret_jax.tree.soft import (
    SoftRouting,
    few_rows,
    mixed_prediction,
    paths,
    shares_of_rows,
)
from secret_jax.tree.structure import SplitKind, Tree

# Up to so many rows a call of a compiled program costs more than the work.
_FEW_ROWS = 128
_SMALLEST_BLOCK = 1024
# Of so many splits all decisions are one product of matrices; of more, each row asks
# only those on its way.
_MOST_AT_ONCE = 128


class _Routing(NamedTuple):
    """What hard splits and models read, padded to powers of two.

    Inner nodes come first; the children of a leaf are the leaf itself: a row that has
    arrived stays. Arrays of shape (n_inner, ...), then of shape (n_nodes, ...).
    """

    direction: AnyArray
    threshold: AnyArray
    discrete_attribute: AnyArray  # -1 where the split is on continuous attributes
    goes_left: AnyArray
    larger_left: AnyArray
    left: AnyArray
    right: AnyArray
    coefficient: AnyArray
    low: AnyArray
    high: AnyArray
    node_id: AnyArray


def _routing(tree: Tree) -> _Routing:
    inner, leaf = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)
    node = np.append(inner, leaf)
    place = np.argsort(node)
    n_categories = next_power_of_two(max(tree.goes_left.shape[1], 1))
    n_inner = next_power_of_two(max(len(inner) + 1, 16))
    # There is one leaf more than there are inner nodes: sizes go together.
    n_nodes = 2 * n_inner

    def pad(array, fill, dtype, size):
        padding = [(0, size - len(array))] + [(0, 0)] * (array.ndim - 1)
        return np.pad(np.asarray(array, dtype), padding, constant_values=fill)

    low, high = tree.clip_range()
    itself = np.arange(tree.n_nodes)
    left, right = (
        place[np.where(tree.is_leaf, itself, child)][node]
        for child in (tree.left, tree.right)
    )
    discrete = np.where(tree.kind == SplitKind.DISCRETE, tree.attribute, -1)
    more = [(0, 0), (0, n_categories - tree.goes_left.shape[1])]
    return _Routing(
        direction=pad(tree.direction[inner], 0, np.float32, n_inner),
        threshold=pad(tree.threshold[inner], 0, np.float32, n_inner),
        discrete_attribute=pad(discrete[inner], -1, np.int32, n_inner),
        goes_left=pad(np.pad(tree.goes_left, more)[inner], False, bool, n_inner),
        larger_left=pad(tree.larger_left[inner], False, bool, n_inner),
        left=pad(left, 0, np.int32, n_nodes),
        right=pad(right, 0, np.int32, n_nodes),
        coefficient=pad(tree.coefficient[node], 0, np.float32, n_nodes),
        low=pad(low[node], -np.inf, np.float32, n_nodes),
        high=pad(high[node], np.inf, np.float32, n_nodes),
        node_id=pad(node, 0, np.int32, n_nodes),
    )


def _step_down(
    routing: _Routing, x: jax.Array, codes: jax.Array
) -> Callable[[jax.Array], jax.Array]:
    """The function from each row's node to the node below it."""
    n_inner = len(routing.direction)
    at_once = n_inner <= _MOST_AT_ONCE
    if at_once:
        projection = jnp.matmul(x, routing.direction.T, precision="highest")
        continuous = projection <= routing.threshold

    def below(place: jax.Array) -> jax.Array:
        split = jnp.minimum(place, n_inner - 1)  # of a leaf it does not matter
        if at_once:
            go_left = jnp.take_along_axis(continuous, split[:, None], axis=1)[:, 0]
        else:
            projection = jnp.sum(routing.direction[split] * x, axis=1)
            go_left = projection <= routing.threshold[split]
        if codes.shape[1]:
            attribute = routing.discrete_attribute[split]
            column = jnp.maximum(attribute, 0)[:, None]
            code = jnp.take_along_axis(codes, column, axis=1)[:, 0]
            listed = routing.goes_left[split, jnp.maximum(code, 0)]
            known = jnp.where(code >= 0, listed, routing.larger_left[split])
            go_left = jnp.where(attribute >= 0, known, go_left)
        return jnp.where(go_left, routing.left[place], routing.right[place])

    return below


def _value(routing: _Routing, x: jax.Array, place: jax.Array) -> jax.Array:
    """What the model of each row's node predicts, clipped, shape (n_rows,)."""
    coefficient = routing.coefficient[place]
    regressors = x[:, : coefficient.shape[1] - 1]
    value = coefficient[:, 0] + jnp.sum(coefficient[:, 1:] * regressors, axis=1)
    return jnp.clip(value, routing.low[place], routing.high[place])


def _leaf_place(
    routing: _Routing, x: jax.Array, codes: jax.Array, depth: jax.Array
) -> jax.Array:
    below = _step_down(routing, x, codes)
    root = jnp.zeros(x.shape[0], jnp.int32)
    return jax.lax.fori_loop(0, depth, lambda _, place: below(place), root)


@jit
def _leaf(
    routing: _Routing, x: jax.Array, codes: jax.Array, depth: jax.Array
) -> tuple[jax.Array]:
    """Leaf of every row, shape (n_rows,)."""
    return (routing.node_id[_leaf_place(routing, x, codes, depth)],)


@jit
def _leaf_value(
    routing: _Routing, x: jax.Array, codes: jax.Array, depth: jax.Array
) -> tuple[jax.Array]:
    """Prediction of every row's leaf, shape (n_rows,)."""
    return (_value(routing, x, _leaf_place(routing, x, codes, depth)),)


@functools.partial(jit, static_argnames=("max_depth",))
def _path_and_values(
    routing: _Routing, x: jax.Array, codes: jax.Array, *, max_depth: int
) -> tuple[jax.Array, jax.Array]:
    """Path of every row and predictions along it, shape (max_depth + 1, n_rows)."""
    below = _step_down(routing, x, codes)

    def step(place, _):
        following = below(place)
        return following, following

    root = jnp.zeros(x.shape[0], jnp.int32)
    _, rest = jax.lax.scan(step, root, None, length=max_depth)
    path = jnp.concatenate([root[None], rest])
    value = jax.lax.map(lambda place: _value(routing, x, place), path)
    return routing.node_id[path], value


# Standardised outputs are near 0, and infinity times a share of 0 would be no number.
_FAR = 1e30


def _soft_routing(tree: Tree) -> SoftRouting:
    inner, leaf = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)
    n_leaves = next_power_of_two(max(len(leaf), 16))
    n_categories = next_power_of_two(max(tree.goes_left.shape[1], 1))

    def pad(array, chosen, fill=0):
        array = array[chosen]
        more = [(0, n_leaves - len(array))] + [(0, 0)] * (array.ndim - 1)
        return np.pad(array, more, constant_values=fill)

    low, high = tree.clip_range()
    lowest, highest = -np.inf, np.inf
    if not tree.clip_leaves:
        lowest, highest = low[0], high[0]
        low, high = np.full_like(low, -_FAR), np.full_like(low, _FAR)
    discrete = np.where(tree.kind == SplitKind.DISCRETE, tree.attribute, -1)
    more = [(0, 0), (0, n_categories - tree.goes_left.shape[1])]
    return SoftRouting(
        direction=pad(tree.direction, inner).astype(np.float32),
        threshold=pad(tree.threshold, inner).astype(np.float32),
        width=pad(tree.gate_width, inner).astype(np.float32),
        discrete_attribute=pad(discrete, inner, -1).astype(np.int32),
        goes_left=pad(np.pad(tree.goes_left, more), inner),
        larger_left=pad(tree.larger_left, inner),
        along=paths(tree.left, tree.parent, n_inner=n_leaves, n_leaves=n_leaves),
        coefficient=pad(tree.coefficient, leaf).astype(np.float32),
        low=pad(low, leaf).astype(np.float32),
        high=pad(high, leaf).astype(np.float32),
        lowest=np.float32(lowest),
        highest=np.float32(highest),
    )


# The padded arrays of a tree, made when it is first used; trees never change.
_ROUTINGS: weakref.WeakKeyDictionary[Tree, _Routing] = weakref.WeakKeyDictionary()
_SOFT_ROUTINGS: weakref.WeakKeyDictionary[Tree, SoftRouting] = (
    weakref.WeakKeyDictionary()
)


def _routing_of(tree: Tree) -> _Routing:
    if tree not in _ROUTINGS:
        _ROUTINGS[tree] = _routing(tree)
    return _ROUTINGS[tree]


def _soft_routing_of(tree: Tree) -> SoftRouting:
    if tree not in _SOFT_ROUTINGS:
        _SOFT_ROUTINGS[tree] = _soft_routing(tree)
    return _SOFT_ROUTINGS[tree]


def descend(tree: Tree, table: Table, node: np.ndarray, n_steps: int) -> np.ndarray:
    """Where rows are after some steps down from a node of their own, on the host.

    Parameters
    ----------
    tree : Tree
        Its gates count as hard splits.
    table : Table
    node : ndarray of shape (n_rows,), int
    n_steps : int

    Returns
    -------
    ndarray of shape (n_rows,), int
        A row that has reached its leaf stays there.
    """
    node = np.array(node)
    for _ in range(n_steps):
        moving = np.flatnonzero(tree.left[node] >= 0)
        if len(moving) == 0:
            break
        at = node[moving]
        projection = np.einsum("ij,ij->i", table.x[moving], tree.direction[at])
        go_left = projection <= tree.threshold[at]
        if table.codes.shape[1]:
            discrete = np.flatnonzero(tree.kind[at] == SplitKind.DISCRETE)
            asking = at[discrete]
            code = table.codes[moving[discrete], tree.attribute[asking]]
            go_left[discrete] = np.where(
                code >= 0,
                tree.goes_left[asking, np.maximum(code, 0)],
                tree.larger_left[asking],
            )
        node[moving] = np.where(go_left, tree.left[at], tree.right[at])
    return node


def values_at(tree: Tree, table: Table, node: np.ndarray) -> np.ndarray:
    """What given nodes predict for rows, clipped, on the host.

    Parameters
    ----------
    tree : Tree
    table : Table
    node : ndarray of shape (n_rows,), int

    Returns
    -------
    ndarray of shape (n_rows,), float64
        In standardised units.
    """
    coefficient = tree.coefficient[node]
    regressors = table.x[:, : tree.schema.n_regressors]
    value = coefficient[:, 0] + np.einsum("ij,ij->i", regressors, coefficient[:, 1:])
    low, high = tree.clip_range()
    return np.clip(value, low[node], high[node])


def leaf_shares_of(tree: Tree, table: Table) -> np.ndarray:
    """Share of every leaf in the prediction for every row.

    Parameters
    ----------
    tree : Tree
    table : Table
        Rows encoded with ``tree.schema``.

    Returns
    -------
    ndarray of shape (n_rows, n_leaves), float32
        Rows sum to one; leaves in the order of their node ids. Of a hard tree one share
        of each row is 1.
    """
    if not tree.is_soft:
        reached = apply(tree, table)[:, None] == np.flatnonzero(tree.is_leaf)
        return reached.astype(np.float32)
    (shares,) = _computed(shares_of_rows, table, _soft_routing_of(tree))
    return shares[: tree.n_leaves].T


def apply(tree: Tree, table: Table) -> np.ndarray:
    """Leaf reached by every row.

    Of a soft tree, the leaf at the end of the way that takes the larger share at every
    split, which is where the same tree with hard splits would send the row.

    Parameters
    ----------
    tree : Tree
    table : Table
        Rows encoded with ``tree.schema``.

    Returns
    -------
    ndarray of shape (n_rows,), int32
        Node ids.
    """
    if len(table.x) <= _FEW_ROWS:
        table = table.on_host()
        root = np.zeros(len(table.x), np.int32)
        return descend(tree, table, root, tree.max_depth)
    (leaf,) = _computed(_leaf, table, _routing_of(tree), tree.max_depth)
    return leaf


def predict(tree: Tree, table: Table) -> np.ndarray:
    """Prediction for every row, in the units of the target.

    A soft tree mixes the predictions of its leaves by their shares of the row.

    Parameters
    ----------
    tree : Tree
    table : Table
        Rows encoded with ``tree.schema``.

    Returns
    -------
    ndarray of shape (n_rows,), float64
    """
    few = len(table.x) <= _FEW_ROWS
    table = table.on_host() if few else table
    if tree.is_soft and few:
        value = few_rows(_soft_routing_of(tree), *table)
    elif tree.is_soft:
        (value,) = _computed(mixed_prediction, table, _soft_routing_of(tree))
    elif few:
        value = values_at(tree, table, apply(tree, table))
    else:
        depth = tree.max_depth
        (value,) = _computed(_leaf_value, table, _routing_of(tree), depth)
    return tree.schema.restore_target(value)


def walk(tree: Tree, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Nodes on the path of every row, and what each of them would predict.

    Of a soft tree, the way that takes the larger share at every split.

    Returns
    -------
    path : ndarray of shape (depth + 1, n_rows), int32
        Node ids from the root down; below its leaf a row repeats the leaf.
    prediction : ndarray of shape (depth + 1, n_rows), float32
        In standardised units, clipped as the tree clips.
    """
    max_depth = next_power_of_two(max(tree.max_depth, 4))
    function = functools.partial(_path_and_values, max_depth=max_depth)
    path, prediction = _computed(function, table, _routing_of(tree))
    keep = tree.max_depth + 1
    return path[:keep], prediction[:keep]


def _computed(
    function: Callable[..., tuple[jax.Array, ...]],
    table: Table,
    routing: Any,
    *more: Any,
) -> tuple[np.ndarray, ...]:
    """Run a jitted function over padded blocks of rows and put the results together.

    A row's result does not depend on the other rows of its block, nor on the block.
    """
    n_rows = len(table.x)
    # Memory for the decisions of all nodes, but on a processor a cache for few.
    width = len(routing.direction) + 2 * table.x.shape[1]
    usual = max(_SMALLEST_BLOCK, min(ROW_BLOCK, next_power_of_two(2**21 // width)))
    size = min(bucket(n_rows, smallest=_SMALLEST_BLOCK), rows_at_once(4 * width, usual))
    routing = jax.device_put(routing)

    def run(rows: slice) -> list[np.ndarray]:
        x, codes = (block_of(array, rows, size) for array in table)
        n_inside = rows.stop - rows.start
        found = function(routing, x, codes, *more)
        return [np.asarray(array)[..., :n_inside] for array in found]

    results = list(in_blocks(run, n_rows, size))
    return tuple(np.concatenate(parts, axis=-1) for parts in zip(*results, strict=True))
