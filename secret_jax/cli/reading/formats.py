"""How the cells of a column are written, and the formats that all of them fit."""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

ISO, QUARTER = "ISO8601", "quarter"
_CURRENCY = r"US\$|CHF|EUR|USD|GBP|[$€£¥₹]"
_DECORATED = (
    rf"\A(?P<sign>[-+]?)\s*(?:(?P<before>{_CURRENCY})\s*)?"
    r"(?P<body>[-+]?(?:\d(?:[\d.,' ]*[\d.,'])?|[.,]\d+)(?:[eE][-+]?\d+)?)"
    r"\s*(?P<after>(?:[^\W\d_]|[%‰°$€£¥₹\"])\D{0,15})?\Z"
)
# Blanks, apostrophes and signs as text programs and other languages have them.
_SAME = str.maketrans("\u2019\u00a0\u2009\u202f\u2212", "'   -")
# What groups digits and what begins decimals; of those that say the same the first.
_CONVENTIONS = [("", "."), (",", "."), ("", ","), (".", ","), *product("' ", ".,")]
# Units that multiply: a number without one is of another size.
_SCALE = re.compile(
    rf"[%‰].*|(k|K|m|M|B|T|bn|[mM]io|[mM]rd|[tT]sd)\.?\s*({_CURRENCY})?"
)
_SIGNS = ("", *"%‰$€£¥₹")
# Of fewer different numbers with a unit ("2WD", "4WD") one cannot say that they are.
_FEWEST_WITH_UNIT = 3
_MOST = 0.5  # a column of which more is of one kind is meant to be of it
_DAYS = [f"%d{mark}%m{mark}%{year}" for mark, year in product("/.-", "Yy")]
_DAYS += [f"%m{mark}%d{mark}%{year}" for mark, year in product("/-", "Yy")]
_DAYS += ["%Y-%m-%d", "%Y/%m/%d", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y"]
_DAYS += ["%b %d, %Y", "%B %d, %Y"]
_CLOCKS = ["", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M%p"]
_CLOCKS += [" %I:%M:%S %p", " %I:%M:%S%p"]
_MONTHS = [f"%{month}{mark}%Y" for month, mark in product("bB", "- ")]
_MONTHS += ["%b-%y", "%b %y", "%m/%Y", "%YM%m"]
_FORMS = [*_MONTHS, *map("".join, product(_DAYS, _CLOCKS))]
# Forms that are known without trying, and what a text of them looks like.
_SHAPES = {
    "%Y%m%d": re.compile(r"(?:19|20)\d{6}"),
    ISO: re.compile(r"\d{4}-\d\d(?:-\d\d(?:[T ]\d\d:\d\d[^mM]*)?)?"),
    QUARTER: re.compile(
        r"(?P<y>\d{4})[- ]?Q(?P<q>[1-4])|Q(?P<r>[1-4])[- /]?(?P<z>\d{4})"
    ),
}
_TRIED = 10  # texts of which one shows how dates are written


@dataclass(frozen=True, kw_only=True)
class ColumnFormat:
    """How the cells of a column are written.

    Numbers have ``thousands`` between groups of three digits, ``decimal`` before the
    decimals, a currency ``before`` and a unit ``after`` them, which ``bare`` ones lack.
    Dates have a ``form`` as `time.strptime` knows it. Of ``verbatim`` text only an
    empty cell is missing; in ``folded`` text case and blanks mean nothing.
    """

    kind: Literal["number", "date", "truth", "text"] = "number"
    thousands: str = ""
    decimal: str = "."
    before: str = ""
    after: str = ""
    bare: bool = True
    form: str = ISO
    verbatim: bool = False
    folded: bool = False

    def parse(self, texts: pd.Series) -> pd.Series:
        """Read texts as float64, datetime64, bool or text; missing where it cannot."""
        if self.kind == "number":
            return self._numbers(texts).where(np.isfinite)
        if self.kind == "date":
            return self._dates(texts)
        if self.kind == "truth":
            return texts.str.casefold().map({"true": True, "false": False})
        return texts.map(folded) if self.folded else texts

    def _numbers(self, texts: pd.Series) -> pd.Series:
        if self == ColumnFormat():
            values = to_numbers(texts)
            return values.fillna(to_numbers(texts[values.isna()].str.translate(_SAME)))
        parts = _taken_apart(texts)
        fits = (parts["after"] == self.after) | _lacks_unit(parts, self.bare)
        fits &= parts["before"].isin(["", self.before])
        return _values(parts, self.thousands, self.decimal).where(fits)

    def _dates(self, texts: pd.Series) -> pd.Series:
        form = self.form
        if form == QUARTER:
            parts = texts.str.extract(_SHAPES[QUARTER])
            month = 3 * to_numbers(parts["q"].fillna(parts["r"])) - 2
            texts = parts["y"].fillna(parts["z"]) + month.map("-{:02.0f}".format)
            form = ISO
        dates = pd.to_datetime(texts, format=form, errors="coerce", utc=True)
        return dates.dt.tz_localize(None).astype("datetime64[s]")

    def sentence(self) -> str:
        """Describe the format."""
        if self.kind == "date":
            how = "year-month-day" if self.form == ISO else self.form
            return f"dates ({how}): year, month, weekday and days"
        marks = {" ": "blanks", ",": "commas", ".": "dots", "'": "apostrophes"}
        words = [f"{marks[self.thousands]} between thousands"] if self.thousands else []
        words += ["a decimal comma"] if self.decimal == "," else []
        words += [f"the unit {sign!r}" for sign in (self.before, self.after) if sign]
        numbers = f"numbers{' with ' if words else ''}{' and '.join(words)}"
        return {"truth": "true or false", "text": "categories"}.get(self.kind, numbers)


class Found(NamedTuple):
    """Formats that all cells fit, one of those that say the same.

    Where most cells fit one, ``bad`` is the first text that does not, and ``why`` says
    what the others are.
    """

    formats: tuple[ColumnFormat, ...] = ()
    bad: str = ""
    why: str = ""


def find_numbers(cells: pd.Series) -> Found:
    """Find the formats in which all cells, without missing ones, are numbers."""
    texts = pd.Series(cells.unique(), dtype=object)
    if to_numbers(texts).notna().all():
        dotted = texts[texts.str.contains(".", regex=False)]
        grouped = re.compile(r"[-+]?\d{1,3}(\.\d{3})+").fullmatch
        if dotted.empty or not all(map(grouped, dotted)):
            return Found((ColumnFormat(),))
        return Found((ColumnFormat(), ColumnFormat(thousands=".", decimal=",")))
    parts = _taken_apart(texts)
    if (parts["body"] == "").all():
        return Found()
    units, before = ({*parts[one]} - {""} for one in ("after", "before"))
    unit, sign = "".join(units), "".join(before)
    with_unit = parts["after"] != ""
    few = parts["body"][with_unit].nunique() < _FEWEST_WITH_UNIT
    if len(units) > 1 or len(before) > 1 or (few and not sign and unit not in _SIGNS):
        return Found()
    scales = _SCALE.fullmatch(unit) is not None
    other = parts["body"].ne("") & ~with_unit & ~_lacks_unit(parts, False)
    if scales and other.any():
        why = f"others have the unit {unit!r}: it may be of another scale"
        return Found((), texts[other.idxmax()], why)
    base = ColumnFormat(before=sign, after=unit, bare=not scales)
    read = {way: _values(parts, *way) for way in _CONVENTIONS}
    return _fitting(
        cells,
        texts,
        {replace(base, thousands=t, decimal=d): one for (t, d), one in read.items()},
        "numbers",
    )


def find_dates(cells: pd.Series) -> Found:
    """Find the formats in which all cells are dates: two where day and month may be
    exchanged.
    """
    texts = pd.Series(cells.unique(), dtype=object)
    forms = dict.fromkeys(form for text in texts[:_TRIED] for form in _forms(text))
    formats = [ColumnFormat(kind="date", form=form) for form in forms]
    return _fitting(cells, texts, {one: one.parse(texts) for one in formats}, "dates")


def _fitting(
    cells: pd.Series, texts: pd.Series, read: dict[ColumnFormat, pd.Series], what: str
) -> Found:
    """Keep formats that read all texts, or tell of the first that the best does not."""
    different = {
        values.to_numpy().tobytes(): one
        for one, values in reversed(read.items())
        if values.notna().all()
    }
    if different or not read:
        return Found(tuple(reversed(different.values())))
    known = max((values.notna() for values in read.values()), key=lambda one: one.sum())
    if cells.isin(texts[known]).mean() <= _MOST:
        return Found()
    return Found((), texts[~known].iloc[0], f"most of its values are {what}")


def to_numbers(texts: pd.Series) -> pd.Series:
    """Read numbers as programs write them, float64; NaN for other texts."""
    return pd.Series(pd.to_numeric(texts, errors="coerce"), dtype=np.float64)


def folded(text: str) -> str:
    """Write a text in small letters, with single blanks inside and none around it."""
    return " ".join(text.split()).casefold()


def _forms(text: str) -> list[str]:
    """Forms of dates that a text has."""
    for form, shape in _SHAPES.items():
        if shape.fullmatch(text):
            return [form]
    return [form for form in _FORMS if _is_of(text, form)]


def _is_of(text: str, form: str) -> bool:
    try:
        return bool(datetime.strptime(text, form))
    except ValueError:
        return False


def _taken_apart(texts: pd.Series) -> Any:
    """Take decorated numbers apart, a column each; what is none is empty."""
    parts = texts.astype(object).str.translate(_SAME).str.extract(_DECORATED)
    return parts.astype(object).fillna("").map(str.rstrip)


def _lacks_unit(parts: Any, bare: bool) -> Any:
    """Tell where no unit is needed: zero is nothing on every scale."""
    return (parts["after"] == "") & (bare | ~parts["body"].str.contains("[1-9]"))


def _values(parts: Any, thousands: str, decimal: str) -> pd.Series:
    """Values of numbers in a convention, NaN where one is not written so."""
    grouped = rf"\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+|" if thousands else ""
    written = rf"[-+]?(?:{grouped}\d*)(?:{re.escape(decimal)}\d*)?(?:[eE][-+]?\d+)?"
    body = parts["body"].where(parts["body"].str.fullmatch(written))
    body = body.str.replace(thousands, "", regex=False) if thousands else body
    text = parts["sign"] + body.str.replace(decimal, ".", regex=False)
    return to_numbers(text)
