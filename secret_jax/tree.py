"""The fitted tree: flat, immutable arrays, and the routing of rows through them.

A tree holds nothing that only training needs. Nodes are numbered so that parents come
before their children and the root is node 0. Every number in the tree lives in
*standardised* units (see `secret_jax.table`); `export` maps them back.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.gates import SoftRouting, mixed_prediction, paths, shares_of_rows
from secret_jax.numerics import AnyArray, jit
from secret_jax.rows import ROW_BLOCK, next_power_of_two, row_blocks
from secret_jax.table import Table, TableSchema


class SplitKind(IntEnum):
    """What a node asks of a row."""

    LEAF = 0
    AXIS = 1  # one continuous attribute against a threshold
    OBLIQUE = 2  # a linear combination of continuous attributes against a threshold
    DISCRETE = 3  # membership of one discrete attribute in a set of categories


class StopReason(IntEnum):
    """Why a node was not split further."""

    SPLIT = 0
    MIN_SAMPLES_SPLIT = 1
    MIN_SAMPLES_LEAF = 2
    MAX_DEPTH = 3
    MAX_LEAF_NODES = 4
    PURE = 5
    NO_USABLE_SPLIT = 6
    PRUNED = 7
    MIN_GAIN = 8

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return _STOP_SENTENCES[self]


_STOP_SENTENCES = {
    StopReason.SPLIT: "the node was split",
    StopReason.MIN_SAMPLES_SPLIT: "fewer rows than min_samples_split",
    StopReason.MIN_SAMPLES_LEAF: "too few rows for two leaves of min_samples_leaf",
    StopReason.MAX_DEPTH: "max_depth reached",
    StopReason.MAX_LEAF_NODES: "max_leaf_nodes reached",
    StopReason.PURE: "the output is constant, or exactly linear, in the node",
    StopReason.NO_USABLE_SPLIT: "no candidate split was usable",
    StopReason.MIN_GAIN: "no split gains more than its coefficients cost",
    StopReason.PRUNED: "its subtree did not pay when the tree was pruned",
}


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        "left",
        "right",
        "parent",
        "depth",
        "kind",
        "attribute",
        "direction",
        "threshold",
        "gate_width",
        "goes_left",
        "larger_left",
        "coefficient",
        "lower",
        "upper",
        "weight",
        "train_error",
        "degrees",
        "gain",
        "stop_reason",
    ],
    meta_fields=["schema", "clip_margin", "clip_leaves"],
)
@dataclass(frozen=True, eq=False, kw_only=True)
class Tree:
    """A regression tree with a model in every node, as a pytree of flat arrays.

    Attributes
    ----------
    left, right, parent : ndarray of shape (n_nodes,), int32
        Children and parent; -1 where there is none.
    depth : ndarray of shape (n_nodes,), int32
    kind : ndarray of shape (n_nodes,), int32
        A `SplitKind`.
    attribute : ndarray of shape (n_nodes,), int32
        Axis splits: the continuous attribute; discrete splits: the discrete attribute
        (both as positions in the encoded table); -1 otherwise.
    direction : ndarray of shape (n_nodes, n_continuous), float32
        A row goes left when ``direction @ x <= threshold``. One-hot for axis splits,
        but for the indicator of gaps in the attribute, if it has one: what stands there
        is the value that a gap counts as. Zero for discrete splits and leaves.
    threshold : ndarray of shape (n_nodes,), float32
    gate_width : ndarray of shape (n_nodes,), float32
        0: the split is hard. Positive: it is a gate that sends the share
        ``sigmoid((threshold - direction @ x) / gate_width)`` of a row to the left.
        Splits on discrete attributes are always hard.
    goes_left : ndarray of shape (n_nodes, max_categories), bool
        Discrete splits: the categories that go left.
    larger_left : ndarray of shape (n_nodes,), bool
        Whether the left child is the larger one: where unseen categories go.
    coefficient : ndarray of shape (n_nodes, 1 + n_regressors), float64
        Intercept and slopes of the node's model.
    lower, upper : ndarray of shape (n_nodes,), float64
        Range of the outputs that trained the node's model, or that of the nearest
        ancestor with enough rows where the node has few.
    weight : ndarray of shape (n_nodes,), float64
        Sum of the weights of the training rows.
    train_error : ndarray of shape (n_nodes,), float64
        Mean squared error of the node's model on its training rows.
    degrees : ndarray of shape (n_nodes,), float64
        Effective degrees of freedom of the node's model.
    gain : ndarray of shape (n_nodes,), float32
        Gain of the split, summed over the node's rows: drop of the residual sum of
        squares, or Gini gain times weight; 0 in leaves.
    stop_reason : ndarray of shape (n_nodes,), int32
        A `StopReason`.
    schema : TableSchema
        Names, roles, categories and scaling of the attributes.
    clip_margin : float or None
        Predictions are clipped to ``[lower - m, upper + m]`` of their leaf, with
        ``m = clip_margin * (upper - lower)``; None: no clipping.
    clip_leaves : bool
        False in a soft tree whose leaves were trained together: they may overshoot
        where they have a small share, so only their mixture is clipped, to the range
        of the root.
    """

    left: np.ndarray
    right: np.ndarray
    parent: np.ndarray
    depth: np.ndarray
    kind: np.ndarray
    attribute: np.ndarray
    direction: np.ndarray
    threshold: np.ndarray
    gate_width: np.ndarray
    goes_left: np.ndarray
    larger_left: np.ndarray
    coefficient: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    weight: np.ndarray
    train_error: np.ndarray
    degrees: np.ndarray
    gain: np.ndarray
    stop_reason: np.ndarray
    schema: TableSchema = field(repr=False)
    clip_margin: float | None = None
    clip_leaves: bool = True

    @property
    def n_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.left)

    @property
    def is_leaf(self) -> np.ndarray:
        """Mask of the leaves, shape (n_nodes,), bool."""
        return self.left < 0

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(self.is_leaf.sum())

    @property
    def max_depth(self) -> int:
        """Length of the longest path from the root to a leaf."""
        return int(self.depth.max())

    @property
    def is_soft(self) -> bool:
        """Whether any split is a gate, so that predictions mix the leaves."""
        return bool((self.gate_width > 0).any())

    def clip_range(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest prediction of each node, shape (n_nodes,) each."""
        if self.clip_margin is None:
            unbounded = np.full(self.n_nodes, np.inf)
            return -unbounded, unbounded
        margin = self.clip_margin * (self.upper - self.lower)
        return self.lower - margin, self.upper + margin


class _Routing(NamedTuple):
    """The arrays that routing and prediction read, padded to powers of two."""

    left: AnyArray
    right: AnyArray
    direction: AnyArray
    threshold: AnyArray
    discrete_attribute: AnyArray  # -1 where the split is on continuous attributes
    goes_left: AnyArray
    larger_left: AnyArray
    coefficient: AnyArray
    low: AnyArray
    high: AnyArray


def _routing(tree: Tree) -> tuple[_Routing, int]:
    """Padded arrays of a tree, and its depth rounded up to a power of two."""
    n_padded = next_power_of_two(max(tree.n_nodes, 16))
    n_categories = next_power_of_two(max(tree.goes_left.shape[1], 1))

    def pad(array, fill, dtype):
        padding = [(0, n_padded - tree.n_nodes)] + [(0, 0)] * (array.ndim - 1)
        return np.pad(np.asarray(array, dtype), padding, constant_values=fill)

    low, high = tree.clip_range()
    discrete = np.where(tree.kind == SplitKind.DISCRETE, tree.attribute, -1)
    goes_left = np.pad(
        tree.goes_left, [(0, 0), (0, n_categories - tree.goes_left.shape[1])]
    )
    routing = _Routing(
        left=pad(tree.left, -1, np.int32),
        right=pad(tree.right, -1, np.int32),
        direction=pad(tree.direction, 0, np.float32),
        threshold=pad(tree.threshold, 0, np.float32),
        discrete_attribute=pad(discrete, -1, np.int32),
        goes_left=pad(goes_left, False, bool),
        larger_left=pad(tree.larger_left, False, bool),
        coefficient=pad(tree.coefficient, 0, np.float32),
        low=pad(low, -np.inf, np.float32),
        high=pad(high, np.inf, np.float32),
    )
    return routing, next_power_of_two(max(tree.max_depth, 4))


def _decisions(routing: _Routing, x: jax.Array, codes: jax.Array) -> jax.Array:
    """Whether each row would go left at each node, shape (n_rows, n_nodes), bool."""
    projection = jnp.matmul(x, routing.direction.T, precision="highest")
    left = projection <= routing.threshold
    if codes.shape[1]:
        attribute = jnp.maximum(routing.discrete_attribute, 0)
        code = codes[:, attribute]
        known = jnp.where(
            code >= 0,
            routing.goes_left[jnp.arange(len(attribute)), jnp.maximum(code, 0)],
            routing.larger_left,
        )
        left = jnp.where(routing.discrete_attribute >= 0, known, left)
    return left


@functools.partial(jit, static_argnames=("max_depth",))
def _walk(
    routing: _Routing, x: jax.Array, codes: jax.Array, *, max_depth: int
) -> tuple[jax.Array, jax.Array]:
    """Path of every row, and the prediction of every node on it.

    Returns node ids of shape (max_depth + 1, n_rows) and the predictions of those
    nodes; below the leaf the leaf is repeated.
    """
    left = _decisions(routing, x, codes)
    n_regressors = routing.coefficient.shape[1] - 1
    regressors = x[:, :n_regressors]

    def step(node, _):
        go_left = jnp.take_along_axis(left, node[:, None], axis=1)[:, 0]
        child = jnp.where(go_left, routing.left[node], routing.right[node])
        following = jnp.where(routing.left[node] < 0, node, child)
        return following, following

    root = jnp.zeros(x.shape[0], jnp.int32)
    _, below = jax.lax.scan(step, root, None, length=max_depth)
    path = jnp.concatenate([root[None], below])

    def predict(node):
        coefficient = routing.coefficient[node]
        value = coefficient[:, 0] + jnp.sum(coefficient[:, 1:] * regressors, axis=1)
        return jnp.clip(value, routing.low[node], routing.high[node])

    return path, jax.lax.map(predict, path)


@functools.partial(jit, static_argnames=("max_depth",))
def _apply_and_predict(
    routing: _Routing, x: jax.Array, codes: jax.Array, *, max_depth: int
) -> tuple[jax.Array, jax.Array]:
    """Leaf of every row and its prediction there, shape (n_rows,) each."""
    left = _decisions(routing, x, codes)

    def step(_, node):
        go_left = jnp.take_along_axis(left, node[:, None], axis=1)[:, 0]
        child = jnp.where(go_left, routing.left[node], routing.right[node])
        return jnp.where(routing.left[node] < 0, node, child)

    leaf = jax.lax.fori_loop(0, max_depth, step, jnp.zeros(x.shape[0], jnp.int32))
    coefficient = routing.coefficient[leaf]
    regressors = x[:, : coefficient.shape[1] - 1]
    value = coefficient[:, 0] + jnp.sum(coefficient[:, 1:] * regressors, axis=1)
    return leaf, jnp.clip(value, routing.low[leaf], routing.high[leaf])


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
    (shares,) = _in_blocks(tree, table, shares_of_rows)
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
    return _in_blocks(tree, table, _apply_and_predict)[0]


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
    function = mixed_prediction if tree.is_soft else _apply_and_predict
    return tree.schema.restore_target(_in_blocks(tree, table, function)[-1])


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
    path, prediction = _in_blocks(tree, table, _walk)
    keep = tree.max_depth + 1
    return path[:keep], prediction[:keep]


def _in_blocks(tree: Tree, table: Table, function) -> tuple[np.ndarray, ...]:
    """Run a jitted function over padded blocks of rows and put the results together.

    A row's result does not depend on the other rows of its block, nor on the block.
    """
    if function in (mixed_prediction, shares_of_rows):
        routing = _soft_routing(tree)
        n_padded = len(routing.direction)
    else:
        routing, max_depth = _routing(tree)
        n_padded = len(routing.left)
        function = functools.partial(function, max_depth=max_depth)
    results = []
    # Decisions of all nodes are taken at once: large trees take smaller blocks.
    block = max(1024, min(ROW_BLOCK, 2**24 // n_padded))
    for x, codes, n_rows in row_blocks(table.x, table.codes, block):
        found = function(routing, x, codes)
        results.append([np.asarray(array)[..., :n_rows] for array in found])
    return tuple(np.concatenate(parts, axis=-1) for parts in zip(*results, strict=True))


def compact(tree: Tree, keep_children: np.ndarray) -> Tree:
    """The tree in which the nodes outside ``keep_children`` have become leaves.

    Parameters
    ----------
    tree : Tree
    keep_children : ndarray of shape (n_nodes,), bool
        Nodes whose split is kept.

    Returns
    -------
    Tree
        Without the nodes that can no longer be reached, renumbered in order.
    """
    inner = ~tree.is_leaf & keep_children
    reachable = np.zeros(tree.n_nodes, bool)
    reachable[0] = True
    for node in np.flatnonzero(~tree.is_leaf):  # parents come before children
        if reachable[node] and inner[node]:
            reachable[tree.left[node]] = reachable[tree.right[node]] = True
    number = np.cumsum(reachable) - 1
    pruned = ~tree.is_leaf & ~inner

    def renumber(ids):
        return np.where(ids >= 0, number[np.maximum(ids, 0)], -1).astype(np.int32)

    def blank(array, value):
        shape = (-1,) + (1,) * (array.ndim - 1)
        return np.where(pruned.reshape(shape), np.asarray(value, array.dtype), array)

    changed = {
        "left": renumber(np.where(inner, tree.left, -1)),
        "right": renumber(np.where(inner, tree.right, -1)),
        "parent": renumber(tree.parent),
        "kind": blank(tree.kind, SplitKind.LEAF),
        "attribute": blank(tree.attribute, -1),
        "direction": blank(tree.direction, 0),
        "threshold": blank(tree.threshold, 0),
        "gate_width": blank(tree.gate_width, 0),
        "goes_left": blank(tree.goes_left, False),
        "gain": blank(tree.gain, 0),
        "stop_reason": blank(tree.stop_reason, StopReason.PRUNED),
    }
    arrays = {name: getattr(tree, name) for name in ARRAY_FIELDS} | changed
    return Tree(
        **{name: array[reachable] for name, array in arrays.items()},
        schema=tree.schema,
        clip_margin=tree.clip_margin,
        clip_leaves=tree.clip_leaves,
    )


def hardened(tree: Tree) -> Tree:
    """The tree with every gate replaced by its threshold; the models stay.

    Models that were trained to be mixed are no longer: the error of a soft tree rises.
    """
    width = np.zeros_like(tree.gate_width)
    return replace(tree, gate_width=width, clip_leaves=True)


ARRAY_FIELDS = tuple(
    name
    for name in Tree.__dataclass_fields__
    if name not in ("schema", "clip_margin", "clip_leaves")
)
