"""Dates as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

ISO = "ISO8601"
_TIMES = ("", " %H:%M", " %H:%M:%S")
_CLOCK = r"( \d{1,2}:\d{2}(:\d{2})?)?"
_NUMERIC = re.compile(rf"(\d{{1,2}})([/.-])(\d{{1,2}})\2(\d{{4}}|\d{{2}}){_CLOCK}")
_ZONED = r"[T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[-+]\d{2}:?\d{2})?"
_ISO = re.compile(rf"\d{{4}}-\d{{1,2}}(-\d{{1,2}}({_ZONED})?)?")
_NAMED = ("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y")
_COMPACT = "%Y%m%d"
_TRIED = 10  # texts of which one must look like a date


@dataclass(frozen=True, kw_only=True)
class DateFormat:
    """How the dates of a column are written.

    Attributes
    ----------
    format : str
        As `time.strptime` knows it, or "ISO8601".
    """

    format: str = ISO

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        """Texts as datetime64[s], shape (n_texts,), NaT where one is no such date.

        Times with a zone become those of Greenwich.
        """
        import pandas as pd

        found = pd.to_datetime(
            pd.Series(texts, dtype=object),
            format=self.format,
            errors="coerce",
            utc=True,
        )
        return found.dt.tz_localize(None).to_numpy().astype("datetime64[s]")

    def sentence(self) -> str:
        """What a person is told of it."""
        how = "year-month-day" if self.format == ISO else self.format
        return f"dates ({how}): year, month, weekday and days"


class FoundDates(NamedTuple):
    """What dates a column may hold.

    Attributes
    ----------
    n_dates : int
        How many of the texts look like dates.
    first_bad : int or None
        The first one that does not.
    formats : tuple of DateFormat
        Those that fit all texts: two if day and month may be exchanged.
    """

    n_dates: int
    first_bad: int | None
    formats: tuple[DateFormat, ...]


def find_dates(texts: Sequence[str]) -> FoundDates:
    """The formats in which all texts are dates.

    Parameters
    ----------
    texts : sequence of str
        The different cells of a column, without missing ones.
    """
    best = FoundDates(0, 0, ())
    first = next((text for text in texts[:_TRIED] if _families(text)), "")
    for family in _families(first):
        formats = []
        for chosen in family:
            good = ~np.isnat(DateFormat(format=chosen).parse(texts))
            if good.all():
                formats.append(DateFormat(format=chosen))
            elif good.sum() > best.n_dates:
                best = FoundDates(int(good.sum()), int(np.argmin(good)), ())
        if formats:
            return FoundDates(len(texts), None, tuple(formats))
    return best


def _families(first: str) -> list[list[str]]:
    """Formats that the first text may have; those of a family exclude each other."""
    if re.fullmatch(r"(19|20)\d{6}", first):
        return [[_COMPACT]]
    if _ISO.fullmatch(first):
        return [[ISO]]
    if re.fullmatch(r"\d{4}/\d{1,2}/\d{1,2}", first):
        return [["%Y/%m/%d"]]
    match = _NUMERIC.fullmatch(first)
    if match is not None:
        mark, year = match[2], "%Y" if len(match[4]) == 4 else "%y"
        time = _TIMES[(match[5] or "").count(":")] if match[5] else ""
        orders = [["%d", "%m"], ["%m", "%d"]][: 1 if mark == "." else 2]
        return [[mark.join([*order, year]) + time for order in orders]]
    if re.search(r"[^\W\d]", first) and re.search(r"\d{2}", first):
        return [[chosen] for chosen in _NAMED]
    return []
