"""Dates and times of day as numbers, those of a zone as on the clocks on its walls.

A column of dates becomes numbers that can be split on and read: its year, its month,
its weekday, its hour, and the days since a start. The days are a regressor like other
numbers; the parts that come again are only split on. A time of day, which has no date,
becomes the minutes since midnight.
"""

import datetime
from contextlib import suppress
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from secret_jax.data.columns import is_missing

# Columns of dates by name, each with the names of the attributes in its place.
Dates: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
# Columns of dates by name, each with the time zone of those of the fit.
Zones: TypeAlias = tuple[tuple[str, str], ...]
# The part of a date that grows with time, and so has a slope.
DAYS = "days since 1970"
# In words, since some count from zero and others from one.
WEEKDAY = "weekday"
# What a date becomes: the names of its parts.
PARTS = "year", "month", WEEKDAY, "hour", DAYS
# The only part of a time of day; it is a regressor like other numbers.
MINUTES = "minutes since midnight"
WEEKDAYS = "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"
# Clocks are put forward and back at quarters of an hour.
_QUARTER = np.timedelta64(15, "m")


def parts_of(column: np.ndarray) -> tuple[str, ...]:
    """Names of the parts of dates or times of day; empty for other columns."""
    return {"M": PARTS, "m": (MINUTES,)}.get(column.dtype.kind, ())


def time_written(minutes: float) -> str:
    """Write minutes since midnight as a time of day, with seconds if there are any.

    >>> time_written(605), time_written(605.5)
    ('10:05', '10:05:30')
    """
    seconds = min(max(round(60 * minutes), 0), 86399)
    text = f"{seconds // 3600}:{seconds // 60 % 60:02}"
    return text + f":{seconds % 60:02}" * (seconds % 60 > 0)


def calendar(name: str, column: np.ndarray) -> dict[str, np.ndarray]:
    """Split dates, or times, into calendar attributes, keyed by name, float64."""
    if column.dtype.kind == "m":
        return {f"{name} ({MINUTES})": column / np.timedelta64(1, "m")}
    day = column.astype("datetime64[D]")
    days = day.astype(np.int64)
    parts = (
        column.astype("datetime64[Y]").astype(np.int64) + 1970,
        column.astype("datetime64[M]").astype(np.int64) % 12 + 1,
        (days + 3) % 7 + 1,  # Monday is 1; 1970 began on a Thursday
        (column - day) / np.timedelta64(1, "h"),
        days,
    )
    missing = np.isnat(column)
    return {
        f"{name} ({part})": np.where(missing, np.nan, values.astype(np.float64))
        for part, values in zip(PARTS, parts, strict=True)
    }


def dates_again(
    name: str, column: np.ndarray, zone: str | None, kind: str = "dates"
) -> np.ndarray:
    """Return as dates of a zone a column that held some in training, or refuse it.

    ``kind``: "dates", or "times of day".
    """
    is_time = kind != "dates"
    if is_time and column.dtype.kind == "m":
        return column
    if all(map(is_missing, column[:1])) and all(map(is_missing, column.tolist())):
        nothing = np.timedelta64("NaT") if is_time else np.datetime64("NaT")
        return np.full(len(column), nothing, f"{nothing.dtype}[s]")
    if column.dtype.kind == "M" and not is_time:
        if (getattr(column, "zone", None) is None) != (zone is None):
            held = ["times without a time zone", "times of a time zone"]
            call = f"dt.tz_localize({zone!r})"
            if zone is None:
                held, call = held[::-1], "dt.tz_localize(None)"
            raise ValueError(
                f"Column {name!r} now holds {held[0]}, and held {held[1]} in training. "
                f"Give it as it was then, for example by X[{name!r}].{call}."
            )
        return column if zone is None else on_the_wall(column, zone)
    raise ValueError(
        f"Column {name!r} held {kind} in training, and now holds {column[0]!r}. Turn "
        f"it into {kind}, for example with pandas.to_datetime"
        f"{'(...).dt.time' * is_time}."
    )


def on_the_wall(instants: np.ndarray, zone: str) -> np.ndarray:
    """Convert instants at Greenwich to the times of a zone, datetime64[s]."""
    found, clock = np.array(instants, "datetime64[s]"), clock_of(zone)
    there = ~np.isnat(found)
    quarter = (found[there] - np.datetime64(0, "s")) // _QUARTER
    different, place = np.unique(quarter, return_inverse=True)
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    moments = (start + datetime.timedelta(minutes=15 * q) for q in different.tolist())
    shifts = [moment.astimezone(clock).utcoffset() for moment in moments]
    found[there] += np.array(shifts, "timedelta64[s]")[place]
    return found


def clock_of(zone: str) -> datetime.tzinfo:
    offset = zone.removeprefix("UTC").removeprefix("GMT")
    offset = "Z" if zone and not offset else offset
    with suppress(ValueError):
        return datetime.datetime.strptime(offset, "%z").tzinfo or datetime.UTC
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(
            f"There is no time zone {zone!r} on this machine. Convert the times first, "
            "for example by .dt.tz_convert('UTC')."
        ) from None
