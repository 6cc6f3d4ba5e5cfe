"""Files as tables of cells.

The content decides whether a file is CSV, Excel, Parquet or JSON, not its name. Cells
of CSV stay text until a `secret_jax.cli.reading.Reading` says what they mean.
"""

import csv
import difflib
import gzip
import io
import json
import re
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from secret_jax.cli.messages import CommandError
from secret_jax.inspect.printing import listed
from secret_jax.runtime.environment import imported

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_JSON = re.compile(rb'\s*(\[\s*\{|\{\s*")')
_MOST_PARTS = 32  # of a record, or list, that become columns


class TableFile(NamedTuple):
    """A table and where it came from; its index numbers the rows of the file, from 0.

    ``lines`` is what to add to a row's number for the place people know: the line of
    CSV and Excel; 0 where rows are just numbered (Parquet, JSON). ``notes`` tell what
    was found out, ``hint`` what to say where a column is not there.
    """

    frame: pd.DataFrame
    path: str
    lines: int = 0
    separator: str = ""
    notes: tuple[str, ...] = ()
    hint: str = ""

    def column(self, name: str, what: str) -> str:
        """Return the name of a column, or raise an error that begins with ``what``."""
        columns, hint = [*self.frame], self.hint
        if name in columns:
            return name
        if self.lines and any(one.startswith("Unnamed: ") for one in columns):
            hint += "; if the header stands further down, give --skip N"
        if not any(re.search(r"[^\W\d_]", column) for column in columns):
            hint = f"; the first line must be a header with names{hint}"
        raise CommandError(
            f"{what} {name!r}, but there is no such column"
            f"{_did_you_mean(name, columns)} The columns are "
            f"{listed([*map(repr, columns)], n_max=12)}{hint}"
        )

    def place(self, row: int) -> str:
        """Where a row of the frame, counted from 0, stands in the file."""
        number: Any = self.frame.index[row]
        return f"line {number + self.lines}" if self.lines else f"row {number}"


def read_file(
    path: str, *, sheet: str | None = None, skip: int | None = None
) -> TableFile:
    """Read a file, or standard input ("-"); the header stands below ``skip`` lines."""
    name = "standard input" if path == "-" else path
    content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    if sheet is not None and not content.startswith(b"PK"):
        raise CommandError(f"{name!r} is no Excel file, which --sheet is for")
    try:
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        if content.startswith(b"PK"):
            if b"header.npy" in content[:1000]:
                raise CommandError(f"{name!r} is a model, not a table")
            table = _read_excel(name, content, sheet, skip or 0)
        elif content.startswith(b"PAR1") or _JSON.match(content):
            table = _read_typed(name, content)
        elif b"\0" in content and not content.startswith(_UTF16):
            raise CommandError(
                f"{name!r} holds binary data, neither CSV (.csv.gz) nor JSON nor "
                "Parquet nor Excel (.xlsx); unpack it, or save the table as CSV"
            )
        else:
            table = _read_text(name, content, skip)
    except CommandError:
        raise
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError, OSError) as error:
        damage = f"{name!r} is damaged, or of no kind known: {error}"
        raise CommandError(damage) from None
    if len(table.frame) == 0:
        raise CommandError(f"{name!r} has a header, but no rows")
    return table


def _read_typed(name: str, content: bytes) -> TableFile:
    """Read Parquet or JSON, whose cells have types; an index is a column, too."""
    if content.startswith(b"PAR1"):
        imported("pyarrow", "Parquet files", "data")
        frame = pd.read_parquet(io.BytesIO(content))
    else:
        lines = re.findall(rb"^\s*(\{.*\})\s*$", content, re.MULTILINE)
        records = [*map(json.loads, lines)] if len(lines) > 1 else json.loads(content)
        frame = pd.DataFrame(records)
    counting = [*map(str, frame.index)] == [*map(str, range(len(frame)))]
    frame = frame.reset_index(drop=counting and frame.index.name is None)
    frame = frame.set_axis([*map(str, frame)], axis=1)
    notes, columns = list[str](), dict[str, pd.Series]()
    for i, column in enumerate(frame):
        _spread(str(column), frame.iloc[:, i], columns, notes)
    return TableFile(pd.DataFrame(columns), name, notes=tuple(notes))


def _spread(
    name: str, column: pd.Series, columns: dict[str, pd.Series], notes: list[str]
) -> None:
    """Add a column, or those of the records or of the short lists in its cells."""
    if column.dtype.kind == "m":
        notes.append(f"{name}: durations, read as hours")
        column = column / pd.Timedelta(hours=1)
    columns[name] = column
    if column.dtype != "O":
        return
    cells = column.map(lambda cell: getattr(cell, "tolist", lambda: cell)())
    known = cells[cells.map(type).isin([list, dict])]
    if known.empty:
        return
    items = known.map(
        lambda cell: cell if isinstance(cell, dict) else dict(enumerate(cell))
    )
    keys = dict.fromkeys(key for cell in items for key in cell)
    rest = cells.drop(known.index)
    ragged = known.map(type).eq(list) & (known.map(len) != len(keys))
    if rest.notna().any() or ragged.any() or len(keys) > _MOST_PARTS:
        notes.append(f"{name}: lists, or records, of many kinds are read as text")
        columns[name] = cells.mask(cells.index.isin(known.index), cells.map(str))
        return
    del columns[name]
    notes.append(
        f"{name}: read as {listed([f'{name}.{key}' for key in keys], n_max=4)}"
    )
    for key in keys:
        part = items.map(lambda cell, key=key: cell.get(key)).reindex(cells.index)
        _spread(f"{name}.{key}", part.infer_objects(), columns, notes)


def _read_excel(name: str, content: bytes, sheet: str | None, skip: int) -> TableFile:
    """Read a sheet; cells of a merged area below the header all have its value."""
    load = imported("openpyxl", "Excel files", "data").load_workbook
    book = load(io.BytesIO(content), data_only=True)
    sheets = {one.title: one for one in book.worksheets}
    chosen = next(iter(sheets)) if sheet is None else sheet
    if chosen not in sheets:
        raise CommandError(
            f"{name!r} has no sheet {chosen!r}{_did_you_mean(chosen, sheets)}"
            f" Its sheets are {listed([*map(repr, sheets)], n_max=12)}"
        )
    page = sheets[chosen]
    areas = [one for one in [*page.merged_cells.ranges] if one.min_row > 1 + skip]
    for area in areas:
        value = page.cell(area.min_row, area.min_col).value
        page.unmerge_cells(str(area))
        for row, column in area.cells:
            page.cell(row, column).value = value
    cells = pd.DataFrame(page.iter_rows(min_row=1 + skip, values_only=True))
    cells = cells.where(cells.notna() & (cells != ""), None)
    here = cells.notna().to_numpy()
    last_row, last_column = (
        np.flatnonzero(here.any(axis=axis)).max(initial=-1) + 1 for axis in (1, 0)
    )
    table = _headed(name, cells.iloc[:last_row, :last_column], 1 + skip)
    empty = table.frame.isna().all()
    if empty.any():  # formulas that no program has computed have no values
        page = load(io.BytesIO(content))[chosen]
        for i in np.flatnonzero(empty).tolist():
            if page.cell(3 + skip, 1 + i).data_type == "f":
                raise CommandError(
                    f"column {empty.index[i]!r} of {name!r} holds formulas without "
                    "their values; open the file in a spreadsheet and save it"
                )
    notes = list[str]()
    if n_areas := len(areas):
        notes.append(f"each cell of {n_areas} merged areas is read as the area's value")
    others = listed([f"--sheet {one!r}" for one in sheets if one != chosen])
    hint = ""
    if others:
        notes.append(f"the sheet {chosen!r} of {len(sheets)} ({others} reads another)")
        hint = f"; this is the sheet {chosen!r}, {others} reads another"
    return table._replace(hint=hint, notes=(*notes, *table.notes))


def _read_text(name: str, content: bytes, skip: int | None) -> TableFile:
    """Read CSV in UTF-8, UTF-16, or what Windows writes."""
    first = "UTF-16" if content.startswith(_UTF16) else "UTF-8-sig"
    notes, text = (), ""
    for encoding in (first, "Windows-1252", "Latin-1"):
        try:
            text = content.decode(encoding)
            break
        except UnicodeDecodeError as error:
            odd = content[error.start : error.start + 1]
    if encoding != first:
        byte = f"the byte {odd[0]:#x} is {odd.decode(encoding)!r}"
        notes = (f"the file is not UTF-8 and is read as {encoding}: {byte}",)
    lines = text[:65536].splitlines(keepends=True)
    empty = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    before = empty if skip is None else skip
    # The one that makes most columns of the header.
    separator = max(
        ",;\t|",
        key=lambda mark: len(next(csv.reader(lines[before:], delimiter=mark), [])),
    )
    how: Any = {"sep": separator, "skiprows": before, "skip_blank_lines": False}
    how |= {"header": None, "dtype": str, "na_filter": False, "skipinitialspace": True}
    try:
        # Empty lines at the end are no rows.
        cells = pd.read_csv(io.StringIO(text.rstrip("\r\n")), **how)
    except pd.errors.EmptyDataError:
        raise CommandError(f"{name!r} is empty") from None
    except pd.errors.ParserError as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise CommandError(
            f"{name!r} is not a well-formed CSV file: {reason.rstrip('.')}. Each line "
            f"must have as many values as the header, separated by {separator!r}; "
            "--skip N says that the header stands N lines down"
        ) from None
    table = _headed(name, cells, 1 + before)
    return table._replace(separator=separator, notes=notes + table.notes)


def _headed(name: str, cells: pd.DataFrame, lines: int) -> TableFile:
    """Take the first row as names, without blanks around."""
    names, notes = list[str](), list[str]()
    for i, cell in enumerate(cells.iloc[0] if len(cells) else ()):
        bare = new = "" if pd.isna(cell) else str(cell).strip()
        while new in names or not new:
            new = f"{new}.1" if new else f"Unnamed: {i}"
        if bare not in ("", new):
            notes.append(f"{bare!r} stands twice in the header: read as {new!r}")
        names.append(new)
    frame = cells.iloc[1:].set_axis(names, axis=1).infer_objects()
    return TableFile(frame, name, lines, notes=tuple(notes))


def _did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """End a sentence, and ask for the candidate most like a name, if any is."""
    by_case = {candidate.casefold(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.casefold(), by_case, n=1)
    return f"; did you mean {by_case[near[0]]!r}?" if near else "."
