"""Pipeline from a plan and rows to a fitted tree.

rows -> a sample in hash order -> training and held-out rows -> (residuals of additive
curves ->) several trees grown together -> models -> pruning -> a second growth ->
refinement. The rows outside the sample are read once more, for the models of the final
tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows, join, merged
from secret_jax.data.sampling import ROW_ORDER, hold_out
from secret_jax.data.source import RowSource
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import CheckedRows, Prepared, prepare
from secret_jax.fit.staging import View, less_stage, views
from secret_jax.grow.cost import what_takes_long
from secret_jax.grow.trees import Recipe
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SquaredError
from secret_jax.models.attach import (
    attach_one,
    counted,
    node_statistics,
    source_statistics,
    with_statistics,
)
from secret_jax.models.loss_spread import loss_spread
from secret_jax.models.measured import recentred
from secret_jax.models.shorten import shortened
from secret_jax.models.standard_errors import with_standard_errors
from secret_jax.models.statistics import NodeStatistics
from secret_jax.prune.cross_validation import CrossValidation, parts_of
from secret_jax.prune.hold_out import HoldOut
from secret_jax.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.prune.path import of_size
from secret_jax.prune.watch import LEVELS_BELOW, Watch
from secret_jax.refine.interface import (
    Candidate,
    Fitted,
    FoldFit,
    Refined,
)
from secret_jax.runtime.progress import UNTOLD, Note, Stage
from secret_jax.tree.bounds import bounded
from secret_jax.tree.plain import ROWS_LOOKED_AT, with_plain_splits
from secret_jax.tree.structure import Tree

# With more rows ``prune="auto"`` holds some out: five more trees would take too long.
_MOST_CROSS_VALIDATED = 8192


class Finished(NamedTuple):
    """Result of a fit.

    Attributes
    ----------
    tree : Tree
        As it is handed over, with short equations.
    fitted : Fitted
        Input of a refinement, with the full models.
    statistics : NodeStatistics
        Statistics of all rows that trained the models.
    """

    tree: Tree
    fitted: Fitted
    statistics: NodeStatistics
    prepared: Prepared


def fit_tree(plan: Plan, given: CheckedRows, eval_set: CheckedRows | None) -> Finished:
    """Grow, prune and distil a tree; the result also has the input of a refinement."""
    return fit_prepared(plan, prepare(plan, given, eval_set))


def fit_prepared(plan: Plan, prepared: Prepared) -> Finished:
    """Fit a tree as `fit_tree`, to rows that were read and measured."""
    n_outputs = prepared.schema.n_outputs
    if plan.additive is not None and n_outputs > 1:
        raise ValueError(
            f"additive={plan.additive!r} knows a single output, and y has {n_outputs}. "
            "Fit a model for each of them, or set additive=None."
        )
    columns = plan.columns
    long = what_takes_long(
        prepared.schema,
        prepared.rows.n_rows,
        oblique=any(plan.kinds),
        indicators=bool(columns.category_indicators or columns.missing_indicators),
    )
    if long:
        plan.progress(Note(long))
    rule = chosen_rule(plan, prepared)
    fitted, prepared = grown(plan, prepared, rule)
    tree, statistics = _measured(plan, prepared, fitted, fitted.tree)
    fitted = fitted._replace(tree=tree)
    short = _handed_over(plan, prepared, fitted, tree, statistics)
    return Finished(short, fitted, statistics, prepared)


def _handed_over(
    plan: Plan,
    prepared: Prepared,
    fitted: Fitted,
    tree: Tree,
    statistics: NodeStatistics,
) -> Tree:
    """Finish a tree: bounds and short equations."""
    tree = replace(tree, additive=prepared.stage)
    tree = bounded(tree, statistics.lower[0], statistics.upper[0])
    return with_short_equations(plan, tree, statistics, fitted.all_rows())


def with_short_equations(
    plan: Plan, tree: Tree, statistics: NodeStatistics, rows: Rows
) -> Tree:
    """Shorten the equations of a tree and compute their standard errors.

    Parameters
    ----------
    tree : Tree
        With full models.
    rows : Rows
        Rows that trained the models; only needed for a loss.
    """
    full = tuple(tree.leaf_error.tolist()) if plan.equation_tolerance > 0 else None
    if isinstance(tree.loss, SquaredError):
        return replace(
            shortened(tree, statistics, plan.equation_tolerance), full_error=full
        )
    short = shortened(
        tree, statistics, plan.equation_tolerance, loss_spread(tree, rows)
    )
    if plan.equation_tolerance > 0:
        short = recentred(short, tree, rows, plan.leaf)
    return replace(with_standard_errors(short, rows), full_error=full)


def _measured(
    plan: Plan, prepared: Prepared, fitted: Fitted, tree: Tree
) -> tuple[Tree, NodeStatistics]:
    """Round the splits of a tree and fit its final models, with statistics.

    A tree grown on a sample gets models from all rows.
    """
    rows = fitted.all_rows()
    tree = with_plain_splits(tree, rows.table)
    sources = _sources(prepared, fitted.refit)
    if not sources:
        statistics = node_statistics(tree, rows)
        if rows.n_rows > ROWS_LOOKED_AT:  # others may have changed sides
            tree = (
                attach_one(tree, rows, plan.leaf)
                if plan.leaf.needs_rows
                else with_statistics(tree, statistics, plan.leaf)
            )
        return tree, statistics
    Stage("fitting models on all rows", plan.progress).at()
    statistics = source_statistics(tree, sources)
    if plan.leaf.needs_rows:  # those of the sample; all rows are counted
        tree = attach_one(tree, rows, plan.leaf)
        return counted(tree, statistics), statistics
    return with_statistics(tree, statistics, plan.leaf), statistics


def _sources(prepared: Prepared, refit: bool) -> list[RowSource]:
    """Sources of all rows that train the final models, if a sample grew the tree."""
    others = prepared.prune_source
    if prepared.source is None or not (refit or others is not None):
        return []
    return [source for source in (prepared.source, others if refit else None) if source]


def refine_tree(plan: Plan, finished: Finished) -> Refined:
    """Refine a fitted tree as the plan says."""
    refinement, (_, fitted, statistics, prepared) = plan.refine, finished
    assert refinement is not None
    plan = replace(plan, additive=None)  # what there is was taken from the targets
    if refinement.needs_unseen_rows and not fitted.folds:
        reason = "there are too few rows to hold some out; give more, or a eval_set"
        return Refined(finished.tree, 0, reason)
    tree, student_rows, refit = fitted.tree, fitted.student_rows, fitted.refit
    if refinement.held_out_share and fitted.held_out is None:
        # What starts from it was not cross-validated; the tree to beat stays.
        rule = HoldOut(fraction=refinement.held_out_share, refit=False)
        fitted, _ = grown(plan, prepared, rule)
        fitted = fitted._replace(tree=tree, student_rows=student_rows, refit=refit)
        if fitted.held_out is None:
            reason = "there are too few rows to hold some out"
            return Refined(finished.tree, 0, reason)
    total = fitted.all_rows().weight.sum()
    recipe = plan.recipe(prepared.schema, total, prepared.sampled_share)
    refined = refinement(fitted, recipe)
    if refined.tree is tree:
        return refined._replace(tree=finished.tree)
    if refinement.trains_models:
        tree = replace(refined.tree, additive=prepared.stage)
        lower, upper = statistics.lower[0], statistics.upper[0]
        return refined._replace(tree=bounded(tree, lower, upper))
    tree, statistics = _measured(plan, prepared, fitted, refined.tree)
    short = _handed_over(plan, prepared, fitted, tree, statistics)
    return refined._replace(tree=short)


def chosen_rule(plan: Plan, prepared: Prepared) -> PruningRule:
    """Pruning rule of the plan, or the one that suits the number of rows."""
    if plan.prune is not None:
        return plan.prune
    n_rows = prepared.rows.n_rows
    n_rows += 0 if prepared.prune_rows is None else prepared.prune_rows.n_rows
    return CrossValidation() if n_rows <= _MOST_CROSS_VALIDATED else HoldOut()


def divided(prepared: Prepared, rule: PruningRule) -> Evidence:
    """Divide the rows into training and held-out rows.

    ================== ===================== ==================== ====================
    rule               ``eval_set``         training             held out
    ================== ===================== ==================== ====================
    holds rows out     none                  the first by hash    the rest
    holds rows out     given                 all rows             those of eval_set
    makes folds        given                 both together        none
    any other          none                  all rows             none
    ================== ===================== ==================== ====================
    """
    rows, others = prepared.rows, prepared.prune_rows
    if rule.held_out_share and others is not None:
        return Evidence(rows, others)
    if rule.held_out_share:
        cut = hold_out(rows.weight, rule.held_out_share)
        if cut < rows.n_rows:
            return Evidence(rows.take(slice(cut)), rows.take(slice(cut, None)))
    elif others is not None:
        rows = merged(join([rows, others]), ROW_ORDER).dealt()
    return Evidence(rows)


def grown(plan: Plan, prepared: Prepared, rule: PruningRule) -> tuple[Fitted, Prepared]:
    """Grow trees of every kind and for every fold, prune them and keep the best.

    If the best kind has an additive stage, everything that follows uses the residuals
    of the stage as targets.
    """
    schema, share = prepared.schema, prepared.sampled_share
    evidence = divided(prepared, rule)
    training = evidence.training
    evidence = evidence._replace(
        tolerance=plan.pruning_tolerance,
        leaf=plan.leaf,
        error_of_constant=_error_of_constant(plan.leaf.loss, training),
    )
    recipe = plan.recipe(schema, training.weight.sum(), share)
    every_row = np.arange(training.n_rows)
    parts = [every_row]
    if rule.folds:
        unseen = parts_of(training.weight, rule.folds, rule.repeats)
        parts += [every_row[~part] for part in unseen]
        evidence = evidence._replace(unseen=unseen)
    kinds = [
        (view, oblique)
        for view in views(plan, schema, evidence)
        for oblique in plan.kinds
    ]
    roots = [
        replace(recipe.root(part, oblique=oblique), targets=view.targets(which))
        for which, part in enumerate(parts)
        for view, oblique in kinds
    ]

    def with_models(kind: int, trees: Sequence[Tree], stage: Stage) -> list[Tree]:
        own = roots[kind :: len(kinds)]
        return recipe.attach(trees, training, own, stage)

    def pruned(kind: int, trees: Sequence[Tree]) -> Pruned:
        whole, *fold_trees = trees
        seen = kinds[kind][0].evidence
        return rule(whole, seen._replace(fold_trees=fold_trees))

    def judged(kind: int, trees: Sequence[Tree]) -> tuple[list[Tree], Pruned]:
        trees = with_models(kind, trees, UNTOLD)
        return trees, pruned(kind, trees)

    watch = Watch(judged, len(kinds))
    watched = rule.folds and not rule.needs_whole_trees
    trees = recipe.grow(training, roots, enough=watch if watched else None)
    fitting, pruning = recipe.stage("fitting models"), recipe.stage("pruning")
    waiting = {
        kind: with_models(kind, trees[kind :: len(kinds)], fitting)
        for kind in range(len(kinds))
        if kind not in watch.found
    }
    found: list[tuple[list[Tree], Pruned]] = []
    for kind in range(len(kinds)):
        pruning.at(kind, len(kinds))
        known = watch.found.get(kind)
        found.append(known or (waiting[kind], pruned(kind, waiting[kind])))
    best = min(range(len(kinds)), key=lambda kind: found[kind][1].value)
    view, oblique = kinds[best]
    alike = [kind for kind in range(len(kinds)) if kinds[kind][0] is view]
    alike.insert(0, alike.pop(alike.index(best)))  # those of the same targets
    grown_tree, kept = found[best][0][0], found[best][1]
    prepared, training, held_out = less_stage(
        plan, prepared, view, evidence, rule.refits
    )
    fitted = Fitted(
        tree=kept.tree,
        oblique=oblique,
        n_leaves_grown=grown_tree.n_leaves,
        candidates=tuple(
            Candidate(found[kind][0][0], found[kind][1].tree) for kind in alike
        ),
        folds=_folds(view, kept),
        training=training,
        held_out=held_out,
        refit=rule.refits,
    )
    if not rule.refits or prepared.source is not None:
        return fitted, prepared
    if held_out is not None:
        return fitted._replace(tree=_refitted(plan, prepared, fitted)), prepared
    return _distilled(plan, fitted, recipe), prepared


def _error_of_constant(loss: Loss, rows: Rows) -> float:
    """Mean loss of the best constant, summed over the outputs."""
    _, targets, weight = rows
    error = loss.of_constant(weight @ targets / weight.sum())
    if error is None:
        value = np.tile(loss.constant(targets, weight), (len(weight), 1))
        error = weight @ loss.losses(targets, value) / weight.sum()
    return float(error.sum())


def _folds(view: View, pruned: Pruned) -> tuple[FoldFit, ...]:
    """Trees of the folds, or the pruned tree, with rows that did not grow them."""
    evidence = view.evidence
    if evidence.held_out is not None:
        return (FoldFit(pruned.tree, evidence.training, evidence.held_out),)
    return view.fold_fits(pruned.fold_trees)


def _refitted(plan: Plan, prepared: Prepared, fitted: Fitted) -> Tree:
    """Grow the tree again on all rows, with the size that held-out rows chose."""
    rows, n_leaves = fitted.all_rows(shuffle=True), fitted.tree.n_leaves
    if n_leaves == 1:
        return attach_one(fitted.tree, fitted.all_rows(), plan.leaf)
    recipe = plan.recipe(prepared.schema, rows.weight.sum(), prepared.sampled_share)
    stage = "growing the tree again"
    deepest = fitted.tree.max_depth + LEVELS_BELOW
    tree = recipe.grow_one(rows, oblique=fitted.oblique, stage=stage, deepest=deepest)
    return of_size(tree, n_leaves)


def _distilled(plan: Plan, fitted: Fitted, recipe: Recipe) -> Fitted:
    """Grow a cross-validated tree again on the predictions of its fold trees."""
    if plan.distill is None or len(fitted.folds) < 2 or fitted.tree.n_leaves == 1:
        return fitted
    return plan.distill(fitted, plan.of_student(recipe))
