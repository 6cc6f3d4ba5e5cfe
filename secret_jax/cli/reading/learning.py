"""Finding out what the columns of a file mean, and saying it."""

import re
from argparse import Namespace
from collections.abc import Sequence

import numpy as np

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.candidates import (
    Candidates,
    candidates,
    has_leading_zeros,
    target_candidates,
)
from secret_jax.cli.reading.columns import MISSING, Cells, ColumnFormat, Texts
from secret_jax.cli.reading.dates import DateFormat
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.numbers import NumberFormat
from secret_jax.cli.reading.table import Reading
from secret_jax.inspect.printing import some

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


def learn_reading(
    table: TableFile,
    target: str,
    names: Sequence[str],
    options: Namespace,
    classes: bool = False,
) -> tuple[Reading, list[str]]:
    """Find out how the columns of a table, and its target, are to be read.

    What the owner says are the options of `secret_jax.cli.parser.add_reading_options`,
    and the columns that are ``categorical`` or ``split_only``. Columns that only name
    the rows are left out. Returns also what is not plain to see, a line each. A column
    that may be read in two ways, or most of it in one but not all, is an error that
    names the option that settles it.
    """
    reading = Reading(missing=(*MISSING, *options.na))
    found = {n: candidates(table, n, reading, options) for n in names}
    found[target] = target_candidates(table, target, reading, options, classes)
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


def _chosen(
    name: str, one: Candidates, decimals: set[str], separator: str
) -> ColumnFormat:
    """Choose the only format that is left once other columns were asked."""
    if len(one.formats) == 1 or one.cells is None:
        return one.formats[0]
    dates = [form for form in one.formats if isinstance(form, DateFormat)]
    if dates:
        forms = " or ".join(f"'{name}:{form.format}'" for form in dates)
        raise CommandError(
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
        raise CommandError(
            f"column {name!r} holds {one.cells.texts[doubtful]!r}, which may be "
            f"{ways}; give --thousands , or --decimal ,"
        )
    return next(form for form in numbers if form.decimal == ".")


def _names_rows(
    name: str, one: Candidates, chosen: ColumnFormat, options: Namespace
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
    if isinstance(chosen, Texts) and _many(cells) and has_leading_zeros(cells):
        return f"its {n_different} codes with leading zeros name things; {use}"
    if isinstance(chosen, Texts) and differ:
        return f"it has {n_different} different values in {cells.n_known} rows; {use}"
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
    elif isinstance(chosen, Texts) and has_leading_zeros(cells):
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
