"""Choose between a target and its logarithm by small trees of each, on unseen rows.

Prices and counts often change by shares: a room more adds a tenth to a price, not a sum
that is the same for all houses. An equation of the logarithm says so in one leaf, where
sums need many. Its loss is that of Poisson: it predicts means, as squared error does
(Gourieroux, Monfort & Trognon 1984). But one interaction bends a line of either: the
first splits have to be there before they can be compared.
"""

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.fit.pipeline import contender
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import Prepared, with_units_of
from secret_jax.fit.prune.cross_validation import CrossValidation
from secret_jax.fit.refine.distillation import raw_predictions

# Fewer rows cannot tell logarithms from sums, nor can targets that vary by less than
# this factor: of these, logarithms are sums that are harder to read.
_FEWEST, _LEAST_RANGE = 200, 1.5
# More rows, and deeper trees, tell it no better.
_MOST, _DEPTH = 4096, 2
# Share of the error that logarithms must save, which are harder to read than sums.
_WORTH_IT = 0.05
# A few rows far from all others would decide by the squares of their errors alone:
# those beyond this quantile count as much as those at it.
_COUNTED = 0.98


def with_better_scale(
    plan: Plan, schema: TableSchema, rows: Rows, lowest: np.ndarray
) -> Plan:
    """Same plan, or that of logarithms, if it has a choice and they err less.

    Of several outputs the errors are shares of their variances. ``rows``: in units of
    the targets themselves, in an order without meaning; all or a sample; ``lowest``
    (n_outputs,): least targets of all rows.
    """
    rival, rows = plan.rival, rows.take(slice(_MOST))
    if rival is None or not rival.of_logarithms:
        return plan
    # The least ones may have been rounded to zero on their way to units and back.
    targets = np.maximum(schema.restore_outputs(rows.targets), lowest)
    high = targets.max(axis=0)
    varies = (lowest > 0).all() and (high >= _LEAST_RANGE * targets.min(axis=0)).all()
    if not (varies and schema.n_regressors and rows.weight.sum() >= _FEWEST):
        return plan
    small = plan.again(
        "sums or logarithms",
        max_depth=_DEPTH if plan.max_depth is None else min(plan.max_depth, _DEPTH),
        oblique=plan.oblique is True,
        prune=CrossValidation(n_folds=3, n_repeats=1),
    )
    of_sums, of_logarithms = (
        _error(each, schema, rows, targets) for each in (small, small.against(rival))
    )
    worth_it = of_logarithms < (1.0 - _WORTH_IT) * of_sums
    return plan.against(rival) if worth_it else plan


def _error(plan: Plan, schema: TableSchema, rows: Rows, targets: np.ndarray) -> float:
    """Squared error of a plan's trees on the folds that they have not seen."""
    loss, scales = plan.leaf.loss, schema.target_scales
    schema = with_units_of(loss, schema, targets, rows.weight)
    rows = rows._replace(targets=schema.scale_targets(targets))
    prepared = Prepared(schema, rows, 1.0, None, None, None)
    squares, weights = [], []
    for tree, _, unseen in contender(plan, prepared).fitted.folds:
        (value,) = raw_predictions([tree], unseen.table)
        error = loss.prediction(value) - unseen.targets
        error *= np.array(schema.target_scales) / scales
        squares.append(error**2)
        weights.append(unseen.weight)
    square, weight = np.concatenate(squares), np.concatenate(weights)
    most = [
        np.quantile(each, _COUNTED, weights=weight, method="inverted_cdf")
        for each in square.T
    ]
    return float((weight @ np.minimum(square, most)).sum())
