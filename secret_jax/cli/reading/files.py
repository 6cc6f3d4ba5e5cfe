"""Files and standard input as tables of cells: CSV, Parquet and Excel.

The content decides what a file is, not its name. Cells of CSV stay text here; what
they mean is for `secret_jax.cli.reading.table`.
"""

import io
import os
import re
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.excel import read_excel
from secret_jax.cli.reading.layout import preface_note, start_of
from secret_jax.cli.reading.problems import check_exists, known_column
from secret_jax.runtime.optional import PackageError, imported

_START = 65536  # bytes that say what a file is
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"


class TableFile(NamedTuple):
    """A table and where it came from.

    The index of ``frame`` numbers the rows of the file, from 0; cells of CSV are text
    as they stand there, but for columns that can be nothing but numbers with decimals,
    or truth values. ``lines`` is what to add to a row's number for the place people
    know: 2 for CSV and Excel where the header is line 1; 0 where rows are just numbered
    (Parquet). ``separator`` is that of CSV, ``notes`` tell what was found out, and
    ``hint`` what else to say where a column is not there.
    """

    frame: pd.DataFrame
    path: str
    lines: int
    separator: str = ""
    notes: tuple[str, ...] = ()
    hint: str = ""

    def series(self, name: str) -> pd.Series:
        """The cells of a column."""
        return cast("pd.Series", self.frame[name])

    def column(self, name: str, what: str) -> str:
        """Return the name of a column, or raise an error that begins with ``what``."""
        columns = [str(column) for column in self.frame.columns]
        hint = self.hint
        if self.lines and any(re.fullmatch(r"Unnamed: \d+", one) for one in columns):
            hint += "; if the header stands further down, give --skip N"
        return known_column(name, columns, what, hint)

    def place(self, row: int) -> str:
        """Where a row of the frame, counted from 0, stands in the file."""
        number: Any = self.frame.index[row]
        return f"line {number + self.lines}" if self.lines else f"row {number}"

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Replace "row 3" in the messages of errors by the row's place in the file."""
        try:
            yield
        except ValueError as error:
            message = re.sub(
                r"\brow (\d+)", lambda match: self.place(int(match[1])), str(error)
            )
            raise CommandError(message) from None

    def refuse_infinity(self, X: pd.DataFrame, remedy: str) -> None:
        """Raise if a value of the columns read from this file is infinite."""
        for name, values in X.select_dtypes("floating").items():
            infinite = np.isinf(values.to_numpy())
            if infinite.any():
                more = f" and {infinite.sum() - 1} more" if infinite.sum() > 1 else ""
                place = self.place(int(infinite.argmax()))
                raise CommandError(
                    f"column {name!r} holds infinity in {place}{more}; {remedy}"
                )


def read_file(
    path: str,
    text_columns: Collection[str] = (),
    *,
    sheet: str | None = None,
    skip: int | None = None,
    columns: Collection[str] = (),
) -> TableFile:
    """Read a CSV, Parquet or Excel file, or standard input ("-"), as a table of cells.

    ``text_columns`` of CSV stay text whatever is in them. The ``sheet`` of an Excel
    file is by default the first one that has the ``columns`` that there should be;
    without ``skip`` lines, titles and empty lines above the header are found out.
    """
    name, source, start = _opened(path)
    is_excel = start.startswith(b"PK\x03\x04")
    if sheet is not None and not is_excel:
        raise CommandError(f"{name!r} is no Excel file, which --sheet is for")
    if start.startswith(b"PAR1"):
        with _packages_of_pandas():
            table = TableFile(_read_parquet(name, source), name, lines=0)
    elif is_excel:
        with _packages_of_pandas():
            frame, before, notes, hint = read_excel(name, source, sheet, skip, columns)
        table = TableFile(frame, name, 2 + before, notes=notes, hint=hint)
    elif start.startswith(_OLD_EXCEL):
        raise CommandError(
            f"{name!r} is an Excel file of the old kind (.xls); save it as .xlsx or CSV"
        )
    elif b"\0" in start and not start.startswith(_UTF16):
        raise CommandError(
            f"{name!r} holds binary data, neither CSV nor Parquet nor Excel; export "
            "the table as CSV in UTF-8"
        )
    else:
        table = _read_text(name, source, start, text_columns, skip)
    table.frame.columns = table.frame.columns.map(str)  # Parquet may have others
    if len(table.frame) == 0:
        raise CommandError(f"{name!r} has a header, but no rows")
    return table


def _opened(path: str) -> tuple[str, str | io.BytesIO, bytes]:
    """Name a file, say where to read it, and read its beginning.

    What can be read only once (standard input, a pipe) comes as its content.
    """
    if path == "-":
        content = sys.stdin.buffer.read()
        return "standard input", io.BytesIO(content), content[:_START]
    check_exists(path)
    if os.path.isdir(path):
        raise CommandError(f"{path!r} is a folder; give a CSV, Parquet or Excel file")
    with open(path, "rb") as file:
        if os.path.isfile(path):
            return path, path, file.read(_START)
        content = file.read()
    return path, io.BytesIO(content), content[:_START]


@contextmanager
def _packages_of_pandas() -> Iterator[None]:
    """Tell what pandas says of packages that it misses, or that are too old for it."""
    try:
        yield
    except ImportError as error:
        raise PackageError(str(error)) from error


def _read_parquet(name: str, source: str | io.BytesIO) -> pd.DataFrame:
    imported("pyarrow", "Parquet files", "data")
    try:
        return pd.read_parquet(source).reset_index(drop=True)
    except (ValueError, OSError) as error:  # pyarrow's errors are of these two kinds
        raise CommandError(f"{name!r} is a damaged Parquet file: {error}") from None


def _read_text(
    name: str,
    source: str | io.BytesIO,
    start: bytes,
    text_columns: Collection[str],
    skip: int | None,
) -> TableFile:
    """Read CSV in UTF-8, UTF-16, or what Windows writes."""
    encoding = "utf-16" if start.startswith(_UTF16) else "utf-8-sig"
    separator, before, preface = start_of(start.decode(encoding, "replace"), skip)
    notes = [] if skip is not None else [*preface_note(name, before, preface)]
    called = {encoding: "", "cp1252": "Windows-1252", "latin-1": "Latin-1"}
    for encoding, other in called.items():
        how = {"sep": separator, "skiprows": before, "encoding": encoding}
        try:
            frame = _read_csv(name, source, text_columns, how)
        except UnicodeDecodeError as error:
            if not other:
                odd = error.object[error.start : error.start + 1]
            continue
        if other:
            notes.append(
                f"{name} is not UTF-8 and is read as {other}: the byte {odd[0]:#x} is "
                f"{odd.decode(encoding)!r}"
            )
        return TableFile(frame, name, 2 + before, separator, tuple(notes))
    raise AssertionError("Latin-1 has a character for every byte")


def _read_csv(
    name: str,
    source: str | io.BytesIO,
    text_columns: Collection[str],
    how: dict[str, Any],
) -> pd.DataFrame:
    """Read cells as text, but for numbers with decimals that commas keep apart.

    Text takes ten times as long as numbers.
    """
    if how["sep"] != ",":
        return _parsed(name, source, dtype=str, na_filter=False, **how)
    types = dict.fromkeys(text_columns, str)
    frame = _parsed(
        name, source, dtype=types, keep_default_na=False, na_values=[""], **how
    )
    # Of whole numbers the text knows more: leading zeros, dates, names of rows.
    whole = [
        place
        for place, (_, column) in enumerate(frame.items())
        if column.dtype.kind in "iu"
        or (column.dtype.kind == "f" and not (column % 1 > 0).any())
    ]
    if whole:
        text = _parsed(name, source, dtype=str, na_filter=False, usecols=whole, **how)
        frame[text.columns] = text
    return frame


def _parsed(name: str, source: str | io.BytesIO, **options: Any) -> pd.DataFrame:
    if isinstance(source, io.BytesIO):
        source.seek(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                source,
                index_col=False,  # a line with too many values is an error, no index
                low_memory=False,  # one type per column, not one per chunk
                **options,
            )
    except pd.errors.EmptyDataError:
        raise CommandError(f"{name!r} is empty") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise CommandError(
            f"{name!r} is not a well-formed CSV file: {reason.rstrip('.')}. Each line "
            f"must have as many values as the header, separated by "
            f"{options['sep']!r}; --skip N says that the header stands N lines down"
        ) from None
