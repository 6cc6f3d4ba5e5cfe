"""Warn of text columns that look like numbers or dates, which are categories here."""

import re

import numpy as np

from secret_jax.data.columns import is_missing
from secret_jax.runtime.warning import warn

# Fewer different texts may well be names ("4WD", "1990"), and so may a column of which
# a larger share is of no such kind.
_FEWEST, _SHARE = 20, 0.95
_LOOKED_AT = 2048  # different texts
_CURRENCY = r"(?:US\$|CHF|EUR|USD|GBP|[$€£¥₹])"
_GROUPED = r"\d{1,3}(?:(?P<mark>[,.' \u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*"
# What stands behind a number without a blank may be a part of a name ("12A").
_WORDS = r"(?:[^\W\d_][^\s\d]{0,15}|[a-z]+(?: [a-z]+)+)"  # "years old", no street
_UNIT = rf"(?:[%‰]|{_CURRENCY}|(?<= ){_WORDS})"
_NUMBER = re.compile(
    rf"[-+\u2212]?\s?{_CURRENCY}?\s?[-+\u2212]?"
    rf"(?:{_GROUPED}(?:(?!(?P=mark))[.,]\d+)?|\d+(?:[.,]\d+)?|[.,]\d+)(?:[eE][-+]?\d+)?"
    rf"\s?(?P<unit>{_UNIT}?)"
)
# Numbers that pandas reads as they are.
_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_WITH_POINT = re.compile(r"[-+]?(\d{3,})(?:\.(\d+))?")
# What stands before and between the digits of codes.
_BETWEEN = re.compile(r"^[-+\u2212]|[ \u00a0\u202f]|\.(?=\d{3}\.)|(?<=\.\d{3})\.")
_MONTH = r"(?:0?[1-9]|1[0-2])"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?:19|20)\d\d"
_CLOCK = (
    r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s?(?:[AaPp][Mm]|Z|[-+]\d{2}:?\d{2})?)?"
)
_DATE = re.compile(
    rf"(?:{_YEAR}([-/]){_MONTH}\1{_DAY}|(?:{_DAY}([-/.]){_MONTH}|{_MONTH}([-/.]){_DAY})"
    rf"(?:\2|\3){_YEAR}|{_DAY}[- ][^\W\d_]{{3,9}}[- ]{_YEAR}"
    rf"|[^\W\d_]{{3,9}} {_DAY}, {_YEAR}){_CLOCK}"
)


def warn_of_written(column: np.ndarray, name: str, given: str) -> None:
    """Warn if a column of texts holds many numbers or dates and hardly anything else.

    Codes are none, see `_are_codes`. ``given``: how the column is got from X in Python.
    """
    different = {v for v in column.tolist() if isinstance(v, str) and not is_missing(v)}
    texts = sorted(text.strip() for text in different)
    if len(texts) < _FEWEST:
        return
    texts = texts[:: -(-len(texts) // _LOOKED_AT)]
    least = _SHARE * len(texts)
    dates = [text for text in texts if _DATE.fullmatch(text)]
    if len(dates) >= least:
        _warn(name, dates[0], "dates", f"pandas.to_datetime({given})")
        return
    found = [match for text in texts if (match := _NUMBER.fullmatch(text))]
    units = {match["unit"] for match in found} - {""}
    numbers = [match[0] for match in found]
    if len(numbers) < least or len(units) > 1 or _are_codes(numbers):
        return
    plain = all(map(_PLAIN.fullmatch, numbers))
    reading = given if plain else f"{given}.str.replace(...)"
    _warn(name, max(numbers, key=len), "numbers", f"pandas.to_numeric({reading})")


def _are_codes(texts: list[str]) -> bool:
    """Whether texts may be names made of digits, as zip codes and telephones are.

    These have leading zeros, or are whole, and all are as long or have a plus sign;
    blanks and points may part them, and after three digits or more a point may begin
    their last part, of any length ("250", "250.01"). Commas part the thousands of
    amounts.
    """
    digits = [_BETWEEN.sub("", text) for text in texts]
    if any(re.match(r"0\d", text) for text in digits):
        return True
    if all(map(str.isdigit, digits)):
        return all(text[0] == "+" for text in texts) or _all_as_long(digits)
    parts = [match for text in texts if (match := _WITH_POINT.fullmatch(text))]
    first, last = ([match[part] or "" for match in parts] for part in (1, 2))
    return len(parts) == len(texts) and _all_as_long(first) and not _all_as_long(last)


def _all_as_long(texts: list[str]) -> bool:
    return len(set(map(len, texts))) == 1


def _warn(name: str, example: str, kind: str, remedy: str) -> None:
    warn(
        f"Column {name!r} holds {kind} written as text, such as {example!r}, and is "
        f"read as categories. Convert it first, for example by {remedy}, or name it in "
        "categorical_features if categories are meant."
    )
