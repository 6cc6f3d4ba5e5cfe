"""Race between links: equations of a positive target, and of its logarithm.

Prices and counts often change by shares: a room more adds a tenth to a price, not a sum
that is the same for all houses. An equation of the logarithm says so in one leaf, where
sums need many. Its loss is that of Poisson: it predicts means, as squared error does
(Gourieroux, Monfort & Trognon 1984), so both are compared by squared errors.
"""

from dataclasses import replace

import numpy as np

from secret_jax.fit.finer import fit_at_any_size
from secret_jax.fit.pipeline import FitResult, fit_prepared
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import CheckedRows, prepare
from secret_jax.fit.prune.path import of_size
from secret_jax.fit.refine.distillation import raw_predictions

# What a tree of logarithms must err less than one of sums: they are harder to read.
_WORTH_A_LOGARITHM = 0.05
# Fewer rows cannot tell one from the other.
_FEWEST = 200


def fit_tree(plan: Plan, given: CheckedRows, eval_set: CheckedRows | None) -> FitResult:
    """Grow, prune and distil a tree, with the link that errs less.

    If the plan has leaves of logarithms, and all targets are positive, trees with them
    are grown as well where already a single leaf of logarithms errs less than one of
    sums. Errors are of rows that were held out, or of folds; without any, or with fewer
    than 200 rows, there is no race.
    """
    prepared = prepare(plan, given, eval_set)
    first = fit_at_any_size(plan, prepared)
    others = () if eval_set is None else (eval_set.targets,)
    positive = all((targets > 0).all() for targets in (given.targets, *others))
    few = len(given.targets) < _FEWEST or not first.fitted.folds
    if plan.log_leaf is None or few or not positive:
        return first
    unit = np.array(prepared.schema.target_scales)
    of_logarithms = replace(plan, leaf=plan.log_leaf, log_leaf=None)
    prepared = prepare(of_logarithms, given, eval_set)
    single = fit_prepared(replace(of_logarithms, max_depth=0), prepared)
    if _error(single, unit) >= _error(first, unit, of_root=True):
        return first
    second = fit_at_any_size(of_logarithms, prepared)
    worth_it = _error(second, unit) < (1.0 - _WORTH_A_LOGARITHM) * _error(first, unit)
    return second if worth_it else first


def _error(result: FitResult, unit: np.ndarray, *, of_root: bool = False) -> float:
    """Mean squared error on unseen rows, in units of each output, summed over them."""
    ratio = np.array(result.prepared.schema.target_scales) / unit
    squares = weight = 0.0
    for tree, _, rows in result.fitted.folds:
        tree = of_size(tree, 1) if of_root else tree
        (value,) = raw_predictions([tree], rows.table)
        residual = ratio * (rows.targets - tree.loss.prediction(value))
        squares += float(rows.weight @ np.square(residual).sum(axis=1))
        weight += float(rows.weight.sum())
    return squares / weight
