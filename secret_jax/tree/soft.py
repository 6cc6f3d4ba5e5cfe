"""Soft splits: gates along the paths to the leaves, as pure functions.

A gate sends the share ``sigmoid(logit)`` of a row to the left child and the rest to the
right one; the share of a leaf is the product of the gates on its path (hierarchical
mixtures of experts, Jordan & Jacobs 1994). Inner nodes and leaves are numbered apart
here, each in the order of the tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secret_jax.runtime.linalg import AnyArray, matmul
from secret_jax.runtime.shapes import next_power_of_two, padded
from secret_jax.tree.packed import FEWEST, clipped
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.totals import way_to
from secret_jax.tree.walk import goes_left

# Beyond it a gate is as good as hard: exp(-100) is nothing beside any other leaf.
HARD_LOGIT = 100.0
_ABSENT = -1e9
# Leaves that are not clipped: infinity times a share of 0 would be no number.
_UNBOUNDED = 1e30


class Paths(NamedTuple):
    """Masks of the gates on the path to each leaf."""

    # left, right (n_leaves, n_inner), float32: 1 where the leaf lies in the left
    # (right) subtree of the inner node.
    left: AnyArray
    right: AnyArray
    # (n_leaves,), float32: 0 for leaves; a large negative number for padding.
    absent: AnyArray


def paths(tree: Tree, *, n_inner: int, n_leaves: int) -> Paths:
    """Compute the paths of a tree, padded to numbers of inner nodes and leaves."""
    inner_number = np.cumsum(~tree.is_leaf) - 1
    to_left, to_right = np.zeros((2, n_leaves, n_inner), np.float32)
    absent = np.full(n_leaves, _ABSENT, np.float32)
    absent[: tree.n_leaves] = 0.0
    for leaf, node in enumerate(np.flatnonzero(tree.is_leaf).tolist()):
        for above, side in way_to(tree, node):
            turned = to_left if side == "left" else to_right
            turned[leaf, inner_number[above]] = 1.0
    return Paths(to_left, to_right, absent)


class SoftRouting(NamedTuple):
    """Padded arrays for prediction with gates."""

    direction: AnyArray  # (n_inner, n_continuous), float32
    # threshold, width (n_inner,), float32: width 0 for hard splits.
    threshold: AnyArray
    width: AnyArray
    # Splits on discrete attributes, which stay hard: (n_inner,), int32, -1 where one is
    # on columns; (n_inner, n_categories) and (n_inner,), bool.
    attribute: AnyArray
    goes_left: AnyArray
    larger_left: AnyArray
    along: Paths
    coefficient: AnyArray  # (n_leaves, n_outputs, 1 + n_regressors), float32
    # low, high (n_leaves, n_outputs), float32: to which leaves are clipped.
    low: AnyArray
    high: AnyArray
    # lowest, highest (n_outputs,), float32: to which their mixture is clipped.
    lowest: AnyArray
    highest: AnyArray


def soft_routing(tree: Tree, n_leaves: int = 0) -> SoftRouting:
    """Pad the arrays of a soft tree, to a number of leaves or a power of two."""
    inner, leaf = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)
    n_leaves = n_leaves or next_power_of_two(max(len(leaf), FEWEST))

    def pad(array: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return padded(array[chosen].astype(np.float32), n_leaves)

    low, high = tree.clip_range()
    lowest = np.full(tree.n_outputs, -np.inf)
    highest = -lowest
    if not tree.clip_leaves:
        lowest, highest = low[0], high[0]
        low, high = np.full_like(low, -_UNBOUNDED), np.full_like(low, _UNBOUNDED)
    discrete = np.where(tree.kind == SplitKind.DISCRETE, tree.attribute, -1)[inner]
    n_categories = tree.goes_left.shape[1]
    more = next_power_of_two(max(n_categories, 1)) - n_categories
    listed = np.pad(tree.goes_left[inner], [(0, 0), (0, more)])
    return SoftRouting(
        direction=pad(tree.direction, inner),
        threshold=pad(tree.threshold, inner),
        width=pad(tree.gate_width, inner),
        attribute=padded(discrete.astype(np.int32), n_leaves, -1),
        goes_left=padded(listed, n_leaves),
        larger_left=padded(tree.larger_left[inner], n_leaves),
        along=paths(tree, n_inner=n_leaves, n_leaves=n_leaves),
        coefficient=pad(tree.coefficient, leaf),
        low=pad(low, leaf),
        high=pad(high, leaf),
        lowest=lowest.astype(np.float32),
        highest=highest.astype(np.float32),
    )


def shares_of_rows(routing: SoftRouting, x: AnyArray, codes: AnyArray, xp: Any) -> Any:
    """Compute the shares of the leaves, shape (n_rows, n_leaves); rows sum to one."""
    attribute, along = routing.attribute, routing.along
    is_gate = (routing.width > 0) & (attribute < 0)
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = routing.threshold - matmul(x, routing.direction.T)
        soft = beyond / xp.where(is_gate, routing.width, 1.0)
        left = beyond >= 0
        if codes.shape[1]:
            code = codes[:, xp.maximum(attribute, 0)]
            number = xp.arange(len(attribute))
            listed = routing.goes_left[number, xp.maximum(code, 0)]
            discrete, larger_left = attribute >= 0, routing.larger_left
            left = goes_left(-beyond, 0.0, discrete, code, listed, larger_left, xp)
    # A projection that overflowed to no number goes right, as in a hard tree.
    is_gate = is_gate & ~xp.isnan(soft)
    hard = xp.where(left, HARD_LOGIT, -HARD_LOGIT)
    logit = xp.where(is_gate, xp.clip(soft, -HARD_LOGIT, HARD_LOGIT), hard)
    # Sums of logarithms: products of many gates would underflow in the gradient. Those
    # of both sides, as logits of hard splits would round what is beside them.
    rest = xp.log(1.0 + xp.exp(-xp.abs(logit)))
    log_left, log_right = xp.minimum(logit, 0.0) - rest, xp.minimum(-logit, 0.0) - rest
    log_share = matmul(log_left, along.left.T) + matmul(log_right, along.right.T)
    return xp.exp(log_share + along.absent)


def mixed(routing: SoftRouting, x: AnyArray, codes: AnyArray, xp: Any) -> Any:
    """Mean of the leaves by their shares, as precise as ``x``, (n_outputs, n_rows)."""
    shares = shares_of_rows(routing, x, codes, xp)
    regressors = x[:, : routing.coefficient.shape[2] - 1]
    outputs = []
    for output in range(routing.coefficient.shape[1]):
        coefficient = routing.coefficient[:, output]
        with np.errstate(over="ignore", invalid="ignore"):
            value = matmul(regressors, coefficient[:, 1:].T) + coefficient[:, 0]
        # Also what an overflowing sum left of a number.
        value = clipped(value, routing.low[:, output], routing.high[:, output], xp)
        total = xp.sum(shares * value, axis=1)
        ends = routing.lowest[output], routing.highest[output]
        outputs.append(clipped(total, *ends, xp))
    return xp.stack(outputs)
