"""What commands tell their users, what they refuse, and the files they write."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from secret_jax.runtime.optional import imported

PROGRAM = "secret-jax"
_FLAGS = {
    "categorical_features": "--categorical",
    "split_features": "--split-only",
    "monotonic_cst": "--monotone",
    "test_fraction": "--test-fraction",
    "missing_values": "--missing-values",
}
# Remedies in terms of Python, see `secret_jax.data.written`.
_CALL = re.compile(
    r", for example by pandas\.(?P<to>to_\w+)\(X\[(?P<name>.*?)\](?:\.str.*?\))?\)"
    r"(?=, or name)"
)
_FLAGS_OF_CALLS = {"to_numeric": "number", "to_datetime": "dates"}
_QUIET = ContextVar("quiet", default=False)


class CommandError(ValueError):
    """Something the user can mend; the text is the whole message."""


def check_output(path: str | None) -> None:
    """Refuse a file that cannot be written before the work, not after it."""
    if path is None:
        return
    if os.path.isdir(path):
        raise CommandError(f"{path!r} is a folder; name a file in it")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"{path!r} cannot be written: there is no folder {folder!r}")
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{path!r} cannot be written: {folder!r} is read-only")


def check_picture(path: str) -> None:
    """Refuse what is no name of a picture before the work."""
    check_output(path)
    backend = imported("matplotlib.backend_bases", "Pictures", "plot")
    kinds = backend.FigureCanvasBase.get_supported_filetypes()
    if Path(path).suffix.removeprefix(".").lower() not in kinds:
        raise CommandError(
            f"{path!r} does not end like a picture; for example .png, .pdf or .svg"
        )


def draw(model: Any, path: str | Path) -> None:
    """Draw a tree to a file."""
    import matplotlib

    matplotlib.use("Agg")  # only files are drawn to, no display is needed
    model.plot_tree().savefig(path, dpi=150)


@contextmanager
def flags_for_parameters() -> Iterator[None]:
    """Say in errors "--categorical" for ``categorical_features``, and so on."""
    try:
        yield
    except ValueError as error:
        raise CommandError(with_flags(str(error))) from None


def with_flags(message: str, of_table: bool = True) -> str:
    """Name flags in the place of parameters and of calls of pandas.

    ``of_table``: whether cells are read as flags say; in streams files say it.
    """

    def flag_of(call: re.Match[str]) -> str:
        flag = f"--{_FLAGS_OF_CALLS[call['to']]} {call['name']}"
        return f", for example by {flag}" if of_table else " in the files"

    message = _CALL.sub(flag_of, message)
    for parameter, flag in _FLAGS.items():
        message = message.replace(parameter, flag)
    return message


def be_quiet(wanted: bool) -> None:
    """Let `say` say nothing from now on, or what it is told."""
    _QUIET.set(wanted)


def say(line: str) -> None:
    """Print a line of progress, or a note, to standard error."""
    if not _QUIET.get():
        print(line, file=sys.stderr, flush=True)
