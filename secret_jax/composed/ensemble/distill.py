"""Distil boosters into one readable tree, see `secret_jax.fit.refine.distillation`.

At rows the target is half the real output, half the prediction of boosters that have
not seen the row; between rows it is the prediction of the whole ensemble.
"""

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.metrics import r2_score

from secret_jax.composed.ensemble.growth import Boosted, Ensemble, total_error
from secret_jax.data.rows import Rows, Table
from secret_jax.data.schema import TableSchema
from secret_jax.fit.interface import Evidence, Pruned
from secret_jax.fit.plan import Plan
from secret_jax.fit.prune.path import of_size
from secret_jax.fit.prune.rules import CrossValidation
from secret_jax.fit.refine.distillation import Distillation, Teacher
from secret_jax.losses.interface import Loss
from secret_jax.models.fitting import node_statistics
from secret_jax.models.short_models import with_short_equations
from secret_jax.tree.plain import with_plain_splits
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree

_MOST_LEAVES = 16  # where neither folds nor a number choose the size


def teacher_of(ensemble: Ensemble, boosted: Boosted | None, loss: Loss) -> Teacher:
    """Make a teacher of an ensemble, and of its folds if the rows fitted it."""

    def predict(ensemble: Ensemble) -> Callable[[Table], np.ndarray]:
        return lambda table: loss.prediction(ensemble.values(table))

    if boosted is None or boosted.unseen is None:
        return Teacher(predict(ensemble))
    at_rows, folds = loss.prediction(boosted.unseen), list(map(predict, boosted.folds))
    return Teacher(predict(ensemble), at_rows, folds, boosted.parts)


def distilled(
    teacher: Teacher,
    rows: Rows,
    plan: Plan,
    schema: TableSchema,
    max_leaf_nodes: int | None,
) -> tuple[Tree, int, dict[str, float]]:
    """Grow one tree that learns from boosters; also the number of leaves it grew.

    ``rows``: those that trained the boosters; ``max_leaf_nodes``: None: students of the
    folds choose the size of the tree. Told are their ``error`` on rows that neither
    they nor their teachers have seen, and their ``fidelity``; without folds both NaN.
    """

    def unseen_values(fold_trees: Sequence[Tree]) -> np.ndarray:
        found = np.empty_like(rows.targets)
        for tree, part in zip(fold_trees, teacher.parts, strict=True):
            found[part] = values(tree, rows.table.take(part))
        return found

    def prune(trees: Sequence[Tree]) -> Pruned:
        tree, *fold_trees = trees
        if fold_trees and max_leaf_nodes is None:
            evidence = Evidence(
                rows,
                unseen=teacher.parts,
                fold_trees=fold_trees,
                tolerance=plan.pruning_tolerance,
                equation_tolerance=plan.equation_tolerance,
            )
            return CrossValidation()(tree, evidence)
        most = max_leaf_nodes or _MOST_LEAVES
        tree, *fold_trees = (of_size(each, most) for each in trees)
        value = unseen_values(fold_trees) if fold_trees else values(tree, rows.table)
        return Pruned(tree, total_error(tree.loss, rows, value), tuple(fold_trees))

    recipe = plan.of_student(plan.recipe(schema, rows.weight.sum()))
    student, _ = Distillation().distil(
        teacher, rows, recipe, families=plan.families, prune=prune, stage="distilling"
    )
    tree = with_plain_splits(student.pruned.tree, rows.table)
    statistics, tolerance = node_statistics(tree, rows), plan.equation_tolerance
    tree = with_short_equations(tree, statistics, rows, recipe.leaf, tolerance)
    error = fidelity = np.nan
    if student.pruned.fold_trees:
        value = unseen_values(student.pruned.fold_trees)
        error = total_error(tree.loss, rows, value) / rows.weight.sum()
        fidelity = r2_score(
            teacher.at_rows,
            tree.loss.prediction(value),
            sample_weight=rows.weight,
            multioutput="variance_weighted",
            force_finite=False,
        )
    told = {"error": float(error), "fidelity": float(fidelity)}
    return tree, student.trees[0].n_leaves, told
