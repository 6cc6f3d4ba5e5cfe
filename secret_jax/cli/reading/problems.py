"""What is wrong with a table, in its owner's words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence


class TableFileError(ValueError):
    """A file that holds no table, or not the table that was asked for."""


def known_column(
    name: str, columns: Sequence[str], what: str, further: str = ""
) -> str:
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
        f"{shown}{more}{header}{further}"
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


def some(items: Sequence[object], most: int = 5) -> str:
    """The first of several things, and how many more there are.

    Examples
    --------
    >>> some([2, 5, 9]), some(list(range(9)), most=2)
    ('2, 5 and 9', '0, 1 and 7 more')
    """
    words = [str(item) for item in items]
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
