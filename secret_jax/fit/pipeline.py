"""From a plan and rows to a fitted tree: grow, prune, finish.

rows in hash order -> training and held-out rows, or folds -> trees without and with
oblique splits, grown together -> the subtree that pruning keeps -> grown again, on all
rows or on what the trees of the folds predict -> final models, short equations. Rows
outside the sample are read once more, for the final models. What is tried beside one
plan stands in `secret_jax.fit.alternatives`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from secret_jax.data.rows import join, merged
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.fit.axis_or_oblique import PATIENCE_LEVELS, compare_axis_and_oblique
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import Prepared
from secret_jax.fit.prune.cross_validation import (
    CrossValidation,
    parts_of,
    without_share,
)
from secret_jax.fit.prune.hold_out import HoldOut
from secret_jax.fit.prune.interface import Evidence, Pruned, PruningRule
from secret_jax.fit.prune.path import of_size
from secret_jax.fit.refine.interface import Candidate, Fitted, Fold, Refined
from secret_jax.models.fitting import fit_models, node_statistics
from secret_jax.models.short_models import with_short_equations
from secret_jax.runtime.progress import Stage
from secret_jax.tree.plain import ROWS_LOOKED_AT, with_plain_splits
from secret_jax.tree.structure import Tree

# With more rows ``prune="auto"`` holds some out: five more trees would take too long.
_MOST_CROSS_VALIDATED = 8192


class Fit(NamedTuple):
    """A fit on its way: its plan, its rows, and the tree so far."""

    plan: Plan
    data: Prepared
    # Input of a refinement; before the fit is finished all models are from the rows
    # that grew the tree, so that held-out rows can still judge it.
    fitted: Fitted
    tree: Tree  # finished: with short equations, where ``fitted`` has the full models


def grow_and_prune(
    plan: Plan,
    data: Prepared,
    rule: PruningRule | None = None,
    first_look: Callable[[Evidence, Sequence[Candidate]], None] | None = None,
) -> Fit:
    """Grow trees of every family, prune them, and keep the best.

    ``rule``: of pruning, by default that of the plan; ``first_look``: told the
    candidates, the best one first, when they are first compared, perhaps long before
    they are whole; it may raise `secret_jax.fit.axis_or_oblique.Overtaken`.
    """
    rule = rule or chosen_rule(plan, data)
    evidence = divided(data, rule)._replace(
        tolerance=plan.pruning_tolerance,
        leaf=plan.leaf,
        equation_tolerance=plan.equation_tolerance,
    )
    training, held_out = evidence.training, evidence.held_out
    recipe = _recipe(plan, data, training.weight.sum())
    look = None if first_look is None else partial(first_look, evidence)
    candidates = compare_axis_and_oblique(plan.families, recipe, rule, evidence, look)
    pruned = candidates[0].pruned
    fitted = Fitted(
        tree=pruned.tree,
        candidates=tuple(candidates),
        folds=folds_of(evidence, pruned),
        training=training,
        held_out=held_out,
        refit=rule.refit,
    )
    return Fit(plan, data, fitted, pruned.tree)


def folds_of(evidence: Evidence, pruned: Pruned) -> tuple[Fold, ...]:
    """Trees with rows that they have not seen."""
    training, held_out = evidence.training, evidence.held_out
    if held_out is not None:
        return (Fold(pruned.tree, training, held_out),)
    # Perhaps not all divisions were grown.
    return tuple(
        Fold(tree, training.take(~part), training.take(part))
        for part, tree in zip(evidence.unseen, pruned.fold_trees, strict=False)
    )


def chosen_rule(plan: Plan, data: Prepared) -> PruningRule:
    """Pruning rule of the plan, or the one that suits the number of rows."""
    if plan.prune is not None:
        return plan.prune
    n_rows = data.rows.n_rows
    n_rows += 0 if data.prune_rows is None else data.prune_rows.n_rows
    return CrossValidation() if n_rows <= _MOST_CROSS_VALIDATED else HoldOut()


def divided(data: Prepared, rule: PruningRule) -> Evidence:
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
    rows, others = data.rows, data.prune_rows
    if rule.fraction and others is not None:
        return Evidence(rows, others)
    if rule.fraction:
        return Evidence(*without_share(rows, rule.fraction))
    if others is not None:
        rows = merged(join([rows, others]), ROW_ORDER).interleaved()
    if not rule.n_folds:
        return Evidence(rows)
    parts = parts_of(rows.weight, rule.n_folds, rule.n_repeats, rows.group)
    return Evidence(rows, unseen=parts)


def finish(fit: Fit) -> Fit:
    """Grow the tree again, on all rows or distilled, and fit its final models."""
    plan, data, fitted, _ = fit
    longer = fitted.candidates[0].pruned.longer
    if fitted.refit and data.source is None:
        if fitted.held_out is not None:
            fitted = fitted._replace(tree=_grown_on_all_rows(plan, data, fitted))
        elif plan.distill and len(fitted.folds) > 1 and fitted.tree.n_leaves > 1:
            recipe = _recipe(plan, data, fitted.training.weight.sum())
            fitted = plan.distill(fitted, plan.of_student(recipe))
    full, short = _with_final_models(plan, data, fitted, fitted.tree)
    return Fit(plan, data, fitted._replace(tree=full), replace(short, longer=longer))


def refine(fit: Fit) -> Refined:
    """Refine a finished tree as its plan says."""
    plan, data, fitted, short = fit
    refinement = plan.refine
    assert refinement is not None
    if refinement.validation_fraction and fitted.held_out is None:
        # What starts from it was not cross-validated; the tree to beat stays.
        rule = HoldOut(fraction=refinement.validation_fraction, refit=False)
        fitted = grow_and_prune(plan, data, rule).fitted._replace(
            tree=fitted.tree, student_rows=fitted.student_rows, refit=fitted.refit
        )
        if fitted.held_out is None:
            reason = (
                "there are too few rows to hold some out; give more, or an eval_set"
            )
            return Refined(short, 0, reason)
    recipe = _recipe(plan, data, fitted.all_rows().weight.sum())
    refined = refinement(fitted, recipe)
    if refined.tree is fitted.tree:
        return refined._replace(tree=short)
    if refined.has_models:
        return refined._replace(tree=replace(refined.tree, bounds=short.bounds))
    return refined._replace(
        tree=_with_final_models(plan, data, fitted, refined.tree)[1]
    )


def _recipe(plan: Plan, data: Prepared, total: float) -> Recipe:
    return plan.recipe(data.schema, total, data.sampled_share)


def _grown_on_all_rows(plan: Plan, data: Prepared, fitted: Fitted) -> Tree:
    """Grow the tree again on all rows, with the size that held-out rows chose."""
    rows, chosen = fitted.all_rows(shuffle=True), fitted.tree
    if chosen.n_leaves == 1:
        return fit_models([chosen], [fitted.all_rows()], plan.leaf)[0]
    tree = _recipe(plan, data, rows.weight.sum()).grow_one(
        rows,
        oblique=fitted.oblique,
        stage="growing the tree again",
        deepest=chosen.max_depth + PATIENCE_LEVELS,
    )
    return of_size(tree, chosen.n_leaves)


def _with_final_models(
    plan: Plan, data: Prepared, fitted: Fitted, tree: Tree
) -> tuple[Tree, Tree]:
    """Round the splits of a tree and fit its final models, in full and short.

    A tree grown on a sample gets models from all rows.
    """
    rows, leaf, sources = fitted.all_rows(), plan.leaf, []
    tree = with_plain_splits(tree, rows.table)
    if data.source is not None and (fitted.refit or data.prune_source is not None):
        others = data.prune_source if fitted.refit else None
        sources = [source for source in (data.source, others) if source is not None]
        Stage("fitting models on all rows", plan.progress).at()
    statistics = node_statistics(tree, sources or rows)
    if sources or rows.n_rows > ROWS_LOOKED_AT:  # others may have changed sides
        (tree,) = fit_models([tree], [rows], leaf, statistics=statistics)
    tolerance = plan.equation_tolerance
    return tree, with_short_equations(tree, statistics, rows, leaf, tolerance)
