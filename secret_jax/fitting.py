"""From encoded rows to a fitted tree: grow, model, prune."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax import leaves
from secret_jax.complexity import by_criterion, cost_complexity
from secret_jax.cross_validation import by_cross_validation
from secret_jax.grow import GrownTree, Progress, grow
from secret_jax.options import GrowOptions, PruneOptions
from secret_jax.prune import reduced_error
from secret_jax.table import Table, TableSchema
from secret_jax.tree import Tree, apply


class Rows(NamedTuple):
    """Encoded rows with their output.

    Attributes
    ----------
    table : Table
    y : ndarray of shape (n_rows,), float64
        Output in standardised units.
    weight : ndarray of shape (n_rows,), float64
        Positive.
    """

    table: Table
    y: np.ndarray
    weight: np.ndarray

    def take(self, index: np.ndarray | slice) -> Rows:
        """Some of the rows."""
        table = Table(self.table.x[index], self.table.codes[index])
        return Rows(table, self.y[index], self.weight[index])


class LeafOptions(NamedTuple):
    """Models of the nodes.

    Attributes
    ----------
    kind : {"shrunken", "linear", "constant", "em"}
    clip_margin : float or None
    clip_min_weight : float
        A node with less weight takes its clipping range from the nearest ancestor
        with more.
    gcv_factor : float
        Price of a degree of freedom in generalised cross-validation.
    """

    kind: str = "shrunken"
    clip_margin: float | None = 0.1
    clip_min_weight: float = 50.0
    gcv_factor: float = 1.2


class Candidate(NamedTuple):
    """A tree that was grown, its models from the training rows alone.

    Attributes
    ----------
    grown, pruned : Tree
        Before and after pruning.
    pruning_error : float
        What pruning makes of it, for comparison with the others.
    """

    grown: Tree
    pruned: Tree
    pruning_error: float


class FittedTree(NamedTuple):
    """A fitted tree, its size before pruning, and what a refinement starts from.

    Attributes
    ----------
    tree : Tree
    n_leaves_grown : int
    candidates : tuple of Candidate
        The trees that were grown, the chosen one first.
    """

    tree: Tree
    n_leaves_grown: int
    candidates: tuple[Candidate, ...]


def fit_tree(
    training: Rows,
    pruning: Rows | None,
    schema: TableSchema,
    options: GrowOptions,
    leaf: LeafOptions,
    *,
    refit: bool,
    seed: int,
    prune: PruneOptions | None = None,
    progress: Progress | None = None,
) -> FittedTree:
    """Grow a tree on the training rows and prune it.

    Parameters
    ----------
    training : Rows
        In shuffled order.
    pruning : Rows or None
        Rows to prune on; None where ``prune`` needs none.
    schema : TableSchema
    options : GrowOptions
        With ``oblique="auto"`` two trees are grown, and the one that pruning finds the
        better is kept; without pruning, the one without oblique splits.
    leaf : LeafOptions
    refit : bool
        Fit the models of the pruned tree again, on all rows.
    seed : int
    prune : PruneOptions, optional
        What to do without pruning rows; by default nothing.
    progress : callable, optional
        Called with a line now and then.

    Returns
    -------
    FittedTree
    """
    trees = _grown_trees(training, schema, options, leaf, seed, progress)
    if pruning is not None:
        pruned = [
            reduced_error(tree, pruning.table, pruning.y, pruning.weight)
            for tree in trees
        ]
    else:

        def grow_on(index: np.ndarray) -> list[Tree]:
            return _grown_trees(training.take(index), schema, options, leaf, seed)

        pruned = _pruned(trees, training, prune or PruneOptions(rule=None), grow_on)
    candidates = []
    for tree, (smaller, error) in zip(trees, pruned, strict=True):
        candidates.append(Candidate(tree, smaller, error))
        if progress is not None and smaller is not tree:
            progress(f"pruned from {tree.n_leaves} to {smaller.n_leaves} leaves")
    candidates.sort(key=lambda candidate: candidate.pruning_error)
    best = candidates[0]
    tree = best.pruned
    if refit and pruning is not None:
        tree = with_models(tree, join(training, pruning), schema, leaf)
    return FittedTree(tree, best.grown.n_leaves, tuple(candidates))


def _grown_trees(
    rows: Rows,
    schema: TableSchema,
    options: GrowOptions,
    leaf: LeafOptions,
    seed: int,
    progress: Progress | None = None,
) -> list[Tree]:
    """Trees with models, as they were grown."""
    grown = grow(
        rows.table,
        rows.y.astype(np.float32),
        rows.weight.astype(np.float32),
        schema,
        options,
        seed,
        progress,
    )
    return [with_models(structure, rows, schema, leaf) for structure in grown]


def _pruned(
    trees: list[Tree],
    rows: Rows,
    prune: PruneOptions,
    grow_on: Callable[[np.ndarray], list[Tree]],
) -> list[tuple[Tree, float]]:
    """Trees pruned on their training rows alone, each with what pruning makes of it."""
    table, y, weight = rows
    if prune.ccp_alpha is not None:
        alpha = prune.ccp_alpha
        return [(cost_complexity(t, table, y, weight, alpha), 0.0) for t in trees]
    if prune.rule == "cross-validation":
        return by_cross_validation(trees, table, y, weight, grow_on, prune.n_folds)
    if prune.rule in ("aic", "bic", "icomp"):
        return [by_criterion(t, table, y, weight, prune.rule) for t in trees]
    return [(tree, 0.0) for tree in trees]


def join(first: Rows, second: Rows) -> Rows:
    """The rows of both."""
    table = Table(
        np.concatenate([first.table.x, second.table.x]),
        np.concatenate([first.table.codes, second.table.codes]),
    )
    return Rows(
        table,
        np.concatenate([first.y, second.y]),
        np.concatenate([first.weight, second.weight]),
    )


def with_models(
    structure: GrownTree | Tree, rows: Rows, schema: TableSchema, leaf: LeafOptions
) -> Tree:
    """Give every node of a tree its model.

    The rows are routed through the finished tree, so that a model is trained on
    exactly the rows that prediction will send to it.
    """
    fields = {
        name: getattr(structure, name)
        for name in GrownTree._fields
        if name != "mixture_model"
    }
    n_nodes = len(structure.left)
    blank = np.zeros(n_nodes)
    tree = Tree(
        **fields,
        coefficient=np.zeros((n_nodes, 1 + schema.n_regressors)),
        lower=blank,
        upper=blank,
        weight=blank,
        train_error=blank,
        degrees=blank,
        gate_width=blank.astype(np.float32),
        schema=schema,
        clip_margin=leaf.clip_margin,
    )
    statistics = leaves.node_statistics(
        rows.table.x[:, : schema.n_regressors],
        rows.y,
        rows.weight,
        apply(tree, rows.table),
        tree.parent,
        tree.depth,
    )
    if leaf.kind == "shrunken":
        model, degrees = leaves.shrunken_models(
            statistics, tree.parent, tree.depth, leaf.gcv_factor
        )
    else:
        model = leaves.least_squares(statistics)
        degrees = np.minimum(statistics.weight, 1.0 + schema.n_regressors)
    if leaf.kind == "em":
        # The root has no mixture above it.
        grown = isinstance(structure, GrownTree)
        mixtures = structure.mixture_model if grown else structure.coefficient
        model[1:] = mixtures[1:]
    lower, upper = statistics.lower.copy(), statistics.upper.copy()
    own = statistics.weight >= min(leaf.clip_min_weight, statistics.weight[0])
    own &= statistics.weight > 0
    leaves.inherit(model, statistics.weight > 0, tree.parent)
    for array in (lower, upper):
        leaves.inherit(array, own, tree.parent)
    error = leaves.squared_errors(statistics, model)
    return replace(
        tree,
        coefficient=model,
        lower=lower,
        upper=upper,
        weight=statistics.weight,
        train_error=error / np.maximum(statistics.weight, 1e-300),
        degrees=degrees,
    )
