"""Centers and scales of columns, measured in one pass over blocks of rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.data.columns import numbers
from secret_jax.runtime.linalg import safe_divide
from secret_jax.runtime.moments import Moments, added_up
from secret_jax.runtime.parallel import in_blocks


class ColumnMoments(NamedTuple):
    """Centers, scales and weights of columns; arrays of shape (n_columns,), float64.

    Center and scale are weighted mean and standard deviation of the values that are
    there; 0 and 1 where there is none, and a scale of 1 for a constant.
    ``missing_mass`` is the weight of the rows without a value.
    """

    center: np.ndarray
    scale: np.ndarray
    mass: np.ndarray
    missing_mass: np.ndarray


class ColumnSums(NamedTuple):
    """Sums and ranges over a block of rows; arrays of shape (n_columns,)."""

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

    def sums(rows: slice) -> ColumnSums:
        values = np.array([column[rows] for column in columns], np.float64)
        row_weight = weight[rows]
        edges = _edges(values)
        if not np.isfinite(edges).all():
            for column, name in zip(columns, names, strict=True):
                numbers(column, name, allow_missing)  # names the first bad value
        if not row_weight.all():
            used = row_weight > 0
            values, row_weight = values[:, used], row_weight[used]
            edges = _edges(values)
        with np.errstate(over="ignore", invalid="ignore"):
            return _block_sums(values, row_weight, *edges)

    return joint_sums(list(in_blocks(sums, len(weight))))


def moments_of(
    total: ColumnSums, names: Sequence[str], *, of_target: bool = False
) -> ColumnMoments:
    """Centers and scales by sums; refuse columns whose variance is no number."""
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
    return ColumnMoments(
        center=np.where(total.mass > 0, center, 0.0),
        scale=np.where(constant | (scale <= 0), 1.0, scale),
        mass=total.mass,
        missing_mass=total.missing_mass,
    )


def _edges(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest values of columns; NaN where one is missing."""
    lowest = values.min(axis=1, initial=np.inf)
    return lowest, values.max(axis=1, initial=-np.inf)


def _block_sums(
    values: np.ndarray, weight: np.ndarray, lowest: np.ndarray, highest: np.ndarray
) -> ColumnSums:
    """Sum a block over its rows; ``values`` are overwritten."""
    missing_mass = np.zeros(len(values))
    share = None if (weight == 1).all() else np.broadcast_to(weight, values.shape)
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
