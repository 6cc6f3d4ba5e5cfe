"""Numbers as people write them: separators, signs of currencies, per cent, units.

A convention is which characters group thousands and begin decimals. All conventions
that fit every cell of a column are possible; they differ only where a single separator
stands before exactly three digits (``24,200``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

_CURRENCY = r"US\$|CHF|EUR|USD|GBP|[$€£¥₹]"
_UNIT = r"[^\W\d_][^\d]{0,15}|[%‰°$€£¥₹\"][^\d]{0,15}"
_DECORATED = re.compile(
    rf"(?P<sign>[-+]?)\s*(?P<before>{_CURRENCY})?\s*(?P<again>[-+]?)"
    r"(?P<body>\d[\d.,' ]*|[.,]\d+)(?P<exponent>[eE][-+]?\d+)?"
    rf"\s*(?P<after>{_UNIT})?"
)
# Blanks, apostrophes and signs as text programs and other languages have them.
_SAME = str.maketrans("\u2019\u00a0\u2009\u202f\u2212", "'   -")
# The first that fits is taken where several say the same.
_CONVENTIONS = [("", "."), (",", "."), ("", ","), (".", ",")]
_CONVENTIONS += [(mark, decimal) for mark in "' " for decimal in ".,"]
# What multiplies: a number without it is of another size.
_MAGNITUDE = re.compile(rf"(k|K|m|M|B|T|bn|[mM]io|[mM]rd|[tT]sd)\.?\s*({_CURRENCY})?")
_SHARE = re.compile("[%‰].*")
# Of fewer different numbers with a unit ("2WD", "4WD") one cannot say that they are.
_FEWEST_WITH_UNIT = 3


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """How the numbers of a column are written.

    Attributes
    ----------
    thousands, decimal : str
        Between groups of three digits (empty: nothing), and before the decimals.
    before, after : str
        A currency and a unit that may stand beside a number; empty: none.
    bare : bool
        Whether numbers may stand without the unit after them.
    """

    thousands: str = ""
    decimal: str = "."
    before: str = ""
    after: str = ""
    bare: bool = True

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        """Texts as numbers, float64, shape (n_texts,); NaN where one is none."""
        if self.decimal == "." and self.bare:
            found = plain_numbers(texts)
        else:
            found = np.full(len(texts), np.nan)
        for place in np.flatnonzero(np.isnan(found)).tolist():
            parts = _parts(texts[place])
            if (
                parts is not None
                and parts.before in ("", self.before)
                and (parts.after == self.after or self._may_lack_unit(parts))
            ):
                value = _value(parts, self.thousands, self.decimal)
                found[place] = np.nan if value is None else value
        return found

    def _may_lack_unit(self, parts: _Parts) -> bool:
        return not parts.after and (self.bare or parts.is_zero)

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written as programs write them."""
        return self == NumberFormat()

    @property
    def unit(self) -> str:
        """The currency and the unit; empty if there is none."""
        return " ".join(filter(None, [self.before, self.after]))

    def sentence(self) -> str:
        """What a person is told of it."""
        marks = {" ": "blanks", ",": "commas", ".": "dots", "'": "apostrophes"}
        said = []
        if self.thousands:
            said.append(f"{marks[self.thousands]} between thousands")
        if self.decimal == ",":
            said.append("a decimal comma")
        said += [f"the unit {sign!r}" for sign in (self.before, self.after) if sign]
        return f"numbers{' with ' if said else ''}{' and '.join(said)}"


class Found(NamedTuple):
    """What numbers a column may hold.

    Attributes
    ----------
    n_numbers : int
        How many of the texts are numbers in some convention.
    first_bad : int or None
        The first text that is none.
    formats : tuple of NumberFormat
        Those that fit all texts; the first one of those that say the same.
    tells_decimal : bool
        Whether there are decimals whose mark is beyond doubt.
    mixed : tuple of int
        A text with a unit that scales (k, %), and one without; empty if there are not
        both.
    """

    n_numbers: int
    first_bad: int | None
    formats: tuple[NumberFormat, ...]
    tells_decimal: bool
    mixed: tuple[int, ...] = ()


def plain_numbers(texts: Sequence[str]) -> np.ndarray:
    """Numbers as programs write them, float64; NaN for other texts."""
    import pandas as pd

    series = pd.Series(texts, dtype=object)
    return np.array(pd.to_numeric(series, errors="coerce"), np.float64)


def find_numbers(
    texts: Sequence[str], thousands: str | None = None, decimal: str | None = None
) -> Found:
    """The formats in which all texts are numbers.

    Parameters
    ----------
    texts : sequence of str
        The different cells of a column, without missing ones.
    thousands, decimal : str, optional
        What the owner says; it chooses among formats that all fit.
    """
    found = _find_numbers(texts)
    agreeing = tuple(
        form
        for form in found.formats
        if thousands in (None, form.thousands) and decimal in (None, form.decimal)
    )
    return found._replace(formats=agreeing or found.formats)


def _find_numbers(texts: Sequence[str]) -> Found:
    plain = ~np.isnan(plain_numbers(texts))
    if plain.all():
        formats = [NumberFormat()]
        dotted = [text for text in texts if "." in text]
        grouped = all(re.fullmatch(r"[-+]?\d{1,3}(\.\d{3})+", text) for text in dotted)
        if dotted and grouped:
            formats.append(NumberFormat(thousands=".", decimal=","))
        return Found(len(texts), None, tuple(formats), bool(dotted) and not grouped)
    parts = [_parts(text) for text in texts]
    is_number = np.array([part is not None for part in parts], bool) | plain
    first_bad = None if is_number.all() else int(np.argmin(is_number))
    n_numbers = int(is_number.sum())
    if first_bad is not None:
        return Found(n_numbers, first_bad, (), False)
    known = [part for part in parts if part is not None]
    before = {part.before for part in known} - {""}
    after = {part.after for part in known} - {""}
    if len(before) > 1 or len(after) > 1:
        return Found(0, 0, (), False)
    bare = [not (part.after or part.is_zero) for part in known]
    unit = "".join(after)
    magnitude = bool(_MAGNITUDE.fullmatch(unit))
    scales = magnitude or bool(_SHARE.fullmatch(unit))
    several = len({part.body for part in known if part.after}) >= _FEWEST_WITH_UNIT
    mixed: tuple[int, ...] = ()
    if scales and any(bare) and (several or not magnitude):
        mixed = [bool(part.after) for part in known].index(True), bare.index(True)
    if magnitude and any(bare):
        return Found(0, 0, (), False, mixed)
    word = after and not before and after.isdisjoint("%‰$€£¥₹")
    if word and len({part.body for part in known}) < _FEWEST_WITH_UNIT:
        return Found(0, 0, (), False)
    base = NumberFormat(
        before="".join(before), after=unit, bare=not scales or bool(mixed)
    )
    formats, seen = [], []
    for mark, point in _CONVENTIONS:
        values = [_value(part, mark, point) for part in known]
        if None not in values and values not in seen:
            seen.append(values)
            formats.append(replace(base, thousands=mark, decimal=point))
    if not formats:
        return Found(0, 0, (), False)
    only = formats[0]
    tells = len(formats) == 1 and any(only.decimal in part.body for part in known)
    return Found(n_numbers, None, tuple(formats), tells, mixed)


class _Parts(NamedTuple):
    sign: float
    before: str
    body: str
    exponent: str
    after: str

    @property
    def is_zero(self) -> bool:
        """Whether it is nothing on every scale."""
        return not re.search("[1-9]", self.body)


def _parts(text: str) -> _Parts | None:
    """A text as a decorated number, None if it is none."""
    match = _DECORATED.fullmatch(text.translate(_SAME))
    if match is None or (match["sign"] and match["again"]):
        return None
    negative = (match["sign"] or match["again"]) == "-"
    return _Parts(
        -1.0 if negative else 1.0,
        match["before"] or "",
        match["body"].rstrip(),
        match["exponent"] or "",
        (match["after"] or "").strip(),
    )


def _value(parts: _Parts, thousands: str, decimal: str) -> float | None:
    """A number in a convention, None if it is not written so."""
    whole, _, rest = parts.body.partition(decimal)
    if thousands and thousands in whole:
        if not re.fullmatch(rf"\d{{1,3}}({re.escape(thousands)}\d{{3}})+", whole):
            return None
        whole = whole.replace(thousands, "")
    digits = whole + rest
    if not (digits.isascii() and digits.isdigit()):
        return None
    return parts.sign * float(f"{whole or '0'}.{rest or '0'}{parts.exponent}")
