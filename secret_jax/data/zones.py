"""Times of a time zone as they stand on the clocks on its walls."""

import datetime
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from secret_jax.data.columns import Zoned

# Clocks are put forward and back at quarters of an hour.
_QUARTER = np.timedelta64(15, "m")
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)")


def on_the_wall(instants: Zoned, zone: str) -> np.ndarray:
    """Convert instants to the times of a zone, datetime64[s].

    Examples
    --------
    >>> from secret_jax.data.columns import zoned
    >>> instants = zoned(np.array(["2024-07-01T12:00"], "datetime64[s]"), "UTC")
    >>> print(on_the_wall(instants, "Europe/Berlin")[0])
    2024-07-01T14:00:00
    """
    found, clock = np.array(instants, "datetime64[s]"), _clock_of(zone)
    there = ~np.isnat(found)
    quarter = (found[there] - np.datetime64(0, "s")) // _QUARTER
    different, place = np.unique(quarter, return_inverse=True)
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    moments = (start + datetime.timedelta(minutes=15 * q) for q in different.tolist())
    shifts = [moment.astimezone(clock).utcoffset() for moment in moments]
    found[there] += np.array(shifts, "timedelta64[s]")[place]
    return found


def _clock_of(zone: str) -> datetime.tzinfo:
    if zone in ("UTC", "Z"):
        return datetime.UTC
    if offset := _OFFSET.fullmatch(zone):
        sign, hours, minutes = offset.groups()
        shift = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        return datetime.timezone(-shift if sign == "-" else shift)
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(
            f"There is no time zone {zone!r} on this machine. Convert the times first, "
            "for example by .dt.tz_convert('UTC')."
        ) from None
