"""What a column may mean: the formats that all of its cells fit."""

import re
from argparse import Namespace
from typing import NamedTuple, NoReturn

import numpy as np

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.columns import Cells, ColumnFormat, Texts, Truths
from secret_jax.cli.reading.dates import DateFormat, find_dates
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.numbers import (
    FoundNumbers,
    NumberFormat,
    are_numbers,
    find_numbers,
)
from secret_jax.cli.reading.table import Reading, fits_as_it_is

# A column of which more is of one kind is meant to be of it.
_MOST = 0.5


class Candidates(NamedTuple):
    """Kinds of a column that its cells allow."""

    cells: Cells | None  # None: read as it is
    formats: tuple[ColumnFormat, ...]
    tells_decimal: bool = False


def target_candidates(
    table: TableFile, name: str, reading: Reading, options: Namespace, classes: bool
) -> Candidates:
    if classes:
        return Candidates(reading.cells(table, name, Texts()), (Texts(),))
    if fits_as_it_is(table.series(name), NumberFormat()):
        return Candidates(None, (NumberFormat(),))
    cells = reading.cells(table, name, NumberFormat())
    numbers = find_numbers(cells.texts, options.thousands, options.decimal)
    if numbers.mixed:
        _refuse_scales(table, name, cells, numbers, "")
    # What is no number is refused when it is read.
    formats = numbers.formats or (NumberFormat(),)
    return Candidates(cells, formats, numbers.tells_decimal)


def candidates(
    table: TableFile, name: str, reading: Reading, options: Namespace
) -> Candidates:
    """Find formats that fit all cells of a column."""
    if name in (*options.text, *options.ignore_case):
        folded = name in options.ignore_case
        chosen = Texts(verbatim=name in options.text, folded=folded)
        return Candidates(reading.cells(table, name, chosen), (chosen,))
    for kind in (NumberFormat(), DateFormat(), Truths()):
        if fits_as_it_is(table.series(name), kind) and name not in options.dates:
            return Candidates(None, (kind,))
    cells = reading.cells(table, name, NumberFormat())
    if name in options.dates:
        return Candidates(cells, _as_dates(table, name, cells, options.dates[name]))
    if not cells.texts:  # nothing but missing values
        return Candidates(cells, (NumberFormat(),))
    numbers = find_numbers(cells.texts, options.thousands, options.decimal)
    wanted, discrete = name in options.number, name in options.categorical
    if numbers.mixed and not (wanted or discrete):
        as_they_stand = f", read the numbers as they stand (--number {name!r})"
        remedy = as_they_stand if numbers.formats else ""
        remedy += f", or read the column as categories (--text {name!r})"
        _refuse_scales(table, name, cells, numbers, remedy)
    if wanted or (numbers.formats and not has_leading_zeros(cells)):
        days = all(re.fullmatch(r"(19|20)\d{6}", text) for text in cells.texts)
        compact = days and not wanted and not discrete
        dates = find_dates(cells.texts).formats if compact else ()
        formats = dates or numbers.formats or (NumberFormat(),)
        return Candidates(cells, formats, numbers.tells_decimal)
    if {text.casefold() for text in cells.texts} <= {"true", "false"}:
        return Candidates(cells, (Truths(),))
    if numbers.formats or discrete:
        return Candidates(cells, (Texts(),))
    dates = find_dates(cells.texts)
    if dates.formats:
        return Candidates(cells, dates.formats)
    if numbers.first_bad is not None and numbers.n_numbers:
        rows = are_numbers(cells.texts)[cells.codes[cells.codes >= 0]]
        if rows.mean() > _MOST:
            _refuse_mixture(table, name, cells, numbers.first_bad, "numbers")
    if dates.first_bad is not None and dates.n_dates > _MOST * len(cells.texts):
        _refuse_mixture(table, name, cells, dates.first_bad, "dates")
    return Candidates(cells, (Texts(),))


def has_leading_zeros(cells: Cells) -> bool:
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
    raise CommandError(
        f"column {name!r} holds {cells.texts[bad]!r} in "
        f"{table.place(cells.first_row(bad))}, which is no date{how}"
    )


def _refuse_scales(
    table: TableFile, name: str, cells: Cells, numbers: FoundNumbers, remedy: str
) -> NoReturn:
    """Raise since numbers stand there with and without what scales them."""
    with_unit, bare = (cells.texts[place] for place in numbers.mixed)
    places = [table.place(cells.first_row(place)) for place in numbers.mixed]
    raise CommandError(
        f"column {name!r} holds {with_unit!r} in {places[0]} and {bare!r} in "
        f"{places[1]}, which may be of two scales; write all of them alike{remedy}"
    )


def _refuse_mixture(
    table: TableFile, name: str, cells: Cells, bad: int, kind: str
) -> NoReturn:
    """Raise since most of a column is of one kind, but not all of it."""
    text, n_bad = cells.texts[bad], int((cells.codes == bad).sum())
    raise CommandError(
        f"column {name!r} holds text in {table.place(cells.first_row(bad))} "
        f"({text!r}, {n_bad} of {cells.n_known} values), but most of its values are "
        f"{kind}; mend it, count it as missing (--na {text!r}), or read the column as "
        f"categories (--text {name!r})"
    )
