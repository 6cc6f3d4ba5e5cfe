"""What commands tell, and the files they write to, for all of them."""

import os
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

PROGRAM = "secret-jax"
QUIET = ContextVar("quiet", default=False)
_MOST_TOLD = 5  # columns with errors
_PICTURES = (".png", ".pdf", ".svg", ".jpg")


class CommandError(ValueError):
    """Something the user can mend; the text is the whole message."""


def gathered(call: Callable[[str], Any], names: Iterable[str]) -> dict[str, Any]:
    """Results of a call for each name; the errors of all of them are one."""
    results, errors = dict[str, Any](), list[str]()
    for name in names:
        try:
            results[name] = call(name)
        except CommandError as error:
            errors.append(str(error))
    if errors:
        more = [f"{len(errors) - _MOST_TOLD} more columns"][: len(errors) > _MOST_TOLD]
        raise CommandError("; and ".join([*errors[:_MOST_TOLD], *more]))
    return results


def check_output(path: str | None, picture: bool = False) -> None:
    """Refuse a file that cannot be written before the work, not after it."""
    if path is None:
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise CommandError(f"{path!r} is a folder; name a file in it")
    if not os.path.isdir(folder):
        raise CommandError(f"{path!r} cannot be written: there is no folder {folder!r}")
    if picture and Path(path).suffix.lower() not in _PICTURES:
        raise CommandError(f"{path!r} ends like no picture ({', '.join(_PICTURES)})")


def say(line: str) -> None:
    """Print a line of progress, or a note, to standard error."""
    if not QUIET.get():
        print(line, file=sys.stderr, flush=True)
