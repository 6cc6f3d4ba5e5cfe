"""Race between leaf models, where a parameter is "auto": unseen rows choose.

Shares of classes say in many small leaves what log-odds cannot say in one: two whole
trees race. Sums and logarithms of numbers are chosen before that, by small trees of
both, see `secret_jax.fit.logarithms`.
"""

from dataclasses import replace

import numpy as np

from secret_jax.fit.logarithms import with_better_scale
from secret_jax.fit.pipeline import (
    Contender,
    FitResult,
    better,
    chosen_rule,
    contender,
    finished,
)
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import CheckedRows, Prepared, prepare
from secret_jax.fit.prune.cross_validation import CrossValidation
from secret_jax.fit.relevant import of_relevant
from secret_jax.runtime.warning import each_once
from secret_jax.tree.structure import StopReason

# Share of the error that a rival must save.
_WORTH_IT = 0.01
# Share of the grown leaves that pruning keeps where growth has ended too early.
_MOST_KEPT = 0.7
# What ends growth and a finer one moves.
_MOVED = StopReason.MIN_SAMPLES_SPLIT, StopReason.MIN_SAMPLES_LEAF, StopReason.MIN_GAIN
# Rows of a split and of a leaf, and gain in noise variances for each coefficient.
_SPLIT, _LEAF, _GAIN = 20, 5, 0.5
# Share of the error that the finer tree, which is longer, must save.
_WORTH_ITS_LENGTH = 0.01


def fit_tree(plan: Plan, given: CheckedRows, eval_set: CheckedRows | None) -> FitResult:
    """Grow, prune and distil a tree, with the leaf model that errs least.

    By rows that were held out, or by folds; without any there is no race.
    """
    with each_once():  # the same rows are read again for every tree
        return finished(at_any_size(_winner(plan, given, eval_set)))


def _winner(plan: Plan, given: CheckedRows, eval_set: CheckedRows | None) -> Contender:
    """Grow the trees that race, none of them finer, and return the best."""

    def pruned(plan: Plan, prepared: Prepared) -> Contender:
        return of_relevant(contender(plan, prepared), given, eval_set)

    prepared, rival = prepare(plan, given, eval_set), plan.rival
    every = [given] if eval_set is None else [given, eval_set]
    lowest = np.min([_lowest(rows) for rows in every], axis=0)
    chosen = with_better_scale(plan, prepared.schema, prepared.rows, lowest)
    if chosen is not plan:
        prepared = prepare(chosen, given, eval_set)  # the others are let go
    first = pruned(chosen, prepared)
    if rival is None or rival.of_logarithms or not first.fitted.folds:
        return first
    other = plan.against(rival)
    second = pruned(other, prepare(other, given, eval_set))
    return better(first, second, _WORTH_IT)


def _lowest(rows: CheckedRows) -> np.ndarray:
    """Least targets of the rows that count, shape (n_outputs,)."""
    return rows.targets[rows.weight > 0].min(axis=0, initial=np.inf)


def at_any_size(first: Contender) -> Contender:
    """Grow a tree finer where size has no price and pruning has kept most of it.

    Least rows and gains spare searches whose splits pruning would take back. On tables
    of many small regions, as calendars, it takes back none: then it shall choose among
    more.

    The finer tree is taken if its folds err less on the rows that they have not seen.
    """
    plan, prepared = first.plan, first.prepared
    limits = plan.min_samples_split, plan.min_samples_leaf, plan.splits.min_gain
    given = not all(isinstance(limit, str) for limit in limits)
    grown, pruned = first.fitted.candidates[0]
    # Leaves that there would be without the splits that the user has fixed.
    found, kept = (t.n_leaves - np.isinf(t.gain).sum() for t in (grown, pruned))
    few = found == 1 or kept < _MOST_KEPT * found
    few |= not np.isin(grown.stop_reason[grown.is_leaf], _MOVED).any()
    folded = isinstance(chosen_rule(plan, prepared), CrossValidation)
    # Rows beyond a sample would be read once more, and its folds do not have them.
    unjudged = not folded or not first.fitted.folds or prepared.sampled_share < 1.0
    if plan.pruning_tolerance or given or few or unjudged:
        return first
    finer = plan.again(
        "smaller leaves",
        min_samples_split=_SPLIT,
        min_samples_leaf=_LEAF,
        splits=replace(plan.splits, min_gain=_GAIN),
        distill=None,  # points between rows blur small regions
    )
    return better(first, contender(finer, prepared), _WORTH_ITS_LENGTH)
