"""Pipeline from a plan and rows to a fitted tree.

rows -> a sample in hash order -> training and held-out rows -> several trees grown
together -> models -> pruning -> (a race of leaf models and columns) -> a second growth
-> refinement. The rows outside the sample are read once more, for the models of the
final tree.
"""

from dataclasses import replace
from typing import NamedTuple

from secret_jax.data.rows import join, merged
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.data.source import RowSource
from secret_jax.fit.kinds import LEVELS_BELOW, judged_kinds
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import Prepared
from secret_jax.fit.prune.cross_validation import (
    CrossValidation,
    parts_of,
    without_share,
)
from secret_jax.fit.prune.hold_out import HoldOut
from secret_jax.fit.prune.interface import Evidence, PruningRule
from secret_jax.fit.prune.path import of_size
from secret_jax.fit.refine.distillation import mean_error
from secret_jax.fit.refine.interface import Candidate, Fitted, FoldFit, Refined
from secret_jax.models.fitting import fit_models, node_statistics
from secret_jax.models.short_models import with_short_equations
from secret_jax.runtime.progress import Stage
from secret_jax.tree.plain import ROWS_LOOKED_AT, with_plain_splits
from secret_jax.tree.structure import Tree

# With more rows ``prune="auto"`` holds some out: five more trees would take too long.
_MOST_CROSS_VALIDATED = 8192


class Contender(NamedTuple):
    """Pruned tree that others may race against: by rows that it has not seen."""

    fitted: Fitted  # with the pruned tree, whose models are from the training rows
    prepared: Prepared
    plan: Plan


class FitResult(NamedTuple):
    """Result of a fit."""

    tree: Tree  # with short equations
    fitted: Fitted  # input of a refinement, with the full models
    prepared: Prepared
    plan: Plan


def contender(plan: Plan, prepared: Prepared) -> Contender:
    """Grow and prune a tree, from rows that were read and measured."""
    fitted = grown(plan, prepared, chosen_rule(plan, prepared))
    return Contender(fitted, prepared, plan)


def finished(winner: Contender) -> FitResult:
    """Grow the tree that has won again, on all rows or distilled, with final models."""
    fitted, prepared, plan = winner
    fitted = _grown_again(plan, prepared, fitted)
    full, short = _with_final_models(plan, prepared, fitted, fitted.tree)
    short = replace(short, longer=fitted.longer)
    return FitResult(short, fitted._replace(tree=full), prepared, plan)


def refine_tree(result: FitResult) -> Refined:
    """Refine a fitted tree as its plan says."""
    fitted, prepared, plan = result.fitted, result.prepared, result.plan
    refinement = plan.refine
    assert refinement is not None
    if refinement.validation_fraction and fitted.held_out is None:
        # What starts from it was not cross-validated; the tree to beat stays.
        rule = HoldOut(fraction=refinement.validation_fraction, refit=False)
        fitted = grown(plan, prepared, rule)._replace(
            tree=fitted.tree, student_rows=fitted.student_rows, refit=fitted.refit
        )
        if fitted.held_out is None:
            reason = (
                "there are too few rows to hold some out; give more, or an eval_set"
            )
            return Refined(result.tree, 0, reason)
    total = fitted.all_rows().weight.sum()
    recipe = plan.recipe(prepared.schema, total, prepared.sampled_share)
    refined = refinement(fitted, recipe)
    if refined.tree is fitted.tree:
        return refined._replace(tree=result.tree)
    if refined.has_models:
        return refined._replace(tree=replace(refined.tree, bounds=result.tree.bounds))
    _, short = _with_final_models(plan, prepared, fitted, refined.tree)
    return refined._replace(tree=short)


def better(first: Contender, second: Contender, worth_it: float) -> Contender:
    """Return the second contender if it saves a share of the error, else the first.

    On rows that their trees have not seen, by the loss of the trees: on the folds that
    both have, since rows may have been divided once more for one of them.
    """
    n_folds = min(len(each.fitted.folds) for each in (first, second))

    def error(contender: Contender) -> float:
        folds = contender.fitted.folds[:n_folds]
        return mean_error([f.tree for f in folds], [f.held_out for f in folds])

    return second if error(second) < (1.0 - worth_it) * error(first) else first


def chosen_rule(plan: Plan, prepared: Prepared) -> PruningRule:
    """Pruning rule of the plan, or the one that suits the number of rows."""
    if plan.prune is not None:
        return plan.prune
    n_rows = prepared.rows.n_rows
    n_rows += 0 if prepared.prune_rows is None else prepared.prune_rows.n_rows
    return CrossValidation() if n_rows <= _MOST_CROSS_VALIDATED else HoldOut()


def divided(prepared: Prepared, rule: PruningRule) -> Evidence:
    """Divide the rows into training and held-out rows, or into folds.

    ================== ===================== ==================== ====================
    rule               ``eval_set``          training             held out
    ================== ===================== ==================== ====================
    holds rows out     none                  the first by hash    the rest
    holds rows out     given                 all rows             those of eval_set
    makes folds        given                 both together        none
    any other          none                  all rows             none
    ================== ===================== ==================== ====================

    Rows of one group, if there are groups, are held out together, or in one fold.
    """
    rows, others = prepared.rows, prepared.prune_rows
    if rule.fraction and others is not None:
        return Evidence(rows, others)
    if rule.fraction:
        return Evidence(*without_share(rows, rule.fraction))
    if others is not None:
        rows = merged(join([rows, others]), ROW_ORDER).dealt()
    if rule.n_folds:
        return Evidence(
            rows, unseen=parts_of(rows.weight, rule.n_folds, rule.n_repeats, rows.group)
        )
    return Evidence(rows)


def grown(plan: Plan, prepared: Prepared, rule: PruningRule) -> Fitted:
    """Grow trees of every kind, prune them and keep the best."""
    evidence = divided(prepared, rule)
    training, held_out, unseen, *_ = evidence
    evidence = evidence._replace(
        tolerance=plan.pruning_tolerance,
        leaf=plan.leaf,
        equation_tolerance=plan.equation_tolerance,
    )
    recipe = plan.recipe(prepared.schema, training.weight.sum(), prepared.sampled_share)
    kinds = judged_kinds(plan.kinds, recipe, rule, evidence)
    whole, pruned = kinds[0].trees[0], kinds[0].pruned
    if held_out is not None:
        folds = [FoldFit(pruned.tree, training, held_out)]
    else:
        # Perhaps not all divisions were grown.
        pairs = zip(unseen, pruned.fold_trees, strict=False)
        folds = [
            FoldFit(tree, training.take(~part), training.take(part))
            for part, tree in pairs
        ]
    return Fitted(
        tree=pruned.tree,
        oblique=kinds[0].oblique,
        n_leaves_grown=whole.n_leaves,
        candidates=tuple(Candidate(kind.trees[0], kind.pruned.tree) for kind in kinds),
        folds=tuple(folds),
        training=training,
        held_out=held_out,
        refit=rule.refit,
        longer=pruned.longer,
    )


def _grown_again(plan: Plan, prepared: Prepared, fitted: Fitted) -> Fitted:
    """Grow the tree again: on held-out rows as well, or to learn from its folds."""
    if not fitted.refit or prepared.source is not None:
        return fitted
    if fitted.held_out is not None:
        return fitted._replace(tree=_refitted(plan, prepared, fitted))
    if plan.distill is None or len(fitted.folds) < 2 or fitted.tree.n_leaves == 1:
        return fitted
    total = fitted.training.weight.sum()
    recipe = plan.recipe(prepared.schema, total, prepared.sampled_share)
    return plan.distill(fitted, plan.of_student(recipe))


def _with_final_models(
    plan: Plan, prepared: Prepared, fitted: Fitted, tree: Tree
) -> tuple[Tree, Tree]:
    """Round the splits of a tree and fit its final models, in full and short.

    A tree grown on a sample gets models from all rows.
    """
    rows, leaf = fitted.all_rows(), plan.leaf
    tree = with_plain_splits(tree, rows.table)
    sources = _sources(prepared, fitted.refit)
    if sources:
        Stage("fitting models on all rows", plan.progress).at()
    statistics = node_statistics(tree, sources or rows)
    if sources or rows.n_rows > ROWS_LOOKED_AT:  # others may have changed sides
        (tree,) = fit_models([tree], [rows], leaf, statistics=statistics)
    tolerance = plan.equation_tolerance
    return tree, with_short_equations(tree, statistics, rows, leaf, tolerance)


def _sources(prepared: Prepared, refit: bool) -> list[RowSource]:
    """Sources of all rows that train the final models, if a sample grew the tree."""
    others = prepared.prune_source
    if prepared.source is None or not (refit or others is not None):
        return []
    return [source for source in (prepared.source, others if refit else None) if source]


def _refitted(plan: Plan, prepared: Prepared, fitted: Fitted) -> Tree:
    """Grow the tree again on all rows, with the size that held-out rows chose."""
    rows, n_leaves = fitted.all_rows(shuffle=True), fitted.tree.n_leaves
    if n_leaves == 1:
        return fit_models([fitted.tree], [fitted.all_rows()], plan.leaf)[0]
    recipe = plan.recipe(prepared.schema, rows.weight.sum(), prepared.sampled_share)
    stage = "growing the tree again"
    deepest = fitted.tree.max_depth + LEVELS_BELOW
    tree = recipe.grow_one(rows, oblique=fitted.oblique, stage=stage, deepest=deepest)
    return of_size(tree, n_leaves)
