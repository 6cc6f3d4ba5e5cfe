"""Errors in tables, in their owner's words."""

import difflib
import os
import re
from collections.abc import Iterable, Sequence

from secret_jax.cli.messages import CommandError
from secret_jax.inspect.printing import some


def check_exists(path: str) -> None:
    """Refuse a file that is not there; a misspelt name is guessed."""
    folder = os.path.dirname(path) or "."
    if not os.path.exists(path):
        siblings = os.listdir(folder) if os.path.isdir(folder) else []
        hint = did_you_mean(os.path.basename(path), siblings)
        raise CommandError(f"there is no file {path!r}{hint}")
    if os.path.isdir(path):
        raise CommandError(f"{path!r} is a folder; give a file")


def known_column(name: str, columns: Sequence[str], what: str, hint: str = "") -> str:
    """Return the name of a column, or raise an error that begins with ``what``."""
    if name in columns:
        return name
    shown = some([repr(column) for column in columns], most=12)
    if not any(re.search(r"[^\W\d_]", column) for column in columns):
        hint = f"; the first line must be a header with names{hint}"
    raise CommandError(
        f"{what} {name!r}, but there is no such column"
        f"{did_you_mean(name, columns) or '.'} The columns are {shown}{hint}"
    )


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Ask for the candidate most like a name; empty if none is."""
    by_case = {candidate.casefold(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.casefold(), by_case, n=1)
    return f"; did you mean {by_case[near[0]]!r}?" if near else ""
