"""Tree alternating optimisation: every split again, for the subtrees that it has.

Carreira-Perpiñán & Tavallali 2018. With all else fixed, a row that reaches an inner
node only asks which child's subtree predicts it better; so the best split of the node
is a weighted classification of its rows. Nodes of one depth do not share rows: a level
is one batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from secret_jax.complexity import model_degrees, split_degrees
from secret_jax.fitting import LeafOptions, Rows, with_models
from secret_jax.grow import Progress
from secret_jax.prune import pruning_errors, reduced_error
from secret_jax.refine.hyperplanes import Hyperplanes, Preferences, propose
from secret_jax.rows import bucket
from secret_jax.table import Table
from secret_jax.tree import SplitKind, Tree, predict

_BATCH_ROWS = 1 << 15
_SMALLEST_SAMPLE = 256
# A drop of the objective below this share of it is rounding.
_LEAST_DROP = 1e-6


@dataclass(frozen=True, kw_only=True)
class AlternatingOptions:
    """How long and on how many rows a tree is alternated.

    Attributes
    ----------
    max_sweeps : int
        Most passes over all levels.
    tolerance : float
        Passes end when one lowers the objective by a smaller share.
    patience : int
        Passes end when so many in a row did not help the pruning rows.
    node_rows : int
        Most rows of a node that its new split is looked for on.
    most_rows : int
        Most rows that splits are accepted on; all rows see the result.
    gcv_factor : float
        Price of a degree of freedom in the objective.
    """

    max_sweeps: int = 10
    tolerance: float = 1e-3
    patience: int = 2
    node_rows: int = 4096
    most_rows: int = 1 << 16
    gcv_factor: float = 1.2
    price: float = 0.0
    guard: bool = False
    margin: float = 1.0


class Alternated(NamedTuple):
    """An alternated tree, and how it came about.

    Attributes
    ----------
    tree : Tree
    objectives : tuple of float
        The objective at the start and after every level of every sweep.
    n_sweeps : int
        The sweep that the tree is from; 0 is the start.
    """

    tree: Tree
    objectives: tuple[float, ...]
    n_sweeps: int


def alternate(
    tree: Tree,
    training: Rows,
    pruning: Rows | None,
    leaf: LeafOptions,
    min_weight: float,
    options: AlternatingOptions,
    progress: Progress | None = None,
) -> Alternated:
    """Choose the splits of a tree again, deepest level first, until nothing changes.

    After every change the models below it are fitted again by the tree's own rule, and
    the change is kept only where the *objective* of its subtree drops: the sum over
    the leaves of the squared errors of their (unclipped) models on the training rows,
    each divided by ``(1 - gcv_factor * degrees / weight) ** 2``. It is generalised
    cross-validation with the degrees of freedom of `model_degrees`; it never rises.
    Splits on a discrete attribute stay as they are, splits on one attribute stay splits
    on one, and no leaf gets less than the least weight.

    Parameters
    ----------
    tree : Tree
        With models from the training rows.
    training : Rows
        In shuffled order.
    pruning : Rows or None
        Choose the sweep whose tree, pruned, errs least on them. None: the last.
    leaf : LeafOptions
    min_weight : float
        Of a leaf.
    options : AlternatingOptions
    progress : callable, optional

    Returns
    -------
    Alternated

    References
    ----------
    M. Á. Carreira-Perpiñán and P. Tavallali. Alternating Optimization of Decision
    Trees, with Application to Learning Sparse Oblique Trees. NeurIPS 2018.
    """
    rows = training.take(slice(None, options.most_rows))
    sampled = len(rows.y) < len(training.y)
    current = with_models(tree, rows, tree.schema, leaf) if sampled else tree
    least = min_weight * rows.weight.sum() / training.weight.sum()
    costs = subtree_costs(current, options.gcv_factor)
    objectives = [float(costs[0])]
    best, n_sweeps = current, 0
    start_errors = best_errors = _pruning_errors(current, pruning)
    for sweep in range(1, options.max_sweeps + 1):
        before = objectives[-1]
        for level in range(current.max_depth - 1, -1, -1):
            current, costs = _improve_level(
                current, costs, level, rows, leaf, least, options, pruning
            )
            objectives.append(float(costs[0]))
        errors = _pruning_errors(current, pruning)
        if pruning is None or errors.sum() < best_errors.sum():
            best, best_errors, n_sweeps = current, errors, sweep
        if progress is not None:
            progress(f"sweep {sweep}: objective {before:.6g} to {objectives[-1]:.6g}")
        if objectives[-1] > before * (1 - options.tolerance):
            break
        if sweep - n_sweeps >= options.patience:
            break
    saved = start_errors - best_errors
    if pruning is not None and saved.sum() <= options.margin * np.sqrt(
        len(saved) * np.sum((saved - saved.mean()) ** 2) / max(len(saved) - 1, 1)
    ):
        best, n_sweeps = tree, 0
    if sampled and n_sweeps:
        best = with_models(best, training, best.schema, leaf)
        factor = options.gcv_factor
        if subtree_costs(best, factor)[0] > subtree_costs(tree, factor)[0]:
            best, n_sweeps = tree, 0
    return Alternated(best if n_sweeps else tree, tuple(objectives), n_sweeps)


def subtree_costs(tree: Tree, gcv_factor: float) -> np.ndarray:
    """The objective of the subtree below every node, shape (n_nodes,), float64."""
    weight = np.maximum(tree.weight, 1e-300)
    spare = 1.0 - gcv_factor * model_degrees(tree) / weight
    cost = tree.weight * tree.train_error / np.maximum(spare, 0.1) ** 2
    cost = np.where(tree.is_leaf, cost, 0.0)
    for node in range(tree.n_nodes - 1, 0, -1):  # children come after their parents
        cost[tree.parent[node]] += cost[node]
    return cost


def _below(tree, pruning):
    error = np.where(tree.is_leaf, pruning_errors(tree, *pruning), 0.0)
    for node in range(tree.n_nodes - 1, 0, -1):
        error[tree.parent[node]] += error[node]
    return error


def _pruning_errors(tree: Tree, pruning: Rows | None) -> np.ndarray:
    """Weighted squared errors on the pruning rows of the tree once it is pruned."""
    if pruning is None:
        return np.zeros(1)
    table, y, weight = pruning
    pruned, _ = reduced_error(tree, table, y, weight)
    residual = tree.schema.scale_target(predict(pruned, table)) - y
    return weight * residual**2


def _improve_level(
    tree: Tree,
    costs: np.ndarray,
    level: int,
    rows: Rows,
    leaf: LeafOptions,
    least: float,
    options: AlternatingOptions,
    pruning: Rows | None,
) -> tuple[Tree, np.ndarray]:
    """The tree with better splits at one depth, and its costs."""
    continuous = (tree.kind == SplitKind.AXIS) | (tree.kind == SplitKind.OBLIQUE)
    nodes = np.flatnonzero(continuous & (tree.depth == level))
    if len(nodes) == 0:
        return tree, costs
    changed = _proposed(tree, nodes, rows, least, options)
    if changed is tree:
        return tree, costs
    changed = with_models(changed, rows, tree.schema, leaf)
    new_costs = subtree_costs(changed, options.gcv_factor)
    top = _ancestors(tree, level)
    starved = np.zeros(tree.n_nodes, bool)
    light = tree.is_leaf & (changed.weight < least * (1 - 1e-6))
    starved[top[light & (top >= 0)]] = True
    better = new_costs < costs - _LEAST_DROP * max(costs[0], 0.0)
    if options.price:
        noise = tree.train_error[tree.is_leaf] @ tree.weight[tree.is_leaf] / tree.weight[0]
        better &= new_costs < costs - options.price * noise * np.maximum(split_degrees(tree), 1)
    if options.guard and pruning is not None:
        better &= _below(changed, pruning) <= _below(tree, pruning)
    accepted = np.zeros(tree.n_nodes, bool)
    accepted[nodes] = (better & ~starved)[nodes]
    # What is below a node depends on it and on its ancestors only, which stay.
    taken = (top >= 0) & accepted[np.maximum(top, 0)]
    merged = _merge(tree, changed, taken)
    return merged, subtree_costs(merged, options.gcv_factor)


_MODEL_FIELDS = ("coefficient", "lower", "upper", "weight", "train_error", "degrees")
_SPLIT_FIELDS = ("left", "right", "attribute", "direction", "threshold")


def _merge(tree: Tree, changed: Tree, taken: np.ndarray) -> Tree:
    """Some nodes of one tree, the others of another; their links are alike."""
    fields = {}
    for name in (*_MODEL_FIELDS, *_SPLIT_FIELDS):
        old, new = getattr(tree, name), getattr(changed, name)
        fields[name] = np.where(taken.reshape((-1,) + (1,) * (old.ndim - 1)), new, old)
    weight, inner = fields["weight"], fields["left"] >= 0
    left, right = (np.where(inner, fields[side], 0) for side in ("left", "right"))
    own = weight * fields["train_error"]
    saved = np.maximum(own - own[left] - own[right], 0.0)
    return replace(
        tree,
        **fields,
        larger_left=np.where(inner, weight[left] >= weight[right], tree.larger_left),
        gain=np.where(taken & inner, saved, tree.gain).astype(np.float32),
    )


def _ancestors(tree: Tree, level: int) -> np.ndarray:
    """Each node's ancestor at a depth (itself there), -1 above it."""
    top = np.where(tree.depth == level, np.arange(tree.n_nodes), -1)
    for node in np.flatnonzero(tree.depth > level):  # parents come before children
        top[node] = top[tree.parent[node]]
    return top


def _proposed(
    tree: Tree,
    nodes: np.ndarray,
    rows: Rows,
    least: float,
    options: AlternatingOptions,
) -> Tree:
    """The tree with the best splits of some nodes for the subtrees that they have."""
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
    row = row[within < options.node_rows]
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


def descend(tree: Tree, table: Table, node: np.ndarray, n_steps: int) -> np.ndarray:
    """Where rows are after some steps down from a node of their own, by hard splits.

    Parameters
    ----------
    tree : Tree
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
        discrete = np.flatnonzero(tree.kind[at] == SplitKind.DISCRETE)
        if len(discrete):
            asking = at[discrete]
            code = table.codes[moving[discrete], tree.attribute[asking]]
            go_left[discrete] = np.where(
                code >= 0,
                tree.goes_left[asking, np.maximum(code, 0)],
                tree.larger_left[asking],
            )
        node[moving] = np.where(go_left, tree.left[at], tree.right[at])
    return node


def _squared_errors(tree: Tree, rows: Rows, node: np.ndarray) -> np.ndarray:
    """Weighted squared error of every row if the given node predicts it."""
    coefficient = tree.coefficient[node]
    regressors = rows.table.x[:, : tree.schema.n_regressors]
    value = coefficient[:, 0] + np.einsum("ij,ij->i", regressors, coefficient[:, 1:])
    low, high = tree.clip_range()
    return rows.weight * (np.clip(value, low[node], high[node]) - rows.y) ** 2


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
    found = Hyperplanes(
        direction=np.zeros((len(nodes), n_columns), np.float32),
        threshold=np.zeros(len(nodes), np.float32),
        swapped=np.zeros(len(nodes), bool),
        gain=np.full(len(nodes), -np.inf, np.float32),
    )
    n_sampled = np.bincount(slot, minlength=len(nodes))
    first = np.cumsum(n_sampled) - n_sampled
    axis = tree.kind[nodes] == SplitKind.AXIS
    width = np.array([bucket(n, smallest=_SMALLEST_SAMPLE) for n in n_sampled])
    limit = min(_BATCH_ROWS, 2 * bucket(len(rows.y), smallest=_SMALLEST_SAMPLE))
    for size in np.unique(width):
        n_padded = max(1, limit // int(size))
        alike = np.flatnonzero(width == size)
        for begin in range(0, len(alike), n_padded):
            part = alike[begin : begin + n_padded]
            column = np.arange(size)
            inside = column < n_sampled[part, None]
            row = np.where(inside, first[part, None] + column, 0)
            share = n_sampled[part] / np.maximum(count[part], 1)

            def pad(values, fill=0.0):
                padded = np.full((n_padded, *values.shape[1:]), fill, values.dtype)
                padded[: len(part)] = values
                return padded

            weight = np.where(inside, rows.weight[row], 0.0).astype(np.float32)
            batch = Preferences(
                x=pad(rows.table.x[row]),
                saving=pad(np.where(inside, saving[row], 0.0).astype(np.float32)),
                weight=pad(weight),
                least=pad((least * share).astype(np.float32), np.inf),
                direction=pad(tree.direction[nodes[part]]),
                threshold=pad(tree.threshold[nodes[part]]),
                axis=pad(axis[part], True),
            )
            splits = propose(batch, axis_only=bool(axis[part].all()))
            for target, source in zip(found, splits, strict=True):
                target[part] = np.asarray(source)[: len(part)]
    return found
