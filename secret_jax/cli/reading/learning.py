"""Finding out what the columns of a file mean, and saying it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from secret_jax.cli.reading.columns import (
    MISSING,
    Cells,
    ColumnFormat,
    Texts,
    Truths,
)
from secret_jax.cli.reading.dates import DateFormat, find_dates
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.numbers import Found, NumberFormat, find_numbers
from secret_jax.cli.reading.problems import TableFileError
from secret_jax.cli.reading.table import Reading, fits_as_it_is, missing_sentence

if TYPE_CHECKING:
    import pandas as pd

# A column of which more is of one kind is meant to be of it.
_MOST = 0.5
# Of fewer rows nearly every column tells them apart.
_FEWEST_NAMED = 20
# Text that differs in so many of the rows names them; digits with leading zeros do,
# like categories of few rows each, from here on.
_NAMES_ROWS = 0.9
_NAMES_GROUPS = 0.25
_ID = re.compile(
    r"|unnamed: \d+|index|id|.*[_ .-]id|id[_ .-].*|rownames?|row|row[_ .-]?(no|nr|num|"
    r"number|id)|no|nr|key|uuid|guid|obs|observation|case|record|serial",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """What the owner of a table says of it.

    Attributes
    ----------
    thousands, decimal : str or None
        Marks in numbers; None: found out.
    dates : dict of str to (str or None)
        Columns of dates, with their format or None.
    missing : tuple of str
        Cells that are missing values, beside `MISSING`.
    ids : tuple of str
        Columns that only name the rows.
    texts, numbers : tuple of str
        Columns of categories and of numbers, whatever they look like.
    discrete : tuple of str
        Columns of categories, which may be numbers.
    ignore_case : tuple of str
        Columns of categories in which case and blanks mean nothing.
    used : tuple of str
        Columns that are named for a use: none is taken for one that names the rows.
    classes : bool
        Whether the target is a class.
    """

    thousands: str | None = None
    decimal: str | None = None
    dates: dict[str, str | None] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    discrete: tuple[str, ...] = ()
    ignore_case: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    classes: bool = False


class Learned(NamedTuple):
    """What was found out of a table.

    Attributes
    ----------
    reading : Reading
        Of every column but those that are left out.
    left_out : tuple of str
        Columns that only name the rows.
    notes : tuple of str
        What is not plain to see, a line each.
    """

    reading: Reading
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


class _Candidates(NamedTuple):
    """What a column may be, before the others are asked."""

    cells: Cells | None  # None: read as it is
    formats: tuple[ColumnFormat, ...]
    tells_decimal: bool = False


def learn_reading(
    table: TableFile, target: str, names: Sequence[str], options: ReadingOptions
) -> Learned:
    """Find out how the columns of a table are to be read.

    Parameters
    ----------
    target : str
        Is read as numbers, or as classes.
    names : sequence of str
        The columns to learn from.

    Raises
    ------
    TableFileError
        If a column may be read in two ways, or most of it in one but not all; the
        message names the option that settles it.
    """
    reading = Reading(missing=(*MISSING, *options.missing))
    found = {
        name: _candidates(table, name, reading, options, name == target)
        for name in (*names, target)
    }
    decimals = {
        one.formats[0].decimal
        for one in found.values()
        if one.tells_decimal and isinstance(one.formats[0], NumberFormat)
    }
    formats, notes, left_out = {}, [], []
    missing: dict[str, dict[str, int]] = {}
    for name, one in found.items():
        chosen = _chosen(name, one, decimals, table.separator)
        why = "" if name == target else _names_rows(name, one, chosen, options)
        if why:
            left_out.append(name)
            notes.append(f"{name}: left out, {why}")
            continue
        formats[name] = chosen
        if one.cells is not None:
            missing[name] = one.cells.missing
        notes += _notes(name, one, chosen, name == target)
    notes += filter(None, [missing_sentence(missing)])
    learned = Reading(formats=formats, missing=reading.missing)
    return Learned(learned, tuple(left_out), tuple(notes))


def _candidates(
    table: TableFile, name: str, reading: Reading, options: ReadingOptions, is_y: bool
) -> _Candidates:
    """Formats that fit all cells of a column."""
    column = cast("pd.Series", table.frame[name])
    if is_y and options.classes:
        return _Candidates(reading.cells(table, name, Texts()), (Texts(),))
    if name in (*options.texts, *options.ignore_case):
        is_text = name in options.texts
        chosen = Texts(verbatim=is_text, folded=name in options.ignore_case)
        return _Candidates(reading.cells(table, name, chosen), (chosen,))
    for kind in (NumberFormat(), DateFormat(), Truths()):
        if fits_as_it_is(column, kind) and name not in options.dates:
            return _Candidates(None, (kind,))
    cells = reading.cells(table, name, NumberFormat())
    if name in options.dates:
        return _Candidates(cells, _as_dates(table, name, cells, options.dates[name]))
    if not cells.texts:  # nothing but missing values
        return _Candidates(cells, (NumberFormat(),))
    numbers = find_numbers(cells.texts, options.thousands, options.decimal)
    wanted = is_y or name in options.numbers
    if numbers.mixed and name not in (*options.numbers, *options.discrete):
        _refuse_scales(table, name, cells, numbers, is_y)
    if numbers.formats and not (_has_leading_zeros(cells) and not wanted):
        compact = () if wanted or name in options.discrete else _compact_dates(cells)
        return _Candidates(cells, compact or numbers.formats, numbers.tells_decimal)
    if wanted:
        # Refused where the target is read, which knows what else to say.
        return _Candidates(cells, numbers.formats or (NumberFormat(),))
    if {text.casefold() for text in cells.texts} <= {"true", "false"}:
        return _Candidates(cells, (Truths(),))
    if numbers.formats or name in options.discrete:
        return _Candidates(cells, (Texts(),))
    dates = find_dates(cells.texts)
    if dates.formats:
        return _Candidates(cells, dates.formats)
    _refuse_mixtures(table, name, cells, numbers)
    if dates.first_bad is not None and dates.n_dates > _MOST * len(cells.texts):
        _refuse(table, name, cells, dates.first_bad, "dates")
    return _Candidates(cells, (Texts(),))


def _has_leading_zeros(cells: Cells) -> bool:
    texts = cells.texts
    zeros = any(text[0] == "0" and len(text) > 1 for text in texts)
    return zeros and all(text.isdigit() for text in texts)


def _compact_dates(cells: Cells) -> tuple[ColumnFormat, ...]:
    """Dates without anything between year, month and day: only all of them are some."""
    if not all(re.fullmatch(r"(19|20)\d{6}", text) for text in cells.texts):
        return ()
    return find_dates(cells.texts).formats


def _as_dates(
    table: TableFile, name: str, cells: Cells, given: str | None
) -> tuple[ColumnFormat, ...]:
    """The format that the owner gave, or the only one there is."""
    if given is None:
        dates = find_dates(cells.texts) if cells.texts else None
        if dates is None or dates.formats:
            return dates.formats if dates else (DateFormat(),)
        bad = dates.first_bad or 0
    else:
        chosen = DateFormat(format=given)
        unread = np.isnat(chosen.parse(cells.texts))
        if not unread.any():
            return (chosen,)
        bad = int(np.argmax(unread))
    how = f" of the form {given}" if given else " that is known; give --dates"
    how += "" if given else f" '{name}:FORMAT', for example %d.%m.%Y"
    raise TableFileError(
        f"column {name!r} holds {cells.texts[bad]!r} in "
        f"{table.place(cells.first_row(bad))}, which is no date{how}"
    )


def _refuse_mixtures(table: TableFile, name: str, cells: Cells, found: Found) -> None:
    """Raise if most of a column are numbers, but not all of it."""
    bad = found.first_bad
    if bad is not None and found.n_numbers:
        good = ~np.isnan(_numbers_in_any_format(cells))
        if cells.share(good) > _MOST:
            _refuse(table, name, cells, bad, "numbers")


def _numbers_in_any_format(cells: Cells) -> np.ndarray:
    """A number for each text that is one in some format, NaN for others."""
    values = [0.0 if find_numbers([t]).n_numbers else np.nan for t in cells.texts]
    return np.array(values)


def _refuse_scales(
    table: TableFile, name: str, cells: Cells, found: Found, is_y: bool
) -> None:
    """Raise since numbers stand there with and without what scales them."""
    with_unit, bare = (cells.texts[place] for place in found.mixed)
    places = [table.place(cells.first_row(place)) for place in found.mixed]
    remedy = "write all of them alike"
    if not is_y:
        as_numbers = f", read the numbers as they stand (--number {name!r})"
        remedy += as_numbers if found.formats else ""
        remedy += f", or read the column as categories (--text {name!r})"
    raise TableFileError(
        f"column {name!r} holds {with_unit!r} in {places[0]} and {bare!r} in "
        f"{places[1]}, which may be of two scales; {remedy}"
    )


def _refuse(table: TableFile, name: str, cells: Cells, bad: int, kind: str) -> None:
    text = cells.texts[bad]
    n_rows = int((cells.codes >= 0).sum())
    n_bad = int((cells.codes == bad).sum())
    raise TableFileError(
        f"column {name!r} holds text in {table.place(cells.first_row(bad))} "
        f"({text!r}, {n_bad} of {n_rows} values), but most of its values are "
        f"{kind}; mend it, count it as missing (--na {text!r}), or read the column as "
        "categories "
        f"(--text {name!r})"
    )


def _chosen(
    name: str, one: _Candidates, decimals: set[str], separator: str
) -> ColumnFormat:
    """The only format that is left once other columns were asked."""
    formats = one.formats
    if len(formats) == 1 or one.cells is None:
        return formats[0]
    if isinstance(formats[0], DateFormat):
        dates = [form for form in formats if isinstance(form, DateFormat)]
        forms = " or ".join(f"'{name}:{form.format}'" for form in dates)
        shown = one.cells.texts[0]
        raise TableFileError(
            f"column {name!r} holds dates such as {shown!r}, whose day may come before "
            f"or after the month; give --dates {forms}"
        )
    numbers = [form for form in formats if isinstance(form, NumberFormat)]
    agreeing = [form for form in numbers if {form.decimal} == decimals]
    if agreeing:
        return agreeing[0]
    comma = [form for form in numbers if form.decimal == ","]
    doubtful = next(
        text
        for i, text in enumerate(one.cells.texts)
        if len({form.parse([text])[0] for form in numbers}) > 1
    )
    # Between semicolons a comma is as often the one as the other; elsewhere decimal
    # commas are rare, and so are dots between thousands.
    if separator == ";" and comma and "," in doubtful:
        ways = " or ".join(f"{form.parse([doubtful])[0]:.12g}" for form in numbers)
        raise TableFileError(
            f"column {name!r} holds {doubtful!r}, which may be {ways}; give "
            "--thousands , or --decimal ,"
        )
    return next(form for form in numbers if form.decimal == ".")


def _names_rows(
    name: str, one: _Candidates, chosen: ColumnFormat, options: ReadingOptions
) -> str:
    """Why a column is taken to name the rows; empty if it is not."""
    if name in options.ids:
        return "as --id says"
    if one.cells is not None and not one.cells.texts:
        return "it holds nothing"
    if one.cells is None or name in (*options.numbers, *options.texts, *options.used):
        return ""
    cells = one.cells
    n_there, n_different = int((cells.codes >= 0).sum()), len(cells.texts)
    if n_there < _FEWEST_NAMED:
        return ""
    use = f"--number {name!r} or --text {name!r} keeps it"
    many = n_different > max(_FEWEST_NAMED, _NAMES_GROUPS * n_there)
    if isinstance(chosen, Texts) and many and _has_leading_zeros(cells):
        return f"its {n_different} codes with leading zeros name things; {use}"
    if isinstance(chosen, Texts) and n_different >= _NAMES_ROWS * n_there:
        return f"it has {n_different} different values in {n_there} rows; {use}"
    whole = all(text.isdigit() for text in cells.texts)
    # Rows that were entered twice have one name.
    many = n_different >= _NAMES_ROWS * n_there
    if _ID.fullmatch(name.strip()) and whole and many:
        return f"it numbers the rows; {use}"
    return ""


def _notes(name: str, one: _Candidates, chosen: ColumnFormat, is_y: bool) -> list[str]:
    """What is said of a column that is used: nothing where all is plain."""
    cells = one.cells
    if cells is None or not cells.texts:
        return []
    if isinstance(chosen, NumberFormat) and not chosen.is_plain:
        # The longest cell shows most of what there is.
        shown = max(cells.texts, key=len)
        value = chosen.parse([shown])[0]
        return [f"{name}: {chosen.sentence()}; {shown!r} is {value:.12g}"]
    if isinstance(chosen, DateFormat):
        return [f"{name}: {chosen.sentence()}; {cells.texts[0]!r} is one"]
    n_there, n_different = int((cells.codes >= 0).sum()), len(cells.texts)
    if isinstance(chosen, Texts) and is_y:
        return []
    if isinstance(chosen, Texts):
        if _has_leading_zeros(cells):
            return [f"{name}: codes with leading zeros, {n_different} categories"]
        if n_different > max(_FEWEST_NAMED, _NAMES_GROUPS * n_there):
            return [
                f"{name}: {n_different} categories in {n_there} rows; if it only names "
                f"the rows, leave it out (--id {name!r})"
            ]
    if isinstance(chosen, NumberFormat) and not is_y and _counts_rows(cells):
        return [
            f"{name}: counts the rows; if it only names them, leave it out "
            f"(--id {name!r})"
        ]
    return []


def _counts_rows(cells: Cells) -> bool:
    """Whether whole numbers rise by one from row to row."""
    n_rows = len(cells.codes)
    if n_rows < _FEWEST_NAMED or len(cells.texts) != n_rows:
        return False
    if not all(text.isdigit() for text in cells.texts):
        return False
    return bool((np.diff([int(text) for text in cells.texts]) == 1).all())
