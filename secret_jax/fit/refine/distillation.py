"""Distil the trees of a cross-validation into one tree.

The mean of trees that were grown on parts of the rows errs less than each of them, and
one tree that learns this mean keeps much of the gain (born-again trees, Breiman & Shang
1996).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from secret_jax.data.rows import Rows, Table, join, shuffled
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.data.schema import TableSchema
from secret_jax.fit.kinds import LEVELS_BELOW
from secret_jax.fit.prune.path import of_size, training_errors
from secret_jax.fit.refine.interface import Fitted
from secret_jax.grow.grower import ROUNDING
from secret_jax.grow.trees import Recipe
from secret_jax.models.errors import weighted_errors
from secret_jax.models.fitting import remeasured
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.parallel import in_blocks
from secret_jax.runtime.values import Value, real
from secret_jax.tree.reshape import compact
from secret_jax.tree.structure import StopReason, Tree
from secret_jax.tree.walk import descend, values_at

# Points between the rows, for each row, and at least.
_POINTS_PER_ROW, _LEAST_POINTS = 2, 2000


@dataclass(frozen=True, kw_only=True)
class Distillation(Value):
    """Options for growing a tree again on the predictions of the fold trees.

    Attributes
    ----------
    own_share : float, default=0.5
        Weight of a row's own output in its target; the rest is the trees' prediction.
    reach : float, default=0.5
        Maximum distance of a point from its row, as a share of that to another row.
    most_rise : float, default=0.5
        The new tree is taken if its error on the rows themselves is higher than that of
        the old one by at most this share of what the old one errs more on rows that it
        has not seen, and at most twice as high: without noise there is nothing to
        average away, and what is exact stays exact.

    References
    ----------
    L. Breiman and N. Shang. Born Again Trees. Technical report, University of
    California, Berkeley, 1996.

    Examples
    --------
    >>> from secret_jax import Distillation, SecretRegressor
    >>> SecretRegressor(distill=Distillation(own_share=0.7)).distill.own_share
    0.7
    """

    own_share: Annotated[float, real(0.0, 1.0, closed="both")] = 0.5
    reach: Annotated[float, real(0.0, 1.0, closed="both")] = 0.5
    most_rise: Annotated[float, real(0.0)] = 0.5

    def __call__(self, fitted: Fitted, recipe: Recipe) -> Fitted:
        """Grow a cross-validated tree again on the predictions of the fold trees.

        Parameters
        ----------
        fitted : Fitted
            With the trees of the parts among its folds.
        recipe : Recipe
            With the least weights of a split and a leaf in weights of the rows; the
            student's rows weigh more, and they are raised accordingly.

        Returns
        -------
        Fitted
            With the new tree, of at most as many leaves, and what it learned; or as it
            was, if the new tree fits the rows too badly, or the loss leads to no means.
        """
        tree = fitted.tree
        if not tree.loss.says_means:
            return fitted  # the mean of medians and rows is no median
        recipe.stage("asking the trees of the folds").at()
        rows, teachers = fitted.training, [fold.tree for fold in fitted.folds]

        def said(table: Table) -> np.ndarray:
            return mean_prediction(teachers, table)

        learned = student_rows(rows, said, recipe.schema, self)
        learned = shuffled(learned, ROW_ORDER)
        ratio = float(learned.weight.sum() / rows.weight.sum())
        heavier = replace(
            recipe,
            min_split_weight=ratio * recipe.min_split_weight,
            min_leaf_weight=ratio * recipe.min_leaf_weight,
        )
        tree = heavier.grow_one(
            learned,
            oblique=fitted.oblique,
            stage="growing the tree again",
            deepest=fitted.tree.max_depth + LEVELS_BELOW,
        )
        tree = of_size(tree, fitted.tree.n_leaves)
        tree = measured_on(tree, rows, recipe.leaf, recipe.min_leaf_weight)
        before = mean_error([fitted.tree], [rows])
        unseen = [fold.held_out for fold in fitted.folds]
        optimism = mean_error(teachers, unseen) - before
        rise = mean_error([tree], [rows]) - before
        kept = rise <= min(self.most_rise * optimism, before)
        return fitted._replace(tree=tree, student_rows=learned) if kept else fitted


def mean_error(trees: Sequence[Tree], parts: Sequence[Rows]) -> float:
    """Mean error of hard trees, each on rows of its own."""
    error = weight = 0.0
    for tree, rows in zip(trees, parts, strict=True):
        (value,) = raw_predictions([tree], rows.table)
        error += float(weighted_errors(value, rows, tree.loss).sum())
        weight += float(rows.weight.sum())
    return error / weight


def student_rows(
    rows: Rows,
    said: Callable[[Table], np.ndarray],
    schema: TableSchema,
    options: Distillation,
    at_rows: np.ndarray | None = None,
) -> Rows:
    """Rows, and points between them, with the teachers' predictions as targets.

    ``rows``: rows that grew the teachers; ``said``: predictions of the teachers for a
    table, of shape (n_rows, n_outputs); ``at_rows`` (n_rows, n_outputs): their
    predictions at the rows, if these differ. Returns the rows first, then the points,
    in turn from each row. The points weigh as much as the rows.
    """
    random = np.random.default_rng(ROW_ORDER)
    n_rows = rows.n_rows
    n_points = max(_POINTS_PER_ROW * n_rows, _LEAST_POINTS)
    first = np.arange(n_points) % n_rows
    second = random.choice(n_rows, n_points, p=rows.weight / rows.weight.sum())
    share = random.uniform(0.0, options.reach, n_points)
    table = between(rows.table, schema, first, second, share)
    weight = rows.weight[first]
    weight = weight * (rows.weight.sum() / weight.sum())
    group = None if rows.group is None else rows.group[first]
    points = Rows(table, said(table), weight, group)
    at_rows = said(rows.table) if at_rows is None else at_rows
    own = options.own_share
    targets = own * rows.targets + (1.0 - own) * at_rows
    return join([rows._replace(targets=targets), points])


def between(
    table: Table,
    schema: TableSchema,
    first: np.ndarray,
    second: np.ndarray,
    share: np.ndarray,
) -> Table:
    """Interpolate between pairs of rows.

    Categories, missing values and indicators are taken from the first row of a pair.

    ``first``, ``second`` (n_points,), int; ``share`` (n_points,): position between the
    rows: 0 at the first one.
    """
    share = share[:, None].astype(np.float32)
    start = table.x[first]
    x = start + share * (table.x[second] - start)  # exact where both are equal
    indicators = slice(schema.n_regressors - schema.n_indicators, schema.n_regressors)
    x[:, indicators] = start[:, indicators]
    for column, indicator in schema.missing_columns:
        x[:, indicator] = start[:, indicator]
        absent = start[:, indicator] > 0
        x[absent, column] = start[absent, column]
    return Table(x, table.codes[first])


def mean_prediction(trees: Sequence[Tree], table: Table) -> np.ndarray:
    """Average the predictions of hard trees, in standardised units, on the host.

    Programs for trees of many different sizes would take longer to compile than to run.

    Returns (n_rows, n_outputs), float64.
    """
    values = raw_predictions(trees, table)
    return np.mean([trees[0].loss.prediction(value) for value in values], axis=0)


def raw_predictions(trees: Sequence[Tree], table: Table) -> list[np.ndarray]:
    """Predict with the models of hard trees, (n_rows, n_outputs) each, on the host."""

    def block(rows: slice) -> list[np.ndarray]:
        part = table.take(rows)
        root = np.zeros(len(part.x), np.int64)
        leaves = [descend(tree, part, root, tree.max_depth) for tree in trees]
        pairs = zip(trees, leaves, strict=True)
        return [values_at(tree, part, leaf) for tree, leaf in pairs]

    blocks = list(in_blocks(block, len(table.x)))
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def measured_on(tree: Tree, rows: Rows, leaf: LeafModel, min_weight: float) -> Tree:
    """Measure weights, ranges and errors of a tree on given rows.

    ``tree``: with models, which it keeps; ``leaf``: how predictions are clipped;
    ``min_weight``: splits with a child of less weight are taken back.
    """
    found = remeasured(tree, rows, leaf)
    inner = ~tree.is_leaf
    left, right = (np.where(inner, side, 0) for side in (tree.left, tree.right))
    least = (1 - ROUNDING) * min_weight
    kept = inner & (np.minimum(found.weight[left], found.weight[right]) >= least)
    return compact(with_gains(found), kept, StopReason.MIN_SAMPLES_LEAF)


def with_gains(tree: Tree) -> Tree:
    """Measure what each split saves, and which side is larger, of a measured tree."""
    inner = ~tree.is_leaf
    left, right = (np.where(inner, side, 0) for side in (tree.left, tree.right))
    error = training_errors(tree)
    saved = np.maximum(error - error[left] - error[right], 0.0)
    heavier_left = tree.weight[left] >= tree.weight[right]
    return replace(
        tree,
        gain=np.where(inner & np.isfinite(tree.gain), saved, tree.gain).astype("f4"),
        larger_left=np.where(inner, heavier_left, tree.larger_left),
    )
