"""Trees as padded arrays, and programs that route rows through them on accelerators.

Rows are decided at all splits at once. In a tree of few leaves every split strikes out
the leaves on the side that a row does not take: its leaf is the leftmost one that is
left after all splits, also those that are not on its way (QuickScorer, Lucchese et al.
2015). The leaves are bits, so that all rows of a block take the same few instructions,
and the models of all leaves are one product of matrices. In larger trees a row follows
the links, and takes the model of its leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.linalg import AnyArray, matmul
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import next_power_of_two, padded
from secret_jax.tree.comparisons import Comparisons, comparisons_of, goes_left
from secret_jax.tree.structure import Tree

# Leaves, and categories, of a word of bits. (Of two words of leaves the links are
# faster.)
_WORD = 32
_EVERY = (1 << _WORD) - 1
# Minimum number of leaves after padding.
_FEWEST = 16


class PackedTrees(NamedTuple):
    """Padded arrays of several trees, or without the first axis of one.

    There are as many splits as leaves, the last ones padding: rows go on to leaf 0
    there. Conditions of a conjunction are splits that follow each other, with one right
    child. Leaves are numbered from left to right; a padded leaf is never reached.
    """

    direction: AnyArray  # (n_trees, n_splits, n_columns), float32
    threshold: AnyArray  # (n_trees, n_splits), float32
    # (n_trees, n_splits), int32: attribute of a discrete split; -1 where it is on
    # continuous attributes.
    attribute: AnyArray
    # (n_trees, n_splits, n_words), uint32: categories that go left, 32 in a word.
    subset: AnyArray
    larger_left: AnyArray  # (n_trees, n_splits), bool
    # (n_trees, n_splits, 2), int32: right and left child: a split, or ``n_splits`` plus
    # a leaf.
    child: AnyArray
    depth: AnyArray  # (n_trees,), int32
    # (n_trees, n_splits, 1), uint32: leaves still possible for a row that goes right:
    # those not below the left child. No word, shape (n_trees, n_splits, 0), in larger
    # trees.
    right: AnyArray
    node: AnyArray  # (n_trees, n_leaves), int32: node ids of the leaves
    coefficient: AnyArray  # (n_trees, n_outputs, n_leaves, 1 + n_regressors), float32
    # low, high (n_trees, n_outputs, n_leaves), float32.
    low: AnyArray
    high: AnyArray

    def of(self, which: AnyArray | int) -> PackedTrees:
        """Take one of the trees."""
        return PackedTrees(*(array[which] for array in self))


def packed(trees: Sequence[Tree], n_trees: int) -> PackedTrees:
    """Pack trees of one schema, padded to ``n_trees``."""
    compared = [comparisons_of(tree, np.flatnonzero(~tree.is_leaf)) for tree in trees]
    pairs = list(zip(trees, compared, strict=True))
    most = max(max(tree.n_leaves, len(splits.node)) for tree, splits in pairs)
    n_leaves = next_power_of_two(max(most, _FEWEST))
    each = [_packed(*pair, n_leaves) for pair in pairs]
    stacked = (np.stack(arrays) for arrays in zip(*each, strict=True))
    return PackedTrees(*(padded(array, n_trees) for array in stacked))


def _packed(tree: Tree, compared: Comparisons, n_leaves: int) -> PackedTrees:
    is_leaf = tree.is_leaf
    inner = np.flatnonzero(~is_leaf)
    below = is_leaf.astype(np.int64)  # leaves below every node
    for node in inner[::-1]:  # parents come first
        below[node] = below[tree.left[node]] + below[tree.right[node]]
    first = np.zeros(tree.n_nodes, np.int64)  # the leftmost one
    for node in inner:
        left, right = tree.left[node], tree.right[node]
        first[left], first[right] = first[node], first[node] + below[left]
    leaf = np.flatnonzero(is_leaf)
    leaf = leaf[np.argsort(first[leaf])]
    place = np.where(is_leaf, n_leaves + first, np.cumsum(~is_leaf) - 1)
    left, right = tree.left[compared.node], tree.right[compared.node]
    to_left = place[left]
    for conjunction, conditions in compared.conditions:
        to_left[[conjunction, *conditions[:-1]]] = conditions
    words = np.zeros((len(left), 0), np.uint32)
    if n_leaves <= _WORD:
        bit = np.arange(_WORD)[None]
        start = first[left][:, None]
        words = _words((bit < start) | (bit >= start + below[left][:, None]))
    attribute = np.full(len(left), -1)
    attribute[compared.discrete] = compared.attribute[compared.discrete]
    n_words = next_power_of_two(max(-(-tree.goes_left.shape[1] // _WORD), 1))
    listed = np.zeros((len(left), n_words * _WORD), bool)
    listed[:, : tree.goes_left.shape[1]] = compared.goes_left
    low, high = tree.clip_range()

    def split(values: np.ndarray, dtype: type, fill: float = 0) -> np.ndarray:
        return padded(np.asarray(values, dtype), n_leaves, fill)

    def model(values: np.ndarray, fill: float = 0) -> np.ndarray:
        return np.moveaxis(
            padded(values[leaf].astype(np.float32), n_leaves, fill), 1, 0
        )

    return PackedTrees(
        direction=split(compared.direction, np.float32),
        threshold=split(compared.threshold, np.float32),
        attribute=split(attribute, np.int32, -1),
        subset=split(_words(listed), np.uint32),
        larger_left=split(compared.larger_left, bool),
        child=split(np.c_[place[right], to_left], np.int32, n_leaves),
        depth=np.int32(max(tree.max_depth * len(tree.comparisons), 1)),
        right=split(words, np.uint32, _EVERY),
        node=split(leaf, np.int32),
        coefficient=model(tree.coefficient),
        low=model(low, -np.inf),
        high=model(high, np.inf),
    )


def _words(member: np.ndarray) -> np.ndarray:
    """Pack masks into words of 32 bits, shape (n_splits, n_words)."""
    bit = np.left_shift(np.uint32(1), np.arange(_WORD, dtype=np.uint32))
    parts = member.reshape(len(member), member.shape[1] // _WORD, _WORD) * bit
    return parts.sum(axis=2, dtype=np.uint32)


def leaf_of(tree: PackedTrees, x: jax.Array, codes: jax.Array) -> jax.Array:
    """Number of every row's leaf, shape (n_rows,), int32; traceable."""
    left = _left(tree, x, codes)
    if tree.right.shape[-1]:
        return _at_leaf(_reached(tree, left), jnp.arange(tree.node.shape[-1]))
    n_splits, row = len(left), jnp.arange(x.shape[0])

    def step(_: jax.Array, place: jax.Array) -> jax.Array:
        at = jnp.minimum(place, n_splits - 1)  # of a leaf it does not matter
        below = tree.child[at, left[at, row].astype(jnp.int32)]
        return jnp.where(place < n_splits, below, place)

    root = jnp.zeros(x.shape[0], jnp.int32)
    return jax.lax.fori_loop(0, tree.depth, step, root) - n_splits


def value_of(tree: PackedTrees, x: jax.Array, codes: jax.Array) -> jax.Array:
    """Predict with every row's leaf, clipped, (n_outputs, n_rows); traceable."""
    regressors = x[:, : tree.coefficient.shape[-1] - 1]
    if tree.right.shape[-1]:
        reached = _reached(tree, _left(tree, x, codes))
        design = jnp.concatenate([jnp.ones_like(x[:, :1]), regressors], axis=1).T
        low, high = tree.low[..., None], tree.high[..., None]
        every = [matmul(model, design) for model in tree.coefficient]
        return jnp.stack(
            [_at_leaf(reached, *each) for each in zip(every, low, high, strict=True)]
        )
    leaf = leaf_of(tree, x, codes)

    def of_output(coefficient: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
        model = coefficient[leaf]
        value = model[:, 0] + jnp.sum(model[:, 1:] * regressors, axis=1)
        return jnp.clip(value, low[leaf], high[leaf])

    outputs = zip(tree.coefficient, tree.low, tree.high, strict=True)
    return jnp.stack([of_output(*each) for each in outputs])


def _left(tree: PackedTrees, x: jax.Array, codes: jax.Array) -> jax.Array:
    """Whether rows go left at all splits, shape (n_splits, n_rows)."""
    projection, threshold = matmul(tree.direction, x.T), tree.threshold[:, None]
    if not codes.shape[1]:
        return projection <= threshold
    attribute = tree.attribute[:, None]
    code = codes.T[jnp.maximum(tree.attribute, 0)]
    known = jnp.maximum(code, 0).astype(jnp.uint32)
    listed = jnp.zeros(code.shape, bool)
    for word, subset in enumerate(tree.subset.T):
        bit = (subset[:, None] >> (known % _WORD)) & jnp.uint32(1)
        listed |= (known // _WORD == word) & (bit > 0)
    larger_left = tree.larger_left[:, None]
    return goes_left(
        projection, threshold, attribute >= 0, code, listed, larger_left, jnp
    )


def _reached(tree: PackedTrees, left: jax.Array) -> jax.Array:
    """Word with the bit of every row's leaf, shape (n_rows,), uint32."""
    word = jnp.full(left.shape[1], _EVERY, jnp.uint32)
    for split in range(len(left)):
        word = jnp.where(left[split], word, word & tree.right[split, 0])
    return word & (~word + jnp.uint32(1))


def _at_leaf(
    reached: jax.Array,
    every: jax.Array,
    low: jax.Array | None = None,
    high: jax.Array | None = None,
) -> jax.Array:
    """Select each row's leaf from values of shape (n_leaves[, n_rows]), clipped."""
    value = jnp.zeros(reached.shape, every.dtype)
    for leaf in range(len(every)):
        own = every[leaf]
        if low is not None and high is not None:
            own = jnp.clip(own, low[leaf], high[leaf])
        value = jnp.where(reached == jnp.uint32(1 << leaf), own, value)
    return value


@program()
def leaf_ids(trees: PackedTrees, x: jax.Array, codes: jax.Array) -> tuple[jax.Array]:
    """Node id of every row's leaf in the first tree, shape (n_rows,)."""
    tree = trees.of(0)
    return (tree.node[leaf_of(tree, x, codes)],)


@program()
def sum_of_trees(
    trees: PackedTrees,
    x: jax.Array,
    codes: jax.Array,
    steps: jax.Array,
    n_trees: jax.Array,
) -> tuple[jax.Array]:
    """Weighted sum of the predictions of trees, (n_outputs, n_rows).

    ``x`` (n_rows, n_columns), float32; ``codes`` (n_rows, n_discrete), int32; ``steps``
    (n_padded,), float32; ``n_trees`` (), int32: the trees after these are padding.
    """

    def add(which: jax.Array, total: jax.Array) -> jax.Array:
        return total + steps[which] * value_of(trees.of(which), x, codes)

    nothing = jnp.zeros((trees.coefficient.shape[1], x.shape[0]), x.dtype)
    return (jax.lax.fori_loop(0, n_trees, add, nothing),)
