"""Centers and scales of columns of numbers, in one pass over blocks; far tails.

A few lots of a square mile would else decide the slope of all, and be far off
themselves: regressors become flat beyond the bulk of their values. But where the target
is a line in the columns as they are, it is none in flat ones: then they stay. No
threshold of a split lies beyond the rows that it parts.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.data.columns import numbers
from secret_jax.data.rows import all_count, are_ones
from secret_jax.data.schema import Role, TableSchema
from secret_jax.runtime.linalg import Moments, added_up, safe_divide
from secret_jax.runtime.parallel import ROW_BLOCK, in_blocks, side_by_side

# Share of the rows outside of a column's range, on either side; a tail is far if it
# reaches further from the median than this range is wide.
_OUTSIDE = 0.01
# A column of fewer values counts, or names, something.
_LEAST_VALUES = 10
# Tails stay if a line in them has at most this share of the error of one in flat ones.
_CLEARLY_LESS = 0.9
# Penalty of these lines, per unit of weight: columns may depend on each other.
_PENALTY = 1e-4


class ColumnSums(NamedTuple):
    """Sums and ranges over the rows that have a value; arrays of shape (n_columns,).

    ``missing_mass`` is the weight of the rows without one.
    """

    mass: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    missing_mass: np.ndarray


def column_sums(
    columns: Sequence[np.ndarray],
    names: Sequence[str],
    weight: np.ndarray,
    *,
    allow_missing: bool,
) -> ColumnSums:
    """Measure columns of numbers, NaN where one is missing, in blocks of rows.

    Rows of weight zero count for nothing, but must hold numbers.
    """
    if not columns:
        return no_sums(0)

    def of_block(rows: slice) -> ColumnSums:
        values = np.array([column[rows] for column in columns], np.float64)
        row_weight = weight[rows]
        with np.errstate(over="ignore", invalid="ignore"):
            fine = np.isfinite(values.sum())
            if not fine and (np.isinf(values).any() or not allow_missing):
                for column, name in zip(columns, names, strict=True):
                    numbers(column, name, allow_missing)  # names the first bad value
            if not all_count(row_weight):
                used = row_weight > 0
                values, row_weight = values[:, used], row_weight[used]
            return _block_sums(values, row_weight)

    return joint_sums(list(in_blocks(of_block, len(weight))))


def moments_of(
    total: ColumnSums, names: Sequence[str], *, of_target: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means and standard deviations of the values that are there, float64.

    They are 0 and 1 where there is none, and the deviation is 1 for a constant. Columns
    whose variance is no number are refused.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.sqrt(safe_divide(total.scatter, total.mass))
    constant = (total.lowest >= total.highest) | (total.mass == 0)
    usable = np.isfinite(scale) & ((scale > 0) | (not of_target))
    for column in np.flatnonzero(~constant & ~usable).tolist():
        largest = max(abs(total.lowest[column]), abs(total.highest[column]))
        what = "the target" if of_target else "column"
        size = "small" if scale[column] == 0 else "large"
        raise ValueError(
            f"The values of {what} {names[column]!r} are too {size} ({largest:.3g}) "
            "for their variance to be a number. Rescale them."
        )
    center = np.where(constant, total.lowest, total.mean)
    center = np.where(total.mass > 0, center, 0.0)
    return center, np.where(constant | (scale <= 0), 1.0, scale)


def _block_sums(values: np.ndarray, weight: np.ndarray) -> ColumnSums:
    """Sum a block over its rows; it is overwritten."""
    lowest = values.min(axis=1, initial=np.inf)  # NaN where one is missing
    highest = values.max(axis=1, initial=-np.inf)
    missing_mass = np.zeros(len(values))
    share = None if are_ones(weight) else np.broadcast_to(weight, values.shape)
    if np.isnan(lowest).any():
        missing = np.isnan(values)
        lowest = np.fmin.reduce(values, axis=1, initial=np.inf)
        highest = np.fmax.reduce(values, axis=1, initial=-np.inf)
        missing_mass = missing @ weight
        share = np.where(missing, 0.0, weight)
        values[missing] = 0.0
    # Not products of matrices: their threads would fight with those of other blocks.
    if share is None:
        mass, total = np.full(len(values), float(len(weight))), values.sum(axis=1)
    else:
        mass, total = share.sum(axis=1), np.einsum("ij,ij->i", share, values)
    mean = safe_divide(total, mass)
    values -= mean[:, None]
    weighted = values if share is None else share * values
    scatter = np.einsum("ij,ij->i", weighted, values)
    return ColumnSums(mass, mean, scatter, lowest, highest, missing_mass)


def no_sums(n_columns: int) -> ColumnSums:
    """Sums over no rows."""
    zero, infinite = np.zeros(n_columns), np.full(n_columns, np.inf)
    return ColumnSums(zero, zero, zero, infinite, -infinite, zero)


def joint_sums(blocks: Sequence[ColumnSums]) -> ColumnSums:
    """Combine the sums of several blocks."""
    parts = ColumnSums(*(np.array(arrays) for arrays in zip(*blocks, strict=True)))
    with np.errstate(over="ignore", invalid="ignore"):
        whole = added_up(Moments(*parts[:3]), np.array([0]))
    return ColumnSums(
        *(array[0] for array in whole),
        lowest=parts.lowest.min(axis=0),
        highest=parts.highest.max(axis=0),
        missing_mass=parts.missing_mass.sum(axis=0),
    )


def with_flat_tails(
    schema: TableSchema,
    columns: Sequence[np.ndarray],
    targets: np.ndarray | None,
    weight: np.ndarray,
    tail_share: float,
) -> TableSchema:
    """Bound the regressors whose values have far tails, and scale them anew.

    ``columns`` are the continuous attributes, NaN where missing, and ``targets``
    (n_rows, n_outputs) in their own units, of all rows or of a sample; None if models
    are no lines in them. ``tail_share``: of the weight beyond each bound; 0: none.
    """
    if not tail_share:
        return schema
    center, scale = schema.center.copy(), schema.scale.copy()
    positions = schema.continuous_positions
    found: dict[int, tuple[float, float]] = {}

    def flatten(which: int) -> None:
        column, position = schema.continuous[which], positions[which]
        values, mass = columns[which], weight
        used = ~np.isnan(values) & (mass > 0)
        if not used.all():
            values, mass = values[used], mass[used]
        bounds = _bounds(values, mass, tail_share)
        if bounds is None or bounds[0] == bounds[1]:  # a constant tells nothing
            return
        flat = np.clip(values, *bounds)
        mean = np.average(flat, weights=mass)
        square = np.average((flat - mean) ** 2, weights=mass)
        if square > 0:  # too small a number otherwise
            center[position], scale[position] = mean, square**0.5
            found[column] = bounds

    roles = [schema.roles[column] for column in schema.continuous]
    regressors = [i for i, role in enumerate(roles) if role is Role.REGRESSOR]
    if len(weight) < ROW_BLOCK:  # threads take as long
        for which in regressors:
            flatten(which)
    else:
        side_by_side(flatten, regressors)
    tails = [(column, *found[column]) for column in sorted(found)]
    flat = replace(schema, center=center, scale=scale, tails=tuple(tails))
    if not tails or targets is None:
        return flat
    outputs = schema.scale_targets(targets)
    designs = (_regressors(each, columns) for each in (schema, flat))
    as_given, flattened = (
        np.sum(weight @ left_out_residuals(x, outputs, weight, _PENALTY) ** 2)
        for x in designs
    )
    return schema if as_given < _CLEARLY_LESS * flattened else flat


def _regressors(schema: TableSchema, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Encode a constant and the regressors of continuous attributes."""
    low, high = schema.saturation
    found = [
        np.clip((values - schema.center[i]) / schema.scale[i], low[i], high[i])
        for values, i in zip(columns, schema.continuous_positions, strict=True)
        if i < schema.n_regressors
    ]
    return np.nan_to_num(np.column_stack([np.ones_like(found[0]), *found]), copy=False)


def left_out_residuals(
    x: np.ndarray, outputs: np.ndarray, weight: np.ndarray, penalty: float
) -> np.ndarray:
    """Residuals of ridge regression on x, every row predicted without itself.

    A row is one observation, however heavy (Allen 1974, "The relationship between
    variable selection and data augmentation and a method for prediction").
    ``penalty``: of all coefficients, per unit of weight.
    """
    hat = np.sqrt(weight)[:, None] * x
    gram = hat.T @ hat + penalty * weight.sum() * np.eye(x.shape[1])
    np.matmul(x, np.linalg.inv(gram), out=hat)
    residual = outputs - hat @ (x.T @ (weight[:, None] * outputs))
    leverage = np.einsum("ij,ij->i", x, hat) * weight
    return residual / (1.0 - leverage)[:, None]


def _bounds(
    values: np.ndarray, weight: np.ndarray, tail_share: float
) -> tuple[float, float] | None:
    """Bounds of a column with a far tail; infinite where no row is beyond."""
    if not len(values):
        return None
    if are_ones(weight):  # sorting takes a tenth of the time of an order
        values, below, above = np.sort(values), None, None
    else:
        order = np.argsort(values, kind="stable")
        values, weight = values[order], weight[order]
        below = np.cumsum(weight)
        above = below[-1] - below + weight

    def ends(share: float) -> tuple[float, float]:
        """First and last values with at least a share of the weight beyond."""
        if below is None or above is None:
            n_beyond = math.ceil(share * len(values))
            return float(values[n_beyond - 1]), float(values[-n_beyond])
        mass = share * below[-1]
        first, last = np.argmax(below >= mass), np.flatnonzero(above >= mass)[-1]
        return float(values[first]), float(values[last])

    (low, high), median = ends(_OUTSIDE), sum(ends(0.5)) / 2.0
    least, greatest = float(values[0]), float(values[-1])
    width, reach = high - low, (median - least, greatest - median)
    if max(reach) <= width or np.count_nonzero(np.diff(values)) < _LEAST_VALUES - 1:
        return None
    low, high = ends(tail_share)
    far = low > least, high < greatest
    if not (low < high and any(far)):
        return None
    return (low if far[0] else -np.inf), (high if far[1] else np.inf)
