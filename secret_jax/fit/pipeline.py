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

import numpy as np

from secret_jax.data.encoding import RowSource
from secret_jax.data.rows import Rows, are_ones
from secret_jax.data.validation import CheckedRows
from secret_jax.fit.early_stopping import EarlyStopping, FirstLook
from secret_jax.fit.grow.grower import Grown
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.interface import Candidate, Evidence, Fitted, PruningRule, Refined
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import (
    Prepared,
    divided,
    in_units_of,
    parts_of,
    rows_for,
    share_that_differs,
)
from secret_jax.fit.prune.path import TIE_OF_ERRORS, of_size
from secret_jax.fit.prune.rules import CrossValidation, HoldOut
from secret_jax.losses.interface import check_loss
from secret_jax.models.fitting import (
    counted_statistics,
    fit_models,
    fit_to_statistics,
)
from secret_jax.models.glm import leaf_for_loss
from secret_jax.models.short_models import with_short_equations
from secret_jax.models.statistics import TreeStatistics
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.tree.plain import ROWS_LOOKED_AT, with_plain_splits
from secret_jax.tree.structure import Tree

# With more rows ``prune="auto"`` holds some out: five more trees would take too long.
_MOST_CROSS_VALIDATED = 8192
# Rows on which methods of a loss are tried.
_LOOKED_AT = 64


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
    they are whole; it may raise `secret_jax.fit.early_stopping.Overtaken`.
    """
    rule = rule or chosen_rule(plan, data)
    evidence = divided(data.rows, data.prune_rows, rule)._replace(
        tolerance=plan.pruning_tolerance,
        leaf=plan.leaf,
        equation_tolerance=plan.equation_tolerance,
    )
    few = evidence.training.targets, evidence.training.weight
    check_loss(plan.leaf.loss, *(each[:_LOOKED_AT] for each in few))
    total = evidence.training.total_weight
    recipe = plan.recipe(data.schema, total, data.sampled_share)
    look = None if first_look is None else partial(first_look, evidence)
    candidates = _candidates(plan.families, recipe, rule, evidence, look)
    pruned = candidates[0].pruned
    fitted = Fitted(
        tree=pruned.tree,
        candidates=tuple(candidates),
        folds=evidence.folds(pruned),
        training=evidence.training,
        held_out=evidence.held_out,
        refit=rule.refit,
    )
    return Fit(plan, data, fitted, pruned.tree)


def chosen_rule(plan: Plan, data: Prepared) -> PruningRule:
    """Pruning rule of the plan, or the one that suits the number of rows."""
    if plan.prune is not None:
        return plan.prune
    n_rows = data.rows.n_rows
    n_rows += 0 if data.prune_rows is None else data.prune_rows.n_rows
    return CrossValidation() if n_rows <= _MOST_CROSS_VALIDATED else HoldOut()


def _candidates(
    families: Sequence[bool],
    recipe: Recipe,
    rule: PruningRule,
    evidence: Evidence,
    first_look: FirstLook | None,
) -> list[Candidate]:
    """Grow and prune the trees of each family; the best candidate comes first.

    Families are compared on the first division of the rows into folds; only the best
    one is grown on further divisions, which then choose its size as well.
    """
    training, unseen = evidence.training, evidence.unseen
    every_row = np.arange(training.n_rows)
    seen = [every_row, *(every_row[~part] for part in unseen)]
    n_first = 1
    if rule.n_folds:
        n_first += len(parts_of(training.weight, rule.n_folds, group=training.group))
    asked = on_accelerator() or evidence.tolerance > 0  # for statistics
    started = [
        [
            recipe.root(rows, oblique=oblique, measured=asked and rows is every_row)
            for rows in seen[:n_first]
        ]
        for oblique in families
    ]

    def judged(i: int, grown: Sequence[Grown], stage: Stage = UNTOLD) -> Candidate:
        trees = recipe.attach(grown, training, started[i], stage)
        own = evidence._replace(statistics=_known(trees[0], grown[0]))
        return Candidate.of(trees, rule, own, families[i])

    stopping = EarlyStopping(judged, len(families), training.n_rows, first_look)
    # Other rules have penalties or errors of subtrees that need the whole trees.
    enough = stopping if isinstance(rule, CrossValidation) else None
    interleaved = [root for of_row in zip(*started, strict=True) for root in of_row]
    trees = recipe.grow(training, interleaved, enough=enough)
    stage = recipe.stage("fitting models")
    candidates = [
        stopping.judged.get(i) or judged(i, trees[i :: len(families)], stage)
        for i in range(len(families))
    ]
    stopping.show(candidates)
    least = min(candidate.pruned.value for candidate in candidates)
    # Of families that part the rows alike, but for rounding, the first.
    most = least + TIE_OF_ERRORS * abs(least)
    best, *others = sorted(candidates, key=lambda each: each.pruned.value > most)
    if len(seen) > n_first and not rule.is_settled(best.pruned.tree, training.n_rows):
        further = [recipe.root(rows, oblique=best.oblique) for rows in seen[n_first:]]
        grown = recipe.not_far_below(best.pruned.tree).grow(training, further)
        more = recipe.attach(grown, training, further, stage)
        evidence = evidence._replace(statistics=best.statistics)
        best = Candidate.of([*best.trees, *more], rule, evidence, best.oblique)
    return [best, *others]


def _known(tree: Tree, grown: Grown) -> TreeStatistics | None:
    """Statistics of a tree that growth has summed."""
    known = grown.statistics
    return None if known is None else TreeStatistics(tree, known)


def finish(fit: Fit) -> Fit:
    """Grow the tree again, on all rows or distilled, and fit its final models."""
    plan, data, fitted, chosen = fit
    longer, several = fitted.candidates[0].pruned.longer, chosen.n_leaves > 1
    known = fitted.candidates[0].statistics  # of the training rows
    if fitted.refit and data.source is None:
        rows = fitted.all_rows(shuffle=True)
        recipe = plan.recipe(data.schema, rows.total_weight, data.sampled_share)
        if fitted.held_out is not None and several:
            recipe = recipe.not_far_below(chosen)
            oblique = fitted.candidates[0].oblique
            every_row = np.arange(rows.n_rows)
            asked = on_accelerator()
            roots = [recipe.root(every_row, oblique=oblique, measured=asked)]
            grown = recipe.grow(rows, roots, "growing the tree again")
            (tree,) = recipe.attach(grown, rows, roots)
            known = _known(tree, grown[0])
            fitted = fitted._replace(tree=of_size(tree, chosen.n_leaves))
        elif fitted.held_out is not None:
            (tree,) = fit_models([chosen], [fitted.all_rows()], plan.leaf)
            fitted, known = fitted._replace(tree=tree), None
        elif plan.distill and several and len(fitted.folds) > 1:
            fitted = plan.distill(fitted, plan.of_student(recipe))
    full, short = _with_final_models(plan, data, fitted, fitted.tree, known)
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
    total = fitted.all_rows().total_weight
    recipe = plan.recipe(data.schema, total, data.sampled_share)
    fitted = fitted.on_host()
    refined = refinement(fitted, recipe)
    if refined.tree is fitted.tree:
        return refined._replace(tree=short)
    if refined.has_models:
        tree = replace(refined.tree, bounds=short.bounds)
        _, counts = counted_statistics(tree, _training_rows(data, fitted))
        return refined._replace(
            tree=_with_counts(tree, counts, data.share_that_differs)
        )
    return refined._replace(
        tree=_with_final_models(plan, data, fitted, refined.tree)[1]
    )


def _with_final_models(
    plan: Plan,
    data: Prepared,
    fitted: Fitted,
    tree: Tree,
    known: TreeStatistics | None = None,
) -> tuple[Tree, Tree]:
    """Round the splits of a tree, fit its models to all rows: in full, and short.

    ``known``: of the rows that may train it.
    """
    rows, leaf, training = fitted.all_rows(), plan.leaf, _training_rows(data, fitted)
    if not isinstance(training, Rows):
        Stage("fitting models on all rows", plan.progress).at()
    may_move = not isinstance(training, Rows) or rows.n_rows > ROWS_LOOKED_AT
    statistics = None
    # Processors count with all digits of the targets, growth in float32.
    alike = rows.times is None and are_ones(rows.weight)
    if known is not None and not may_move and on_accelerator() and alike:
        statistics = known.of(tree)
    tree = with_plain_splits(tree, rows.table)
    if statistics is None:
        statistics, counts = counted_statistics(tree, training)
    else:
        counts = np.rint(statistics.weight).astype(np.int64)
    if may_move:
        (tree,) = fit_to_statistics([tree], statistics, lambda: [rows], leaf)
    tree = _with_counts(tree, counts, data.share_that_differs)
    tolerance = plan.equation_tolerance
    return tree, with_short_equations(tree, statistics, rows, leaf, tolerance)


def _training_rows(data: Prepared, fitted: Fitted) -> Rows | list[RowSource]:
    """All rows that may train the final tree: in memory, or sources of them."""
    if data.source is None or not (fitted.refit or data.prune_source is not None):
        return fitted.all_rows()
    others = data.prune_source if fitted.refit else None
    return [data.source] if others is None else [data.source, others]


def _with_counts(tree: Tree, counts: np.ndarray, share_that_differs: float) -> Tree:
    """Store the numbers of rows as given, and how many of all are no copies."""
    n_different = round(share_that_differs * int(counts[0]))
    differ = n_different == counts[0]
    return replace(tree, n_rows=counts, n_different=None if differ else n_different)


def refitted(plan: Plan, tree: Tree, given: CheckedRows) -> Tree:
    """Fit the models of all nodes to new rows, and keep the splits.

    Columns are encoded as the tree does, and targets are scaled so, unless the plan has
    another loss than the tree. A node that no row reaches predicts as the one above it.

    ``tree``: without gates.
    """
    leaf, other = plan.leaf, plan.alternative_leaf
    if other is not None:  # the one that "auto" chose
        if other.of_logarithms:
            leaf = leaf_for_loss(leaf, tree.loss) or leaf
        elif other.leaf.uses_regressors == (tree.schema.n_regressors > 0):
            leaf = other.leaf
    leaf.loss.check_targets(given.targets)
    if leaf.loss != tree.loss:
        schema = in_units_of(leaf.loss, tree.schema, given.targets, given.weight)
        tree = replace(tree, schema=schema, bounds=None, longer=None)
    rows = rows_for(tree.schema, given).take(None)
    statistics, counts = counted_statistics(tree, rows)
    (tree,) = fit_to_statistics([tree], statistics, lambda: [rows], leaf)
    tree = _with_counts(tree, counts, share_that_differs([rows]))
    return with_short_equations(tree, statistics, rows, leaf, plan.equation_tolerance)
