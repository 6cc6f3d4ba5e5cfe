"""Formats of cells: numbers, dates, times of day, truth values and categories as text.

`find_numbers`, `find_dates` and `find_times` find the formats that fit a column, and
`ColumnFormat.parse` reads texts by one of them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

ISO = "ISO8601"
_SIGN = r"[%‰$€£¥₹]|US\$|CHF|EUR|USD|GBP|Rs\.?"
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e3, "Tsd": 1e3, "Mio": 1e6}
_SCALES |= {"Mrd": 1e9, "Mn": 1e6, "mn": 1e6, "bn": 1e9, "lakh": 1e5, "crore": 1e7}
_SCALES |= {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_WORDS = "|".join(word for word in _SCALES if len(word) > 1)
_NUMBER = (
    rf"\A(?P<sign>[-+]?)\s*(?:(?P<before>{_SIGN})\s*)?"
    r"(?P<body>[-+]?(?:\d(?:[\d.,' ]*[\d.,'])?|[.,]\d+)(?:[eE][-+]?\d+)?)"
    rf"(?P<scale>[kKMB](?![^\W\d_]|/)|\s*[kKMT](?=(?:{_SIGN})\Z)|\s*(?:{_WORDS})\b)?"
    rf"\.?\s*(?P<after>(?:{_SIGN}|[^\W\d_]|[°\"/+])\D{{0,15}})?\Z"
)
# Blanks, apostrophes and signs as text programs and other languages have them.
_SAME = str.maketrans(
    "\u2019\u00b4\u00a0\u2009\u202f\u2212\u2013\u2032\u2033", "''   --'\""
)
_ANGLE = (
    r"\A([-+]?)(\d+)°\s*(\d+(?:\.\d+)?)'\s*(?:(\d+(?:\.\d+)?)(?:\"|''))?\s*([NSEW]?)\Z"
)
# Other ways of writing a sign: of accountants, and of degrees to the south or west.
_SIGNS = {
    r"\A\(([^()+-]*\d[^()+-]*)\)\Z": r"-\1",
    r"\A(\D*)\(([^()+-]*\d[^()+-]*)\)\Z": r"-\1\2",
    r"\A([^\d+-]*\d[\d.,' ]*)-(\D*)\Z": r"-\1\2",
    r"\A(\d[\d.,]*)\s*°\s*[NE]\Z": r"\1°",
    r"\A(\d[\d.,]*)\s*°\s*[SW]\Z": r"-\1°",
}
# Letters of both hemispheres, without the sign of degrees; the latter is negative.
_HEMISPHERES = "N/S", "E/W"
_CLOCK = r"\A(\d+):(\d\d)(?::(\d\d(?:[.,]\d+)?))?(?:\s*([AaPp])\.?[Mm]\.?)?\Z"
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
_QUARTER = r"\A(?:(\d{4})[- ]?Q([1-4])|Q([1-4])[- /]?(\d{4}))\Z"
_ISO_DAY = r"\d{4}-\d{2}-\d{2}(?:[T ].*)?"
_TRIED = 10  # texts that show which formats may be those of all
_MOST = 0.5  # a column of which more is of one kind is meant to be of it
# A column of numbers in several units: so many cells are such, with so many different
# numbers, and each unit has such a share.
_NEARLY_ALL, _MANY_NUMBERS, _COMMON = 0.9, 20, 0.05


@dataclass(frozen=True, kw_only=True)
class ColumnFormat:
    """How the cells of a column are written: what is said of them, and what reads them.

    Numbers have ``thousands`` between groups of digits, ``decimal`` before the
    decimals, and a ``unit`` before or after them, which zero alone may lack; the unit
    ":" stands for hours and minutes, or minutes and seconds, of which the first ones
    are counted. A factor such as k or M is part of the number. Dates have a ``form`` as
    `time.strptime` knows it, or are written as ISO 8601 says; quarters are their first
    months. Of ``verbatim`` text only an empty cell is missing; in ``folded`` text case
    and blanks mean nothing.
    """

    kind: Literal["number", "date", "time", "truth", "text"] = "number"
    thousands: str = ""
    decimal: str = "."
    unit: str = ""
    form: str = ISO
    verbatim: bool = False
    folded: bool = False

    def parse(self, texts: pd.Series) -> pd.Series:
        """Read texts as float64, dates, times, bool or text; missing where it cannot.

        Dates are datetime64[s], times objects of `datetime.time`.
        """
        if self.kind == "date":
            return self._dates(texts)
        if self.kind == "time":
            return _hours(texts).map(_time_of_day).astype(object)
        if self.kind == "truth":
            return texts.str.casefold().map({"true": True, "false": False})
        if self.kind == "text":
            return texts.map(folded) if self.folded else texts
        return _hours(texts) if self.unit == ":" else self._numbers(texts)

    def _dates(self, texts: pd.Series) -> pd.Series:
        texts = texts.str.replace(
            _QUARTER,
            lambda q: f"{q[1] or q[4]}-{3 * int(q[2] or q[3]) - 2:02}",
            regex=True,
        )
        dates = pd.to_datetime(texts, format=self.form, errors="coerce", utc=True)
        return dates.dt.tz_localize(None).astype("datetime64[s]")

    def _numbers(self, texts: pd.Series) -> pd.Series:
        if self == ColumnFormat():
            plain = to_numbers(texts.str.translate(_SAME)).where(np.isfinite)
            if plain.notna().all():
                return plain
        parts = _parts_of(texts)
        mark, point = re.escape(self.thousands), re.escape(self.decimal)
        grouped = rf"\d{{1,3}}(?:{mark}\d{{3}})+|" if mark else ""
        grouped += r"\d{1,2}(?:,\d\d)+,\d{3}|" * (mark == ",")  # as in India
        written = rf"[-+]?(?:{grouped}\d*)(?:{point}\d*)?(?:[eE][-+]?\d+)?"
        body = parts["body"].where(parts["body"].str.fullmatch(written))
        body = body.str.replace(self.thousands, "", regex=False) if mark else body
        body = body.str.replace(self.decimal, ".", regex=False)
        values = to_numbers(parts["sign"] + body) * parts["factor"]
        fits = (parts["unit"] == self.unit) | (values == 0)
        if self.unit in _HEMISPHERES:
            fits |= parts["unit"].isin([*self.unit[::2]])
            values = values.where(parts["unit"] != self.unit[-1], -values)
        return values.where(np.isfinite(values) & fits)

    def sentence(self) -> str:
        """Describe the format."""
        if self.kind == "date":
            how = "ISO 8601" if self.form == ISO else self.form
            return f"dates ({how}): year, month, weekday and days"
        if self.unit == ":":
            return "numbers of hours (or minutes) before the colon"
        marks = {" ": "blanks", ",": "commas", ".": "dots", "'": "apostrophes"}
        words = [f"{marks[self.thousands]} between thousands"] if self.thousands else []
        words += ["a decimal comma"] if self.decimal == "," else []
        words += [f"the unit {self.unit!r}"] if self.unit else []
        numbers = f"numbers{' with ' if words else ''}{' and '.join(words)}"
        words = {"truth": "true or false", "text": "categories"}
        words["time"] = "times of day: minutes since midnight"
        return words.get(self.kind, numbers)


class Found(NamedTuple):
    """Formats that all cells fit, without those that say the same; or the nearest."""

    formats: tuple[ColumnFormat, ...] = ()
    nearest: ColumnFormat | None = None  # which most cells fit, if any is


def find_numbers(cells: pd.Series) -> Found:
    """Find the formats in which all cells, without missing ones, are numbers."""
    texts = pd.Series(cells.unique(), dtype=object)
    if to_numbers(texts).notna().all():  # without dots that may group digits
        dotted = texts[texts.str.contains(".", regex=False)]
        if dotted.empty or not all(dotted.str.fullmatch(r"[-+]?\d{1,3}(\.\d{3})+")):
            return Found((ColumnFormat(),))
    if not _have_digits(texts):
        return Found()
    parts = _parts_of(texts)
    parts = parts[(parts["unit"] != "") | (parts["factor"] != 1)]
    units = parts["unit"].unique().tolist()
    alike = len({*parts["body"]}) < _FEWEST_WITH_UNIT
    if alike and not all(re.fullmatch(_SIGN, one) for one in units):
        return Found()
    for pair in _HEMISPHERES:
        units = [pair] if {*units} == {*pair[::2]} else units
    units = [unit for unit in units if unit] or [""]
    ways = product(units, _CONVENTIONS)
    return _fitting(
        cells, [ColumnFormat(unit=u, thousands=t, decimal=d) for u, (t, d) in ways]
    )


def find_dates(cells: pd.Series) -> Found:
    """Find the formats of dates of all cells: two where day and month may be either.

    Seasons such as 2009-10 are no months.
    """
    if not _have_digits(cells):
        return Found()
    seasons = cells.str.extract(r"\A(?:19|20)(\d\d)[-/](\d\d)\Z").astype(float)
    if ((seasons[0] + 1) % 100 == seasons[1]).all() and seasons[0].nunique() > 1:
        return Found()
    return _fitting(cells, [ColumnFormat(kind="date", form=form) for form in _FORMS])


def find_times(cells: pd.Series) -> Found:
    """Find whether all cells are times of day, or else hours and minutes."""
    times = _fitting(cells, [ColumnFormat(kind="time")])
    return times if times.formats else _fitting(cells, [ColumnFormat(unit=":")])


def with_iso_days(values: pd.Series, texts: pd.Series) -> pd.Series:
    """Read dates that no other form reads as ISO 8601 has them: they are plain."""
    unread = texts[values.isna() & texts.str.fullmatch(_ISO_DAY)]
    return values.fillna(ColumnFormat(kind="date").parse(unread))


def mixed_units(cells: pd.Series, numbers: Found) -> dict[str, str]:
    """Find the units of a column that is meant as numbers, each with a cell as example.

    Empty where cells are other text, or their numbers are few and so are categories;
    a single unit means digits in groups that are not read.
    """
    parts = _parts_of(cells)
    rows = [
        (unit, body, cell)
        for unit, body, cell in zip(parts["unit"], parts["body"], cells, strict=True)
        if body
    ]
    count = Counter(unit for unit, _, _ in rows)
    common = [u for u, n in count.most_common() if n >= _COMMON * len(cells)]
    is_nearly_all = sum(count[u] for u in common) >= _NEARLY_ALL * len(cells)
    n_expected = 0 if numbers.nearest is None else 1
    if numbers.formats or not is_nearly_all or len(common) == n_expected:
        return {}
    if len({body for _, body, _ in rows}) <= _MANY_NUMBERS:
        return {}
    return {u: next(cell for unit, _, cell in rows if unit == u) for u in common}


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


def _have_digits(texts: pd.Series) -> bool:
    return bool(texts.str.contains(r"\d", regex=True).any())


def _parts_of(texts: pd.Series) -> pd.DataFrame:
    """Sign, body, factor and unit of numbers, a column each; what is none is empty."""
    texts = texts.str.translate(_SAME)
    odd = texts[texts.str.contains(r"[(°]|\d-", regex=True)]
    odd = odd.str.replace(_ANGLE, _degrees, regex=True)
    for pattern, plain in _SIGNS.items():
        odd = odd.str.replace(pattern, plain, regex=True)
    texts = pd.concat([texts.drop(odd.index), odd]).reindex(texts.index)
    parts = texts.astype(object).str.extract(_NUMBER).astype(object).fillna("")
    scale, after = parts["scale"].str.strip(), parts["after"].str.rstrip()
    # Without a currency B is rather a part of a name, as in "12B".
    is_name = (scale == "B") & (parts["before"] == "")
    after, scale = after.mask(is_name, "B" + after), scale.mask(is_name, "")
    factor = scale.map(_SCALES).fillna(1.0).astype(float)
    return parts.assign(unit=parts["before"] + after, factor=factor)


def _degrees(angle: re.Match) -> str:
    sign, degrees, minutes, seconds, side = angle.groups()
    size = int(degrees) + float(minutes) / 60 + float(seconds or 0) / 3600
    return (
        f"{'-' if (sign == '-') != (side in ('S', 'W') and side) else ''}{size:.10f}°"
    )


def _hours(texts: pd.Series) -> pd.Series:
    """Read hours, minutes and seconds as hours (minutes and seconds as minutes)."""
    parts = texts.str.extract(_CLOCK)
    half = parts[3].str.lower()
    first, minutes = parts[0].astype(float), parts[1].astype(float)
    seconds = parts[2].str.replace(",", ".").astype(float).fillna(0.0)
    first = first.mask(half.notna(), first % 12 + 12 * (half == "p"))
    return (first + minutes / 60 + seconds / 3600).where(
        (minutes < 60) & (seconds < 60)
    )


def _time_of_day(hours: float) -> object:
    if not 0 <= hours < 24:
        return None
    return (datetime.min + timedelta(seconds=round(3600 * hours))).time()
