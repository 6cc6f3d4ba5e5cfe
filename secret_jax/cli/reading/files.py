"""Files and standard input as tables of cells: CSV, Excel, Parquet and JSON.

The content decides what a file is, not its name, and pandas reads it. Cells of CSV stay
text here; what they mean is for `secret_jax.cli.reading.learning`.
"""

import csv
import gzip
import io
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Collection, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

import pandas as pd

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.problems import check_exists, did_you_mean, known_column
from secret_jax.inspect.printing import some
from secret_jax.runtime.optional import imported

_START = 65536  # bytes that say what a file is
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_JSON = re.compile(rb'\s*(\[\s*\{|\{\s*")')
_LINES_LOOKED_AT = 40  # people write shorter prefaces
_BELOW = "the header is in line {}, below a title or empty lines (--skip 0: in line 1)"


class TableFile(NamedTuple):
    """A table and where it came from.

    The index of ``frame`` numbers the rows of the file, from 0; cells of CSV are text
    as they stand there. ``lines`` is what to add to a row's number for the place people
    know: 2 where the header is line 1; 0 where rows are just numbered (Parquet).
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
        hint = self.hint
        if self.lines and any(one.startswith("Unnamed: ") for one in self.frame):
            hint += "; if the header stands further down, give --skip N"
        return known_column(name, [*self.frame], what, hint)

    def place(self, row: int) -> str:
        """Where a row of the frame, counted from 0, stands in the file."""
        number: Any = self.frame.index[row]
        return f"line {number + self.lines}" if self.lines else f"row {number}"


def read_file(
    path: str,
    *,
    sheet: str | None = None,
    skip: int | None = None,
    columns: Collection[str] = (),
) -> TableFile:
    """Read a file, or standard input ("-"), as a table of cells.

    The ``sheet`` of an Excel file is by default the first one that has the ``columns``;
    without ``skip``, a title above the header is found out.
    """
    name, source, start = _opened(path)
    if b"header.npy" in start and start.startswith(b"PK"):
        raise CommandError(f"{name!r} is a model, not a table")
    if sheet is not None and not start.startswith(b"PK"):
        raise CommandError(f"{name!r} is no Excel file, which --sheet is for")
    try:
        if start.startswith(b"PK"):
            imported("openpyxl", "Excel files", "data")
            table = _read_excel(name, source, sheet, skip, columns)
        elif start.startswith(b"PAR1"):
            imported("pyarrow", "Parquet files", "data")
            table = _typed(name, pd.read_parquet(source))
        elif _JSON.match(start):
            lines = len(re.findall(rb"^\s*\{.*\}\s*$", start, re.MULTILINE)) > 1
            how: Any = {"lines": lines, "dtype": False}
            table = _typed(name, pd.read_json(source, **how))
        elif b"\0" in start and not start.startswith(_UTF16):
            raise CommandError(
                f"{name!r} holds binary data, neither CSV (.csv.gz) nor JSON nor "
                "Parquet nor Excel (.xlsx); unpack it, or save the table as CSV"
            )
        else:
            table = _read_text(name, source, start, skip)
    except CommandError:
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise CommandError(
            f"{name!r} is damaged, or of no kind known: {error}"
        ) from None
    if len(table.frame) == 0:
        raise CommandError(f"{name!r} has a header, but no rows")
    return table


def _opened(path: str) -> tuple[str, Any, bytes]:
    """Name a file, say where to read it, and read its beginning.

    What can be read only once (standard input, a pipe), and what gzip has packed, comes
    as its content.
    """
    if path == "-":
        content, name = sys.stdin.buffer.read(), "standard input"
    else:
        check_exists(path)
        with open(path, "rb") as file:
            start = file.read(_START)
            if os.path.isfile(path) and not start.startswith(b"\x1f\x8b"):
                return path, path, start
            content, name = start + file.read(), path
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise CommandError(f"{name!r} is damaged: {error}") from None
    return name, io.BytesIO(content), content[:_START]


def _typed(name: str, frame: pd.DataFrame) -> TableFile:
    frame = frame.reset_index(drop=True).set_axis([*map(str, frame)], axis=1)
    for column in frame.columns[
        [kind.kind == "O" for kind in frame.dtypes]
    ]:  # lists are compared as text
        nested = frame[column].map(lambda cell: isinstance(cell, list | dict))
        frame[column] = frame[column].mask(nested, frame[column].map(str))
    return TableFile(frame, name)


def _read_excel(
    name: str,
    source: Any,
    sheet: str | None,
    skip: int | None,
    columns: Collection[str],
) -> TableFile:
    """Read a sheet: by default the first with all columns, or the widest."""
    how: Any = {"header": None, "dtype": object, "keep_default_na": False}
    book = pd.read_excel(source, sheet_name=None, na_values=[""], **how)
    if sheet is not None and sheet not in book:
        raise CommandError(
            f"{name!r} has no sheet {sheet!r}{did_you_mean(sheet, book) or '.'} "
            f"Its sheets are {some([repr(one) for one in book], most=12)}"
        )
    found = {}
    for one, cells in book.items() if sheet is None else [(sheet, book[sheet])]:
        rows = cells.head(_LINES_LOOKED_AT).fillna("").astype(str).to_numpy().tolist()
        before = header_row(rows) if skip is None else skip
        frame = cells.iloc[before + 1 :].reset_index(drop=True).infer_objects()
        header = cells.iloc[before : before + 1].fillna("").astype(str).to_numpy().flat
        title = [_BELOW.format(before + 1)] * (skip is None and before > 0)
        table = _named(name, frame, [*header])
        found[one] = table._replace(lines=2 + before, notes=(*title, *table.notes))
    fitting = [one for one in found if set(columns) <= set(found[one].frame)]
    chosen = [*fitting, max(found, key=lambda one: found[one].frame.shape[1])][0]
    others = some([f"--sheet {one!r}" for one in book if one != chosen])
    if not others:
        return found[chosen]
    told = f"the sheet {chosen!r} of {len(book)} ({others} reads another)"
    hint = f"; this is the sheet {chosen!r}, {others} reads another"
    return found[chosen]._replace(hint=hint, notes=(told, *found[chosen].notes))


def _read_text(name: str, source: Any, start: bytes, skip: int | None) -> TableFile:
    """Read CSV in UTF-8, UTF-16, or what Windows writes."""
    first = "utf-16" if start.startswith(_UTF16) else "utf-8-sig"
    text = start.decode(first, "replace")
    separator, before = start_of(text, skip)
    notes = [_BELOW.format(before + 1)] * (skip is None and before > 0)
    how: dict[str, Any] = {"sep": separator, "skiprows": before}
    for encoding in (first, "cp1252", "latin-1"):
        try:
            header = _parsed(name, source, encoding, header=None, nrows=1, **how)
            frame = _parsed(name, source, encoding, **how)
            break
        except UnicodeDecodeError as error:
            odd = error.object[error.start : error.start + 1]
    if encoding != first:
        called = {"cp1252": "Windows-1252"}.get(encoding, "Latin-1")
        byte = f"the byte {odd[0]:#x} is {odd.decode(encoding)!r}"
        notes.append(f"the file is not UTF-8 and is read as {called}: {byte}")
    table = _named(name, frame, header.iloc[0].tolist())
    notes = (*notes, *table.notes)
    return table._replace(lines=2 + before, separator=separator, notes=notes)


def _parsed(name: str, source: Any, encoding: str, **options: Any) -> pd.DataFrame:
    """Read the cells of CSV as text."""
    if isinstance(source, io.BytesIO):
        source.seek(0)
    # A line with too many values is an error, no index.
    cells: Any = {"dtype": str, "na_filter": False, "index_col": False}
    cells |= {"skipinitialspace": True, "encoding": encoding}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(source, **cells, **options)
    except pd.errors.EmptyDataError:
        raise CommandError(f"{name!r} is empty") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise CommandError(
            f"{name!r} is not a well-formed CSV file: {reason.rstrip('.')}. Each line "
            f"must have as many values as the header, separated by "
            f"{options['sep']!r}; --skip N says that the header stands N lines down"
        ) from None


def _named(name: str, frame: pd.DataFrame, header: Sequence[str]) -> TableFile:
    """Name columns without blanks around; a name that stands twice gets a number."""
    bare = [cell.strip() or f"Unnamed: {i}" for i, cell in enumerate(header)]
    names: dict[str, str] = {}
    for one in bare:
        free = (new for k in count(1) if (new := f"{one}.{k}") not in {*names, *bare})
        names[next(free) if one in names else one] = one
    copies = [(new, old) for new, old in names.items() if new != old]
    notes = (
        f"{old!r} stands twice in the header: read as {new!r}" for new, old in copies
    )
    return TableFile(frame.set_axis([*names], axis=1), name, 0, "", tuple(notes))


def start_of(text: str, skip: int | None = None) -> tuple[str, int]:
    """Find the separator of a CSV file, and the number of lines before its header.

    It is the separator that makes most columns of the header.
    """
    lines = text.splitlines(keepends=True)[skip or 0 :]
    starts = []
    for separator in ",;\t|":
        reader = csv.reader(lines, delimiter=separator)
        rows, ends = [], [0]
        try:
            for row in islice(reader, _LINES_LOOKED_AT):
                rows.append(row)
                ends.append(reader.line_num)
        except csv.Error:  # pandas will say what is wrong
            pass
        first = 0 if skip is not None else header_row(rows)
        starts.append((len(rows[first]) if rows else 0, ends[first], separator))
    _, before, separator = max(starts, key=lambda start: start[0])
    return separator, before + (skip or 0)


def header_row(rows: Sequence[Sequence[str]]) -> int:
    """Find the header among the first rows: below titles of one cell, and empty lines.

    Examples
    --------
    >>> header_row([["Prices 2024", "", ""], ["", "", ""], ["a", "b", "c"], ["1"] * 3])
    2
    """
    filled = [[cell for cell in row if cell.strip()] for row in rows]
    first = next((i for i, cells in enumerate(filled) if len(cells) > 1), 0)
    named = all(re.search(r"[^\W\d_]", cell) for cell in filled[first]) if rows else 0
    return first if named else 0
