"""Finer growth, where the limits of growth chose the size of a tree, not pruning.

Least rows and gains spare searches whose splits pruning would take back. On tables of
many small regions, as calendars, it takes back none: then it shall choose among more.
"""

from dataclasses import replace

import numpy as np

from secret_jax.fit.pipeline import Contender, chosen_rule, contender, unseen_error
from secret_jax.fit.prune.cross_validation import CrossValidation
from secret_jax.tree.structure import StopReason

# Share of the grown leaves that pruning keeps where growth has ended too early.
_MOST_KEPT = 0.7
# What ends growth and a finer one moves.
_MOVED = StopReason.MIN_SAMPLES_SPLIT, StopReason.MIN_SAMPLES_LEAF, StopReason.MIN_GAIN
# Rows of a split and of a leaf, and gain in noise variances for each coefficient.
_SPLIT, _LEAF, _GAIN = 20, 5, 0.5
# Share of the error that the finer tree, which is longer, must save.
_WORTH_ITS_LENGTH = 0.01


def at_any_size(first: Contender) -> Contender:
    """Grow a tree finer where size has no price and pruning has kept most of it.

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
    second = contender(finer, prepared)
    limit = (1.0 - _WORTH_ITS_LENGTH) * unseen_error(first)
    return second if unseen_error(second) < limit else first
