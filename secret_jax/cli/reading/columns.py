"""Formats of columns, and columns as their different cells."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from secret_jax.cli.reading.dates import DateFormat
from secret_jax.cli.reading.numbers import NumberFormat

# What spreadsheets and programs write where there is nothing.
MISSING = ("", "?", "-", "--", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan")
MISSING += ("-nan", "-NaN", "NULL", "null", "None")


@dataclass(frozen=True, kw_only=True)
class Truths:
    """True and False, in any case."""

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        """Read texts as booleans; None where one is neither."""
        known = {"true": True, "false": False}
        return np.array([known.get(text.casefold()) for text in texts], object)

    def sentence(self) -> str:
        """Describe the format."""
        return "true or false"


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Categories: the cells as they are.

    ``verbatim``: only an empty cell is missing; ``folded``: case and blanks mean
    nothing.
    """

    verbatim: bool = False
    folded: bool = False

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        """Return the texts, as objects."""
        words = [folded(text) for text in texts] if self.folded else texts
        return np.array([*words, None], object)[:-1]

    def sentence(self) -> str:
        """Describe the format."""
        return "categories"


ColumnFormat = NumberFormat | DateFormat | Truths | Texts
_KINDS: dict[str, type[ColumnFormat]] = {
    "number": NumberFormat,
    "date": DateFormat,
    "truth": Truths,
    "text": Texts,
}


class Cells(NamedTuple):
    """A column as its different texts, and which of them stands in every row.

    ``codes`` are positions in ``texts``, -1 where a cell is missing; ``missing`` are
    the texts that count as missing, and how often they stand there.
    """

    texts: list[str]
    codes: np.ndarray
    missing: dict[str, int]

    @classmethod
    def of(
        cls, column: pd.Series, missing: Sequence[str], *, stripped: bool = True
    ) -> Self:
        """Take a column apart; ``stripped``: blanks around a text mean nothing."""
        codes, distinct = pd.factorize(column)
        written = [as_written(value) for value in distinct.tolist()]
        bare = [text.strip() for text in written]
        is_missing = np.array([text in set(missing) for text in bare], bool)
        counts = np.bincount(codes[codes >= 0], minlength=len(bare)).tolist()
        gone: Counter[str] = Counter()
        for place in np.flatnonzero(is_missing).tolist():
            gone[bare[place]] += counts[place]
        texts = pd.Series(bare if stripped else written, dtype=object)
        recoded, known = pd.factorize(texts.mask(is_missing))
        return cls(known.tolist(), np.append(recoded, -1)[codes], gone)

    @property
    def n_known(self) -> int:
        """Number of rows with a value."""
        return int((self.codes >= 0).sum())

    def first_row(self, text: int) -> int:
        """The first row in which a text stands."""
        return int(np.argmax(self.codes == text))

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of the texts as a column, with nothing where a cell is missing."""
        nothing = {"f": np.nan, "M": np.datetime64("NaT")}.get(values.dtype.kind)
        return np.append(values, np.array([nothing], values.dtype))[self.codes]


def folded(text: str) -> str:
    """Write a text in small letters, with single blanks inside and none around it."""
    return " ".join(text.split()).casefold()


def as_written(value: Any) -> str:
    """Write a cell as it would stand in a CSV file.

    Examples
    --------
    >>> as_written(5.0), as_written(0.5), as_written(" a "), as_written(True)
    ('5', '0.5', ' a ', 'True')
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return str(value)


def format_to_json(chosen: ColumnFormat) -> dict[str, Any]:
    """Convert a format to what JSON can hold."""
    kind = next(name for name, one in _KINDS.items() if type(chosen) is one)
    return {"kind": kind, **asdict(chosen)}


def format_from_json(content: dict[str, Any]) -> ColumnFormat:
    """Convert back what `format_to_json` wrote."""
    return _KINDS[content["kind"]](
        **{name: value for name, value in content.items() if name != "kind"}
    )
