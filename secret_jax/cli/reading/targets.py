"""The target: whether it is one of classes, its values, and the rows that have one."""

import numpy as np
import pandas.api.types as types

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.columns import Texts
from secret_jax.cli.reading.dates import find_dates
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.numbers import NumberFormat, are_numbers, find_numbers
from secret_jax.cli.reading.table import Reading
from secret_jax.inspect.printing import some

# Of more different texts a row most classes would have a single row.
_MOST_CLASSES = 0.5
# Of a target of numbers more of the rows are numbers; nobody mends all others.
_FEWEST_NUMBERS = 0.5


def holds_classes(table: TableFile, target: str, missing: tuple[str, ...]) -> bool:
    """Whether a target is text of which no cell is a number, and which repeats itself.

    Dates are no classes, nor are names that differ from row to row.
    """
    column = table.series(target)
    if types.is_bool_dtype(column):
        return True
    if types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column):
        return False
    cells = Reading(missing=missing).cells(table, target, Texts())
    texts = [text.strip() for text in cells.texts]
    if not texts or find_numbers(texts).n_numbers or find_dates(texts).n_dates:
        return False
    return len(texts) <= max(2, _MOST_CLASSES * cells.n_known)


def read_target(
    table: TableFile, target: str, reading: Reading
) -> tuple[TableFile, np.ndarray, tuple[str, ...]]:
    """Read the target: classes as text if it is read as text, otherwise numbers.

    Returns the table without the rows that have no target, its values (str or float64),
    and notes. No target at all, or one that is no finite number, is an error.
    """
    if isinstance(reading.formats[target], Texts):
        cells = reading.cells(table, target, Texts())
        known = cells.codes >= 0
        values = np.array([*cells.texts, ""], str)[cells.codes]
    else:
        _refuse_texts(table, target, reading)
        column = reading.apply(table, [target])
        table.refuse_infinity(column, "delete the value or the row")
        values = column[target].to_numpy(np.float64, na_value=np.nan)
        known = ~np.isnan(values)
    if known.all():
        return table, values, ()
    if not known.any():
        raise CommandError(f"the target {target!r} has no value in any row")
    places = [table.place(int(row)).split() for row in np.flatnonzero(~known)]
    rows, end = ("1 row has", "is") if len(places) == 1 else ("", "are")
    rows = rows or f"{len(places)} rows have"
    where = f"{places[0][0]}{'s' * (len(places) > 1)} "
    where += some([number for _, number in places], most=8)
    note = f"{rows} no {target} and {end} left out: {where}"
    return table._replace(frame=table.frame[known]), values[known], (note,)


def _refuse_texts(table: TableFile, target: str, reading: Reading) -> None:
    """Refuse a target that is mostly text, which nobody can mend row by row."""
    if types.is_numeric_dtype(table.series(target)):
        return
    cells = reading.cells(table, target, Texts())
    codes = cells.codes[cells.codes >= 0]
    bad = ~are_numbers(cells.texts)
    n_bad = int(bad[codes].sum())
    if n_bad <= (1.0 - _FEWEST_NUMBERS) * len(codes):
        return
    numeric = [
        name
        for name, chosen in reading.formats.items()
        if isinstance(chosen, NumberFormat) and name != target
    ]
    first = codes[np.argmax(bad[codes])]
    raise CommandError(
        f"the target {target!r} holds {cells.texts[first]!r} in "
        f"{table.place(cells.first_row(first))}, and no number in {n_bad} of "
        f"{len(codes)} rows; choose a column of numbers"
        + (f": {', '.join(numeric[:8])}" if numeric else "")
    )
