"""Tree alternating optimisation: every split again, for the subtrees that it has.

Carreira-Perpiñán & Tavallali 2018. With all else fixed, a row that reaches an inner
node only asks which child's subtree predicts it better; so the best split of the node
is a weighted classification of its rows. Nodes of one depth do not share rows: a level
is one batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.fitting import LeafOptions, Rows, with_models
from secret_jax.grow.grower import Progress
from secret_jax.options import AlternatingOptions
from secret_jax.prune.path import model_degrees, split_degrees
from secret_jax.refine.proposals import proposed
from secret_jax.tree.routing import predict
from secret_jax.tree.structure import SplitKind, Tree

# A drop of the objective below this share of it is rounding.
_LEAST_DROP = 1e-6


class Alternated(NamedTuple):
    """An alternated tree, and how it came about.

    Attributes
    ----------
    tree : Tree
    n_sweeps : int
        How many passes over all levels it took; 0 if it is the tree that was given.
    objectives : tuple of float
        The objective at the start and after every level of every pass.
    """

    tree: Tree
    n_sweeps: int
    objectives: tuple[float, ...]


def improve(
    tree: Tree,
    rows: Rows,
    check: Rows | None,
    leaf: LeafOptions,
    min_weight: float,
    options: AlternatingOptions,
    progress: Progress | None = None,
) -> Alternated:
    """Alternate a tree as long as rows that are kept aside say that it pays.

    Parameters
    ----------
    tree : Tree
        With models from ``rows``.
    rows : Rows
        In shuffled order.
    check : Rows or None
        Rows that tell how many passes pay. None: a part of ``rows`` is kept aside for
        that, and the passes are then made again on all of them.
    leaf : LeafOptions
    min_weight : float
        Of a leaf.
    options : AlternatingOptions
    progress : callable, optional

    Returns
    -------
    Alternated
        Where nothing pays, the tree that was given.
    """
    if check is not None:
        return alternate(tree, rows, check, leaf, min_weight, options, progress)
    cut = round((1.0 - options.checked_share) * len(rows.y))
    trained = rows.take(slice(min(cut, options.most_rows)))
    check = rows.take(slice(cut, cut + options.most_rows))
    if len(trained.y) == 0 or len(check.y) == 0:
        return Alternated(tree, 0, ())
    smaller = min_weight * trained.weight.sum() / rows.weight.sum()
    start = with_models(tree, trained, tree.schema, leaf)
    trial = alternate(start, trained, check, leaf, smaller, options, progress)
    if trial.n_sweeps == 0:
        return trial._replace(tree=tree)
    options = replace(options, max_sweeps=trial.n_sweeps)
    return alternate(tree, rows, None, leaf, min_weight, options, progress)


def alternate(
    tree: Tree,
    rows: Rows,
    check: Rows | None,
    leaf: LeafOptions,
    min_weight: float,
    options: AlternatingOptions,
    progress: Progress | None = None,
) -> Alternated:
    """Choose the splits of a tree again, deepest level first, until nothing changes.

    After every change the models below it are fitted again by the tree's own rule, and
    the change is kept only where the *objective* of its subtree drops: the sum over
    the leaves of the squared errors of their (unclipped) models on the training rows,
    each divided by ``(1 - gcv_factor * degrees / weight) ** 2``. That is generalised
    cross-validation with the degrees of freedom of `model_degrees`. It never rises, and
    it must drop by ``price`` noise variances for every number in the split.

    Splits on a discrete attribute stay as they are, splits on one attribute stay splits
    on one, oblique splits keep to the attributes that they have, and no leaf gets less
    than the least weight.

    Parameters
    ----------
    tree : Tree
        With models from ``rows``.
    rows : Rows
        In shuffled order. Of more than ``options.most_rows`` a prefix is used; the
        objective on all of them decides in the end.
    check : Rows or None
        Choose the pass whose tree errs least on them, and the tree that was given if
        the others are not better by a margin. None: the last pass.
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
    used = rows.take(slice(options.most_rows))
    sampled = len(used.y) < len(rows.y)
    current = with_models(tree, used, tree.schema, leaf)
    least = min_weight * used.weight.sum() / rows.weight.sum()
    costs = subtree_costs(current, leaf.gcv_factor)
    objectives = [float(costs[0])]
    first_errors = best_errors = _squared_errors(current, check)
    best, n_sweeps = current, 0
    unsettled = np.ones(tree.n_nodes, bool)
    for sweep in range(1, options.max_sweeps + 1):
        before = objectives[-1]
        for level in range(current.max_depth - 1, -1, -1):
            current, costs = _improve_level(
                current, costs, level, unsettled, used, leaf, least, options
            )
            objectives.append(float(costs[0]))
        errors = _squared_errors(current, check)
        if check is None or errors.sum() < best_errors.sum():
            best, best_errors, n_sweeps = current, errors, sweep
        if progress is not None:
            progress(f"sweep {sweep}: objective {before:.6g} to {objectives[-1]:.6g}")
        if objectives[-1] > before * (1 - options.tolerance):
            break
        if sweep - n_sweeps >= options.patience:
            break
    if objectives[-1] == objectives[0] or (
        check is not None
        and not _clearly_positive(first_errors - best_errors, options.margin)
    ):
        best, n_sweeps = tree, 0
    else:
        factor = leaf.gcv_factor
        best = with_models(best, rows, best.schema, leaf)
        if sampled and subtree_costs(best, factor)[0] > subtree_costs(tree, factor)[0]:
            best, n_sweeps = tree, 0
    return Alternated(best, n_sweeps, tuple(objectives))


def _clearly_positive(differences: np.ndarray, margin: float) -> bool:
    """Whether a sum is more than some of its standard errors above zero."""
    n = len(differences)
    error = np.std(differences) * n / np.sqrt(max(n - 1, 1))
    return bool(differences.sum() > margin * error)


def _squared_errors(tree: Tree, rows: Rows | None) -> np.ndarray:
    """Weighted squared error of each row's (clipped) prediction."""
    if rows is None:
        return np.zeros(1)
    residual = tree.schema.scale_target(predict(tree, rows.table)) - rows.y
    return rows.weight * residual**2


def subtree_costs(tree: Tree, gcv_factor: float) -> np.ndarray:
    """The objective of the subtree below every node, shape (n_nodes,), float64."""
    weight = np.maximum(tree.weight, 1e-300)
    spare = 1.0 - gcv_factor * model_degrees(tree) / weight
    cost = tree.weight * tree.train_error / np.maximum(spare, 0.1) ** 2
    cost = np.where(tree.is_leaf, cost, 0.0)
    for node in range(tree.n_nodes - 1, 0, -1):  # children come after their parents
        cost[tree.parent[node]] += cost[node]
    return cost


def _improve_level(
    tree: Tree,
    costs: np.ndarray,
    level: int,
    unsettled: np.ndarray,
    rows: Rows,
    leaf: LeafOptions,
    least: float,
    options: AlternatingOptions,
) -> tuple[Tree, np.ndarray]:
    """The tree with better splits at one depth, and its costs.

    A node is settled, in place, if it was tried without success: until something above
    or below it changes, it would be tried without success again.
    """
    continuous = (tree.kind == SplitKind.AXIS) | (tree.kind == SplitKind.OBLIQUE)
    nodes = np.flatnonzero(continuous & unsettled & (tree.depth == level))
    if len(nodes) == 0:
        return tree, costs
    unsettled[nodes] = False
    changed = proposed(tree, nodes, rows, least, options.node_rows)
    if changed is tree:
        return tree, costs
    changed = with_models(changed, rows, tree.schema, leaf)
    new_costs = subtree_costs(changed, leaf.gcv_factor)
    top = _ancestors(tree, level)
    starved = np.zeros(tree.n_nodes, bool)
    light = tree.is_leaf & (changed.weight < least * (1 - 1e-6))
    starved[top[light & (top >= 0)]] = True
    noise = np.sum((tree.weight * tree.train_error)[tree.is_leaf]) / tree.weight[0]
    price = options.price * noise * np.maximum(split_degrees(tree), 1.0)
    better = new_costs < costs - np.maximum(price, _LEAST_DROP * costs[0])
    accepted = np.zeros(tree.n_nodes, bool)
    accepted[nodes] = (better & ~starved)[nodes]
    # What is below a node depends on it and on its ancestors only, which stay.
    taken = (top >= 0) & accepted[np.maximum(top, 0)]
    unsettled |= taken
    for node in np.flatnonzero(accepted):
        while node >= 0:
            unsettled[node] = True
            node = tree.parent[node]
    merged = _merge(tree, changed, taken)
    return merged, subtree_costs(merged, leaf.gcv_factor)


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
