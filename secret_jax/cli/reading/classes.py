"""A target of classes: when it is one, and its labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from secret_jax.cli.reading.columns import Texts
from secret_jax.cli.reading.dates import find_dates
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.learning import rows_with_target
from secret_jax.cli.reading.numbers import find_numbers
from secret_jax.cli.reading.table import Reading

if TYPE_CHECKING:
    import pandas as pd

# Of more different texts a row most classes would have a single row.
_MOST_CLASSES = 0.5


def holds_classes(table: TableFile, target: str, missing: tuple[str, ...]) -> bool:
    """Whether a target is text of which no cell is a number, and which repeats itself.

    Dates are no classes, nor are names that differ from row to row.

    Parameters
    ----------
    table : TableFile
    target : str
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

    Parameters
    ----------
    table : TableFile
    target : str
    reading : Reading

    Returns
    -------
    table : TableFile
        Without the rows that have no class.
    labels : ndarray of shape (n_rows,), str
    notes : tuple of str

    Raises
    ------
    TableFileError
        If no row has a class.
    """
    cells = reading.cells(table, target, reading.formats[target])
    there = cells.codes >= 0
    kept, notes = rows_with_target(table, target, there)
    return kept, np.array(cells.texts, str)[cells.codes[there]], notes
