"""Soft splits: gates along the paths to the leaves, as pure functions of arrays.

A gate sends the share ``sigmoid(logit)`` of a row to the left child and the rest to the
right one; the share of a leaf is the product of the gates on its path (hierarchical
mixtures of experts, Jordan & Jacobs 1994). Inner nodes and leaves are numbered apart
here, each in the order of the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.compiling import jit
from secret_jax.runtime.linalg import AnyArray, matmul

# Beyond it a gate is as good as hard: exp(-100) is nothing beside any other leaf.
HARD_LOGIT = 100.0
_ABSENT = -1e9


class Paths(NamedTuple):
    """Which gates lead to which leaf.

    Attributes
    ----------
    left, right : ndarray of shape (n_leaves, n_inner), float32
        1 where the leaf lies in the left (right) subtree of the inner node.
    absent : ndarray of shape (n_leaves,), float32
        0 for leaves; a large negative number for padding.
    """

    left: AnyArray
    right: AnyArray
    absent: AnyArray


def paths(
    left: np.ndarray, parent: np.ndarray, *, n_inner: int, n_leaves: int
) -> Paths:
    """Paths of a tree, padded.

    Parameters
    ----------
    left, parent : ndarray of shape (n_nodes,), int32
        As in `secret_jax.tree.structure.Tree`.
    n_inner, n_leaves : int
        Numbers of inner nodes and leaves after padding.

    Returns
    -------
    Paths
    """
    inner = left >= 0
    inner_number = np.cumsum(inner) - 1
    to_left = np.zeros((n_leaves, n_inner), np.float32)
    to_right = np.zeros((n_leaves, n_inner), np.float32)
    absent = np.full(n_leaves, _ABSENT, np.float32)
    for leaf, node in enumerate(np.flatnonzero(~inner)):
        absent[leaf] = 0.0
        child, above = int(node), int(parent[node])
        while above >= 0:
            side = to_left if left[above] == child else to_right
            side[leaf, inner_number[above]] = 1.0
            child, above = above, int(parent[above])
    return Paths(to_left, to_right, absent)


def leaf_shares(logit: jax.Array, along: Paths) -> jax.Array:
    """Share of every row that reaches every leaf.

    Parameters
    ----------
    logit : Array of shape (n_rows, n_inner)
        Positive where the larger share goes left; within ``±HARD_LOGIT``.
    along : Paths

    Returns
    -------
    Array of shape (n_rows, n_leaves)
        Rows sum to one.
    """
    # Sums of logarithms: products of many gates would underflow in the gradient. The
    # logarithm of the right share is that of the left one minus the logit.
    log_left = jax.nn.log_sigmoid(logit)
    through = (along.left + along.right).T
    log_share = matmul(log_left, through) - matmul(logit, along.right.T)
    return jnp.exp(log_share + along.absent)


def discrete_logits(
    attribute: jax.Array, goes_left: jax.Array, larger_left: jax.Array, codes: jax.Array
) -> jax.Array:
    """Logits of splits on discrete attributes, which stay hard.

    Parameters
    ----------
    attribute : Array of shape (n_inner,), int32
        -1 where the split is not on a discrete attribute; the logit is 0 there.
    goes_left : Array of shape (n_inner, n_categories), bool
    larger_left : Array of shape (n_inner,), bool
    codes : Array of shape (n_rows, n_discrete), int32

    Returns
    -------
    Array of shape (n_rows, n_inner), float32
    """
    if codes.shape[1] == 0:
        return jnp.zeros((codes.shape[0], len(attribute)), jnp.float32)
    code = codes[:, jnp.maximum(attribute, 0)]
    listed = goes_left[jnp.arange(len(attribute)), jnp.maximum(code, 0)]
    left = jnp.where(code >= 0, listed, larger_left)
    logit = jnp.where(left, HARD_LOGIT, -HARD_LOGIT)
    return jnp.where(attribute >= 0, logit, 0.0)


class SoftRouting(NamedTuple):
    """What prediction with gates reads, padded.

    Attributes
    ----------
    direction : ndarray of shape (n_inner, n_continuous), float32
    threshold, width : ndarray of shape (n_inner,), float32
        Width 0 for hard splits.
    discrete_attribute, goes_left, larger_left
        As in `discrete_logits`.
    along : Paths
    coefficient : ndarray of shape (n_leaves, 1 + n_regressors), float32
    low, high : ndarray of shape (n_leaves,), float32
        To which leaves are clipped.
    lowest, highest : ndarray of shape (), float32
        To which their mixture is clipped.
    """

    direction: AnyArray
    threshold: AnyArray
    width: AnyArray
    discrete_attribute: AnyArray
    goes_left: AnyArray
    larger_left: AnyArray
    along: Paths
    coefficient: AnyArray
    low: AnyArray
    high: AnyArray
    lowest: AnyArray
    highest: AnyArray


def _shares(routing: SoftRouting, x: jax.Array, codes: jax.Array) -> jax.Array:
    beyond = routing.threshold - matmul(x, routing.direction.T)
    is_gate = routing.width > 0
    soft = beyond / jnp.where(is_gate, routing.width, 1.0)
    soft = jnp.clip(soft, -HARD_LOGIT, HARD_LOGIT)
    # A projection that overflowed to no number goes right, as in a hard tree.
    hard = jnp.where(beyond >= 0, HARD_LOGIT, -HARD_LOGIT)
    logit = jnp.where(is_gate & ~jnp.isnan(soft), soft, hard)
    fixed = discrete_logits(
        routing.discrete_attribute, routing.goes_left, routing.larger_left, codes
    )
    logit = jnp.where(routing.discrete_attribute >= 0, fixed, logit)
    return leaf_shares(logit, routing.along)


@jit
def shares_of_rows(
    routing: SoftRouting, x: jax.Array, codes: jax.Array
) -> tuple[jax.Array]:
    """Shares of the leaves, shape (n_leaves, n_rows)."""
    return (_shares(routing, x, codes).T,)


@jit
def mixed_prediction(
    routing: SoftRouting, x: jax.Array, codes: jax.Array
) -> tuple[jax.Array]:
    """Predictions of the leaves mixed by their shares, shape (n_rows,)."""
    regressors = x[:, : routing.coefficient.shape[1] - 1]
    value = matmul(regressors, routing.coefficient[:, 1:].T) + routing.coefficient[:, 0]
    # fmax and fmin also replace what an overflowing sum left of a number.
    value = jnp.fmin(jnp.fmax(value, routing.low), routing.high)
    mixed = jnp.sum(_shares(routing, x, codes) * value, axis=1)
    return (jnp.clip(mixed, routing.lowest, routing.highest),)


def few_rows(routing: SoftRouting, x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """What `mixed_prediction` gives, on the host, without a compiled program.

    Returns
    -------
    ndarray of shape (n_rows,), float64
    """
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = routing.threshold - x.astype(np.float64) @ routing.direction.T
        logit = beyond / np.where(routing.width > 0, routing.width, 1.0)
        value = x[:, : routing.coefficient.shape[1] - 1].astype(np.float64)
        value = value @ routing.coefficient[:, 1:].T + routing.coefficient[:, 0]
    goes_left = beyond >= 0
    attribute = routing.discrete_attribute
    if codes.shape[1]:
        code = codes[:, np.maximum(attribute, 0)]
        listed = routing.goes_left[np.arange(len(attribute)), np.maximum(code, 0)]
        known = np.where(code >= 0, listed, routing.larger_left)
        goes_left = np.where(attribute >= 0, known, goes_left)
    is_gate = (routing.width > 0) & (attribute < 0) & ~np.isnan(logit)
    hard = np.where(goes_left, HARD_LOGIT, -HARD_LOGIT)
    logit = np.where(is_gate, np.clip(logit, -HARD_LOGIT, HARD_LOGIT), hard)
    left, right, absent = routing.along
    log_left = -np.logaddexp(0.0, -logit)
    shares = np.exp(log_left @ (left + right).T - logit @ right.T + absent)
    value = np.fmin(np.fmax(value, routing.low), routing.high)
    mixed = np.sum(shares * value, axis=1)
    return np.clip(mixed, routing.lowest, routing.highest)
