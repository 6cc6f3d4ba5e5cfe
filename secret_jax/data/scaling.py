"""Columns of numbers: refused values, centers and scales, in one pass over blocks."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.categories import factorised
from secret_jax.data.columns import real, without_gaps
from secret_jax.runtime.linalg import Moments, added_up, safe_divide
from secret_jax.runtime.parallel import in_blocks


def numbers(column: np.ndarray, name: str, allow_missing: bool = False) -> np.ndarray:
    """Convert a column to float64; raise an error that names the first bad value.

    Missing values become NaN if they are allowed.
    """
    if column.dtype == object:
        row, _ = _first_text(column, name)
        if row is not None:
            raise ValueError(
                f"Column {name!r} is continuous, but row {row} holds {column[row]!r}, "
                "which is no number. Mend the value, or name the column in "
                "categorical_features."
            )
        column = without_gaps(column)
    values = np.asarray(column, np.float64)
    good = ~np.isinf(values) if allow_missing else np.isfinite(values)
    if not good.all():
        row = int(np.argmin(good))
        if np.isnan(values[row]):
            raise ValueError(
                f"Input X contains NaN: column {name!r}, row {row}. Drop the row, "
                "fill the value in (for example with sklearn.impute.SimpleImputer), or "
                "set missing_values='learn'."
            )
        raise ValueError(
            f"Input X contains infinity: column {name!r}, row {row}. Drop the row, or "
            "put a number or a missing value in its place."
        )
    return values


def refuse_numbers_as_text(column: np.ndarray, name: str) -> None:
    """Refuse a text column that is mostly numbers: a damaged numeric column."""
    row, n_numbers = _first_text(column, name) if column.dtype != bool else (None, 0)
    if row is not None and n_numbers > len(column) / 2:
        raise ValueError(
            f"Column {name!r} holds text in row {row} ({column[row]!r}), but "
            f"{n_numbers} of its {len(column)} values are numbers. Mend the text, or "
            "name the column in categorical_features if it is meant to be discrete."
        )


def _first_text(column: np.ndarray, name: str) -> tuple[int | None, int]:
    """First row with neither a number nor nothing, and how many rows have numbers."""

    def is_number(value: Any) -> bool:
        try:
            float(real(value))
            return True
        except (TypeError, ValueError):
            return False

    distinct, codes = factorised(column, name, allow_missing=True)
    known = np.array([is_number(value) for value in distinct], bool)[codes]
    missing = np.array([value is None for value in distinct], bool)[codes]
    rows = np.flatnonzero(~(known | missing))
    return int(rows[0]) if len(rows) else None, int(known.sum())


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
            if not np.isfinite(values.sum(axis=1)).all():
                for column, name in zip(columns, names, strict=True):
                    numbers(column, name, allow_missing)  # names the first bad value
            if not row_weight.all():
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
    """Sum a block over its rows; ``values`` are overwritten."""
    lowest = values.min(axis=1, initial=np.inf)  # NaN where one is missing
    highest = values.max(axis=1, initial=-np.inf)
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
