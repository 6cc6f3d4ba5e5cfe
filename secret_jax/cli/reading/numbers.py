"""Numbers as people write them: separators, signs of currencies, per cent, units.

A convention is which characters group thousands and begin decimals. All conventions
that fit every cell of a column are possible; they differ only where a single separator
stands before exactly three digits (``24,200``).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

_CURRENCY = r"US\$|CHF|EUR|USD|GBP|[$€£¥₹]"
_UNIT = r"[^\W\d_][^\d]{0,15}|[%‰°$€£¥₹\"][^\d]{0,15}"
_DECORATED = (
    rf"\A(?P<sign>[-+]?)\s*(?:(?P<before>{_CURRENCY})\s*)?(?P<inner_sign>[-+]?)"
    r"(?P<body>[0-9](?:[0-9.,' ]*[0-9.,'])?|[.,][0-9]+)(?P<exponent>[eE][-+]?[0-9]+)?"
    rf"\s*(?P<after>{_UNIT})?\Z"
)
# Blanks, apostrophes and signs as text programs and other languages have them.
_SAME = str.maketrans("\u2019\u00a0\u2009\u202f\u2212", "'   -")
# The first that fits is taken where several say the same.
_CONVENTIONS = [("", "."), (",", "."), ("", ","), (".", ",")]
_CONVENTIONS += [(mark, decimal) for mark in "' " for decimal in ".,"]
# What multiplies: a number without it is of another size.
_MAGNITUDE = re.compile(rf"(k|K|m|M|B|T|bn|[mM]io|[mM]rd|[tT]sd)\.?\s*({_CURRENCY})?")
_SIGNS = ["%", "‰", "$", "€", "£", "¥", "₹"]
# Of fewer different numbers with a unit ("2WD", "4WD") one cannot say that they are.
_FEWEST_WITH_UNIT = 3


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """How the numbers of a column are written.

    ``thousands`` stands between groups of three digits (empty: nothing), ``decimal``
    before the decimals, a currency may stand ``before`` a number and a unit ``after``
    it; ``bare`` numbers may stand without that.
    """

    thousands: str = ""
    decimal: str = "."
    before: str = ""
    after: str = ""
    bare: bool = True

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        """Read texts as numbers, float64, shape (n_texts,); NaN where one is none."""
        values = np.full(len(texts), np.nan)
        if self.decimal == "." and self.bare:
            values = plain_numbers(texts)
        left = np.flatnonzero(np.isnan(values)).tolist()
        parts = _taken_apart([texts[place] for place in left])
        lacks_unit = (parts["after"] == "") & (self.bare | _is_zero(parts))
        fits = parts["before"].isin(["", self.before])
        fits &= (parts["after"] == self.after) | lacks_unit
        values[left] = np.where(
            fits, _values(parts, self.thousands, self.decimal), np.nan
        )
        return values

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written as programs write them."""
        return self == NumberFormat()

    @property
    def unit(self) -> str:
        """The currency and the unit; empty if there is none."""
        return " ".join(filter(None, [self.before, self.after]))

    def sentence(self) -> str:
        """Describe the format."""
        marks = {" ": "blanks", ",": "commas", ".": "dots", "'": "apostrophes"}
        words = []
        if self.thousands:
            words.append(f"{marks[self.thousands]} between thousands")
        if self.decimal == ",":
            words.append("a decimal comma")
        words += [f"the unit {sign!r}" for sign in (self.before, self.after) if sign]
        return f"numbers{' with ' if words else ''}{' and '.join(words)}"


class FoundNumbers(NamedTuple):
    """Formats that fit all texts, the first one of those that say the same.

    Also how many texts are numbers in some convention, the first that is none, whether
    there are decimals whose mark is beyond doubt, and, if there are both, a text with a
    unit that scales (k, %) and one without.
    """

    formats: tuple[NumberFormat, ...] = ()
    n_numbers: int = 0
    first_bad: int | None = 0
    tells_decimal: bool = False
    mixed: tuple[int, ...] = ()


def plain_numbers(texts: Sequence[str]) -> np.ndarray:
    """Read numbers as programs write them, float64; NaN for other texts."""
    series = pd.Series(texts, dtype=object)
    return np.array(pd.to_numeric(series, errors="coerce"), np.float64)


def find_numbers(
    texts: Sequence[str], thousands: str | None = None, decimal: str | None = None
) -> FoundNumbers:
    """Find the formats in which all texts, without missing ones, are numbers.

    What the owner says of thousands and decimals chooses among those that all fit.
    """
    found = _find_numbers(texts)
    agreeing = tuple(
        form
        for form in found.formats
        if thousands in (None, form.thousands) and decimal in (None, form.decimal)
    )
    return found._replace(formats=agreeing or found.formats)


def _find_numbers(texts: Sequence[str]) -> FoundNumbers:
    plain = ~np.isnan(plain_numbers(texts))
    if plain.all():
        formats = [NumberFormat()]
        dotted = [text for text in texts if "." in text]
        grouped = all(re.fullmatch(r"[-+]?\d{1,3}(\.\d{3})+", text) for text in dotted)
        if dotted and grouped:
            formats.append(NumberFormat(thousands=".", decimal=","))
        tells = bool(dotted) and not grouped
        return FoundNumbers(tuple(formats), len(texts), None, tells)
    parts = _taken_apart(texts)
    is_number = plain | parts["body"].ne("").to_numpy()
    n_numbers = int(is_number.sum())
    if n_numbers < len(texts):
        return FoundNumbers((), n_numbers, int(np.argmin(is_number)))
    parts = parts[parts["body"] != ""]
    has_unit = parts["after"] != ""
    units, before = (set(parts[one]) - {""} for one in ("after", "before"))
    if len(before) > 1 or len(units) > 1:
        return FoundNumbers()
    unit = "".join(units)
    bare = ~(has_unit | _is_zero(parts))
    magnitude = bool(_MAGNITUDE.fullmatch(unit))
    scales = magnitude or unit.startswith(("%", "‰"))
    several = parts["body"][has_unit].nunique() >= _FEWEST_WITH_UNIT
    mixed: tuple[int, ...] = ()
    if scales and bare.any() and (several or not magnitude):
        mixed = int(np.argmax(has_unit)), int(np.argmax(bare))
    if magnitude and bare.any():
        return FoundNumbers(mixed=mixed)
    is_word = bool(unit) and not before and unit not in _SIGNS
    if is_word and parts["body"].nunique() < _FEWEST_WITH_UNIT:
        return FoundNumbers()
    base = NumberFormat(
        before="".join(before), after=unit, bare=not scales or bool(mixed)
    )
    found: dict[bytes, NumberFormat] = {}
    for mark, point in _CONVENTIONS:
        values = _values(parts, mark, point)
        if not np.isnan(values).any():
            chosen = replace(base, thousands=mark, decimal=point)
            found.setdefault(values.tobytes(), chosen)
    if not found:
        return FoundNumbers()
    formats = tuple(found.values())
    tells = len(formats) == 1 and any(formats[0].decimal in b for b in parts["body"])
    return FoundNumbers(formats, n_numbers, None, tells, mixed)


def are_numbers(texts: Sequence[str]) -> np.ndarray:
    """Tell which texts are numbers in some convention, bool.

    A word may stand behind them if it is the same one, as a unit is: "1Fam" and
    "2fmCon" are names.
    """
    parts = _taken_apart(texts)
    values = [_values(parts, mark, decimal) for mark, decimal in _CONVENTIONS]
    wordless = parts["after"].isin(["", *_SIGNS]) | (parts["before"] != "")
    worded = parts[~wordless]
    one_unit = worded["after"].nunique() == 1
    if one_unit and worded["body"].nunique() >= _FEWEST_WITH_UNIT:
        wordless[:] = True
    written = ~np.isnan(values).all(axis=0) & wordless.to_numpy()
    return ~np.isnan(plain_numbers(texts)) | written


def _taken_apart(texts: Sequence[str]) -> Any:
    """Take decorated numbers apart, a column each; no text has an empty body."""
    parts = pd.Series(texts, dtype=object).str.translate(_SAME).str.extract(_DECORATED)
    parts = parts.astype(object).fillna("")
    parts["body"] = parts["body"].str.rstrip()
    parts["after"] = parts["after"].str.strip()
    parts.loc[(parts["sign"] != "") & (parts["inner_sign"] != ""), "body"] = ""
    return parts


def _is_zero(parts: Any) -> Any:
    """Tell which numbers are nothing on every scale, bool."""
    return ~parts["body"].str.contains("[1-9]")


def _values(parts: Any, thousands: str, decimal: str) -> np.ndarray:
    """Values of numbers in a convention, NaN where one is not written so."""
    mark = re.escape(thousands)
    grouped = rf"[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+|" if thousands else ""
    written = rf"\A(?=.*[0-9])({grouped}[0-9]*)(?:{re.escape(decimal)}([0-9]*))?\Z"
    digits = parts["body"].str.extract(written).astype(object)
    fits = digits[0].notna()
    whole = digits[0].fillna("").str.replace(thousands or " ", "", regex=False)
    text = whole + "." + digits[1].fillna("") + parts["exponent"]
    negative = (parts["sign"] + parts["inner_sign"]) == "-"
    return text.where(fits, "nan").to_numpy(np.float64) * np.where(negative, -1.0, 1.0)
