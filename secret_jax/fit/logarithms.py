"""Choose between a target and its logarithm by one line of each, before any tree."""

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.runtime.arrays import weighted_quantiles
from secret_jax.runtime.left_out import left_out_residuals

# Fewer rows cannot tell logarithms from sums, nor can targets that vary by less than
# this factor: of these, logarithms are sums that are harder to read.
_FEWEST, _LEAST_RANGE = 200, 1.5
# More rows tell it no better.
_MOST = 8192
# Share of the error that logarithms must save, which are harder to read than sums.
_WORTH_IT = 0.1
# A few rows far from all others would decide by the squares of their errors alone:
# those beyond this quantile count as much as those at it.
_COUNTED = 0.98
# Penalty of the lines, per unit of weight: many columns depend on each other.
_PENALTY = 0.01


def logarithms_err_less(schema: TableSchema, rows: Rows, lowest: np.ndarray) -> bool:
    """Whether one line of a target's logarithm errs a tenth less than one of itself.

    Every row is predicted by lines of the others. All targets must be positive, the
    largest of every output at least 1.5 times the smallest, of 200 rows or more. Of
    several outputs the errors are shares of their variances.

    ``rows``: in units of the targets themselves, in an order without meaning; all or a
    sample; ``lowest`` (n_outputs,): least targets of all rows.
    """
    rows = rows.take(slice(_MOST))
    weight = rows.weight
    # The least ones may have been rounded to zero on their way to units and back.
    targets = np.maximum(schema.restore_outputs(rows.targets), lowest)
    low, high = targets.min(axis=0), targets.max(axis=0)
    varies = (lowest > 0).all() and (high >= _LEAST_RANGE * low).all()
    if not (varies and schema.n_regressors and weight.sum() >= _FEWEST):
        return False
    x = rows.table.on_host().x[:, : schema.n_regressors]
    x = np.column_stack([np.ones(len(x)), x.astype(np.float64)])
    both = np.hstack([targets, np.log(targets)])
    off = both - np.average(both, axis=0, weights=weight)  # constants have a penalty
    predicted = both - left_out_residuals(x, off, weight, _PENALTY)
    of_values, of_logarithms = np.hsplit(predicted, 2)
    shares = np.exp(np.clip(of_logarithms, np.log(low), np.log(high)))
    shares *= (weight @ targets) / (weight @ shares)

    def error(predicted: np.ndarray) -> float:
        """Mean of the errors that count, as shares of the variances."""
        squares = (((targets - predicted) / schema.target_scales) ** 2).T
        most = weighted_quantiles(squares, weight, np.array([_COUNTED]))
        return float((np.minimum(squares, most) @ weight).sum())

    return error(shares) < (1.0 - _WORTH_IT) * error(np.clip(of_values, low, high))
