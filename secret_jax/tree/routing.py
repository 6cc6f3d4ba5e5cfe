"""Route rows through a fitted tree: leaves, paths, shares and predictions.

Few rows are routed on the host, where a call costs nothing; many go through compiled
programs in blocks, which several processors share.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.device import block_of
from secret_jax.data.encoding import Unencoded
from secret_jax.data.rows import Table
from secret_jax.runtime.devices import in_32_bits, rows_at_once
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.parallel import ROW_BLOCK, in_blocks
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import bucket, next_power_of_two, padded
from secret_jax.tree.decision import goes_left
from secret_jax.tree.one_row import OneRow
from secret_jax.tree.soft import (
    SoftRouting,
    few_rows,
    mixed_prediction,
    paths,
    shares_of_rows,
)
from secret_jax.tree.structure import SplitKind, Tree

_Padded = TypeVar("_Padded")

# Maximum number of rows for which calling a compiled program costs more than the work.
_FEW_ROWS = 128
# Maximum number of rows whose paths are found on the host, as for folds.
_FEW_WALKED = 4096
# Minimum block: padding costs less than a program of its own. Maximum number of values
# in a block: they stay in a processor's cache (8 MiB).
_SMALLEST_BLOCK, _BLOCK_NUMBERS = 1024, 1 << 21
# Minimum number of leaves after padding: one program for all smaller trees.
_FEWEST = 16
# Maximum number of splits whose decisions are one product of matrices; with more, each
# row is tested by the splits on its path only.
_MOST_AT_ONCE = 128


class _Routing(NamedTuple):
    """Arrays for routing and prediction with hard splits, padded to powers of two.

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
    n_inner = next_power_of_two(max(len(inner) + 1, _FEWEST))
    # There is one leaf more than there are inner nodes: sizes go together.
    n_nodes = 2 * n_inner

    def pad(array, fill, dtype, size):
        return padded(np.asarray(array, dtype), size, fill)

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
    """Make the function that moves each row from its node to a child."""
    n_inner = len(routing.direction)
    at_once = n_inner <= _MOST_AT_ONCE
    if at_once:
        every_projection = jnp.matmul(x, routing.direction.T, precision="highest")

    def below(place: jax.Array) -> jax.Array:
        split = jnp.minimum(place, n_inner - 1)  # of a leaf it does not matter
        if at_once:
            own = jnp.take_along_axis(every_projection, split[:, None], axis=1)
            projection = own[:, 0]
        else:
            projection = jnp.sum(routing.direction[split] * x, axis=1)
        go_left = projection <= routing.threshold[split]
        if codes.shape[1]:
            attribute = routing.discrete_attribute[split]
            column = jnp.maximum(attribute, 0)[:, None]
            code = jnp.take_along_axis(codes, column, axis=1)[:, 0]
            go_left = goes_left(
                projection,
                routing.threshold[split],
                attribute >= 0,
                code,
                routing.goes_left[split, jnp.maximum(code, 0)],
                routing.larger_left[split],
                jnp,
            )
        return jnp.where(go_left, routing.left[place], routing.right[place])

    return below


def _value(routing: _Routing, x: jax.Array, place: jax.Array) -> jax.Array:
    """Predict with each row's node, clipped, shape (n_outputs, n_rows)."""
    regressors = x[:, : routing.coefficient.shape[2] - 1]

    def of_output(output: int) -> jax.Array:
        coefficient = routing.coefficient[:, output][place]
        value = coefficient[:, 0] + jnp.sum(coefficient[:, 1:] * regressors, axis=1)
        low, high = routing.low[:, output], routing.high[:, output]
        return jnp.clip(value, low[place], high[place])

    return jnp.stack([of_output(i) for i in range(routing.coefficient.shape[1])])


def leaf_place(
    routing: _Routing, x: jax.Array, codes: jax.Array, depth: jax.Array
) -> jax.Array:
    """Position of every row's leaf in the arrays of `routing_of`; traceable."""
    below = _step_down(routing, x, codes)
    root = jnp.zeros(x.shape[0], jnp.int32)
    return jax.lax.fori_loop(0, depth, lambda _, place: below(place), root)


@program()
def _leaf(
    routing: _Routing, x: jax.Array, codes: jax.Array, depth: jax.Array
) -> tuple[jax.Array]:
    """Leaf of every row, shape (n_rows,)."""
    return (routing.node_id[leaf_place(routing, x, codes, depth)],)


@program()
def _leaf_value(
    routing: _Routing, x: jax.Array, codes: jax.Array, depth: jax.Array
) -> tuple[jax.Array]:
    """Predict with every row's leaf, shape (n_outputs, n_rows)."""
    return (_value(routing, x, leaf_place(routing, x, codes, depth)),)


@program(static_argnames=("max_depth",))
def _path_and_values(
    routing: _Routing, x: jax.Array, codes: jax.Array, *, max_depth: int
) -> tuple[jax.Array, jax.Array]:
    """Path of every row, shape (max_depth + 1, n_rows), and predictions along it."""
    below = _step_down(routing, x, codes)

    def step(place, _):
        following = below(place)
        return following, following

    root = jnp.zeros(x.shape[0], jnp.int32)
    _, rest = jax.lax.scan(step, root, None, length=max_depth)
    path = jnp.concatenate([root[None], rest])
    value = jax.lax.map(lambda place: _value(routing, x, place), path)
    return routing.node_id[path], value


# Leaves that are not clipped: infinity times a share of 0 would be no number.
_UNBOUNDED = 1e30


def _soft_routing(tree: Tree) -> SoftRouting:
    inner, leaf = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)
    n_leaves = next_power_of_two(max(len(leaf), _FEWEST))
    n_categories = next_power_of_two(max(tree.goes_left.shape[1], 1))

    def pad(array, chosen, fill=0):
        return padded(array[chosen], n_leaves, fill)

    low, high = tree.clip_range()
    lowest = np.full(tree.n_outputs, -np.inf)
    highest = -lowest
    if not tree.clip_leaves:
        lowest, highest = low[0], high[0]
        low, high = np.full_like(low, -_UNBOUNDED), np.full_like(low, _UNBOUNDED)
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
        lowest=lowest.astype(np.float32),
        highest=highest.astype(np.float32),
    )


# The padded arrays of a tree, made when it is first used; trees never change.
_PADDED: weakref.WeakKeyDictionary[Tree, dict[Callable, Any]] = (
    weakref.WeakKeyDictionary()
)


def routing_of(tree: Tree) -> _Routing:
    """Padded arrays of a hard tree, cached, for compiled functions."""
    return _padded_once(tree, _routing)


def value_of_leaf(routing: _Routing, x: Any, codes: Any, depth: Any) -> jax.Array:
    """Predict with every row's leaf, (n_outputs, n_rows); traceable."""
    return _value(routing, x, leaf_place(routing, x, codes, depth))


def _padded_once(tree: Tree, make: Callable[[Tree], _Padded]) -> _Padded:
    made = _PADDED.setdefault(tree, {})
    if make not in made:
        made[make] = make(tree)
    return made[make]


def descend(tree: Tree, table: Table, node: np.ndarray, n_steps: int) -> np.ndarray:
    """Move rows some steps down, each from a node of its own, on the host.

    Parameters
    ----------
    tree : Tree
        Its gates count as hard splits.
    node : ndarray of shape (n_rows,), int

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
        go_left = left_of_splits(tree, table.take(moving), at)
        node[moving] = np.where(go_left, tree.left[at], tree.right[at])
    return node


def left_of_splits(splits: Any, table: Table, at: np.ndarray) -> np.ndarray:
    """Whether rows go left, each at a split of its own, on the host.

    Parameters
    ----------
    at : ndarray of shape (n_rows,), int
        The split of every row.

    Returns
    -------
    ndarray of shape (n_rows,), bool
    """
    projection = np.einsum("ij,ij->i", table.x, splits.direction[at])
    discrete = splits.kind[at] == SplitKind.DISCRETE
    if not (table.codes.shape[1] and discrete.any()):
        return projection <= splits.threshold[at]
    attribute = np.where(discrete, splits.attribute[at], 0)
    code = table.codes[np.arange(len(at)), attribute]
    listed = splits.goes_left[at, np.maximum(code, 0)]
    return goes_left(
        projection,
        splits.threshold[at],
        discrete,
        code,
        listed,
        splits.larger_left[at],
        np,
    )


def values_at(tree: Tree, table: Table, node: np.ndarray) -> np.ndarray:
    """Predict with a given node per row, clipped, on the host.

    Parameters
    ----------
    node : ndarray of shape (n_rows,), int

    Returns
    -------
    ndarray of shape (n_rows, n_outputs), float64
        In standardised units.
    """
    coefficient = tree.coefficient[node]
    regressors = table.x[:, : tree.schema.n_regressors]
    value = np.einsum("ij,ikj->ik", regressors, coefficient[:, :, 1:])
    low, high = tree.clip_range()
    return np.clip(coefficient[:, :, 0] + value, low[node], high[node])


def leaf_shares_of(tree: Tree, table: Table) -> np.ndarray:
    """Share of every leaf in the prediction of every row.

    Parameters
    ----------
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
    (shares,) = _computed(shares_of_rows, table, _padded_once(tree, _soft_routing))
    return shares[: tree.n_leaves].T


def predict_one(tree: Tree, X: np.ndarray) -> np.ndarray | None:
    """Predict one row of raw numbers, by the fast path.

    Parameters
    ----------
    X : ndarray of shape (1, n_columns), float32 or float64

    Returns
    -------
    ndarray of shape (1,), float64, or None
        None where the row has to go the usual way; see `OneRow.predict`.
    """
    lists = _padded_once(tree, OneRow.of)
    if lists is None or X.shape[1] != len(lists.center):
        return None
    value = lists.predict(X[0])
    return None if value is None else np.array([value])


def apply(tree: Tree, table: Table) -> np.ndarray:
    """Find the leaf of every row.

    For a soft tree, the leaf at the end of the path with the larger share at every
    split, which is where the same tree with hard splits would send the row.

    Parameters
    ----------
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
    (leaf,) = _computed(_leaf, table, _padded_once(tree, _routing), tree.max_depth)
    return leaf


def predict(tree: Tree, table: Table | Unencoded) -> np.ndarray:
    """Predict every row, in the units of the target.

    A soft tree mixes the predictions of its leaves by their shares of the row.

    Parameters
    ----------
    table : Table or Unencoded
        Rows for ``tree.schema``.

    Returns
    -------
    ndarray of shape (n_rows,), or (n_rows, n_outputs) of several outputs, float64
    """
    value = values(tree, table)
    if tree.loss is not None:  # probabilities add up to one in float64
        value = tree.loss.prediction(value.astype(np.float64))
    return tree.schema.restore_targets(value)


def said(tree: Tree, table: Table) -> np.ndarray:
    """Linear predictor of every row, before the inverse link."""
    return tree.schema.restore_targets(values(tree, table))


def values(tree: Tree, table: Table | Unencoded) -> np.ndarray:
    """Predict every row, in standardised units, shape (n_rows, n_outputs)."""
    if _shape(table)[0] <= _FEW_ROWS:
        table = table.encoded() if isinstance(table, Unencoded) else table.on_host()
        if tree.is_soft:
            return few_rows(_padded_once(tree, _soft_routing), *table)
        return values_at(tree, table, apply(tree, table))
    if tree.is_soft:
        soft = _padded_once(tree, _soft_routing)
        return _computed(mixed_prediction, table, soft)[0].T
    routing = _padded_once(tree, _routing)
    return _computed(_leaf_value, table, routing, tree.max_depth)[0].T


def walk(tree: Tree, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Nodes on the path of every row, and the prediction of each node.

    For a soft tree, the path with the larger share at every split.

    Returns
    -------
    path : ndarray of shape (depth + 1, n_rows), int32
        Node ids from the root down; below its leaf a row repeats the leaf.
    prediction : ndarray of shape (depth + 1, n_outputs, n_rows)
        In standardised units, clipped as the tree clips.
    """
    if len(table.x) <= _FEW_WALKED:
        table = table.on_host()
        steps = [np.zeros(len(table.x), np.int32)]
        for _ in range(tree.max_depth):
            steps.append(descend(tree, table, steps[-1], 1))
        found = [values_at(tree, table, node).T for node in steps]
        return np.stack(steps), np.stack(found)
    max_depth = next_power_of_two(max(tree.max_depth, 4))
    function = functools.partial(_path_and_values, max_depth=max_depth)
    path, prediction = _computed(function, table, _padded_once(tree, _routing))
    keep = tree.max_depth + 1
    return path[:keep], prediction[:keep]


def _computed(
    function: Callable[..., tuple[jax.Array, ...]],
    table: Table | Unencoded,
    routing: Any,
    *more: Any,
) -> tuple[np.ndarray, ...]:
    """Apply a compiled function to padded blocks of rows, and concatenate.

    A row's result does not depend on the other rows of its block, nor on the block.
    """
    n_rows, n_columns = _shape(table)
    # Memory for the decisions of all nodes, but on a processor a cache for few.
    width = len(routing.direction) + 2 * n_columns
    usual = max(
        _SMALLEST_BLOCK, min(ROW_BLOCK, next_power_of_two(_BLOCK_NUMBERS // width))
    )
    size = min(bucket(n_rows, smallest=_SMALLEST_BLOCK), rows_at_once(4 * width, usual))
    with in_32_bits():
        routing = jax.device_put(routing)

    def run(rows: slice) -> list[np.ndarray]:
        n_inside = rows.stop - rows.start
        with in_32_bits():
            if isinstance(table, Unencoded):
                block, rows = table.block(rows), slice(0, n_inside)
            else:
                block = table
            x, codes = (block_of(array, rows, size) for array in block)
            found = function(routing, x, codes, *more)
        return [np.asarray(array)[..., :n_inside] for array in found]

    results = list(in_blocks(run, n_rows, size))
    return tuple(np.concatenate(parts, axis=-1) for parts in zip(*results, strict=True))


def _shape(table: Table | Unencoded) -> tuple[int, int]:
    if isinstance(table, Unencoded):
        return len(table.columns.codes), table.schema.n_columns
    return table.x.shape
