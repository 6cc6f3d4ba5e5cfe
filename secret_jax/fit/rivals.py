"""Race between leaf models, where a parameter is "auto": unseen rows choose.

Prices and counts often change by shares: a room more adds a tenth to a price, not a sum
that is the same for all houses. An equation of the logarithm says so in one leaf, where
sums need many. Its loss is that of Poisson: it predicts means, as squared error does
(Gourieroux, Monfort & Trognon 1984). One line of each chooses, before a tree is grown.
Shares of classes say in many small leaves what log-odds cannot say in one: of those two
whole trees race.
"""

import numpy as np

from secret_jax.fit.finer import at_any_size
from secret_jax.fit.logarithms import logarithms_err_less
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
from secret_jax.runtime.warning import each_once

# Share of the error that a rival must save.
_WORTH_IT = 0.01


def fit_tree(plan: Plan, given: CheckedRows, eval_set: CheckedRows | None) -> FitResult:
    """Grow, prune and distil a tree, with the leaf model that errs least.

    Logarithms are chosen by one line of them, see
    `secret_jax.fit.logarithms.logarithms_err_less`; other models by trees, on rows that
    were held out, or on folds; without any there is no race.
    """
    with each_once():  # the same rows are read again for every tree
        return finished(at_any_size(_winner(plan, given, eval_set)))


def _winner(plan: Plan, given: CheckedRows, eval_set: CheckedRows | None) -> Contender:
    """Grow the trees that race, none of them finer, and return the best."""

    def pruned(plan: Plan, prepared: Prepared) -> Contender:
        return of_relevant(contender(plan, prepared), given, eval_set)

    prepared, rival = prepare(plan, given, eval_set), plan.rival
    if rival is not None and rival.of_logarithms:
        every = [given] if eval_set is None else [given, eval_set]
        lowest = np.min([_lowest(rows) for rows in every], axis=0)
        if logarithms_err_less(prepared.schema, prepared.rows, lowest):
            plan = plan.against(rival)
            prepared = prepare(plan, given, eval_set)  # the others are let go
        return pruned(plan, prepared)
    first = pruned(plan, prepared)
    if rival is None or not first.fitted.folds:
        return first
    other = plan.against(rival)
    second = pruned(other, prepare(other, given, eval_set))
    limit = (1.0 - _WORTH_IT) * unseen_error(first)
    return second if unseen_error(second) < limit else first


def _lowest(rows: CheckedRows) -> np.ndarray:
    """Least targets of the rows that count, shape (n_outputs,)."""
    return rows.targets[rows.weight > 0].min(axis=0, initial=np.inf)
