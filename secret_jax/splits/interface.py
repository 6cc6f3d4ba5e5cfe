"""Split finders: functions from a batch of nodes to one split per node.

A finder takes a batch (`NodeBatch`, or `ModelBatch` in `rss`) and returns a
`NodeSplits`; it is pure, traceable and knows nothing of the frontier. The paper's is in
`secret`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.linalg import AnyArray


class NodeBatch(NamedTuple):
    """Rows of several nodes, padded to one shape.

    Attributes
    ----------
    x : Array of shape (n_nodes, n_rows, n_continuous), float32
        Regressors first.
    codes : Array of shape (n_nodes, n_rows, n_discrete), int32
    y : Array of shape (n_nodes, n_rows), float32
    weight : Array of shape (n_nodes, n_rows), float32
        Zero for padding.
    min_weight : Array of shape (n_nodes,), float32
        Least weight on each side of a split.
    randomness : Array of shape (n_nodes, n_starts, 2), float32
        Numbers in [0, 1), each node's own.
    from_component : Array of shape (n_nodes, n_starts), bool
        Starts that use the first principal component instead of random rows.
    oblique : Array of shape (n_nodes,), bool
        Whether the node may be split obliquely.
    """

    x: AnyArray
    codes: AnyArray
    y: AnyArray
    weight: AnyArray
    min_weight: AnyArray
    randomness: AnyArray
    from_component: AnyArray
    oblique: AnyArray


class NodeSplits(NamedTuple):
    """The best split of each node; arrays have a leading axis of nodes.

    Attributes
    ----------
    kind : Array of shape (n_nodes,), int32
        A `SplitKind`; LEAF where there is no usable split.
    attribute : Array of shape (n_nodes,), int32
        Continuous attribute of an axis split, discrete attribute of a discrete one,
        -1 for an oblique one.
    direction : Array of shape (n_nodes, n_continuous), float32
    threshold : Array of shape (n_nodes,), float32
    goes_left : Array of shape (n_nodes, n_categories), bool
    gain : Array of shape (n_nodes,), float32
    status : Array of shape (n_nodes,), int32
        `MixtureStatus` of the start that was used.
    pure : Array of shape (n_nodes,), bool
        Whether the output is constant or exactly linear in the rows.
    child_model : Array of shape (n_nodes, 2, 1 + n_regressors), float32
        Regressors that the Gaussian of the left and of the right child implies.
    """

    kind: AnyArray
    attribute: AnyArray
    direction: AnyArray
    threshold: AnyArray
    goes_left: AnyArray
    gain: AnyArray
    status: AnyArray
    pure: AnyArray
    child_model: AnyArray


def no_splits(
    n_nodes: int, n_continuous: int, n_categories: int, n_regressors: int
) -> NodeSplits:
    """A leaf for every node."""
    return NodeSplits(
        kind=np.zeros(n_nodes, np.int32),
        attribute=np.full(n_nodes, -1, np.int32),
        direction=np.zeros((n_nodes, n_continuous), np.float32),
        threshold=np.zeros(n_nodes, np.float32),
        goes_left=np.zeros((n_nodes, n_categories), bool),
        gain=np.zeros(n_nodes, np.float32),
        status=np.zeros(n_nodes, np.int32),
        pure=np.zeros(n_nodes, bool),
        child_model=np.zeros((n_nodes, 2, 1 + n_regressors), np.float32),
    )


def over_nodes(
    split: Callable[[Any], Any],
    batch: Any,
    n_nodes: AnyArray,
    nothing: Any,
    *,
    together: bool,
) -> Any:
    """Results of a function of one node for the first nodes of a batch.

    Parameters
    ----------
    split : callable
        From a batch's arrays without their leading axis to arrays.
    batch : pytree of Arrays
    n_nodes : int or Array of shape (), int32
        The nodes after these are padding.
    nothing : pytree of arrays
        The results of padding, with a leading axis of nodes; unused if all nodes are
        taken together.
    together : bool
        All nodes side by side, for accelerators. Otherwise one after the other: the
        arrays of one node stay in the cache of a processor, and padding takes no time.

    Returns
    -------
    pytree of Arrays
        With a leading axis for all nodes of the batch.
    """
    if together:
        return jax.vmap(split)(batch)

    def add(i, found):
        node = jax.tree.map(lambda array: array[i], batch)
        return jax.tree.map(lambda all, one: all.at[i].set(one), found, split(node))

    return jax.lax.fori_loop(0, n_nodes, add, jax.tree.map(jnp.asarray, nothing))
