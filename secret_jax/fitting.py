"""From encoded rows to a fitted tree: grow, model, prune."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from secret_jax.data.device import chosen_rows
from secret_jax.data.rows import content_hash, in_blocks, sampling_hash
from secret_jax.data.table import Table, TableSchema
from secret_jax.grow.grower import GrownTree, Progress, Root, grow
from secret_jax.models import leaves
from secret_jax.options import GrowOptions, PruneOptions
from secret_jax.prune.cross_validation import by_cross_validation, folds
from secret_jax.prune.path import cost_complexity, weakest_links
from secret_jax.prune.reduced_error import reduced_error
from secret_jax.prune.rules import PRUNING_RULES
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import Tree

# With fewer distinct rows in a sample, all rows are merged first.
_LEAST_DISTINCT = 0.9


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
    kind : str
        A name in `secret_jax.models.leaves.LEAF_MODELS`.
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
    """

    grown: Tree
    pruned: Tree


class Trial(NamedTuple):
    """A tree like the fitted one that some rows had no part in growing.

    Attributes
    ----------
    tree : Tree
        Pruned; its models are from the training rows.
    training, held_out : Rows
    """

    tree: Tree
    training: Rows
    held_out: Rows


class FittedTree(NamedTuple):
    """A fitted tree, its size before pruning, and what a refinement starts from.

    Attributes
    ----------
    tree : Tree
    oblique : bool
        Whether it may split obliquely.
    n_leaves_grown : int
    candidates : tuple of Candidate
        The trees that were grown, the chosen one first.
    trials : tuple of Trial
        One where rows were held out, one for each part of a cross-validation.
    lesson : Rows or None
        What the tree learned where that is not the rows themselves; see
        `secret_jax.refine.distillation`.
    """

    tree: Tree
    oblique: bool
    n_leaves_grown: int
    candidates: tuple[Candidate, ...]
    trials: tuple[Trial, ...]
    lesson: Rows | None = None


def fit_tree(
    training: Rows,
    pruning: Rows | None,
    schema: TableSchema,
    options: Callable[[float], GrowOptions],
    leaf: LeafOptions,
    *,
    prune: PruneOptions,
    refit: bool,
    seed: int,
    everything: Rows | None = None,
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
    options : callable
        Options of growing for a total weight of rows. With ``oblique="auto"`` two trees
        are grown, and the one that pruning finds the better is kept; where nothing
        compares them, the one without oblique splits.
    leaf : LeafOptions
    prune : PruneOptions
    refit : bool
        Grow the tree again on all rows, to the size that the pruning rows asked for.
    seed : int
    everything : Rows or None
        All rows, in any order, where the others are a sample of them: they give the
        models of the final tree. Its splits are those that the sample chose.
    progress : callable, optional
        Called with a line now and then.

    Returns
    -------
    FittedTree
    """

    def grown(rows: Rows, parts: list[np.ndarray], kinds: Sequence[bool]):
        return grown_trees(
            rows, parts, kinds, schema, options(rows.weight.sum()), leaf, seed, progress
        )

    oblique = options(1.0).split.oblique
    kinds = (False, True) if oblique == "auto" else (bool(oblique),)
    every_row = np.arange(len(training.y))
    if pruning is not None:
        trees = grown(training, [every_row], kinds)[0]
        table, y, weight = pruning
        pruned = [reduced_error(tree, table, y, weight) for tree in trees]
        best = _least(pruned)
        trials = (Trial(pruned[best][0], training, pruning),)
    elif prune.rule == "cross-validation":
        fold = folds(training.weight, prune.n_folds)
        parts = [every_row[fold != part] for part in range(fold.max() + 1)]
        parts = [part for part in parts if len(part)]
        trees, *fold_trees = grown(training, [every_row, *parts], kinds)
        validated = by_cross_validation(trees, fold_trees, fold, *training)
        pruned = [(found.tree, found.error) for found in validated]
        best = _least(pruned)
        trials = tuple(
            Trial(tree, training.take(fold != part), training.take(fold == part))
            for part, tree in enumerate(validated[best].fold_trees)
        )
    else:
        trees = grown(training, [every_row], kinds)[0]
        pruned = [_pruned_alone(tree, training, prune) for tree in trees]
        best, trials = _least(pruned), ()
    tree = pruned[best][0]
    n_leaves_grown = trees[best].n_leaves
    if progress is not None and tree is not trees[best]:
        progress(f"pruned from {n_leaves_grown} to {tree.n_leaves} leaves")
    if everything is not None:
        tree = with_models(tree, everything, schema, leaf)
    elif refit and pruning is not None and tree.n_leaves > 1:
        rows = shuffled(join(training, pruning), seed)
        every_row = np.arange(len(rows.y))
        again = grown(rows, [every_row], kinds[best : best + 1])[0][0]
        tree = of_size(again, tree.n_leaves)
    elif refit and pruning is not None:
        tree = with_models(tree, join(training, pruning), schema, leaf)
    found = [
        Candidate(grown_tree, smaller)
        for grown_tree, (smaller, _) in zip(trees, pruned, strict=True)
    ]
    found.insert(0, found.pop(best))
    return FittedTree(tree, kinds[best], n_leaves_grown, tuple(found), trials)


def _least(pruned: list[tuple[Tree, float]]) -> int:
    return min(range(len(pruned)), key=lambda which: pruned[which][1])


def grown_trees(
    rows: Rows,
    parts: list[np.ndarray],
    kinds: Sequence[bool],
    schema: TableSchema,
    options: GrowOptions,
    leaf: LeafOptions,
    seed: int,
    progress: Progress | None,
) -> list[list[Tree]]:
    """For every part of the rows a tree of each kind with models, as they grew."""
    roots = [Root(part, oblique) for part in parts for oblique in kinds]
    structures = grow(
        rows.table,
        rows.y.astype(np.float32),
        rows.weight.astype(np.float32),
        schema,
        options,
        seed,
        roots,
        progress,
    )
    trees = [
        with_models(structure, rows.take(root.rows), schema, leaf)
        for structure, root in zip(structures, roots, strict=True)
    ]
    return [trees[i : i + len(kinds)] for i in range(0, len(trees), len(kinds))]


def _pruned_alone(tree: Tree, rows: Rows, prune: PruneOptions) -> tuple[Tree, float]:
    """A tree pruned on its training rows, and what pruning makes of it."""
    table, y, weight = rows
    if prune.ccp_alpha is not None:
        return cost_complexity(tree, table, y, weight, prune.ccp_alpha), 0.0
    if prune.rule is None or prune.rule == "holdout":  # no row could be held out
        return tree, 0.0
    return PRUNING_RULES[prune.rule](tree, table, y, weight)


def of_size(tree: Tree, n_leaves: int) -> Tree:
    """The largest subtree on the weakest-link path with at most so many leaves."""
    path = weakest_links(tree, tree.train_error * tree.weight)
    sizes = path.totals(np.ones(tree.n_nodes))
    return path.subtree(tree, int(np.argmax(sizes <= n_leaves)))


def shuffled(rows: Rows, seed: int) -> Rows:
    """The rows in an order that depends on their content and the seed alone."""
    return rows.take(hash_order(rows, seed)[0])


def hash_order(rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order of the rows by a hash of their content.

    Returns
    -------
    order : ndarray of shape (n_rows,), int64
    hashed, exact : ndarray of shape (n_rows,), uint64
        Hashes in that order, of slightly rounded and of exact content.
    """
    hashed = content_hash(_rounded_columns(rows), seed)
    exact = content_hash(_columns(rows), seed)
    order = np.argsort(hashed)
    if (
        np.diff(hashed[order]) == 0
    ).any():  # a sort by two keys takes three times as long
        order = np.lexsort((exact, hashed))
    return order, hashed[order], exact[order]


def _columns(rows: Rows) -> list[np.ndarray]:
    return [*rows.table.x.T, *rows.table.codes.T, rows.y.astype(np.float32)]


def _rounded_columns(rows: Rows) -> list[np.ndarray]:
    """A change of the last digit (by an offset, another unit) must not move a row."""
    return [np.rint(1024.0 * column) for column in _columns(rows)]


def merged(rows: Rows, seed: int) -> tuple[Rows, np.ndarray]:
    """The rows in shuffled order, identical ones as one, and their hashes.

    A prefix of them is a sample of distinct rows.
    """
    rows = rows._replace(table=rows.table.on_host())
    order, hashed, exact = hash_order(rows, seed)
    rows = rows.take(order)
    new = np.r_[True, (np.diff(hashed) != 0) | (np.diff(exact) != 0)]
    first = np.flatnonzero(new)
    weight = np.add.reduceat(rows.weight, first)
    return rows.take(first)._replace(weight=weight), hashed[first]


def sampled(rows: Rows, n_wanted: int, seed: int) -> tuple[Rows, np.ndarray] | None:
    """About so many distinct rows, chosen by their content, as `merged` gives them.

    Returns
    -------
    tuple of Rows and ndarray, or None
        None if many rows are alike: then all of them should be merged first.
    """
    limit = np.uint64(min(n_wanted / len(rows.y), 1.0) * float(2**64 - 2**11))

    if isinstance(rows.table.x, np.ndarray):

        def chosen(block: slice) -> np.ndarray:
            table = rows.table
            more = [*table.codes[block].T, rows.y[block]]
            hashed = sampling_hash(table.x[block], more, seed)
            return block.start + np.flatnonzero(hashed < limit)

        index = np.concatenate(list(in_blocks(chosen, len(rows.y))))
    else:
        index = chosen_rows(rows.table.x, rows.y, n_wanted / len(rows.y), seed)
    # Of many copies of few rows the hash takes all or none.
    if len(index) < 0.5 * n_wanted:
        return None
    found, hashed = merged(rows.take(index), seed)
    if len(found.y) < _LEAST_DISTINCT * len(index):
        return None
    return found, hashed


def join(first: Rows, second: Rows) -> Rows:
    """The rows of both."""
    host = all(isinstance(rows.table.x, np.ndarray) for rows in (first, second))
    concatenate = np.concatenate if host else jnp.concatenate
    table = Table(
        concatenate([first.table.x, second.table.x]),
        np.concatenate([first.table.codes, second.table.codes]),
    )
    return Rows(
        table,
        np.concatenate([first.y, second.y]),
        np.concatenate([first.weight, second.weight]),
    )


def with_models(
    structure: GrownTree | Tree,
    rows: Rows,
    schema: TableSchema,
    leaf: LeafOptions,
    *,
    of: Tree | None = None,
) -> Tree:
    """Give every node of a tree its model.

    The rows are routed through the finished tree, so that a model is trained on
    exactly the rows that prediction will send to it. With ``of`` the models are those
    of another tree with the same nodes, and the rows give weights, ranges and errors.
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
    x, n_regressors = rows.table.x, schema.n_regressors
    statistics = leaves.node_statistics(
        x if x.shape[1] == n_regressors else x[:, :n_regressors],
        rows.y,
        rows.weight,
        apply(tree, rows.table),
        tree.parent,
        tree.depth,
    )
    if of is None:
        model, degrees = leaves.LEAF_MODELS[leaf.kind](
            statistics, tree.parent, tree.depth, leaf.gcv_factor
        )
    else:
        model, degrees = of.coefficient.copy(), of.degrees
    if leaf.kind == "em" and of is None:
        # The root has no mixture above it.
        grown = isinstance(structure, GrownTree)
        mixtures = structure.mixture_model if grown else structure.coefficient
        model[1:] = mixtures[1:]
    lower, upper = statistics.lower.copy(), statistics.upper.copy()
    own = statistics.weight >= min(leaf.clip_min_weight, statistics.weight[0])
    own &= statistics.weight > 0
    if of is None:
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
