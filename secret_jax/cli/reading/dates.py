"""Dates as people write them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

ISO = "ISO8601"
_CLOCK = re.compile(r" \d{1,2}:\d{2}(?P<seconds>:\d{2})?(?P<half>( ?)[AaPp][Mm])?\Z")
_NUMERIC = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})")
_ZONED = r"[T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[-+]\d{2}:?\d{2})?"
_ISO = re.compile(rf"\d{{4}}-\d{{1,2}}(-\d{{1,2}}({_ZONED})?)?")
_NAMED = ("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y")
_TRIED = 10  # texts of which one must look like a date


@dataclass(frozen=True, kw_only=True)
class DateFormat:
    """How the dates of a column are written: as `time.strptime` knows it, or ISO."""

    format: str = ISO

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        """Read texts as datetime64[s] at Greenwich; NaT where one is no such date."""
        series = pd.Series(texts, dtype=object)
        dates = pd.to_datetime(series, format=self.format, errors="coerce", utc=True)
        return dates.dt.tz_localize(None).to_numpy().astype("datetime64[s]")

    def sentence(self) -> str:
        """Describe the format."""
        how = "year-month-day" if self.format == ISO else self.format
        return f"dates ({how}): year, month, weekday and days"


class FoundDates(NamedTuple):
    """Formats that fit all texts: two if day and month may be exchanged.

    Also how many texts look like dates, and the first that does not.
    """

    formats: tuple[DateFormat, ...] = ()
    n_dates: int = 0
    first_bad: int | None = 0


def find_dates(texts: Sequence[str]) -> FoundDates:
    """Find the formats in which all texts, the cells of a column, are dates."""
    best = FoundDates()
    first = next((text for text in texts[:_TRIED] if _families(text)), "")
    for family in _families(first):
        formats = []
        for chosen in (DateFormat(format=one) for one in family):
            good = ~np.isnat(chosen.parse(texts))
            if good.all():
                formats.append(chosen)
            elif good.sum() > best.n_dates:
                best = FoundDates((), int(good.sum()), int(np.argmin(good)))
        if formats:
            return FoundDates(tuple(formats), len(texts), None)
    return best


def _families(text: str) -> list[list[str]]:
    """Formats that a text may have; those of a family exclude each other."""
    if re.fullmatch(r"(19|20)\d{6}", text):
        return [["%Y%m%d"]]
    if _ISO.fullmatch(text):
        return [[ISO]]
    day, time = _without_clock(text)
    if match := re.fullmatch(r"\d{4}([/-])\d{1,2}\1\d{1,2}", day):
        return [[match[1].join(["%Y", "%m", "%d"]) + time]]
    match = _NUMERIC.fullmatch(day)
    if match is not None:
        mark, year = match[2], "%Y" if len(match[4]) == 4 else "%y"
        orders = [["%d", "%m"], ["%m", "%d"]][: 1 if mark == "." else 2]
        return [[mark.join([*order, year]) + time for order in orders]]
    if re.search(r"[^\W\d]", day) and re.search(r"\d{2}", day):
        return [[chosen + time] for chosen in _NAMED]
    return []


def _without_clock(text: str) -> tuple[str, str]:
    """Part a text into a day and the format of the time of day after it, if any."""
    clock = _CLOCK.search(text)
    if clock is None:
        return text, ""
    seconds = ":%S" if clock["seconds"] else ""
    half = clock["half"]
    time = f" %H:%M{seconds}" if half is None else f" %I:%M{seconds}{clock[3]}%p"
    return text[: clock.start()], time
