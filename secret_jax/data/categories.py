"""Categories of discrete columns: their order, their codes, and unseen ones."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from secret_jax.data.columns import factorised, listed
from secret_jax.runtime.warning import warn


class UnseenCategoryWarning(UserWarning):
    """Warning that a row holds a category, or a gap, absent from training."""


def sorted_categories(values: Iterable[Any]) -> tuple[Any, ...]:
    """Sort the categories of a column; None, for missing values, comes last."""
    distinct = set(values)
    there = distinct - {None}
    missing = (None,) if None in distinct else ()
    try:
        return (*sorted(there), *missing)
    except TypeError:  # mixed types have no order of their own
        return (*sorted(there, key=lambda v: (str(type(v)), str(v))), *missing)


def codes_of(
    column: np.ndarray, categories: tuple[Any, ...], name: str, allow_missing: bool
) -> tuple[np.ndarray, set[Any]]:
    """Encode values as category codes, -1 if unknown; also return the unknown ones."""
    position = {category: code for code, category in enumerate(categories)}
    distinct, codes = factorised(column, name, allow_missing)
    known = np.array([position.get(value, -1) for value in distinct], np.int32)
    return known[codes], set(distinct) - position.keys()


def warn_of_unseen(unseen: Mapping[str, set[Any]]) -> None:
    """Warn once of all columns with categories absent from training."""
    if not unseen:
        return

    def told(values: set[Any]) -> str:
        found = sorted(str(value) for value in values - {None})
        gaps = ["missing values"] * (None in values)
        return " and ".join([listed(found)] * bool(found) + gaps)

    held = "; ".join(
        f"column {name!r} holds {told(values)}" for name, values in unseen.items()
    )
    warn(
        f"There are categories that training never saw: {held}. Their rows go to the "
        "larger child at a split on the column; equations and sums count them as the "
        "mean of the known categories.",
        UnseenCategoryWarning,
    )
