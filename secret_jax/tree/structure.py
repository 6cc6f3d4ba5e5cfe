"""The fitted tree: flat, immutable arrays.

A tree holds nothing that only training needs. Nodes are numbered so that parents come
before their children and the root is node 0. Every number in the tree lives in
*standardised* units (see `secret_jax.data.table`); `export` maps them back.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from enum import IntEnum

import jax
import numpy as np

from secret_jax.data.table import TableSchema


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

    def __post_init__(self) -> None:
        for name in ARRAY_FIELDS:
            array = getattr(self, name)
            if isinstance(array, np.ndarray):  # not so under a transformation of JAX
                array = array.view()
                array.flags.writeable = False
                object.__setattr__(self, name, array)

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


def compact(
    tree: Tree, keep_children: np.ndarray, reason: StopReason = StopReason.PRUNED
) -> Tree:
    """The tree in which the nodes outside ``keep_children`` have become leaves.

    Parameters
    ----------
    tree : Tree
    keep_children : ndarray of shape (n_nodes,), bool
        Nodes whose split is kept.
    reason : StopReason
        Of the new leaves.

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
        "stop_reason": blank(tree.stop_reason, reason),
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
