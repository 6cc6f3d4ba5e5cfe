"""Where in a sheet or a text the table begins: below titles and empty lines."""

import csv
import re
from collections.abc import Sequence
from itertools import islice

LINES_LOOKED_AT = 40  # people write shorter prefaces
# A preface fills no larger share of the columns, and no more than this.
_PREFACE = 1 / 3
_SEPARATORS = ",;\t|"


def header_row(rows: Sequence[Sequence[str]]) -> int:
    """Find the row of the header among the first rows of a sheet.

    It is the first one, unless all rows before another one are empty or hold a title,
    and that one has a different text in every column that is used below it.

    Examples
    --------
    >>> header_row([["Prices 2024", "", ""], ["", "", ""], ["a", "b", "c"], ["1"] * 3])
    2
    """
    filled = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    width = max(map(len, filled), default=0)
    for number, cells in enumerate(filled):
        if len(cells) <= max(1, int(_PREFACE * width)) and width > 1:
            continue
        names = all(re.search(r"[^\W\d_]", cell) for cell in cells)
        full = len(cells) == width and len(set(cells)) == width
        return number if names and full else 0
    return 0


def start_of(text: str, skip: int | None = None) -> tuple[str, int, str]:
    """Find where the table of a CSV file begins, from how the file begins.

    Returns the separator that makes most columns of the header, the number of lines
    before it (``skip``, where that is known), and what stands there.
    """
    lines = text.splitlines(keepends=True)
    starts = []
    for separator in _SEPARATORS:
        reader = csv.reader(lines[skip or 0 :], delimiter=separator)
        rows, ends = [], [0]
        try:
            for row in islice(reader, LINES_LOOKED_AT):
                rows.append(row)
                ends.append(reader.line_num)
        except csv.Error:  # pandas will say what is wrong
            pass
        first = header_row(rows) if skip is None else 0
        width = len(rows[first]) if rows else 0
        starts.append((width, ends[first] + (skip or 0), separator))
    _, before, separator = max(starts, key=lambda start: start[0])
    return separator, before, preface_of(lines[:before])


def preface_of(lines: Sequence[str]) -> str:
    """Write what stands before a header on one line."""
    words = " ".join(" ".join(lines).split()).strip(_SEPARATORS)
    return words if len(words) <= 40 else f"{words[:37]}..."


def preface_note(name: str, before: int, preface: str) -> tuple[str, ...]:
    """Tell that lines before the header were left out unasked."""
    if not preface:
        return ()
    return (
        f"{name}: the header is in line {before + 1}, below {preface!r} (--skip 0: it "
        "is in line 1)",
    )
