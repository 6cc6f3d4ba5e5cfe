"""Distil boosters into one readable tree.

At rows the target is half the real output, half the prediction of boosters that have
not seen the row; between rows it is the prediction of the whole ensemble (born-again
trees, Breiman & Shang 1996).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from sklearn.metrics import r2_score

from secret_jax.data.rows import Rows, Table
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.boosting import Boosted
from secret_jax.ensemble.growth import total_error
from secret_jax.ensemble.model import Ensemble
from secret_jax.fit.plan import Plan
from secret_jax.fit.prune.cross_validation import CrossValidation
from secret_jax.fit.prune.interface import Evidence
from secret_jax.fit.prune.path import of_size
from secret_jax.fit.refine.distillation import Distillation, measured_on, student_rows
from secret_jax.grow.trees import Recipe
from secret_jax.losses.interface import Loss
from secret_jax.models.fitting import node_statistics
from secret_jax.models.short_models import with_short_equations
from secret_jax.tree.plain import with_plain_splits
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree

_MOST_LEAVES = 16  # where neither folds nor a number choose the size


class Teacher(NamedTuple):
    """Predictions of boosters, for students to learn from."""

    # Predicts a table with all boosters, of shape (n_rows, n_outputs): values, or class
    # probabilities.
    predict: Callable[[Table], np.ndarray]
    # (n_rows, n_outputs): predictions for the rows, by boosters that have not seen
    # them.
    unseen: np.ndarray
    # Prediction function of the booster of each fold.
    folds: list[Callable[[Table], np.ndarray]]
    # (n_rows,), bool, each: the rows that each has not seen.
    parts: list[np.ndarray]

    @classmethod
    def of(
        cls, ensemble: Ensemble, boosted: Boosted | None, rows: Rows, loss: Loss
    ) -> Self:
        """Make a teacher of an ensemble, and of its folds if the rows fitted it."""

        def told_by(ensemble: Ensemble) -> Callable[[Table], np.ndarray]:
            return lambda table: loss.prediction(ensemble.values(table))

        predict, unseen = told_by(ensemble), ensemble.values(rows.table)
        if boosted is None or boosted.unseen is None:
            return cls(predict, loss.prediction(unseen), [], [])
        masks = [np.isin(np.arange(rows.n_rows), part) for part in boosted.parts]
        folds = [told_by(fold) for fold in boosted.folds]
        return cls(predict, loss.prediction(boosted.unseen), folds, masks)


class Distilled(NamedTuple):
    """Result of a distillation."""

    tree: Tree
    n_leaves_grown: int
    # Mean squared error on rows that neither student nor teacher have seen, in units of
    # the variance of the target, or of classes mean cross-entropy; without folds NaN.
    error: float
    fidelity: float  # R² of the student to the boosters on the same rows
    value: float  # by which kinds of trees are compared


@dataclass(frozen=True, eq=False, kw_only=True)
class Lesson:
    """What one tree learns from boosters.

    ``rows``: rows that trained the boosters; ``plan``: plan of the tree;
    ``max_leaf_nodes``, if None: students of the folds choose the size of the tree, on
    rows that neither they nor their teachers have seen.
    """

    teacher: Teacher
    rows: Rows
    plan: Plan
    schema: TableSchema
    max_leaf_nodes: int | None

    def learned(self) -> Distilled:
        """Grow one tree."""
        options, rows = Distillation(), self.rows
        learned = student_rows(
            rows, self.teacher.predict, self.schema, options, self.teacher.unseen
        )
        recipe = self._recipe(learned)
        order = np.argsort(np.random.default_rng(ROW_ORDER).random(learned.n_rows))
        n_points = learned.n_rows - rows.n_rows
        origin = np.append(np.arange(rows.n_rows), np.arange(n_points) % rows.n_rows)
        # Of every kind a student of all boosters, and one of each fold over the rows
        # that this booster has seen.
        lessons = [(order, learned.targets[order])]
        for predict, part in zip(self.teacher.folds, self.teacher.parts, strict=True):
            seen = order[~part[origin[order]]]
            own = np.where(seen < rows.n_rows, options.own_share, 0.0)[:, None]
            real = rows.targets[np.minimum(seen, rows.n_rows - 1)]
            taught = predict(learned.table.take(seen))
            lessons.append((seen, own * real + (1.0 - own) * taught))
        roots = [
            replace(recipe.root(seen, oblique=kind), targets=targets)
            for kind in self.plan.kinds
            for seen, targets in lessons
        ]
        trees = recipe.attach(recipe.grow(learned, roots, "distilling"), learned, roots)
        n_each = len(lessons)
        first = range(0, len(trees), n_each)
        cuts = [self._cut(trees[at : at + n_each]) for at in first]
        chosen = min(cuts, key=lambda each: each.value)
        least = 0.5 * recipe.min_leaf_weight
        tree = measured_on(chosen.tree, rows, recipe.leaf, least)
        tree = with_plain_splits(tree, rows.table)
        statistics = node_statistics(tree, rows)
        tolerance = self.plan.equation_tolerance
        tree = with_short_equations(tree, statistics, rows, recipe.leaf, tolerance)
        return chosen._replace(tree=tree)

    def _cut(self, trees: Sequence[Tree]) -> Distilled:
        """Prune a student, and measure its fold students on held-out rows."""
        (whole, *fold_trees), rows = trees, self.rows
        value = None
        if self.max_leaf_nodes is None and fold_trees:
            evidence = Evidence(
                rows,
                unseen=self.teacher.parts,
                fold_trees=fold_trees,
                tolerance=self.plan.pruning_tolerance,
                equation_tolerance=self.plan.equation_tolerance,
            )
            pruned = CrossValidation()(whole, evidence)
            tree, fold_trees, value = pruned.tree, pruned.fold_trees, pruned.value
        else:
            most = self.max_leaf_nodes or _MOST_LEAVES
            tree, *fold_trees = (of_size(each, most) for each in trees)
        if not fold_trees:
            total = total_error(tree.loss, rows, values(tree, rows.table))
            return Distilled(tree, whole.n_leaves, np.nan, np.nan, total)
        said = np.empty_like(rows.targets)
        for each, part in zip(fold_trees, self.teacher.parts, strict=True):
            said[part] = values(each, rows.table.take(part))
        error = total_error(tree.loss, rows, said) / rows.weight.sum()
        fidelity = r2_score(
            self.teacher.unseen,
            tree.loss.prediction(said),
            sample_weight=rows.weight,
            multioutput="variance_weighted",
            force_finite=False,
        )
        value = error if value is None else value
        return Distilled(tree, whole.n_leaves, error, float(fidelity), value)

    def _recipe(self, learned: Rows) -> Recipe:
        """Settings as for a tree of the rows, with half the least leaf weight."""
        total = float(self.rows.weight.sum())
        recipe = self.plan.recipe(self.schema, total, 1.0)
        ratio = float(learned.weight.sum() / total)
        return replace(
            recipe,
            min_split_weight=ratio * recipe.min_split_weight,
            min_leaf_weight=0.5 * ratio * recipe.min_leaf_weight,
        )
