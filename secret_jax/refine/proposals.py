"""Rows and nodes to batches of `secret_jax.refine.hyperplanes`, and back to a tree."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from secret_jax.data.rows import N_WORKERS, bucket
from secret_jax.fitting import Rows
from secret_jax.refine.hyperplanes import (
    Hyperplanes,
    Preferences,
    no_hyperplanes,
    propose,
)
from secret_jax.runtime.devices import on_accelerator, same_device
from secret_jax.tree.routing import descend, values_at
from secret_jax.tree.structure import SplitKind, Tree

# Most padded rows of one batch, unless a single node has more.
_BATCH_ROWS = 1 << 15
_SMALLEST_SAMPLE = 256


def proposed(
    tree: Tree,
    nodes: np.ndarray,
    rows: Rows,
    least: float,
    node_rows: int,
) -> Tree:
    """The tree with the best splits of some nodes for the subtrees that they have.

    Parameters
    ----------
    tree : Tree
    nodes : ndarray of shape (n_nodes,), int
        Of one depth, split on continuous attributes.
    rows : Rows
        In shuffled order.
    least : float
        Least weight of a side.
    node_rows : int
        Most rows of a node that are looked at.

    Returns
    -------
    Tree
        The very tree that was given if no split can be bettered; the models are those
        of the old splits.
    """
    level = int(tree.depth[nodes[0]])
    reached = descend(tree, rows.table, np.zeros(len(rows.y), np.int64), level)
    slot = np.full(tree.n_nodes, -1)
    slot[nodes] = np.arange(len(nodes))
    row = np.flatnonzero(slot[reached] >= 0)
    row = row[np.argsort(slot[reached[row]], kind="stable")]
    # Only a prefix of each node's rows, which are in random order.
    count = np.bincount(slot[reached[row]], minlength=len(nodes))
    start = np.cumsum(count) - count
    within = np.arange(len(row)) - np.repeat(start, count)
    row = row[within < node_rows]
    part = rows.take(row)
    node = reached[row]
    depth = tree.max_depth - level - 1
    by_left = _squared_errors(
        tree, part, descend(tree, part.table, tree.left[node], depth)
    )
    by_right = _squared_errors(
        tree, part, descend(tree, part.table, tree.right[node], depth)
    )
    found = _proposals(tree, nodes, slot[node], part, by_right - by_left, count, least)
    useful = np.isfinite(found.gain) & (found.gain > 0)
    if not useful.any():
        return tree
    chosen = nodes[useful]
    left, right = tree.left.copy(), tree.right.copy()
    direction, threshold = tree.direction.copy(), tree.threshold.copy()
    attribute = tree.attribute.copy()
    direction[chosen], threshold[chosen] = (
        found.direction[useful],
        found.threshold[useful],
    )
    swapped = nodes[useful & found.swapped]
    left[swapped], right[swapped] = tree.right[swapped], tree.left[swapped]
    axis = chosen[tree.kind[chosen] == SplitKind.AXIS]
    attribute[axis] = np.argmax(direction[axis], axis=1)
    return replace(
        tree,
        left=left,
        right=right,
        direction=direction,
        threshold=threshold,
        attribute=attribute,
    )


def _squared_errors(tree: Tree, rows: Rows, node: np.ndarray) -> np.ndarray:
    """Weighted squared error of every row if the given node predicts it."""
    return rows.weight * (values_at(tree, rows.table, node) - rows.y) ** 2


def _proposals(
    tree: Tree,
    nodes: np.ndarray,
    slot: np.ndarray,
    rows: Rows,
    saving: np.ndarray,
    count: np.ndarray,
    least: float,
) -> Hyperplanes:
    """Hyperplanes of all nodes, in padded batches of few shapes."""
    n_columns = rows.table.x.shape[1]
    found = no_hyperplanes(len(nodes), n_columns)
    n_sampled = np.bincount(slot, minlength=len(nodes))
    first = np.cumsum(n_sampled) - n_sampled
    axis = tree.kind[nodes] == SplitKind.AXIS
    width = np.array([bucket(n, smallest=_SMALLEST_SAMPLE) for n in n_sampled])
    limit = min(_BATCH_ROWS, 2 * bucket(len(rows.y), smallest=_SMALLEST_SAMPLE))
    together = on_accelerator()

    def jobs() -> Iterator[tuple[np.ndarray, int, int]]:
        for size in np.unique(width).tolist():
            n_padded = max(1, limit // size)
            alike = np.flatnonzero(width == size)
            # Every processor gets its share, even of few nodes.
            n_together = min(n_padded, -(-len(alike) // N_WORKERS))
            for begin in range(0, len(alike), n_together):
                yield alike[begin : begin + n_together], size, n_padded

    def search(job: tuple[np.ndarray, int, int]) -> None:
        part, size, n_padded = job
        column = np.arange(size)
        inside = column < n_sampled[part, None]
        row = np.where(inside, first[part, None] + column, 0)
        weight = np.where(inside, rows.weight[row], 0.0).astype(np.float32)
        share = weight.sum(axis=1) / np.maximum(tree.weight[nodes[part]], 1e-300)
        difference = np.where(inside, saving[row], 0.0).astype(np.float32)
        batch = Preferences(
            x=_padded(rows.table.x[row], n_padded),
            saving=_padded(difference, n_padded),
            weight=_padded(weight, n_padded),
            least=_padded((least * share).astype(np.float32), n_padded, np.inf),
            direction=_padded(tree.direction[nodes[part]], n_padded),
            threshold=_padded(tree.threshold[nodes[part]], n_padded),
            axis=_padded(axis[part], n_padded, True),
        )
        axis_only = bool(axis[part].all())
        splits = propose(batch, len(part), axis_only=axis_only, together=together)
        for target, source in zip(found, splits, strict=True):
            target[part] = np.asarray(source)[: len(part)]

    with ThreadPoolExecutor(N_WORKERS) as pool:
        # Results are nothing; what went wrong in a thread is raised here.
        collections.deque(pool.map(same_device(search), jobs()), maxlen=0)
    return found


def _padded(values: np.ndarray, n_nodes: int, fill: float = 0.0) -> np.ndarray:
    """Values of more nodes, those that were missing with a value of their own."""
    padded = np.full((n_nodes, *values.shape[1:]), fill, values.dtype)
    padded[: len(values)] = values
    return padded
