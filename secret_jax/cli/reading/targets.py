"""The target: whether it is one of classes, its values, and the rows that have one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from secret_jax.cli.reading.columns import Texts
from secret_jax.cli.reading.dates import find_dates
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.numbers import NumberFormat, find_numbers
from secret_jax.cli.reading.problems import TableFileError, some
from secret_jax.cli.reading.table import Reading, fits_as_it_is

if TYPE_CHECKING:
    import pandas as pd

# Of more different texts a row most classes would have a single row.
_MOST_CLASSES = 0.5


def holds_classes(table: TableFile, target: str, missing: tuple[str, ...]) -> bool:
    """Whether a target is text of which no cell is a number, and which repeats itself.

    Dates are no classes, nor are names that differ from row to row.

    Parameters
    ----------
    missing : tuple of str
        Cells that are missing values.
    """
    import pandas.api.types as types

    column = cast("pd.Series", table.frame[target])
    if types.is_bool_dtype(column):
        return True
    if types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column):
        return False
    cells = Reading(missing=missing).cells(table, target, Texts())
    texts = [text.strip() for text in cells.texts]
    if not texts or find_numbers(texts).n_numbers or find_dates(texts).n_dates:
        return False
    n_rows = int((cells.codes >= 0).sum())
    return len(texts) <= max(2, _MOST_CLASSES * n_rows)


def target_labels(
    table: TableFile, target: str, reading: Reading
) -> tuple[TableFile, np.ndarray, tuple[str, ...]]:
    """The rows with a class, and their classes as text.

    Returns
    -------
    table : TableFile
        Without the rows that have no class.
    labels : ndarray of shape (n_rows,), str

    Raises
    ------
    TableFileError
        If no row has a class.
    """
    cells = reading.cells(table, target, reading.formats[target])
    there = cells.codes >= 0
    kept, notes = rows_with_target(table, target, there)
    return kept, np.array(cells.texts, str)[cells.codes[there]], notes


def target_rows(
    table: TableFile, target: str, reading: Reading
) -> tuple[TableFile, np.ndarray, tuple[str, ...]]:
    """The rows with a target, and the target.

    Returns
    -------
    table : TableFile
        Without the rows that have no target.
    values : ndarray of shape (n_rows,), float64

    Raises
    ------
    TableFileError
        If a value is no finite number; the message says where.
    """
    column = cast("pd.Series", table.frame[target])
    chosen = reading.formats[target]
    if fits_as_it_is(column, chosen):
        values = column.to_numpy(np.float64, na_value=np.nan)
        there = ~np.isnan(values)
        bad = np.flatnonzero(np.isinf(values))
        shown = [str(value) for value in values[bad]]
    else:
        cells = reading.cells(table, target, chosen)
        numbers = np.asarray(chosen.parse(cells.texts), np.float64)
        values, there = cells.spread(numbers), cells.codes >= 0
        bad = np.flatnonzero(there & ~np.isfinite(values))
        shown = [cells.texts[cells.codes[row]] for row in bad]
    if len(bad):
        there_are = "there is 1" if len(bad) == 1 else f"there are {len(bad)}"
        remedy = f"mend such values or delete their rows ({there_are}), or "
        remedy += f"count them as missing (--na {shown[0]!r})"
        if len(bad) == there.sum():
            numeric = [
                column
                for column, one in reading.formats.items()
                if isinstance(one, NumberFormat) and column != target
            ]
            remedy = f"choose a column of numbers: {', '.join(numeric[:8])}"
        raise TableFileError(
            f"the target {target!r} holds {shown[0]!r} in {table.place(int(bad[0]))}, "
            f"which is no finite number; {remedy}"
        )
    kept, notes = rows_with_target(table, target, there)
    return kept, values[there], notes


def rows_with_target(
    table: TableFile, target: str, there: np.ndarray
) -> tuple[TableFile, tuple[str, ...]]:
    """A table without the rows that have no target, and a note of them."""
    if there.all():
        return table, ()
    places = [table.place(int(row)) for row in np.flatnonzero(~there)]
    if not there.any():
        raise TableFileError(f"the target {target!r} has no value in any row")
    rows = "1 row has" if len(places) == 1 else f"{len(places)} rows have"
    unit = places[0].split()[0] + ("s" if len(places) > 1 else "")
    where = some([place.split()[1] for place in places], most=8)
    note = f"{rows} no {target} and are left out: {unit} {where}"
    if len(places) == 1:
        note = note.replace("are left", "is left")
    return table._replace(frame=table.frame[there]), (note,)
