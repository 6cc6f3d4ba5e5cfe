"""How the cells of a column are written, and the formats that all of them fit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

ISO = "ISO8601"
_SIGN = r"[%‰$€£¥₹]|US\$|CHF|EUR|USD|GBP"
_NUMBER = (
    rf"\A(?P<sign>[-+]?)\s*(?:(?P<before>{_SIGN})\s*)?"
    r"(?P<body>[-+]?(?:\d(?:[\d.,' ]*[\d.,'])?|[.,]\d+)(?:[eE][-+]?\d+)?)"
    rf"\s*(?P<after>(?:{_SIGN}|[^\W\d_]|[°\"])\D{{0,15}})?\Z"
)
# Blanks, apostrophes and signs as text programs and other languages have them.
_SAME = str.maketrans("\u2019\u00a0\u2009\u202f\u2212", "'   -")
# What groups digits and what begins decimals; of those that say the same the first.
_CONVENTIONS = [("", "."), (",", "."), ("", ","), (".", ","), *product("' ", ".,")]
# Of fewer different numbers with a unit ("2WD", "4WD") one cannot say that they are.
_FEWEST_WITH_UNIT = 3
_DAYS = [f"%d{mark}%m{mark}%{year}" for mark, year in product("/.-", "Yy")]
_DAYS += [f"%m{mark}%d{mark}%{year}" for mark, year in product("/-", "Yy")]
_DAYS += ["%Y-%m-%d", "%Y/%m/%d", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y"]
_DAYS += ["%b %d, %Y", "%B %d, %Y"]
_CLOCKS = ["", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M%p"]
_CLOCKS += [" %I:%M:%S %p", " %I:%M:%S%p"]
_MONTHS = [f"%{month}{mark}%Y" for month, mark in product("bB", "- ")]
_MONTHS += ["%b-%y", "%b %y", "%m/%Y"]
_FORMS = ["%Y%m%d", ISO, *_MONTHS, *map("".join, product(_DAYS, _CLOCKS))]
_QUARTER = re.compile(r"\A(?:(\d{4})[- ]?Q([1-4])|Q([1-4])[- /]?(\d{4}))\Z")
_TRIED = 10  # texts that show which formats may be those of all
_MOST = 0.5  # a column of which more is of one kind is meant to be of it


@dataclass(frozen=True, kw_only=True)
class ColumnFormat:
    """How the cells of a column are written.

    Numbers have ``thousands`` between groups of three digits, ``decimal`` before the
    decimals, and a ``unit`` before or after them, which zero alone may lack. Dates have
    a ``form`` as `time.strptime` knows it; quarters are their first months. Of
    ``verbatim`` text only an empty cell is missing; in ``folded`` text case and blanks
    mean nothing.
    """

    kind: Literal["number", "date", "truth", "text"] = "number"
    thousands: str = ""
    decimal: str = "."
    unit: str = ""
    form: str = ISO
    verbatim: bool = False
    folded: bool = False

    def parse(self, texts: pd.Series) -> pd.Series:
        """Read texts as float64, datetime64, bool or text; missing where it cannot."""
        if self.kind == "number":
            return self._numbers(texts.str.translate(_SAME)).where(np.isfinite)
        if self.kind == "date":
            texts = texts.str.replace(_QUARTER, _first_month, regex=True)
            dates = pd.to_datetime(texts, format=self.form, errors="coerce", utc=True)
            return dates.dt.tz_localize(None).astype("datetime64[s]")
        if self.kind == "truth":
            return texts.str.casefold().map({"true": True, "false": False})
        return texts.map(folded) if self.folded else texts

    def _numbers(self, texts: pd.Series) -> pd.Series:
        if self == ColumnFormat():
            return to_numbers(texts)
        parts = _taken_apart(texts)
        mark, point = re.escape(self.thousands), re.escape(self.decimal)
        grouped = rf"\d{{1,3}}(?:{mark}\d{{3}})+|" if mark else ""
        written = rf"[-+]?(?:{grouped}\d*)(?:{point}\d*)?(?:[eE][-+]?\d+)?"
        body = parts["body"].where(parts["body"].str.fullmatch(written))
        body = body.str.replace(self.thousands, "", regex=False) if mark else body
        body = body.str.replace(self.decimal, ".", regex=False)
        values = to_numbers(parts["sign"] + body)
        return values.where((parts["unit"] == self.unit) | (values == 0))

    def sentence(self) -> str:
        """Describe the format."""
        if self.kind == "date":
            how = "year-month-day" if self.form == ISO else self.form
            return f"dates ({how}): year, month, weekday and days"
        marks = {" ": "blanks", ",": "commas", ".": "dots", "'": "apostrophes"}
        words = [f"{marks[self.thousands]} between thousands"] if self.thousands else []
        words += ["a decimal comma"] if self.decimal == "," else []
        words += [f"the unit {self.unit!r}"] if self.unit else []
        numbers = f"numbers{' with ' if words else ''}{' and '.join(words)}"
        return {"truth": "true or false", "text": "categories"}.get(self.kind, numbers)


class Found(NamedTuple):
    """Formats that all cells fit, one of those that say the same.

    Where there is none, ``nearest`` is one that most cells fit, if any is.
    """

    formats: tuple[ColumnFormat, ...] = ()
    nearest: ColumnFormat | None = None


def find_numbers(cells: pd.Series) -> Found:
    """Find the formats in which all cells, without missing ones, are numbers."""
    texts = pd.Series(cells.unique(), dtype=object)
    if to_numbers(texts).notna().all():  # without dots that may group digits
        dotted = texts[texts.str.contains(".", regex=False)]
        if dotted.empty or not all(dotted.str.fullmatch(r"[-+]?\d{1,3}(\.\d{3})+")):
            return Found((ColumnFormat(),))
    parts = _taken_apart(texts.str.translate(_SAME))
    parts = parts[parts["unit"] != ""]
    units = parts["unit"].unique()
    few = len({*parts["body"]}) < _FEWEST_WITH_UNIT
    if len(units) > 1 or (few and not all(re.fullmatch(_SIGN, one) for one in units)):
        return Found()
    ways = product(units if len(units) else [""], _CONVENTIONS)
    return _fitting(
        cells, [ColumnFormat(unit=u, thousands=t, decimal=d) for u, (t, d) in ways]
    )


def find_dates(cells: pd.Series) -> Found:
    """Find the formats in which all cells are dates: two where day and month may be
    exchanged.
    """
    return _fitting(cells, [ColumnFormat(kind="date", form=form) for form in _FORMS])


def _fitting(cells: pd.Series, formats: Sequence[ColumnFormat]) -> Found:
    """Keep formats that read all cells, or the one that reads most of them."""
    texts = pd.Series(cells.unique(), dtype=object)
    likely = [one for one in formats if one.parse(texts[:_TRIED]).notna().any()]
    read = {one: one.parse(texts) for one in likely}
    different = {
        values.to_numpy().tobytes(): one
        for one, values in reversed(read.items())
        if values.notna().all()
    }
    if different or not read:
        return Found(tuple(reversed(different.values())))
    shares = {
        one: cells.isin(texts[values.notna()]).mean() for one, values in read.items()
    }
    nearest = max(shares, key=lambda one: shares[one])
    return Found((), nearest if shares[nearest] > _MOST else None)


def to_numbers(texts: pd.Series) -> pd.Series:
    """Read numbers as programs write them, float64; NaN for other texts."""
    return pd.Series(pd.to_numeric(texts, errors="coerce"), dtype=np.float64)


def folded(text: str) -> str:
    """Write a text in small letters, with single blanks inside and none around it."""
    return " ".join(text.split()).casefold()


def _taken_apart(texts: pd.Series) -> pd.DataFrame:
    """Sign, body and unit of numbers, a column each; what is none is empty."""
    parts = texts.astype(object).str.extract(_NUMBER).astype(object).fillna("")
    return parts.assign(unit=parts["before"] + parts["after"].str.rstrip())


def _first_month(quarter: re.Match[str]) -> str:
    year, one, other, year_behind = quarter.groups()
    return f"{year or year_behind}-{3 * int(one or other) - 2:02}"
