"""Files and standard input as tables of cells: CSV, Excel, Parquet and JSON.

The content decides what a file is, not its name, and pandas reads it. Cells of CSV stay
text here; what they mean is for `secret_jax.cli.learning`.
"""

import csv
import difflib
import gzip
import io
import re
import sys
import zipfile
from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd

from secret_jax.cli.messages import CommandError
from secret_jax.inspect.printing import listed
from secret_jax.runtime.environment import imported

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_JSON = re.compile(rb'\s*(\[\s*\{|\{\s*")')


class TableFile(NamedTuple):
    """A table and where it came from.

    The index of ``frame`` numbers the rows of the file, from 0; cells of CSV are text
    as they stand there. ``lines`` is what to add to a row's number for the place people
    know: the line of CSV and Excel; 0 where rows are just numbered (Parquet, JSON).
    ``notes`` tell what was found out, ``hint`` what to say where a column is not there.
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
    """Read a file, or standard input ("-"), as a table of cells.

    The header stands below ``skip`` lines; of an Excel file the first ``sheet`` is read
    by default.
    """
    if path == "-":
        content, name = sys.stdin.buffer.read(), "standard input"
    else:
        with open(path, "rb") as file:
            content, name = file.read(), path
    if sheet is not None and not content.startswith(b"PK"):
        raise CommandError(f"{name!r} is no Excel file, which --sheet is for")
    try:
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        if content.startswith(b"PK") and b"header.npy" in content[:1000]:
            raise CommandError(f"{name!r} is a model, not a table")
        if content.startswith(b"PK"):
            table = _read_excel(name, content, sheet, skip or 0)
        elif content.startswith(b"PAR1") or _JSON.match(content):
            table = TableFile(_read_typed(content), name)
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


def _read_typed(content: bytes) -> pd.DataFrame:
    """Read Parquet or JSON, whose cells have types; nested ones become text."""
    if content.startswith(b"PAR1"):
        imported("pyarrow", "Parquet files", "data")
        frame = pd.read_parquet(io.BytesIO(content))
    else:
        lines = len(re.findall(rb"^\s*\{.*\}\s*$", content, re.MULTILINE)) > 1
        how: Any = {"lines": lines, "dtype": False}
        frame: Any = pd.read_json(io.BytesIO(content), **how)
    frame = frame.reset_index(drop=True).set_axis([*map(str, frame)], axis=1)
    for column in (one for one in frame if frame[one].dtype == "O"):
        nested = frame[column].map(lambda cell: isinstance(cell, list | dict))
        frame[column] = frame[column].mask(nested, frame[column].map(str))
    return frame


def _read_excel(name: str, content: bytes, sheet: str | None, skip: int) -> TableFile:
    imported("openpyxl", "Excel files", "data")
    how: Any = {"header": None, "dtype": object, "keep_default_na": False}
    how |= {"sheet_name": None, "skiprows": skip, "na_values": [""]}
    book = pd.read_excel(io.BytesIO(content), **how)
    chosen = next(iter(book)) if sheet is None else sheet
    if chosen not in book:
        raise CommandError(
            f"{name!r} has no sheet {chosen!r}{_did_you_mean(chosen, book)}"
            f" Its sheets are {listed([*map(repr, book)], n_max=12)}"
        )
    table = _headed(name, book[chosen], 1 + skip)
    others = listed([f"--sheet {one!r}" for one in book if one != chosen])
    if not others:
        return table
    note = f"the sheet {chosen!r} of {len(book)} ({others} reads another)"
    hint = f"; this is the sheet {chosen!r}, {others} reads another"
    return table._replace(hint=hint, notes=(note, *table.notes))


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
