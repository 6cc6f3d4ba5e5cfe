"""How the columns of a file are read: learned once, and applied ever after."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import pandas as pd
import pandas.api.types as types

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.formats import ColumnFormat
from secret_jax.data.schema import TableSchema

# What spreadsheets and programs write where there is nothing.
MISSING = ("", "?", "-", "--", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan")
MISSING += ("-nan", "-NaN", "NULL", "null", "None")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the columns of a table are read, by name, and which cells are missing."""

    formats: Mapping[str, ColumnFormat] = field(default_factory=dict)
    missing: tuple[str, ...] = MISSING

    def apply(self, table: TableFile, names: Iterable[str]) -> pd.DataFrame:
        """Read columns: numbers, dates, truth values, and categories.

        A cell that is not what its column holds is an error that names its place.
        """
        read = {name: self._column(table, name) for name in names}
        return pd.DataFrame(read, index=table.frame.index)

    def cells(self, table: TableFile, name: str) -> pd.Series:
        """The cells of a column as text without blanks around it; None if missing."""
        column = pd.Series(table.frame[name])
        if not types.is_string_dtype(column):
            column = column.astype(object).map(_as_written, na_action="ignore")
        cells = column.str.strip()
        verbatim = self.formats.get(name, ColumnFormat()).verbatim
        gone = cells.isna() | cells.isin([""] if verbatim else self.missing)
        return cells.astype(object).mask(gone, None)

    def _column(self, table: TableFile, name: str) -> pd.Series:
        chosen, column = self.formats[name], pd.Series(table.frame[name])
        if kind_of(column) in (chosen.kind, "category"):
            return column
        cells = self.cells(table, name)
        texts = pd.Series(cells.dropna().unique(), dtype=object)
        values = chosen.parse(texts)
        bad = [*texts[values.isna()]]
        if bad:
            what = chosen.sentence().split(":")[0]
            remedy = f"mend it, or count it as missing (--na {bad[0]!r})"
            where = held(table, name, cells, bad[0])
            raise CommandError(f"{where}, where {what} are read; {remedy}")
        spread = cells.map(values.set_axis(texts))
        # Types that say what they are also where all values are missing.
        types_of = {"number": "float64", "truth": "boolean", "text": "category"}
        return spread.astype(types_of.get(chosen.kind, "datetime64[s]"))

    @classmethod
    def of_schema(cls, schema: TableSchema) -> Self:
        """Derive the reading of a model that was fitted in Python."""
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

    def to_json(self) -> dict[str, Any]:
        """Content for a model file."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what `to_json` wrote."""
        formats = {n: ColumnFormat(**one) for n, one in content["formats"].items()}
        return cls(formats=formats, missing=tuple(content["missing"]))


def held(table: TableFile, name: str, cells: pd.Series, text: str) -> str:
    """Begin a message about a text in a column: where it stands, and how often."""
    here = (cells == text).to_numpy()
    often = f"{here.sum()} of {cells.count()} values"
    return (
        f"column {name!r} holds {text!r} in {table.place(int(here.argmax()))} ({often})"
    )


def kind_of(column: Any) -> str:
    """Kind of a column whose type says what it holds; empty for text and objects."""
    if isinstance(column.dtype, types.CategoricalDtype):
        return "category"
    if types.is_bool_dtype(column):
        return "truth"
    if types.is_datetime64_any_dtype(column):
        return "date"
    return "number" if types.is_numeric_dtype(column) else ""


def _as_written(value: Any) -> str:
    """Write a cell as it would stand in a CSV file."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value)
