"""Attributes derived from columns of dates and of ordered categories.

A column of dates becomes numbers that can be split on and read: its year, its month,
its weekday, and the days since a start. The days are a regressor like other numbers;
the parts that come again are only split on. Ordered categories become their places in
the order, which are only split on: their steps need not be alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from secret_jax.data.columns import UnseenCategoryWarning, is_missing, listed, positions
from secret_jax.runtime.warning import warn

# Columns of dates by name, each with the names of the attributes in its place.
Dates: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
# Positions of ordered categories, each with these from the least to the greatest.
Levels: TypeAlias = tuple[tuple[int, tuple[str, ...]], ...]

# The part of a date that grows with time, and so has a slope.
DAYS = "days since 1970"
_HOUR = "hour"


def attributes_of(columns: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], Dates]:
    """Split the date columns of a training table into attributes, in column order.

    Parameters
    ----------
    columns : dict of str to ndarray of shape (n_rows,)
        Dates are datetime64; all others stay as they are.

    Returns
    -------
    attributes : dict of str to ndarray of shape (n_rows,)
        Parts of dates as float64, NaN where the date is missing. Hours are there only
        if some dates have a time of the day.
    dates : tuple of (str, tuple of str)
    """
    attributes: dict[str, Any] = {}
    dates = []
    for name, column in columns.items():
        if column.dtype.kind != "M":
            parts = {name: column}
        else:
            parts = calendar(name, column)
            if not np.nan_to_num(parts[f"{name} ({_HOUR})"]).any():
                del parts[f"{name} ({_HOUR})"]
            dates.append((name, tuple(parts)))
        for both in sorted(parts.keys() & (attributes.keys() | columns.keys())):
            if both != name:
                raise ValueError(
                    f"The dates of column {name!r} need the name {both!r}, which is "
                    "that of another column. Rename one of them."
                )
        attributes |= parts
    return attributes, tuple(dates)


def calendar(name: str, column: np.ndarray) -> dict[str, np.ndarray]:
    """Split dates into calendar attributes, keyed by attribute name, float64.

    Parameters
    ----------
    column : ndarray of shape (n_rows,), datetime64

    Examples
    --------
    >>> parts = calendar("sold", np.array(["2024-02-29T06:30"], "datetime64[m]"))
    >>> {part: float(value[0]) for part, value in parts.items()}
    {'sold (year)': 2024.0, 'sold (month)': 2.0, 'sold (weekday)': 4.0,
     'sold (hour)': 6.5, 'sold (days since 1970)': 19782.0}
    """
    day = column.astype("datetime64[D]")
    days = day.astype(np.int64)
    parts = {
        "year": column.astype("datetime64[Y]").astype(np.int64) + 1970,
        "month": column.astype("datetime64[M]").astype(np.int64) % 12 + 1,
        "weekday": (days + 3) % 7 + 1,  # Monday is 1; 1970 began on a Thursday
        _HOUR: (column - day) / np.timedelta64(1, "h"),
        DAYS: days,
    }
    missing = np.isnat(column)
    return {
        f"{name} ({part})": np.where(missing, np.nan, values.astype(np.float64))
        for part, values in parts.items()
    }


def dates_again(name: str, column: np.ndarray) -> np.ndarray:
    """Return as datetime64 a column that held dates in training, or raise an error.

    Nothing but missing values are missing dates.
    """
    if column.dtype.kind == "M":
        return column
    if column.dtype.kind == "f" and np.isnan(column).all():
        return np.full(len(column), np.datetime64("NaT"), "datetime64[s]")
    raise ValueError(
        f"Column {name!r} held dates in training, and now holds "
        f"{column[0]!r}. Turn it into dates, for example with pandas.to_datetime."
    )


def places_in_order(
    name: str, column: np.ndarray, levels: tuple[str, ...]
) -> np.ndarray:
    """Encode ordered categories as ranks from 0, float64; NaN where missing.

    Places stay as they are. A category that training never saw has none, with a
    warning.
    """
    if column.dtype.kind in "fiu":
        return np.asarray(column, np.float64)
    position = {level: float(place) for place, level in enumerate(levels)}
    values = column.tolist()
    unseen = {v for v in values if not is_missing(v) and v not in position}
    if unseen:
        warn(
            f"Column {name!r} holds categories that training never saw: "
            f"{listed(sorted(map(str, unseen)))}. They have no place in the order and "
            "count as missing.",
            UnseenCategoryWarning,
        )
    return np.array([position.get(value, np.nan) for value in values], np.float64)


def day_written(days: int) -> str:
    """Write a number of days since 1970 as a date.

    Examples
    --------
    >>> day_written(19782)
    '2024-02-29'
    """
    return str(np.datetime64(days, "D"))


def input_names(names: tuple[str, ...], dates: Dates) -> tuple[str, ...]:
    """Names of the input columns that the attributes come from."""
    owner = {part: name for name, parts in dates for part in parts}
    return tuple(dict.fromkeys(owner.get(name, name) for name in names))


def chosen_attributes(
    chosen: Any, names: tuple[str, ...], dates: Dates, argument: str
) -> set[int]:
    """Resolve columns or attributes named by the user to attribute positions.

    Parameters
    ----------
    chosen : sequence of str or int, bool mask, or None
        Columns by name or place, or attributes by name.
    names : tuple of str
        Names of the attributes.
    dates : tuple of (str, tuple of str)
    argument : str
        Who asks, for messages.

    Returns
    -------
    set of int
        Positions in ``names``.
    """
    if chosen is None or not dates:
        return positions(chosen, names, argument)
    if isinstance(chosen, str) or not hasattr(chosen, "__iter__"):
        chosen = [chosen]
    parts = {part for _, its in dates for part in its}
    of_dates = [c for c in chosen if isinstance(c, str) and c in parts]
    others = [c for c in chosen if not (isinstance(c, str) and c in parts)]
    columns = input_names(names, dates)
    found = {names.index(part) for part in of_dates}
    for column in positions(others, columns, argument):
        its = dict(dates).get(columns[column], (columns[column],))
        found |= {names.index(part) for part in its}
    return found
