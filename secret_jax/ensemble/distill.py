"""Distil boosters into one readable tree.

At rows the target is half the real output, half the prediction of boosters that have
not seen the row; between rows it is the prediction of the whole ensemble (born-again
trees, Breiman & Shang 1996).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows, Table, shuffled
from secret_jax.data.sampling import ROW_ORDER, hold_out
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.boosting import Boosted
from secret_jax.ensemble.model import Ensemble
from secret_jax.fit.plan import Plan
from secret_jax.grow.frontier import Root
from secret_jax.grow.trees import Recipe
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SquaredError
from secret_jax.models.errors import total_error
from secret_jax.models.fitting import node_statistics
from secret_jax.models.short_models import with_short_equations
from secret_jax.prune.cross_validation import CrossValidation
from secret_jax.prune.interface import Evidence
from secret_jax.prune.path import of_size
from secret_jax.refine.distillation import Distillation, measured_on, student_rows
from secret_jax.refine.interface import Candidate, Fitted
from secret_jax.refine.soft.choose import SoftGates, with_mixture_errors
from secret_jax.tree.bounds import bounded
from secret_jax.tree.plain import with_plain_splits
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree

_SOFT_START = 16  # leaves of the tree whose gates are trained, unless a number is given


class Teacher(NamedTuple):
    """Predictions of boosters, for students to learn from.

    Attributes
    ----------
    said : callable
        Predicts a table with all boosters, of shape (n_rows, n_outputs).
    unseen : ndarray of shape (n_rows, n_outputs)
        Predictions for the rows, by boosters that have not seen them.
    folds : list of callable
        Prediction function of the booster of each fold.
    parts : list of ndarray of shape (n_rows,), bool
        The rows that each has not seen.
    """

    said: Callable[[Table], np.ndarray]
    unseen: np.ndarray
    folds: list[Callable[[Table], np.ndarray]]
    parts: list[np.ndarray]


class Distilled(NamedTuple):
    """Result of a distillation.

    Attributes
    ----------
    n_steps : int
        Gradient steps of a soft tree.
    refusal : str
        Why gates were not taken.
    error : float
        Mean squared error on rows that neither student nor teacher have seen, in units
        of the variance of the target, or of classes mean cross-entropy; of soft trees,
        and without folds, NaN.
    fidelity : float
        R² of the student to the boosters on the same rows.
    """

    tree: Tree
    n_leaves_grown: int
    n_steps: int
    refusal: str
    error: float
    fidelity: float


def teacher_of(
    boosted: Boosted,
    rows: Rows,
    parts: Sequence[np.ndarray],
    loss: Loss,
) -> Teacher:
    """Make a teacher of the rows that fitted the boosters."""
    said, unseen = told_by(boosted.ensemble, loss), boosted.ensemble.values(rows.table)
    if boosted.unseen is not None:
        unseen = np.where(np.isfinite(boosted.unseen), boosted.unseen, unseen)
    unseen = loss.prediction(unseen)
    if len(parts) < 2:
        return Teacher(said, unseen, [], [])
    folds = [told_by(boosted.of_fold(which), loss) for which in range(len(parts))]
    return Teacher(said, unseen, folds, list(parts))


def told_by(ensemble: Ensemble, loss: Loss) -> Callable[[Table], np.ndarray]:
    """Make the function that an ensemble teaches: values, or class probabilities."""
    return lambda table: loss.prediction(ensemble.values(table))


def distil(
    teacher: Teacher,
    rows: Rows,
    plan: Plan,
    schema: TableSchema,
    *,
    max_leaf_nodes: int | None,
    soft: bool,
    options: Distillation,
) -> Distilled:
    """Grow one tree on the predictions of boosters.

    Parameters
    ----------
    rows : Rows
        Rows that trained the boosters.
    plan : Plan
        Plan of the tree.
    max_leaf_nodes : int or None
        None: students of the folds choose the size of the tree, on rows that neither
        they nor their teachers have seen.
    soft : bool
        Whether gates and leaves are trained then.
    """
    learned = student_rows(rows, teacher.said, schema, options, teacher.unseen)
    recipe = _recipe(plan, rows, learned, schema)
    order = np.argsort(np.random.default_rng(ROW_ORDER).random(learned.n_rows))
    n_points = learned.n_rows - rows.n_rows
    origin = np.append(np.arange(rows.n_rows), np.arange(n_points) % rows.n_rows)
    roots = []
    for kind in plan.kinds:
        roots.append(recipe.root(order, oblique=kind))
        roots += [
            _fold_root(recipe, fold, ~part[origin], order, rows, learned, options, kind)
            for fold, part in zip(teacher.folds, teacher.parts, strict=True)
        ]
    trees = recipe.attach(recipe.grow(learned, roots, "distilling"), learned, roots)
    n_each = len(roots) // len(plan.kinds)
    found = [
        _cut(trees[first : first + n_each], teacher, rows, plan, max_leaf_nodes)
        for first in range(0, len(trees), n_each)
    ]
    best = min(range(len(found)), key=lambda which: found[which].value)
    chosen, whole = found[best], trees[best * n_each]
    least = 0.5 * recipe.min_leaf_weight
    tree = measured_on(chosen.tree, rows, recipe.leaf, least)
    tree = with_plain_splits(tree, rows.table)
    statistics = node_statistics(tree, rows)
    tree = bounded(tree, statistics.lower[0], statistics.upper[0])
    tolerance = plan.equation_tolerance
    tree = with_short_equations(tree, statistics, rows, recipe.leaf, tolerance)
    unit = _variance(rows) if isinstance(tree.loss, SquaredError) else 1.0
    error, fidelity = chosen.error / unit, chosen.fidelity
    done = Distilled(tree, whole.n_leaves, 0, "", error, fidelity)
    if not soft:
        return done
    return _softened(done, teacher, rows, learned, plan, schema, max_leaf_nodes, best)


class _Cut(NamedTuple):
    tree: Tree
    value: float  # by which kinds are compared
    error: float
    fidelity: float


def _cut(
    trees: Sequence[Tree],
    teacher: Teacher,
    rows: Rows,
    plan: Plan,
    max_leaf_nodes: int | None,
) -> _Cut:
    """Prune a student, and measure its fold students on held-out rows."""
    whole, *fold_trees = trees
    if max_leaf_nodes is not None:
        tree = of_size(whole, max_leaf_nodes)
        fold_trees = [of_size(each, max_leaf_nodes) for each in fold_trees]
        pruned = None
    elif fold_trees:
        evidence = Evidence(rows, None, tolerance=plan.pruning_tolerance)
        evidence = evidence._replace(fold_trees=fold_trees, unseen=teacher.parts)
        pruned = CrossValidation()(whole, evidence)
        tree, fold_trees = pruned.tree, list(pruned.fold_trees)
    else:
        tree, pruned = of_size(whole, _SOFT_START), None
    lost = own = other = 0.0
    for each, said, part in zip(fold_trees, teacher.folds, teacher.parts, strict=True):
        held_out = rows.take(part)
        prediction, teaching = _meant(each, held_out.table), said(held_out.table)
        lost += total_error(each, held_out)
        own += _square(teaching - prediction, held_out)
        mean = held_out.weight @ teaching / held_out.weight.sum()
        other += _square(teaching - mean, held_out)
    if not fold_trees:
        return _Cut(tree, total_error(tree, rows), np.nan, np.nan)
    error = lost / rows.weight.sum()
    fidelity = 1.0 - own / other if other > 0 else np.nan
    return _Cut(tree, error if pruned is None else pruned.value, error, fidelity)


def _meant(tree: Tree, table: Table) -> np.ndarray:
    """Predict with a student in the teacher's terms: values, or probabilities."""
    value = values(tree, table)
    return tree.loss.prediction(value)


def _fold_root(
    recipe: Recipe,
    said: Callable[[Table], np.ndarray],
    seen: np.ndarray,
    order: np.ndarray,
    rows: Rows,
    learned: Rows,
    options: Distillation,
    oblique: bool,
) -> Root:
    """Root of the student of one booster, over the rows that this booster has seen."""
    chosen = order[seen[order]]
    taught = said(learned.table.take(chosen))
    own = np.minimum(chosen, rows.n_rows - 1)
    share = np.where(chosen < rows.n_rows, options.own_share, 0.0)[:, None]
    targets = share * rows.targets[own] + (1.0 - share) * taught
    return replace(recipe.root(chosen, oblique=oblique), targets=targets)


def _recipe(plan: Plan, rows: Rows, learned: Rows, schema: TableSchema) -> Recipe:
    """Growth settings as for a tree of the rows, with half the least leaf weight."""
    recipe = plan.recipe(schema, float(rows.weight.sum()), 1.0)
    ratio = float(learned.weight.sum() / rows.weight.sum())
    return replace(
        recipe,
        min_split_weight=ratio * recipe.min_split_weight,
        min_leaf_weight=0.5 * ratio * recipe.min_leaf_weight,
    )


def _softened(
    hard: Distilled,
    teacher: Teacher,
    rows: Rows,
    learned: Rows,
    plan: Plan,
    schema: TableSchema,
    max_leaf_nodes: int | None,
    kind: int,
) -> Distilled:
    """Train a soft tree from students of some rows; the others stop it early."""
    most = hard.tree.n_leaves if max_leaf_nodes is None else max_leaf_nodes
    refinement = SoftGates(max_leaves=max(most, 2))
    cut = hold_out(rows.weight, refinement.validation_fraction)
    if cut >= rows.n_rows or most < 2:
        return hard._replace(refusal="there are too few rows, or leaves, for gates")
    at_rows = learned.take(slice(rows.n_rows))
    training, held_out = at_rows.take(slice(cut)), at_rows.take(slice(cut, None))
    part = rows.take(slice(cut))
    points = student_rows(part, teacher.said, schema, Distillation(own_share=1.0))
    training = shuffled(
        points._replace(
            targets=np.concatenate([training.targets, points.targets[cut:]])
        ),
        ROW_ORDER,
    )
    recipe = _recipe(plan, part, training, schema)
    every = np.arange(training.n_rows)
    roots = [recipe.root(every, oblique=oblique) for oblique in plan.kinds]
    trees = recipe.grow(training, roots, "growing starts")
    trees = recipe.attach(trees, training, roots)
    candidates = [Candidate(tree, of_size(tree, most)) for tree in trees]
    candidates.insert(0, candidates.pop(kind))
    fitted = Fitted(
        tree=hard.tree,
        oblique=plan.kinds[kind],
        n_leaves_grown=hard.n_leaves_grown,
        candidates=tuple(candidates),
        folds=(),
        training=training,
        held_out=held_out,
        refit=True,
    )
    refined = refinement(fitted, recipe)
    if refined.refusal:
        return hard._replace(refusal=refined.refusal)
    tree = with_mixture_errors(refined.tree, rows, recipe.leaf)
    return hard._replace(
        tree=tree, n_steps=refined.n_steps, error=np.nan, fidelity=np.nan
    )


def _square(difference: np.ndarray, rows: Rows) -> float:
    return float(rows.weight @ (difference**2).sum(axis=1))


def _variance(rows: Rows) -> float:
    mean = rows.weight @ rows.targets / rows.weight.sum()
    total = _square(rows.targets - mean, rows) / rows.weight.sum()
    return total if total > 0 else 1.0
