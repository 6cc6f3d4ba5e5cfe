"""Errors in tables, in their owner's words."""

import difflib
import os
import re
from collections.abc import Iterable, Sequence

from secret_jax.cli.messages import CommandError
from secret_jax.inspect.printing import some


def check_exists(path: str) -> None:
    """Refuse a file that is not there; a misspelt name is guessed."""
    if not os.path.exists(path):
        folder = os.path.dirname(path) or "."
        siblings = os.listdir(folder) if os.path.isdir(folder) else []
        hint = did_you_mean(os.path.basename(path), siblings)
        raise CommandError(f"there is no file {path!r}{hint}")


def known_column(name: str, columns: Sequence[str], what: str, hint: str = "") -> str:
    """Return the name of a column, or raise an error that begins with ``what``."""
    if name in columns:
        return name
    shown = some([repr(column) for column in columns], most=12)
    headless = all(re.fullmatch(r"[-+.\deE]+", column) for column in columns)
    header = "; the first line must be a header with names" if headless else ""
    guess = did_you_mean(name, columns) or "."
    raise CommandError(
        f"{what} {name!r}, but there is no such column{guess} The columns are "
        f"{shown}{header}{hint}"
    )


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Ask for the candidate most like a name; empty if none is."""
    by_case = {candidate.casefold(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.casefold(), by_case, n=1)
    return f"; did you mean {by_case[near[0]]!r}?" if near else ""
