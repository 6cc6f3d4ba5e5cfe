"""A reading: what each column of a file means, learned once and applied ever after."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import pandas.api.types as types

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.columns import (
    MISSING,
    Cells,
    ColumnFormat,
    Texts,
    Truths,
    format_from_json,
    format_to_json,
)
from secret_jax.cli.reading.dates import DateFormat
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.numbers import NumberFormat
from secret_jax.data.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the columns of a table are read, by name, and which cells are missing."""

    formats: Mapping[str, ColumnFormat] = field(default_factory=dict)
    missing: tuple[str, ...] = MISSING

    def apply(self, table: TableFile, names: Iterable[str]) -> pd.DataFrame:
        """Read columns: numbers as float64, dates as datetime64, all else as objects.

        A cell that is not what its column holds is an error that names its place.
        """
        read = {name: self._column(table, name) for name in names}
        return pd.DataFrame(read, index=table.frame.index)

    def cells(self, table: TableFile, name: str, chosen: ColumnFormat) -> Cells:
        """Take a column apart into the cells of a format."""
        is_text = isinstance(chosen, Texts)
        missing = ("",) if is_text and chosen.verbatim else self.missing
        return Cells.of(table.series(name), missing, stripped=not is_text)

    def _column(self, table: TableFile, name: str) -> pd.Series | np.ndarray:
        chosen = self.formats[name]
        if fits_as_it_is(table.series(name), chosen):
            return table.series(name)
        cells = self.cells(table, name, chosen)
        values = chosen.parse(cells.texts)
        bad = np.array([value is None or value != value for value in values], bool)
        if bad.any():
            text = int(np.argmax(bad))
            shown, n_bad = (
                cells.texts[text],
                int(np.append(bad, False)[cells.codes].sum()),
            )
            others = f" (and {n_bad - 1} more like it)" if n_bad > 1 else ""
            raise CommandError(
                f"column {name!r} holds {shown!r} in "
                f"{table.place(cells.first_row(text))}{others}, where "
                f"{chosen.sentence().split(':')[0]} are read; mend it, or count it as "
                f"missing (--na {shown!r})"
            )
        return cells.spread(values)

    @property
    def labels(self) -> dict[str, str]:
        """Names of the columns for people: with the unit of their numbers.

        Not where the name says it already, or that would be the name of another one.
        """
        labels = {}
        for name, chosen in self.formats.items():
            unit = chosen.unit if isinstance(chosen, NumberFormat) else ""
            named = rf"(?<!\w){re.escape(unit)}(?!\w)"
            label = f"{name} ({unit})"
            plain = not unit or label in self.formats
            plain = plain or re.search(named, name, re.IGNORECASE) is not None
            labels[name] = name if plain else label
        return labels

    def name_of(self, label: str) -> str:
        """Find the column that has a label; the label itself if none has."""
        return {it: name for name, it in self.labels.items()}.get(label, label)

    @property
    def text_columns(self) -> set[str]:
        """Columns whose cells say more than plain numbers do."""
        plain = NumberFormat()
        return {name for name, one in self.formats.items() if one != plain}

    def only(self, names: Iterable[str]) -> Self:
        """Keep the reading of some columns."""
        return replace(self, formats={name: self.formats[name] for name in names})

    def to_json(self) -> dict[str, Any]:
        """Content for a model file."""
        formats = {name: format_to_json(one) for name, one in self.formats.items()}
        return {"formats": formats, "missing": list(self.missing)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what `to_json` wrote."""
        formats = {n: format_from_json(one) for n, one in content["formats"].items()}
        return cls(formats=formats, missing=tuple(content["missing"]))

    @classmethod
    def of_schema(cls, schema: TableSchema) -> Self:
        """Derive the reading of a model that came without one."""
        categories = {
            schema.names[column]: values
            for column, values in zip(schema.discrete, schema.categories, strict=True)
        }
        dates = {name for name, _ in schema.dates}
        formats: dict[str, ColumnFormat] = {}
        for name in schema.input_names:
            values = [value for value in categories.get(name, ()) if value is not None]
            if name in dates:
                formats[name] = DateFormat()
            elif any(isinstance(value, str) for value in values):
                formats[name] = Texts()
            elif values and all(isinstance(value, bool) for value in values):
                formats[name] = Truths()
            else:
                formats[name] = NumberFormat()
        return cls(formats=formats)


def fits_as_it_is(column: pd.Series, chosen: ColumnFormat) -> bool:
    """Whether a column of a typed file needs no reading."""
    if isinstance(column.dtype, types.CategoricalDtype):
        return True
    if isinstance(chosen, NumberFormat):
        return types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
    if isinstance(chosen, DateFormat):
        return types.is_datetime64_any_dtype(column)
    return types.is_bool_dtype(column) and not isinstance(chosen, Texts)
