"""What commands tell their users, and what they refuse before the work."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PROGRAM = "secret-jax"


class CommandError(Exception):
    """Something the user can mend; the text is the whole message."""


def check_output(path: str) -> None:
    """Refuse a file that cannot be written before the work, not after it."""
    if os.path.isdir(path):
        raise CommandError(f"{path!r} is a folder; name a file in it")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"{path!r} cannot be written: there is no folder {folder!r}")
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{path!r} cannot be written: {folder!r} is read-only")


def require(module: str, extra: str, purpose: str) -> None:
    """Refuse what a package is needed for that is not there."""
    if importlib.util.find_spec(module) is None:
        raise CommandError(
            f"{module} is needed to {purpose}: pip install 'secret-jax[{extra}]'"
        )


@contextmanager
def flags_for_parameters() -> Iterator[None]:
    """Say in errors "--discrete" for ``categorical_features``, and so on."""
    try:
        yield
    except ValueError as error:
        message = str(error)
        for parameter, flag in (
            ("max_split_features", "--max-split-features"),
            ("categorical_features", "--discrete"),
            ("split_features", "--split-only"),
            ("test_fraction", "--test-fraction"),
            ("missing_values", "--missing-values"),
        ):
            message = message.replace(parameter, flag)
        raise CommandError(message) from None


_QUIET = ContextVar("quiet", default=False)


@contextmanager
def quiet(wanted: bool = True) -> Iterator[None]:
    """Within the block `say` says nothing, if that is wanted."""
    token = _QUIET.set(wanted)
    try:
        yield
    finally:
        _QUIET.reset(token)


def say(line: str) -> None:
    """Print a line of progress, or a note, to standard error."""
    if not _QUIET.get():
        print(line, file=sys.stderr, flush=True)
