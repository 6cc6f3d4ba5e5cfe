"""What a column of cells means: numbers, dates, truth values or categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from secret_jax.cli.reading.dates import DateFormat
from secret_jax.cli.reading.numbers import NumberFormat

if TYPE_CHECKING:
    import pandas as pd

# What spreadsheets and programs write where there is nothing.
MISSING = ("", "?", "-", "--", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan")
MISSING += ("-nan", "-NaN", "NULL", "null", "None")


@dataclass(frozen=True, kw_only=True)
class Truths:
    """True and False, in any case."""

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        """Texts as objects: a boolean, or None where one is neither."""
        known = {"true": True, "false": False}
        return np.array([known.get(text.casefold()) for text in texts], object)

    def sentence(self) -> str:
        """What a person is told of it."""
        return "true or false"


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Categories: the cells as they are.

    Attributes
    ----------
    verbatim : bool
        Whether only an empty cell is missing.
    folded : bool
        Whether case and blanks mean nothing.
    """

    verbatim: bool = False
    folded: bool = False

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        """The texts, as objects."""
        found = [folded(text) for text in texts] if self.folded else texts
        return np.array([*found, None], object)[:-1]

    def sentence(self) -> str:
        """What a person is told of it."""
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

    Attributes
    ----------
    texts : list of str
        Each once.
    codes : ndarray of shape (n_rows,), intp
        Positions in ``texts``; -1 where a cell is missing.
    missing : dict of str to int
        Texts that count as missing, and how often they stand there.
    """

    texts: list[str]
    codes: np.ndarray
    missing: dict[str, int]

    @classmethod
    def of(
        cls, column: pd.Series, missing: Sequence[str], *, stripped: bool = True
    ) -> Cells:
        """The cells of a column of text; numbers and dates in it are written out.

        Blanks around a text are never more than nothing; ``stripped``: nor do they
        tell it from others.
        """
        import pandas as pd

        codes, distinct = pd.factorize(column)
        kept = [written(value) for value in distinct.tolist()]
        texts = [text.strip() for text in kept]
        nothing = set(missing)
        gone = np.array([text in nothing for text in texts], bool)
        found: dict[str, int] = {}
        if gone.any():
            counts = np.bincount(codes[codes >= 0], minlength=len(texts))
            for place in np.flatnonzero(gone).tolist():
                text = texts[place]
                found[text] = found.get(text, 0) + int(counts[place])
        position: dict[str, int] = {}
        target = [
            -1 if is_gone else position.setdefault(text, len(position))
            for text, is_gone in zip(
                texts if stripped else kept, gone.tolist(), strict=True
            )
        ]
        recoded = np.array([*target, -1], np.intp)[codes]
        return cls(list(position), recoded, found)

    def first_row(self, text: int) -> int:
        """The first row in which a text stands."""
        return int(np.argmax(self.codes == text))

    def share(self, wanted: np.ndarray) -> float:
        """Share of the rows with a value in which one of some texts stands."""
        there = self.codes[self.codes >= 0]
        return float(wanted[there].mean()) if len(there) else 0.0

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of the texts as a column, with nothing where a cell is missing."""
        kind = values.dtype.kind
        nothing: Any = np.nan if kind == "f" else None
        if kind == "M":
            nothing = np.datetime64("NaT")
        filler = np.empty(1, values.dtype)
        filler[0] = nothing
        return np.concatenate([values, filler])[self.codes]


def folded(text: str) -> str:
    """A text in small letters, with single blanks inside and none around it.

    Examples
    --------
    >>> folded(" Flat  B ")
    'flat b'
    """
    return " ".join(text.split()).casefold()


def written(value: Any) -> str:
    """A cell as text, as it would stand in a CSV file.

    Examples
    --------
    >>> written(5.0), written(0.5), written(" a "), written(True)
    ('5', '0.5', ' a ', 'True')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return str(value)


def format_to_json(chosen: ColumnFormat) -> dict[str, Any]:
    """A format as JSON can hold it."""
    (kind,) = [name for name, one in _KINDS.items() if type(chosen) is one]
    return {"kind": kind, **asdict(chosen)}


def format_from_json(content: dict[str, Any]) -> ColumnFormat:
    """The format that `format_to_json` wrote."""
    its = dict(content)
    return _KINDS[its.pop("kind")](**its)
