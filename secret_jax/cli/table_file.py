"""Tables in CSV and Parquet files, and what is wrong with them in their owner's words.

Messages name the file's own lines, which only whoever read the file can know.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class TableFileError(ValueError):
    """A file that holds no table, or not the table that was asked for."""


class TableFile(NamedTuple):
    """A table and where it came from.

    Attributes
    ----------
    frame : pandas.DataFrame
    path : str
    lines : bool
        Whether rows are lines of text (CSV) and not just numbered (Parquet).
    """

    frame: pd.DataFrame
    path: str
    lines: bool

    def place(self, row: int) -> str:
        """Where a row, counted from 0, stands; a CSV file has its header in line 1."""
        return f"line {row + 2}" if self.lines else f"row {row}"

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Replace "row 3" in the messages of errors by the row's place in the file."""
        try:
            yield
        except ValueError as error:
            message = re.sub(
                r"\brow (\d+)", lambda match: self.place(int(match[1])), str(error)
            )
            raise TableFileError(message) from None


def read_table(path: str, text_columns: Sequence[str] = ()) -> TableFile:
    """Read a CSV or Parquet file; its content decides, not its name.

    Parameters
    ----------
    path : str
        CSV files are UTF-8 with a header; values are separated by commas, semicolons,
        tabs or bars.
    text_columns : sequence of str
        Columns of a CSV file that stay text even if everything in them is a number.

    Returns
    -------
    TableFile
        With at least one row.

    Raises
    ------
    TableFileError
        If there is no such file, or no table in it; the message says why.
    OSError
        If the file cannot be opened.
    """
    import pandas as pd

    if not os.path.exists(path):
        folder = os.path.dirname(path) or "."
        siblings = os.listdir(folder) if os.path.isdir(folder) else []
        hint = did_you_mean(os.path.basename(path), siblings)
        raise TableFileError(f"there is no file {path!r}{hint}")
    if os.path.isdir(path):
        raise TableFileError(f"{path!r} is a folder; give a CSV or Parquet file")
    with open(path, "rb") as file:
        start = file.read(65536)
    if start.startswith(b"PAR1"):
        table = TableFile(_read_parquet(path), path, lines=False)
    elif b"\0" in start:
        raise TableFileError(
            f"{path!r} holds binary data, neither CSV nor Parquet; export the table as "
            "CSV in UTF-8"
        )
    else:
        header = start.split(b"\n", 1)[0].decode("utf-8", "replace")
        separator = max(",;\t|", key=header.count)
        text = dict.fromkeys(text_columns, str)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = TableFile(_read_csv(path, separator, text), path, lines=True)
    table.frame.columns = table.frame.columns.map(str)  # Parquet may have others
    if len(table.frame) == 0:
        raise TableFileError(f"{path!r} has a header, but no rows")
    return table


def _read_parquet(path: str) -> pd.DataFrame:
    import pandas as pd

    if importlib.util.find_spec("pyarrow") is None:
        raise TableFileError(
            "pyarrow is needed to read Parquet files: pip install 'secret-jax[data]'"
        )
    try:
        return pd.read_parquet(path)
    except (ValueError, OSError) as error:  # pyarrow's errors are of these two kinds
        raise TableFileError(f"{path!r} is a damaged Parquet file: {error}") from None


def _read_csv(path: str, separator: str, dtype: Any) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(
            path,
            sep=separator,
            index_col=False,  # a line with too many values is an error, not an index
            low_memory=False,  # one type per column, not one per chunk
            dtype=dtype,
        )
    except pd.errors.EmptyDataError:
        raise TableFileError(f"{path!r} is empty") from None
    except UnicodeDecodeError as error:
        raise TableFileError(
            f"{path!r} is not UTF-8 text (it holds the byte "
            f"{error.object[error.start]:#x}); convert it, for example with: iconv -f "
            f"latin1 -t utf-8 {path} > converted.csv"
        ) from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise TableFileError(
            f"{path!r} is not a well-formed CSV file: {reason.rstrip('.')}. Each line "
            f"must have as many values as the header, separated by {separator!r}"
        ) from None


def number_column(table: TableFile, name: str) -> pd.Series:
    """A column of finite numbers, float64; for the target.

    Raises
    ------
    TableFileError
        If a value is missing or not a finite number; the message says where.
    """
    import pandas as pd

    column = table.frame[name]
    numbers = np.asarray(pd.to_numeric(column, errors="coerce"), np.float64)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad) == 0:
        return pd.Series(numbers, name=name)
    place, value = table.place(int(bad[0])), column.iloc[bad[0]]
    there_are = "there is 1" if len(bad) == 1 else f"there are {len(bad)}"
    if pd.isna(value):
        raise TableFileError(
            f"the target {name!r} has no value in {place}; delete such rows "
            f"({there_are})"
        )
    remedy = f"mend such values or delete their rows ({there_are})"
    if len(bad) == len(numbers):
        numeric = [str(c) for c in table.frame.select_dtypes("number").columns]
        remedy = f"choose a column of numbers: {', '.join(numeric[:8])}"
    raise TableFileError(
        f"the target {name!r} holds {str(value)!r} in {place}, which is no finite "
        f"number; {remedy}"
    )


def refuse_infinity(table: TableFile, columns: Iterable[str], remedy: str) -> None:
    """Raise if a value is infinite, with its place and the remedy."""
    for name in columns:
        values = table.frame[name]
        if values.dtype.kind != "f":
            continue
        infinite = np.isinf(values.to_numpy())
        if infinite.any():
            more = f" and {infinite.sum() - 1} more" if infinite.sum() > 1 else ""
            place = table.place(int(infinite.argmax()))
            raise TableFileError(
                f"column {name!r} holds infinity in {place}{more}; {remedy}"
            )


def known_column(name: str, columns: Sequence[str], what: str) -> str:
    """The name, if there is such a column; or an error that begins with ``what``."""
    if name in columns:
        return name
    shown = ", ".join(repr(str(column)) for column in list(columns)[:12])
    more = f" and {len(columns) - 12} more" if len(columns) > 12 else ""
    headless = all(re.fullmatch(r"[-+.\deE]+", str(column)) for column in columns)
    header = "; the first line must be a header with names" if headless else ""
    hint = did_you_mean(name, columns) or "."
    raise TableFileError(
        f"{what} {name!r}, but there is no such column{hint} The columns are "
        f"{shown}{more}{header}"
    )


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A question that names the candidate most like ``name``; empty if none is.

    Examples
    --------
    >>> did_you_mean("Ringz", ["sex", "rings"])
    "; did you mean 'rings'?"
    """
    folded = {str(candidate).casefold(): str(candidate) for candidate in candidates}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""
