"""Excel files as tables of cells: which sheet, and where the header is."""

import importlib.util
import io
import zipfile
from collections.abc import Collection
from typing import Any

import pandas as pd

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.layout import (
    LINES_LOOKED_AT,
    header_row,
    preface_note,
    preface_of,
)
from secret_jax.cli.reading.problems import did_you_mean
from secret_jax.inspect.printing import some


def read_excel(
    name: str,
    source: str | io.BytesIO,
    sheet: str | None,
    skip: int | None,
    columns: Collection[str],
) -> tuple[pd.DataFrame, int, tuple[str, ...], str]:
    """Read a sheet: by default the first with all columns, or the widest.

    Returns the table, the lines before the header, notes, and what to say where a
    column is not there.
    """
    _check(name, source)
    cells: dict[str, Any] = {"dtype": object, "keep_default_na": False}
    book: Any
    with pd.ExcelFile(source, engine="openpyxl") as book:
        sheets = [str(one) for one in book.sheet_names]
        if sheet is not None and sheet not in sheets:
            raise CommandError(
                f"{name!r} has no sheet {sheet!r}{did_you_mean(sheet, sheets) or '.'} "
                f"Its sheets are {some([repr(one) for one in sheets], most=12)}"
            )
        starts = {}
        for one in sheets if sheet is None else [sheet]:
            head = pd.read_excel(book, one, header=None, nrows=LINES_LOOKED_AT, **cells)
            rows = [[str(cell) for cell in row] for row in head.to_numpy().tolist()]
            before = header_row(rows) if skip is None else skip
            header = [cell.strip() for cell in rows[before]] if rows[before:] else []
            preface = preface_of([" ".join(row) for row in rows[:before]])
            starts[one] = header, before, preface
            if set(columns) <= set(header):
                chosen = one
                break
        else:  # a name was misspelt, then, and nothing is as wide as a table
            chosen = max(starts, key=lambda one: len(starts[one][0]))
        _, before, preface = starts[chosen]
        frame = pd.read_excel(book, chosen, skiprows=before, **cells)
    frame = frame.where(frame.map(lambda cell: cell != ""), None).infer_objects()
    notes = () if skip is not None else preface_note(name, before, preface)
    if len(sheets) == 1:
        return frame, before, notes, ""
    others = some([f"--sheet {one!r}" for one in sheets if one != chosen])
    hint = f"; this is the sheet {chosen!r}, {others} reads another"
    if sheet is None:
        told = f"{name}: the sheet {chosen!r} of {len(sheets)} ({others} reads another)"
        notes = (told, *notes)
    return frame, before, notes, hint


def _check(name: str, source: str | io.BytesIO) -> None:
    """Refuse archives that hold no sheets."""
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.namelist()
    except zipfile.BadZipFile:
        members = []
    if "header.npy" in members:
        raise CommandError(f"{name!r} is a model, not a table")
    if "xl/workbook.xml" not in members:
        raise CommandError(
            f"{name!r} is an archive, but no Excel file (.xlsx) that can be read; save "
            "the table as CSV"
        )
    if importlib.util.find_spec("openpyxl") is None:
        raise CommandError(
            "openpyxl is needed to read Excel files: pip install 'secret-jax[data]', "
            "or save the table as CSV"
        )
    if isinstance(source, io.BytesIO):
        source.seek(0)
