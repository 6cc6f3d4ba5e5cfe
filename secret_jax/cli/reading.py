"""Files as tables of cells, how the cells are written, and how others are read alike.

The content decides whether a file is CSV, Excel, Parquet or JSON, not its name, and
pandas reads it. Cells of CSV stay text until a `Reading` says what they mean; one that
is learned of a file (`secret_jax.cli.learning`) reads all others alike.
"""

import csv
import difflib
import gzip
import io
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from pandas.api.types import is_string_dtype

from secret_jax.cli.messages import CommandError
from secret_jax.inspect.printing import listed
from secret_jax.runtime.environment import imported

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_JSON = re.compile(rb'\s*(\[\s*\{|\{\s*")')
ISO = "ISO8601"
_SIGN = r"[%‰$€£¥₹]|US\$|CHF|EUR|USD|GBP"
_NUMBER = (
    rf"\A(?P<sign>[-+]?)\s*(?:(?P<before>{_SIGN})\s*)?"
    r"(?P<body>[-+]?(?:\d(?:[\d.,' ]*[\d.,'])?|[.,]\d+)(?:[eE][-+]?\d+)?)"
    rf"\s*(?P<after>(?:{_SIGN}|[^\W\d_]|[°\"])\D{{0,15}})?\Z"
)
# Blanks, apostrophes and signs as text programs and other languages have them.
_SAME = str.maketrans("\u2019\u00a0\u2009\u202f\u2212", "'   -")
# What groups digits and what begins decimals; of those that say the same the first.
_CONVENTIONS = [("", "."), (",", "."), ("", ","), (".", ","), *product("' ", ".,")]
# Of fewer different numbers with a unit ("2WD", "4WD") one cannot say that they are.
_FEWEST_WITH_UNIT = 3
_DAYS = [f"%d{mark}%m{mark}%{year}" for mark, year in product("/.-", "Yy")]
_DAYS += [f"%m{mark}%d{mark}%{year}" for mark, year in product("/-", "Yy")]
_DAYS += ["%Y-%m-%d", "%Y/%m/%d", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y"]
_DAYS += ["%b %d, %Y", "%B %d, %Y"]
_CLOCKS = ["", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M%p"]
_CLOCKS += [" %I:%M:%S %p", " %I:%M:%S%p"]
_MONTHS = [f"%{month}{mark}%Y" for month, mark in product("bB", "- ")]
_MONTHS += ["%b-%y", "%b %y", "%m/%Y"]
_FORMS = ["%Y%m%d", ISO, *_MONTHS, *map("".join, product(_DAYS, _CLOCKS))]
_QUARTER = r"\A(?:(\d{4})[- ]?Q([1-4])|Q([1-4])[- /]?(\d{4}))\Z"
_KINDS = {"b": "truth", "M": "date"} | dict.fromkeys("iuf", "number")
_TRIED = 10  # texts that show which formats may be those of all
_MOST = 0.5  # a column of which more is of one kind is meant to be of it

# What spreadsheets and programs write where there is nothing.
MISSING = ("", "?", "-", "--", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan")
MISSING += ("-nan", "-NaN", "NULL", "null", "None")


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


@dataclass(frozen=True, kw_only=True)
class ColumnFormat:
    """How the cells of a column are written: what is said of them, and what reads them.

    Numbers have ``thousands`` between groups of three digits, ``decimal`` before the
    decimals, and a ``unit`` before or after them, which zero alone may lack. Dates have
    a ``form`` as `time.strptime` knows it; quarters are their first months. Of
    ``verbatim`` text only an empty cell is missing; in ``folded`` text case and blanks
    mean nothing.
    """

    kind: Literal["number", "date", "truth", "text"] = "number"
    thousands: str = ""
    decimal: str = "."
    unit: str = ""
    form: str = ISO
    verbatim: bool = False
    folded: bool = False

    def parse(self, texts: pd.Series) -> pd.Series:
        """Read texts as float64, datetime64, bool or text; missing where it cannot."""
        if self.kind == "date":
            texts = texts.str.replace(
                _QUARTER,
                lambda q: f"{q[1] or q[4]}-{3 * int(q[2] or q[3]) - 2:02}",
                regex=True,
            )
            dates = pd.to_datetime(texts, format=self.form, errors="coerce", utc=True)
            return dates.dt.tz_localize(None).astype("datetime64[s]")
        if self.kind == "truth":
            return texts.str.casefold().map({"true": True, "false": False})
        if self.kind == "text":
            return texts.map(folded) if self.folded else texts
        texts = texts.str.translate(_SAME)
        if self == ColumnFormat():
            return to_numbers(texts).where(np.isfinite)
        parts = _taken_apart(texts)
        mark, point = re.escape(self.thousands), re.escape(self.decimal)
        grouped = rf"\d{{1,3}}(?:{mark}\d{{3}})+|" if mark else ""
        written = rf"[-+]?(?:{grouped}\d*)(?:{point}\d*)?(?:[eE][-+]?\d+)?"
        body = parts["body"].where(parts["body"].str.fullmatch(written))
        body = body.str.replace(self.thousands, "", regex=False) if mark else body
        body = body.str.replace(self.decimal, ".", regex=False)
        values = to_numbers(parts["sign"] + body).where(np.isfinite)
        return values.where((parts["unit"] == self.unit) | (values == 0))

    def sentence(self) -> str:
        """Describe the format."""
        if self.kind == "date":
            how = "year-month-day" if self.form == ISO else self.form
            return f"dates ({how}): year, month, weekday and days"
        marks = {" ": "blanks", ",": "commas", ".": "dots", "'": "apostrophes"}
        words = [f"{marks[self.thousands]} between thousands"] if self.thousands else []
        words += ["a decimal comma"] if self.decimal == "," else []
        words += [f"the unit {self.unit!r}"] if self.unit else []
        numbers = f"numbers{' with ' if words else ''}{' and '.join(words)}"
        return {"truth": "true or false", "text": "categories"}.get(self.kind, numbers)


class Found(NamedTuple):
    """Formats that all cells fit, without those that say the same; or the nearest."""

    formats: tuple[ColumnFormat, ...] = ()
    nearest: ColumnFormat | None = None  # which most cells fit, if any is


def find_numbers(cells: pd.Series) -> Found:
    """Find the formats in which all cells, without missing ones, are numbers."""
    texts = pd.Series(cells.unique(), dtype=object)
    if to_numbers(texts).notna().all():  # without dots that may group digits
        dotted = texts[texts.str.contains(".", regex=False)]
        if dotted.empty or not all(dotted.str.fullmatch(r"[-+]?\d{1,3}(\.\d{3})+")):
            return Found((ColumnFormat(),))
    parts = _taken_apart(texts.str.translate(_SAME))
    parts = parts[parts["unit"] != ""]
    units = parts["unit"].unique()
    alike = len({*parts["body"]}) < _FEWEST_WITH_UNIT
    if len(units) > 1 or (alike and not all(re.fullmatch(_SIGN, one) for one in units)):
        return Found()
    ways = product(units if len(units) else [""], _CONVENTIONS)
    return _fitting(
        cells, [ColumnFormat(unit=u, thousands=t, decimal=d) for u, (t, d) in ways]
    )


def find_dates(cells: pd.Series) -> Found:
    """Find the formats of dates of all cells: two where day and month may be either."""
    return _fitting(cells, [ColumnFormat(kind="date", form=form) for form in _FORMS])


def _fitting(cells: pd.Series, formats: Sequence[ColumnFormat]) -> Found:
    """Keep formats that read all cells, or the one that reads most of them."""
    texts = pd.Series(cells.unique(), dtype=object)
    likely = [one for one in formats if one.parse(texts[:_TRIED]).notna().any()]
    read = {one: one.parse(texts) for one in likely}
    different = {
        values.to_numpy().tobytes(): one
        for one, values in reversed(read.items())
        if values.notna().all()
    }
    if different or not read:
        return Found(tuple(reversed(different.values())))
    shares = {
        one: cells.isin(texts[values.notna()]).mean() for one, values in read.items()
    }
    nearest = max(shares, key=lambda one: shares[one])
    return Found((), nearest if shares[nearest] > _MOST else None)


def to_numbers(texts: pd.Series) -> pd.Series:
    """Read numbers as programs write them, float64; NaN for other texts."""
    return pd.Series(pd.to_numeric(texts, errors="coerce"), dtype=np.float64)


def folded(text: str) -> str:
    """Write a text in small letters, with single blanks inside and none around it."""
    return " ".join(text.split()).casefold()


def _taken_apart(texts: pd.Series) -> pd.DataFrame:
    """Sign, body and unit of numbers, a column each; what is none is empty."""
    parts = texts.astype(object).str.extract(_NUMBER).astype(object).fillna("")
    return parts.assign(unit=parts["before"] + parts["after"].str.rstrip())


class Column(NamedTuple):
    """Cells of a column of a table as text without blanks around; None if missing."""

    table: TableFile
    name: str
    kind: str  # what the type of the column says that it is; see `kind_of`
    cells: pd.Series
    known: pd.Series  # cells that are not missing

    def held(self, text: str) -> str:
        """Begin a message about a text in the column: where it stands, how often."""
        here = (self.cells == text).to_numpy()
        place = self.table.place(int(here.argmax()))
        often = f"{here.sum()} of {self.cells.count()} values"
        return f"column {self.name!r} holds {text!r} in {place} ({often})"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the columns of a table are read, by name, and which cells are missing."""

    formats: Mapping[str, ColumnFormat] = field(default_factory=dict)
    missing: tuple[str, ...] = MISSING

    def apply(self, table: TableFile, names: Iterable[str]) -> pd.DataFrame:
        """Read columns; a cell that is not what its column holds is an error."""
        read = {name: self._values(self.column(table, name)) for name in names}
        return pd.DataFrame(read, index=table.frame.index)

    def column(self, table: TableFile, name: str) -> Column:
        """Cells of a column as text, those that say nothing missing."""
        column = pd.Series(table.frame[name])
        if not is_string_dtype(column):
            column = column.astype(object).map(  # as it would stand in a CSV file
                lambda v: str(int(v) if isinstance(v, float) and v % 1 == 0 else v),
                na_action="ignore",
            )
        cells = column.str.strip()
        verbatim = self.formats.get(name, ColumnFormat()).verbatim
        gone = cells.isna() | cells.isin([""] if verbatim else self.missing)
        cells = cells.astype(object).mask(gone, None)
        return Column(table, name, kind_of(table.frame[name]), cells, cells.dropna())

    def _values(self, column: Column) -> pd.Series:
        chosen = self.formats[column.name]
        if column.kind in (chosen.kind, "category"):
            return pd.Series(column.table.frame[column.name])
        texts = pd.Series(column.known.unique(), dtype=object)
        values = chosen.parse(texts)
        for bad in texts[values.isna()]:
            what = chosen.sentence().split(":")[0]
            remedy = f"mend it, or count it as missing (--na {bad!r})"
            raise CommandError(f"{column.held(bad)}, where {what} are read; {remedy}")
        spread = column.cells.map(values.set_axis(texts))
        # Types that say what they are also where all values are missing.
        types_of = {"number": "float64", "truth": "boolean", "text": "category"}
        return spread.astype(types_of.get(chosen.kind, "datetime64[s]"))

    @classmethod
    def of_model(cls, model: Any) -> Self:
        """Derive the reading of a model that was fitted in Python."""
        schema = model._schema
        formats = dict.fromkeys(schema.input_names, ColumnFormat())
        texts = [schema.names[column] for column, _ in schema.levels]
        for column, values in zip(schema.discrete, schema.categories, strict=True):
            kinds = {type(value) for value in values if value is not None}
            if kinds == {bool}:
                formats[schema.names[column]] = ColumnFormat(kind="truth")
            elif str in kinds:
                texts.append(schema.names[column])
        formats |= dict.fromkeys(texts, ColumnFormat(kind="text"))
        formats |= {name: ColumnFormat(kind="date") for name, _ in schema.dates}
        return cls(formats={name: formats[name] for name in schema.input_names})

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what `dataclasses.asdict` made for a model file."""
        formats = {n: ColumnFormat(**one) for n, one in content["formats"].items()}
        return cls(formats=formats, missing=tuple(content["missing"]))


def kind_of(column: Any) -> str:
    """Kind of a column whose type says what it holds; empty for text and objects."""
    of_type = _KINDS.get(column.dtype.kind, "")
    return "category" if isinstance(column.dtype, pd.CategoricalDtype) else of_type
