"""Distil several trees, or boosters, into one tree that learns what they predict.

The mean of trees that were grown on parts of the rows errs less than each of them, and
one tree that learns this mean keeps much of the gain (born-again trees, Breiman & Shang
1996). It learns at the rows, partly from their own outputs, and at points between them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np

from secret_jax.data.hashes import ROW_ORDER
from secret_jax.data.rows import Rows, Table, join, shuffled
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.frontier import ROUNDING
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.interface import Candidate, Fitted, Pruned
from secret_jax.fit.prune.path import of_size, training_errors
from secret_jax.models.fitting import remeasured, weighted_errors
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.parallel import in_blocks
from secret_jax.runtime.values import Value, real
from secret_jax.tree.reshape import compact
from secret_jax.tree.structure import StopReason, Tree
from secret_jax.tree.walk import descend, values_at

# Points between the rows, for each row, and at least.
_POINTS_PER_ROW, _LEAST_POINTS = 2, 2000

Predict: TypeAlias = Callable[[Table], np.ndarray]


class Teacher(NamedTuple):
    """Predictions to learn, (n_rows, n_outputs): values, or class probabilities."""

    predict: Predict  # of any rows
    # For the training rows, by models that have not seen them; None: by ``predict``.
    at_rows: np.ndarray | None = None
    # Models of folds, and masks (n_rows,) of the rows that each has not seen: students
    # of theirs can be judged on these rows.
    folds: Sequence[Predict] = ()
    parts: Sequence[np.ndarray] = ()


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

        The old one stays if the new one fits too badly, or the loss leads to no means.
        """
        old, rows, folds = fitted.tree, fitted.training, fitted.folds
        if not old.loss.predicts_mean:
            return fitted  # the mean of medians and rows is no median
        recipe.stage("asking the trees of the folds").at()

        def mean_prediction(table: Table) -> np.ndarray:
            values = (raw_predictions(fold.tree, table) for fold in folds)
            return np.mean([old.loss.prediction(value) for value in values], axis=0)

        student, learned = self.distil(
            Teacher(mean_prediction),
            rows,
            recipe.not_far_below(old),
            families=[fitted.candidates[0].oblique],
            prune=lambda trees: Pruned(of_size(trees[0], old.n_leaves), 0.0),
            stage="growing the tree again",
        )
        new = student.pruned.tree
        before, after = (mean_error([(tree, rows)]) for tree in (old, new))
        unseen = mean_error((fold.tree, fold.held_out) for fold in folds)
        most = min(self.most_rise * (unseen - before), before)
        if after - before > most:
            return fitted
        return fitted._replace(tree=new, student_rows=learned)

    def distil(
        self,
        teacher: Teacher,
        rows: Rows,
        recipe: Recipe,
        *,
        families: Sequence[bool],
        prune: Callable[[Sequence[Tree]], Pruned],
        stage: str,
    ) -> tuple[Candidate, Rows]:
        """Grow a student of each family, and one of each of the teacher's folds.

        ``families``: whether students may split obliquely; ``prune``: cuts the student
        of all rows, first of its family, and says what it is worth. Returns the best
        family, with weights and errors of the rows, and what its first tree learned.
        """
        learned, lessons = self._lessons(teacher, rows, recipe.schema)
        ratio = float(learned.weight.sum() / rows.weight.sum())
        heavier = replace(
            recipe,
            min_split_weight=ratio * recipe.min_split_weight,
            min_leaf_weight=ratio * recipe.min_leaf_weight,
        )
        roots = [
            replace(heavier.root(seen, oblique=oblique), targets=targets)
            for oblique in families
            for seen, targets in lessons
        ]
        trees = heavier.attach(heavier.grow(learned, roots, stage), learned, roots)
        students = []
        for i, oblique in enumerate(families):
            own = tuple(trees[i * len(lessons) : (i + 1) * len(lessons)])
            students.append(Candidate(own, prune(own), oblique))
        best = min(students, key=lambda student: student.pruned.value)
        least = recipe.min_leaf_weight
        tree = measured_on(best.pruned.tree, rows, recipe.leaf, least)
        return best._replace(pruned=best.pruned._replace(tree=tree)), learned

    def _lessons(
        self, teacher: Teacher, rows: Rows, schema: TableSchema
    ) -> tuple[Rows, list[tuple[np.ndarray, np.ndarray]]]:
        """Rows to learn from; positions and targets of every student."""
        learned, origin = student_rows(teacher, rows, schema, self)
        # Weights order equal rows alone: as ranks they tell the order of all rows.
        by_weight = np.argsort(learned.weight, kind="stable")
        rank = np.empty(learned.n_rows)
        rank[by_weight] = np.arange(learned.n_rows)
        ranked = shuffled(learned._replace(weight=rank))
        order = by_weight[ranked.weight.astype(int)]
        learned, origin = learned.take(order), origin[order]
        lessons = [(np.arange(learned.n_rows), learned.targets)]
        own = np.where(order < rows.n_rows, self.own_share, 0.0)[:, None]
        # A fold's student does not learn at rows that the fold has not seen, nor at the
        # points that stem from them.
        for predict, part in zip(teacher.folds, teacher.parts, strict=True):
            seen = np.flatnonzero(~part[origin])
            taught = (1.0 - own[seen]) * predict(learned.table.take(seen))
            lessons.append((seen, own[seen] * rows.targets[origin[seen]] + taught))
        return learned, lessons


def student_rows(
    teacher: Teacher, rows: Rows, schema: TableSchema, options: Distillation
) -> tuple[Rows, np.ndarray]:
    """Rows, then points between them, with predictions in their targets.

    Returns them, and the position (n_learned,) of the row that each stems from.
    """
    random, n_rows = np.random.default_rng(ROW_ORDER), rows.n_rows
    n_points = max(_POINTS_PER_ROW * n_rows, _LEAST_POINTS)
    first = np.arange(n_points) % n_rows
    second = random.choice(n_rows, n_points, p=rows.weight / rows.weight.sum())
    share = random.uniform(0.0, options.reach, n_points)
    table = between(rows.table, schema, first, second, share)
    weight = rows.weight[first]
    weight = weight * (rows.weight.sum() / weight.sum())
    group = None if rows.group is None else rows.group[first]
    points = Rows(table, teacher.predict(table), weight, group)
    own, at_rows = options.own_share, teacher.at_rows
    at_rows = teacher.predict(rows.table) if at_rows is None else at_rows
    targets = own * rows.targets + (1.0 - own) * at_rows
    learned = join([rows._replace(targets=targets), points])
    return learned, np.append(np.arange(n_rows), first)


def between(
    table: Table,
    schema: TableSchema,
    first: np.ndarray,
    second: np.ndarray,
    share: np.ndarray,
) -> Table:
    """Interpolate between pairs of rows; what is no number is that of the first."""
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


def mean_error(trees_and_rows: Iterable[tuple[Tree, Rows]]) -> float:
    """Mean loss of hard trees, each on rows of its own."""
    error = weight = 0.0
    for tree, rows in trees_and_rows:
        value = raw_predictions(tree, rows.table)
        error += float(weighted_errors(value, rows, tree.loss).sum())
        weight += float(rows.weight.sum())
    return error / weight


def raw_predictions(tree: Tree, table: Table) -> np.ndarray:
    """Predict with the models of a hard tree, (n_rows, n_outputs), on the host."""
    # Programs for trees of many sizes would take longer to compile than to run.

    def block(rows: slice) -> np.ndarray:
        part = table.take(rows)
        root = np.zeros(len(part.x), np.int64)
        return values_at(tree, part, descend(tree, part, root, tree.max_depth))

    return np.concatenate(list(in_blocks(block, len(table.x))))


def measured_on(tree: Tree, rows: Rows, leaf: LeafModel, min_weight: float) -> Tree:
    """Measure a tree on given rows, without splits of less weight; its models stay."""
    found = with_gains(remeasured(tree, rows, leaf))
    inner, least = ~tree.is_leaf, (1 - ROUNDING) * min_weight
    lighter = np.minimum(found.weight[found.left], found.weight[found.right])
    return compact(found, inner & (lighter >= least), StopReason.MIN_SAMPLES_LEAF)


def with_gains(tree: Tree) -> Tree:
    """Measure what each split saves, and which side is larger, of a measured tree."""
    inner, left, right = ~tree.is_leaf, tree.left, tree.right
    error = training_errors(tree)
    saved = np.maximum(error - error[left] - error[right], 0.0)
    heavier_left = tree.weight[left] >= tree.weight[right]
    return replace(
        tree,
        gain=np.where(inner & np.isfinite(tree.gain), saved, tree.gain).astype("f4"),
        larger_left=np.where(inner, heavier_left, tree.larger_left),
    )
