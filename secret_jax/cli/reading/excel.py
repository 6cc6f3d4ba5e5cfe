"""Excel files as tables of cells: which sheet, and where the header is."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from secret_jax.cli.reading.layout import header_row, preface_note, preface_of
from secret_jax.cli.reading.problems import TableFileError, did_you_mean, some

if TYPE_CHECKING:
    import pandas as pd

# Rows of a sheet in which the header is looked for.
_LOOKED_AT = 40


class Sheet(NamedTuple):
    """A table of an Excel file.

    Attributes
    ----------
    skip : int
        Lines before the header.
    hint : str
        What to say where a column is not there.
    """

    frame: pd.DataFrame
    skip: int
    notes: tuple[str, ...]
    hint: str


def read_excel(
    name: str,
    source: str | io.BytesIO,
    sheet: str | None,
    skip: int | None,
    columns: Collection[str],
) -> Sheet:
    """Read a sheet of an Excel file.

    Parameters
    ----------
    name : str
        Of the file, for messages.
    sheet : str or None
        None: the first one whose header has all ``columns``, or the first one.
    skip : int or None
        Lines before the header; None: found out.

    Raises
    ------
    TableFileError
        If it is no Excel file, or has no such sheet.
    """
    import pandas as pd

    _check(name, source)
    book: Any
    with pd.ExcelFile(source, engine="openpyxl") as book:
        names = [str(one) for one in book.sheet_names]
        starts = {}
        if sheet is None:
            for one in names:
                starts[one] = _start(book, one, skip)
                if set(columns) <= set(starts[one][1]):
                    sheet = one
                    break
        # A name was misspelt, then, and nothing is as wide as a table.
        widest = max(starts or names, key=lambda one: len(starts.get(one, ("", ""))[1]))
        chosen = widest if sheet is None else sheet
        if chosen not in names:
            raise TableFileError(
                f"{name!r} has no sheet {chosen!r}{did_you_mean(chosen, names) or '.'} "
                f"Its sheets are {some([repr(one) for one in names], most=12)}"
            )
        before, _, preface = starts.get(chosen) or _start(book, chosen, skip)
        frame = pd.read_excel(
            book, chosen, skiprows=before, dtype=object, keep_default_na=False
        )
    frame = frame.where(frame.map(lambda cell: cell != ""), None).infer_objects()
    notes = () if skip is not None else preface_note(name, before, preface)
    hint = ""
    if len(names) > 1:
        others = [f"--sheet {one!r}" for one in names if one != chosen]
        hint = f"; this is the sheet {chosen!r}, {some(others)} reads another"
        if sheet is None or starts:
            said = f"{name}: the sheet {chosen!r} of {len(names)}"
            notes = (f"{said} ({some(others)} reads another)", *notes)
    return Sheet(frame, before, notes, hint)


def _start(book: Any, sheet: str, skip: int | None) -> tuple[int, list[str], str]:
    """Lines before the header of a sheet, its names, and what stands before it."""
    import pandas as pd

    cells: dict[str, Any] = {"dtype": object, "keep_default_na": False}
    head = pd.read_excel(book, sheet_name=sheet, header=None, nrows=_LOOKED_AT, **cells)
    rows = [[str(cell) for cell in row] for row in head.to_numpy().tolist()]
    before = header_row(rows) if skip is None else skip
    names = [cell.strip() for cell in rows[before]] if before < len(rows) else []
    return before, names, preface_of([" ".join(row) for row in rows[:before]])


def _check(name: str, source: str | io.BytesIO) -> None:
    """Refuse archives that hold no sheets."""
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.namelist()
    except zipfile.BadZipFile:
        members = []
    if "header.npy" in members:
        raise TableFileError(f"{name!r} is a model, not a table")
    if "xl/workbook.xml" not in members:
        raise TableFileError(
            f"{name!r} is an archive, but no Excel file (.xlsx) that can be read; save "
            "the table as CSV"
        )
    if importlib.util.find_spec("openpyxl") is None:
        raise TableFileError(
            "openpyxl is needed to read Excel files: pip install 'secret-jax[data]', "
            "or save the table as CSV"
        )
    if isinstance(source, io.BytesIO):
        source.seek(0)
