"""A reading: what each column of a file means, learned once and applied ever after."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

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
from secret_jax.cli.reading.problems import TableFileError, some

if TYPE_CHECKING:
    import pandas as pd

    from secret_jax.data.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the columns of a table are read.

    Attributes
    ----------
    formats : dict of str to ColumnFormat
        By the names of the columns.
    missing : tuple of str
        Cells that are missing values.
    """

    formats: Mapping[str, ColumnFormat] = field(default_factory=dict)
    missing: tuple[str, ...] = MISSING

    def apply(self, table: TableFile, names: Iterable[str]) -> pd.DataFrame:
        """Some columns of a table, read.

        Parameters
        ----------
        names : iterable of str
            Columns that the table has and that this reading knows.

        Returns
        -------
        pandas.DataFrame
            Numbers as float64, dates as datetime64, truth values and categories as
            objects; with the index of the table.

        Raises
        ------
        TableFileError
            If a cell is not what its column holds; it is named with its place.
        """
        import pandas as pd

        read = {n: self._column(table, n, self.formats[n]) for n in names}
        return pd.DataFrame(read, index=table.frame.index)

    def cells(self, table: TableFile, name: str, chosen: ColumnFormat) -> Cells:
        """The cells of a column in a format."""
        is_text = isinstance(chosen, Texts)
        missing = ("",) if is_text and chosen.verbatim else self.missing
        return Cells.of(
            cast("pd.Series", table.frame[name]), missing, stripped=not is_text
        )

    def _column(
        self, table: TableFile, name: str, chosen: ColumnFormat
    ) -> pd.Series | np.ndarray:
        column = cast("pd.Series", table.frame[name])
        if fits_as_it_is(column, chosen):
            return column
        cells = self.cells(table, name, chosen)
        values = chosen.parse(cells.texts)
        bad = np.array([value is None or value != value for value in values], bool)
        if bad.any():
            text = int(np.argmax(bad))
            shown, rows = cells.texts[text], np.append(bad, False)[cells.codes]
            others = f" (and {rows.sum() - 1} more like it)" if rows.sum() > 1 else ""
            raise TableFileError(
                f"column {name!r} holds {shown!r} in "
                f"{table.place(cells.first_row(text))}{others}, where "
                f"{chosen.sentence().split(':')[0]} are read; mend it, or count it as "
                f"missing (--na {shown!r})"
            )
        return cells.spread(values)

    def label(self, name: str) -> str:
        """A column's name for people: with the unit of its numbers, if they have one.

        Not where the name says it already, or that would be the name of another one.
        """
        chosen = self.formats[name]
        unit = chosen.unit if isinstance(chosen, NumberFormat) else ""
        said = re.search(rf"(?<!\w){re.escape(unit)}(?!\w)", name, re.IGNORECASE)
        label = f"{name} ({unit})"
        return name if not unit or said or label in self.formats else label

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all columns, by their names."""
        return {name: self.label(name) for name in self.formats}

    def name_of(self, label: str) -> str:
        """The column that has a label; the label itself if none has."""
        return {its: name for name, its in self.labels.items()}.get(label, label)

    @property
    def text_columns(self) -> set[str]:
        """Columns whose cells say more than plain numbers do."""
        plain = NumberFormat()
        return {name for name, one in self.formats.items() if one != plain}

    def only(self, names: Iterable[str]) -> Reading:
        """The reading of some columns."""
        return replace(self, formats={name: self.formats[name] for name in names})

    def to_json(self) -> dict[str, Any]:
        """Content for a model file."""
        formats = {name: format_to_json(one) for name, one in self.formats.items()}
        return {"formats": formats, "missing": list(self.missing)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Reading:
        """The reading that `to_json` wrote."""
        formats = {n: format_from_json(one) for n, one in content["formats"].items()}
        return cls(formats=formats, missing=tuple(content["missing"]))

    @classmethod
    def of_schema(cls, schema: TableSchema) -> Reading:
        """What a model that came without a reading says of its columns."""
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
    import pandas.api.types as types

    if isinstance(column.dtype, types.CategoricalDtype):
        return True
    if isinstance(chosen, NumberFormat):
        return types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
    if isinstance(chosen, DateFormat):
        return types.is_datetime64_any_dtype(column)
    return types.is_bool_dtype(column) and not isinstance(chosen, Texts)


def missing_sentence(found: Mapping[str, Mapping[str, int]]) -> str:
    """Which texts counted as missing, and where; empty if only empty cells did."""
    by_text: dict[str, list[str]] = {}
    for name, texts in found.items():
        for text, count in texts.items():
            if text:
                by_text.setdefault(text, []).append(f"{name} {count}")
    said = [f"{text!r} ({some(where, most=3)})" for text, where in by_text.items()]
    return f"counted as missing: {', '.join(said)}" if said else ""
