"""A tree grown again on what several trees say together, at the rows and between them.

The mean of trees that were grown on parts of the rows errs less than each of them, and
one tree that learns this mean keeps much of the gain (born-again trees, Breiman & Shang
1996).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from secret_jax.data.rows import in_blocks
from secret_jax.data.table import Table, TableSchema
from secret_jax.fitting import (
    FittedTree,
    LeafOptions,
    Rows,
    grown_trees,
    join,
    of_size,
    shuffled,
    with_models,
)
from secret_jax.grow.grower import Progress
from secret_jax.options import BornAgainOptions, GrowOptions
from secret_jax.tree.routing import descend, values_at
from secret_jax.tree.structure import StopReason, Tree, compact


def born_again(
    fitted: FittedTree,
    rows: Rows,
    schema: TableSchema,
    growing: GrowOptions,
    leaf: LeafOptions,
    options: BornAgainOptions,
    *,
    seed: int,
    progress: Progress | None = None,
) -> FittedTree:
    """Grow a cross-validated tree again on what the trees of the parts say.

    Parameters
    ----------
    fitted : FittedTree
        With the trees of the parts among its trials.
    rows : Rows
        All that grew it.
    schema : TableSchema
    growing : GrowOptions
        With the least weights of a split and a leaf in weights of the rows; what is
        learned weighs more, and they are raised accordingly.
    leaf : LeafOptions
    options : BornAgainOptions
    seed : int
    progress : callable, optional
        Called with a line now and then.

    Returns
    -------
    FittedTree
        With the new tree, of at most as many leaves, and what it learned; or as it was,
        if the new tree fits the rows too badly.
    """
    teachers = [trial.tree for trial in fitted.trials]
    taught = shuffled(lesson(rows, teachers, schema, options, seed), seed)
    ratio = float(taught.weight.sum() / rows.weight.sum())
    heavier = replace(
        growing,
        min_samples_split=ratio * growing.min_samples_split,
        min_samples_leaf=ratio * growing.min_samples_leaf,
    )
    ((tree,),) = grown_trees(
        taught,
        [np.arange(len(taught.y))],
        [fitted.oblique],
        schema,
        heavier,
        leaf,
        seed,
        progress,
    )
    tree = of_size(tree, fitted.tree.n_leaves)
    tree = measured_on(tree, rows, leaf, growing.min_samples_leaf)
    before = mean_error([fitted.tree], [rows])
    optimism = (
        mean_error(teachers, [trial.held_out for trial in fitted.trials]) - before
    )
    rise = mean_error([tree], [rows]) - before
    kept = rise <= min(options.most_rise * optimism, before)
    if progress is not None:
        verdict = "" if kept else ", which fits too badly and is not taken"
        progress(
            f"grown again from {len(teachers)} trees: {tree.n_leaves} leaves{verdict}"
        )
    return fitted._replace(tree=tree, lesson=taught) if kept else fitted


def mean_error(trees: Sequence[Tree], parts: Sequence[Rows]) -> float:
    """Mean squared error of trees, each on its own part of the rows."""
    squared = weight = 0.0
    for tree, rows in zip(trees, parts, strict=True):
        residual = mean_prediction([tree], rows.table) - rows.y
        squared += float(rows.weight @ residual**2)
        weight += float(rows.weight.sum())
    return squared / weight


def lesson(
    rows: Rows,
    teachers: Sequence[Tree],
    schema: TableSchema,
    options: BornAgainOptions,
    seed: int,
) -> Rows:
    """The rows and points between them, with what the teachers say of them.

    Parameters
    ----------
    rows : Rows
        Those that grew the teachers.
    teachers : sequence of Tree
    schema : TableSchema
    options : BornAgainOptions
    seed : int

    Returns
    -------
    Rows
        The rows first. The points weigh as much as the rows.
    """
    random = np.random.default_rng(seed)
    n_points = max(round(options.points_per_row * len(rows.y)), options.least_points)
    first = np.arange(n_points) % len(rows.y)
    second = random.choice(len(rows.y), n_points, p=rows.weight / rows.weight.sum())
    share = random.uniform(0.0, options.reach, n_points)
    table = between(rows.table, schema, first, second, share)
    weight = rows.weight[first]
    points = Rows(
        table,
        mean_prediction(teachers, table),
        weight * (rows.weight.sum() / weight.sum()),
    )
    own = options.own_share
    output = own * rows.y + (1.0 - own) * mean_prediction(teachers, rows.table)
    return join(rows._replace(y=output), points)


def between(
    table: Table,
    schema: TableSchema,
    first: np.ndarray,
    second: np.ndarray,
    share: np.ndarray,
) -> Table:
    """Points on the way from rows to others.

    Categories and gaps, and the indicators of both, are those of the first row.

    Parameters
    ----------
    table : Table
    schema : TableSchema
    first, second : ndarray of shape (n_points,), int
    share : ndarray of shape (n_points,)
        How far on the way: 0 at the first row.

    Returns
    -------
    Table
    """
    share = share[:, None].astype(np.float32)
    start = table.x[first]
    x = start + share * (table.x[second] - start)  # exact where both are equal
    indicators = slice(schema.n_regressors - schema.n_indicators, schema.n_regressors)
    x[:, indicators] = start[:, indicators]
    for column, indicator in schema.gap_columns:
        x[:, indicator] = start[:, indicator]
        gap = start[:, indicator] > 0
        x[gap, column] = start[gap, column]
    return Table(x, table.codes[first])


def mean_prediction(trees: Sequence[Tree], table: Table) -> np.ndarray:
    """What hard trees predict on average, in standardised units, on the host.

    Programs for trees of so many sizes would take longer to compile than to run.
    """

    def mean(rows: slice) -> np.ndarray:
        part = Table(table.x[rows], table.codes[rows])
        root = np.zeros(len(part.x), np.int64)
        leaves = [descend(tree, part, root, tree.max_depth) for tree in trees]
        pairs = zip(trees, leaves, strict=True)
        return np.mean([values_at(tree, part, leaf) for tree, leaf in pairs], axis=0)

    return np.concatenate(list(in_blocks(mean, len(table.x))))


def measured_on(tree: Tree, rows: Rows, leaf: LeafOptions, min_weight: float) -> Tree:
    """A tree with weights, ranges and errors of rows that it was not grown on.

    Parameters
    ----------
    tree : Tree
        With models, which it keeps.
    rows : Rows
    leaf : LeafOptions
    min_weight : float
        Splits with a child of less weight are taken back.

    Returns
    -------
    Tree
    """
    facts = with_models(tree, rows, tree.schema, leaf, of=tree)
    inner = ~tree.is_leaf
    left, right = (np.where(inner, side, 0) for side in (tree.left, tree.right))
    least = (1 - 1e-6) * min_weight
    kept = inner & (np.minimum(facts.weight[left], facts.weight[right]) >= least)
    error = facts.weight * facts.train_error
    saved = np.maximum(error - error[left] - error[right], 0.0)
    heavier_left = facts.weight[left] >= facts.weight[right]
    facts = replace(
        facts,
        gain=np.where(inner, saved, 0.0).astype(np.float32),
        larger_left=np.where(inner, heavier_left, tree.larger_left),
    )
    return compact(facts, kept, StopReason.MIN_SAMPLES_LEAF)
