"""Race between leaf models, where a parameter is "auto": unseen rows choose.

Prices and counts often change by shares: a room more adds a tenth to a price, not a sum
that is the same for all houses. An equation of the logarithm says so in one leaf, where
sums need many. Its loss is that of Poisson: it predicts means, as squared error does
(Gourieroux, Monfort & Trognon 1984), so both are compared by squared errors. Shares of
classes say in many small leaves what log-odds cannot say in one.
"""

from dataclasses import replace

import numpy as np

from secret_jax.fit.finer import at_any_size
from secret_jax.fit.pipeline import (
    Contender,
    FitResult,
    contender,
    finished,
    unseen_error,
)
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import CheckedRows, Prepared, prepare
from secret_jax.fit.relevant import of_relevant

# Share of the error that a rival must save; logarithms are harder to read than sums.
_WORTH_IT, _WORTH_A_LOGARITHM = 0.01, 0.05
# Fewer rows cannot tell logarithms from sums, nor can targets that vary by less than
# this factor: of these, logarithms are sums that are harder to read.
_FEWEST, _LEAST_RANGE = 200, 1.5


def fit_tree(plan: Plan, given: CheckedRows, eval_set: CheckedRows | None) -> FitResult:
    """Grow, prune and distil a tree, with the leaf model that errs least.

    Errors are of rows that were held out, or of folds; without any there is no race.
    Equations of logarithms enter it if all targets are positive, the largest of every
    output at least 1.5 times the smallest, of 200 rows or more, and already a single
    leaf of them errs less than one of sums.
    """
    return finished(at_any_size(_winner(plan, given, eval_set)))


def _winner(plan: Plan, given: CheckedRows, eval_set: CheckedRows | None) -> Contender:
    """Grow the trees that race, none of them finer, and return the best."""
    first = contender(plan, prepare(plan, given, eval_set))
    first = best = of_relevant(first, given, eval_set)
    if not plan.rivals or not first.fitted.folds:
        return first
    for rival in plan.rivals:
        if rival.of_logarithms and not _has_logarithms(given, eval_set):
            continue
        other = plan.against(rival)
        prepared = prepare(other, given, eval_set)
        if rival.of_logarithms and not _better_as_one_leaf(other, prepared, first):
            continue
        worth = _WORTH_A_LOGARITHM if rival.of_logarithms else _WORTH_IT
        second = of_relevant(contender(other, prepared), given, eval_set)
        limit = (1.0 - worth) * unseen_error(best, first)
        best = second if unseen_error(second, first) < limit else best
    return best


def _has_logarithms(given: CheckedRows, eval_set: CheckedRows | None) -> bool:
    """Whether all targets are positive, of enough rows and a wide enough range."""
    every = [given] if eval_set is None else [given, eval_set]
    targets = np.concatenate([rows.targets[rows.weight > 0] for rows in every])
    low, high = targets.min(axis=0), targets.max(axis=0)
    wide = (low > 0).all() and (high >= _LEAST_RANGE * low).all()
    return bool(wide) and given.copies[given.weight > 0].sum() >= _FEWEST


def _better_as_one_leaf(plan: Plan, prepared: Prepared, first: Contender) -> bool:
    """Whether a single leaf of a plan errs less than one of the first."""
    single = contender(replace(plan, max_depth=0), prepared)
    return unseen_error(single, first) < unseen_error(first, first, of_root=True)
