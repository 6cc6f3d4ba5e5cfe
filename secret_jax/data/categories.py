"""Categories of discrete columns: what may be one, their order, codes, unseen ones."""

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from secret_jax.data.columns import is_missing, listed
from secret_jax.runtime.environment import warn


class UnseenCategoryWarning(UserWarning):
    """Warning that a row holds a category, or a gap, absent from training."""


def _refuse_odd_cells(column: np.ndarray, name: str) -> None:
    """Refuse cells that are neither numbers nor categories (lists, dates)."""
    temporal = (datetime.date, datetime.time, datetime.timedelta)
    others = (*temporal, np.datetime64, np.timedelta64, tuple)
    values = column.tolist()
    kinds = set(map(type, values))
    odd = {k for k in kinds if k.__hash__ is None or issubclass(k, others)}
    for row, value in enumerate(values if odd else []):
        if type(value) in odd and not is_missing(value):
            raise ValueError(
                f"Column {name!r} holds a {type(value).__name__} in row {row}: a cell "
                "must hold a number, text, a boolean or nothing. Make a column "
                "nothing but dates or none, and spread lists over columns of their own."
            )


def factorised(
    column: np.ndarray, name: str, allow_missing: bool
) -> tuple[list[Any], np.ndarray]:
    """Distinct values of a discrete column, and the position of each row's value.

    Missing values of all kinds are one None. Numbers are float64, so that a category is
    the same in every type.
    """
    if column.dtype.kind in "fiu":
        distinct, codes = np.unique(column.astype(np.float64), return_inverse=True)
        distinct = distinct.tolist()
    else:
        if column.dtype == object:
            _refuse_odd_cells(column, name)
        place: dict[Any, int] = {}
        codes = np.array(
            [place.setdefault(value, len(place)) for value in column.tolist()], np.intp
        )
        distinct = list(place)
    missing = np.array([is_missing(value) for value in distinct], bool)
    if missing.any():
        if not allow_missing:
            raise ValueError(
                f"Input X contains NaN: discrete column {name!r}, row "
                f"{int(missing[codes].argmax())}. Fill it in with a category of its "
                "own, for example 'missing', or set missing_values='learn'."
            )
        there = [v for v, absent in zip(distinct, missing, strict=True) if not absent]
        new = np.where(missing, len(there), np.cumsum(~missing) - 1)
        distinct, codes = [*there, None], new[codes]
    return distinct, codes


def sorted_categories(values: Iterable[Any]) -> tuple[Any, ...]:
    """Sort the categories of a column; None, for missing values, comes last."""
    distinct = set(values)
    missing = distinct & {None}
    try:
        return (*sorted(distinct - missing), *missing)
    except TypeError:  # mixed types have no order of their own
        by_type = sorted(distinct - missing, key=lambda v: (str(type(v)), str(v)))
        return (*by_type, *missing)


def warn_of_unseen(unseen: Mapping[str, set[Any]]) -> None:
    """Warn once of all columns with categories absent from training."""
    if not unseen:
        return

    held = []
    for name, values in unseen.items():
        found = sorted(str(value) for value in values - {None})
        gaps = ["missing values"] if None in values else []
        told = " and ".join([listed(found), *gaps] if found else gaps)
        held.append(f"column {name!r} holds {told}")
    warn(
        f"There are categories that training never saw: {'; '.join(held)}. Their rows "
        "go to the larger child at a split on the column; equations and sums count "
        "them as the mean of the known categories.",
        UnseenCategoryWarning,
    )
