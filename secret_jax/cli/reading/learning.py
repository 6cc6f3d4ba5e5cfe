"""Finding out what the columns of a file mean, and saying it."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

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
from secret_jax.cli.reading.numbers import (
    FoundNumbers,
    NumberFormat,
    are_numbers,
    find_numbers,
)
from secret_jax.cli.reading.problems import TableFileError
from secret_jax.cli.reading.table import Reading, fits_as_it_is
from secret_jax.inspect.printing import some

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


class _Candidates(NamedTuple):
    """Kinds of a column that its cells allow."""

    cells: Cells | None  # None: read as it is
    formats: tuple[ColumnFormat, ...]
    tells_decimal: bool = False


def learn_reading(
    table: TableFile,
    target: str,
    names: Sequence[str],
    options: Namespace,
    classes: bool = False,
) -> tuple[Reading, list[str]]:
    """Find out how the columns of a table are to be read.

    Parameters
    ----------
    target : str
        Is read as numbers, or as classes.
    names : sequence of str
        The columns to learn from.
    options : argparse.Namespace
        What the owner says: the options of `secret_jax.cli.parser.add_reading_options`,
        and the columns that are ``categorical`` or ``split_only``.
    classes : bool
        Whether the target is a class.

    Returns
    -------
    reading : Reading
        Of every column but those that only name the rows.
    notes : list of str
        What is not plain to see, a line each.

    Raises
    ------
    TableFileError
        If a column may be read in two ways, or most of it in one but not all; the
        message names the option that settles it.
    """
    reading = Reading(missing=(*MISSING, *options.na))
    found = {n: _candidates(table, n, reading, options) for n in names}
    found[target] = _target_candidates(table, target, reading, options, classes)
    decimals = {
        one.formats[0].decimal
        for one in found.values()
        if one.tells_decimal and isinstance(one.formats[0], NumberFormat)
    }
    formats, notes = {}, []
    missing: dict[str, list[str]] = {}
    for name, one in found.items():
        chosen = _chosen(name, one, decimals, table.separator)
        why = "" if name == target else _names_rows(name, one, chosen, options)
        if why:
            notes.append(f"{name}: left out, {why}")
            continue
        formats[name] = chosen
        if one.cells is None:
            continue
        for text, count in one.cells.missing.items():
            missing.setdefault(text, []).append(f"{name} {count}")
        notes += _notes(name, one.cells, chosen, name == target)
    marks = [f"{text!r} ({some(m, most=3)})" for text, m in missing.items() if text]
    notes += [f"counted as missing: {', '.join(marks)}"] if marks else []
    return Reading(formats=formats, missing=reading.missing), notes


def _target_candidates(
    table: TableFile, name: str, reading: Reading, options: Namespace, classes: bool
) -> _Candidates:
    if classes:
        return _Candidates(reading.cells(table, name, Texts()), (Texts(),))
    if fits_as_it_is(table.series(name), NumberFormat()):
        return _Candidates(None, (NumberFormat(),))
    cells = reading.cells(table, name, NumberFormat())
    numbers = find_numbers(cells.texts, options.thousands, options.decimal)
    if numbers.mixed:
        _refuse_scales(table, name, cells, numbers, "")
    # What is no number is refused by `read_target`, which knows what else to say.
    formats = numbers.formats or (NumberFormat(),)
    return _Candidates(cells, formats, numbers.tells_decimal)


def _candidates(
    table: TableFile, name: str, reading: Reading, options: Namespace
) -> _Candidates:
    """Find formats that fit all cells of a column."""
    if name in (*options.text, *options.ignore_case):
        folded = name in options.ignore_case
        chosen = Texts(verbatim=name in options.text, folded=folded)
        return _Candidates(reading.cells(table, name, chosen), (chosen,))
    for kind in (NumberFormat(), DateFormat(), Truths()):
        if fits_as_it_is(table.series(name), kind) and name not in options.dates:
            return _Candidates(None, (kind,))
    cells = reading.cells(table, name, NumberFormat())
    if name in options.dates:
        return _Candidates(cells, _as_dates(table, name, cells, options.dates[name]))
    if not cells.texts:  # nothing but missing values
        return _Candidates(cells, (NumberFormat(),))
    numbers = find_numbers(cells.texts, options.thousands, options.decimal)
    wanted, discrete = name in options.number, name in options.categorical
    if numbers.mixed and not (wanted or discrete):
        as_they_stand = f", read the numbers as they stand (--number {name!r})"
        remedy = as_they_stand if numbers.formats else ""
        remedy += f", or read the column as categories (--text {name!r})"
        _refuse_scales(table, name, cells, numbers, remedy)
    if wanted or (numbers.formats and not _has_leading_zeros(cells)):
        days = all(re.fullmatch(r"(19|20)\d{6}", text) for text in cells.texts)
        compact = days and not wanted and not discrete
        dates = find_dates(cells.texts).formats if compact else ()
        formats = dates or numbers.formats or (NumberFormat(),)
        return _Candidates(cells, formats, numbers.tells_decimal)
    if {text.casefold() for text in cells.texts} <= {"true", "false"}:
        return _Candidates(cells, (Truths(),))
    if numbers.formats or discrete:
        return _Candidates(cells, (Texts(),))
    dates = find_dates(cells.texts)
    if dates.formats:
        return _Candidates(cells, dates.formats)
    if numbers.first_bad is not None and numbers.n_numbers:
        rows = are_numbers(cells.texts)[cells.codes[cells.codes >= 0]]
        if rows.mean() > _MOST:
            _refuse_mixture(table, name, cells, numbers.first_bad, "numbers")
    if dates.first_bad is not None and dates.n_dates > _MOST * len(cells.texts):
        _refuse_mixture(table, name, cells, dates.first_bad, "dates")
    return _Candidates(cells, (Texts(),))


def _has_leading_zeros(cells: Cells) -> bool:
    texts = cells.texts
    zeros = any(text[0] == "0" and len(text) > 1 for text in texts)
    return zeros and all(text.isdigit() for text in texts)


def _as_dates(
    table: TableFile, name: str, cells: Cells, given: str | None
) -> tuple[ColumnFormat, ...]:
    """Return the format that the owner gave, or the only one there is."""
    if given is None:
        dates = find_dates(cells.texts)
        if dates.formats or not cells.texts:
            return dates.formats or (DateFormat(),)
        bad = dates.first_bad or 0
        how = f" that is known; give --dates '{name}:FORMAT', for example %d.%m.%Y"
    else:
        unread = np.isnat(DateFormat(format=given).parse(cells.texts))
        if not unread.any():
            return (DateFormat(format=given),)
        bad, how = int(np.argmax(unread)), f" of the form {given}"
    raise TableFileError(
        f"column {name!r} holds {cells.texts[bad]!r} in "
        f"{table.place(cells.first_row(bad))}, which is no date{how}"
    )


def _refuse_scales(
    table: TableFile, name: str, cells: Cells, numbers: FoundNumbers, remedy: str
) -> NoReturn:
    """Raise since numbers stand there with and without what scales them."""
    with_unit, bare = (cells.texts[place] for place in numbers.mixed)
    places = [table.place(cells.first_row(place)) for place in numbers.mixed]
    raise TableFileError(
        f"column {name!r} holds {with_unit!r} in {places[0]} and {bare!r} in "
        f"{places[1]}, which may be of two scales; write all of them alike{remedy}"
    )


def _refuse_mixture(
    table: TableFile, name: str, cells: Cells, bad: int, kind: str
) -> NoReturn:
    """Raise since most of a column is of one kind, but not all of it."""
    text, n_bad = cells.texts[bad], int((cells.codes == bad).sum())
    raise TableFileError(
        f"column {name!r} holds text in {table.place(cells.first_row(bad))} "
        f"({text!r}, {n_bad} of {cells.n_known} values), but most of its values are "
        f"{kind}; mend it, count it as missing (--na {text!r}), or read the column as "
        f"categories (--text {name!r})"
    )


def _chosen(
    name: str, one: _Candidates, decimals: set[str], separator: str
) -> ColumnFormat:
    """Choose the only format that is left once other columns were asked."""
    if len(one.formats) == 1 or one.cells is None:
        return one.formats[0]
    dates = [form for form in one.formats if isinstance(form, DateFormat)]
    if dates:
        forms = " or ".join(f"'{name}:{form.format}'" for form in dates)
        raise TableFileError(
            f"column {name!r} holds dates such as {one.cells.texts[0]!r}, whose day "
            f"may come before or after the month; give --dates {forms}"
        )
    numbers = [form for form in one.formats if isinstance(form, NumberFormat)]
    agreeing = [form for form in numbers if {form.decimal} == decimals]
    if agreeing:
        return agreeing[0]
    values = np.array([form.parse(one.cells.texts) for form in numbers])
    doubtful = int(np.argmax((values != values[0]).any(axis=0)))
    # Between semicolons a comma is as often the one as the other; elsewhere decimal
    # commas are rare, and so are dots between thousands.
    comma = any(form.decimal == "," for form in numbers)
    if separator == ";" and comma and "," in one.cells.texts[doubtful]:
        ways = " or ".join(f"{value:.12g}" for value in values[:, doubtful])
        raise TableFileError(
            f"column {name!r} holds {one.cells.texts[doubtful]!r}, which may be "
            f"{ways}; give --thousands , or --decimal ,"
        )
    return next(form for form in numbers if form.decimal == ".")


def _names_rows(
    name: str, one: _Candidates, chosen: ColumnFormat, options: Namespace
) -> str:
    """Say why a column is taken to name the rows; empty if it is not."""
    if name in options.id:
        return "as --id says"
    cells = one.cells
    if cells is not None and not cells.texts:
        return "it holds nothing"
    named = (*options.number, *options.text, *options.categorical, *options.split_only)
    if cells is None or name in named or cells.n_known < _FEWEST_NAMED:
        return ""
    n_different = len(cells.texts)
    use = f"--number {name!r} or --text {name!r} keeps it"
    # Rows that were entered twice have one name.
    differ = n_different >= _NAMES_ROWS * cells.n_known
    if isinstance(chosen, Texts):
        if _many(cells) and _has_leading_zeros(cells):
            return f"its {n_different} codes with leading zeros name things; {use}"
        if differ:
            return (
                f"it has {n_different} different values in {cells.n_known} rows; {use}"
            )
    whole = all(text.isdigit() for text in cells.texts)
    if _ID.fullmatch(name.strip()) and whole and differ:
        return f"it numbers the rows; {use}"
    return ""


def _many(cells: Cells) -> bool:
    """Whether a column has categories of few rows each."""
    return len(cells.texts) > max(_FEWEST_NAMED, _NAMES_GROUPS * cells.n_known)


def _notes(name: str, cells: Cells, chosen: ColumnFormat, is_y: bool) -> list[str]:
    """Tell how a column is used; nothing where all is plain."""
    if not cells.texts:
        return []
    note = ""
    if isinstance(chosen, NumberFormat) and not chosen.is_plain:
        # The longest cell shows most of what there is.
        shown = max(cells.texts, key=len)
        value = chosen.parse([shown])[0]
        note = f"{chosen.sentence()}; {shown!r} is {value:.12g}"
    elif isinstance(chosen, DateFormat):
        note = f"{chosen.sentence()}; {cells.texts[0]!r} is one"
    elif is_y:
        return []
    elif isinstance(chosen, Texts) and _has_leading_zeros(cells):
        note = f"codes with leading zeros, {len(cells.texts)} categories"
    elif isinstance(chosen, Texts) and _many(cells):
        note = (
            f"{len(cells.texts)} categories in {cells.n_known} rows; if it only names "
            f"the rows, leave it out (--id {name!r})"
        )
    elif isinstance(chosen, NumberFormat) and _counts_rows(cells):
        note = f"counts the rows; if it only names them, leave it out (--id {name!r})"
    return [f"{name}: {note}"] if note else []


def _counts_rows(cells: Cells) -> bool:
    """Whether whole numbers rise by one from row to row."""
    n_rows = len(cells.codes)
    if n_rows < _FEWEST_NAMED or len(cells.texts) != n_rows:
        return False
    if not all(text.isdigit() for text in cells.texts):
        return False
    return bool((np.diff([int(text) for text in cells.texts]) == 1).all())
