"""Columns of files by the formats of their cells; other files are read alike.

A `Reading` that is learned of a file (`secret_jax.cli.learning`) reads all others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import pandas as pd
from pandas.api.types import is_string_dtype

from secret_jax.cli.files import TableFile
from secret_jax.cli.formats import ColumnFormat, with_iso_days
from secret_jax.cli.messages import CommandError, gathered
from secret_jax.inspect.printing import listed

_KINDS = {"b": "truth", "M": "date"} | dict.fromkeys("iuf", "number")
_MOST_TOLD = 6  # texts of a column that an error quotes
# What spreadsheets and programs write where there is nothing.
MISSING = ("", "?", "-", "--", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan")
MISSING += ("-nan", "-NaN", "NULL", "null", "None", "\u2013", "\u2014")
MISSING += ("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")


class Column(NamedTuple):
    """Cells of a column of a table as text without blanks around; None if missing."""

    table: TableFile
    name: str
    kind: str  # what the type of the column says that it is; see `kind_of`
    cells: pd.Series
    known: pd.Series  # cells that are not missing

    def held(self, *texts: str) -> str:
        """Begin a message about texts in the column: where they stand, how often."""
        often = f"of {self.cells.count()} values"
        found = []
        for text in texts[:_MOST_TOLD]:
            here = (self.cells == text).to_numpy()
            place = self.table.place(int(here.argmax()))
            found.append(f"{text!r} in {place} ({here.sum()} {often})")
        n_more = len(texts) - len(found)
        found += [f"{n_more} others"] if n_more else []
        return f"column {self.name!r} holds {listed(found, n_max=9)}"

    def refusal(self, bad: Iterable[str], why: str, *remedies: str) -> CommandError:
        """Error about cells that are not what is read in the column, all at once."""
        texts = [*dict.fromkeys(bad)]
        flags = " ".join(f"--na {text!r}" for text in texts[:_MOST_TOLD])
        flags += " ..." * (len(texts) > _MOST_TOLD)
        it = "them" if len(texts) > 1 else "it"
        ways = [f"mend {it}", f"count {it} as missing ({flags})", *remedies]
        comma = "," * (len(ways) > 2)
        remedy = f"{', '.join(ways[:-1])}{comma} or {ways[-1]}"
        return CommandError(f"{self.held(*texts)}, {why}; {remedy}")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the columns of a table are read, by name, and which cells are missing."""

    formats: Mapping[str, ColumnFormat] = field(default_factory=dict)
    missing: tuple[str, ...] = MISSING

    def apply(self, table: TableFile, names: Iterable[str]) -> pd.DataFrame:
        """Read columns; a cell that is not what its column holds is an error."""
        read = gathered(lambda name: self._values(self.column(table, name)), names)
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
        if chosen.kind == "date":
            values = with_iso_days(values, texts)
        if values.isna().any():
            what = chosen.sentence().split(":")[0]
            raise column.refusal(texts[values.isna()], f"where {what} are read")
        spread = column.cells.map(values.set_axis(texts))
        # Types that say what they are also where all values are missing.
        types_of = {"number": "float64", "truth": "boolean", "text": "category"}
        types_of["time"] = "object"
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
