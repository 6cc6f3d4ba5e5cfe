"""Sums of many small trees, with all splits evaluated at once (QuickScorer).

Every split strikes out the leaves on the side that a row does not take: a row's leaf is
the leftmost one that is left after all splits of the tree, also those that are not on
its way (Lucchese et al. 2015). The leaves are bits of a number, so that all rows of a
block are decided by the same few instructions, and the models of all leaves are one
product of matrices: a processor does sixteen rows in the time of one.
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
from secret_jax.tree.decision import goes_left
from secret_jax.tree.structure import SplitKind, Tree

# Leaves, and categories, that the bits of a number tell apart.
N_BITS = 32
# Trees are padded to this number of leaves, or to twice as many.
_FEWEST = 16


class LeafBits(NamedTuple):
    """Padded arrays of several trees for the compiled sum.

    A padded split strikes out nothing; a padded leaf is reached by no row.

    Attributes
    ----------
    direction : Array of shape (n_trees, n_splits, n_columns), float32
    threshold : Array of shape (n_trees, n_splits), float32
    attribute : Array of shape (n_trees, n_splits), int32
        Attribute of a discrete split; -1 where it is on continuous attributes.
    subset : Array of shape (n_trees, n_splits, n_words), uint32
        Categories that go left, 32 in a word.
    larger_left : Array of shape (n_trees, n_splits), bool
    right : Array of shape (n_trees, n_splits), uint32
        Leaves still possible for a row that goes right: those not below the left child.
    coefficient : Array of shape (n_trees, n_outputs, n_leaves, 1 + n_regressors)
        Leaves from left to right; float32.
    low, high : Array of shape (n_trees, n_outputs, n_leaves), float32
    """

    direction: AnyArray
    threshold: AnyArray
    attribute: AnyArray
    subset: AnyArray
    larger_left: AnyArray
    right: AnyArray
    coefficient: AnyArray
    low: AnyArray
    high: AnyArray


def leaf_bits(trees: Sequence[Tree], n_trees: int) -> LeafBits:
    """Pack trees of at most `N_BITS` leaves, padded to ``n_trees``."""
    most = max(tree.n_leaves for tree in trees)
    n_leaves = next_power_of_two(max(most, _FEWEST))
    each = [_bits(tree, n_leaves) for tree in trees]
    stacked = (np.stack(arrays) for arrays in zip(*each, strict=True))
    return LeafBits(*(padded(array, n_trees) for array in stacked))


def _bits(tree: Tree, n_leaves: int) -> LeafBits:
    inner, leaf = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)
    below = tree.is_leaf.astype(np.int64)  # leaves below every node
    for node in inner[::-1]:  # parents come first
        below[node] = below[tree.left[node]] + below[tree.right[node]]
    first = np.zeros(tree.n_nodes, np.int64)  # the leftmost one
    for node in inner:
        left, right = tree.left[node], tree.right[node]
        first[left], first[right] = first[node], first[node] + below[left]
    every = (1 << N_BITS) - 1
    left = tree.left[inner]
    struck = np.left_shift(np.left_shift(1, below[left]) - 1, first[left])
    stay = (every ^ struck).astype(np.uint32)
    discrete = tree.kind[inner] == SplitKind.DISCRETE
    n_splits = n_leaves  # there is one leaf more than there are splits
    in_order = leaf[np.argsort(first[leaf])]
    low, high = tree.clip_range()

    def split(values: np.ndarray, dtype: type, fill: float = 0) -> np.ndarray:
        return padded(np.asarray(values, dtype), n_splits, fill)

    def model(values: np.ndarray, fill: float = 0) -> np.ndarray:
        own = padded(values[in_order].astype(np.float32), n_leaves, fill)
        return np.moveaxis(own, 1, 0)

    return LeafBits(
        direction=split(tree.direction[inner], np.float32),
        threshold=split(tree.threshold[inner], np.float32),
        attribute=split(np.where(discrete, tree.attribute[inner], -1), np.int32, -1),
        subset=split(_words(tree.goes_left[inner]), np.uint32),
        larger_left=split(tree.larger_left[inner], bool),
        right=split(stay, np.uint32, every),
        coefficient=model(tree.coefficient),
        low=model(low, -np.inf),
        high=model(high, np.inf),
    )


def _words(goes_left: np.ndarray) -> np.ndarray:
    """Pack sets of categories into words of 32 bits, shape (n_splits, n_words)."""
    n_splits, n_categories = goes_left.shape
    n_words = next_power_of_two(max(-(-n_categories // N_BITS), 1))
    listed = np.zeros((n_splits, n_words * N_BITS), np.uint32)
    listed[:, :n_categories] = goes_left
    bit = np.left_shift(np.uint32(1), np.arange(N_BITS, dtype=np.uint32))
    words = listed.reshape(n_splits, n_words, N_BITS) * bit
    return words.sum(axis=2, dtype=np.uint32)


@program()
def sum_by_bits(
    trees: LeafBits,
    x: jax.Array,
    codes: jax.Array,
    steps: jax.Array,
    first: jax.Array,
    last: jax.Array,
) -> tuple[jax.Array]:
    """Weighted sum of the predictions of a range of trees, (n_outputs, n_rows).

    Parameters
    ----------
    x : Array of shape (n_rows, n_columns), float32
    codes : Array of shape (n_rows, n_discrete), int32
    steps : Array of shape (n_trees,), float32
    first, last : Array of shape (), int32
        The trees from the first one up to the last one.
    """
    columns, codes = x.T, codes.T
    n_regressors = trees.coefficient.shape[3] - 1
    ones = jnp.ones_like(columns[:1])
    design = jnp.concatenate([ones, columns[:n_regressors]])
    every = jnp.full(x.shape[0], (1 << N_BITS) - 1, jnp.uint32)

    def add(which: jax.Array, total: jax.Array) -> jax.Array:
        tree = jax.tree.map(lambda array: array[which], trees)
        projection = matmul(tree.direction, columns)
        left = every
        for split in range(len(tree.threshold)):
            goes = _goes_left(tree, split, projection[split], codes)
            left = jnp.where(goes, left, left & tree.right[split])
        reached = left & (~left + jnp.uint32(1))  # the lowest bit alone
        values = [
            _at_leaf(reached, matmul(model, design), low, high)
            for model, low, high in zip(
                tree.coefficient, tree.low, tree.high, strict=True
            )
        ]
        return total + steps[which] * jnp.stack(values)

    nothing = jnp.zeros((trees.coefficient.shape[1], x.shape[0]), x.dtype)
    return (jax.lax.fori_loop(first, last, add, nothing),)


def _goes_left(
    tree: LeafBits, split: int, projection: jax.Array, codes: jax.Array
) -> jax.Array:
    """Whether rows go left at a split, shape (n_rows,)."""
    threshold, attribute = tree.threshold[split], tree.attribute[split]
    if not len(codes):
        return projection <= threshold
    code = codes[jnp.maximum(attribute, 0)]
    known = jnp.maximum(code, 0).astype(jnp.uint32)
    listed = jnp.zeros(code.shape, bool)
    for word in range(tree.subset.shape[1]):
        bit = (tree.subset[split, word] >> (known % N_BITS)) & jnp.uint32(1)
        listed |= (known // N_BITS == word) & (bit > 0)
    larger_left = tree.larger_left[split]
    return goes_left(
        projection, threshold, attribute >= 0, code, listed, larger_left, jnp
    )


def _at_leaf(
    reached: jax.Array, every: jax.Array, low: jax.Array, high: jax.Array
) -> jax.Array:
    """Select each row's clipped leaf value from values of shape (n_leaves, n_rows)."""
    value = jnp.zeros_like(every[0])
    for leaf in range(len(every)):
        own = jnp.clip(every[leaf], low[leaf], high[leaf])
        value = jnp.where(reached == jnp.uint32(1 << leaf), own, value)
    return value
