"""What is around the package: its version, other packages, the caller's line, files."""

import importlib
import os
import secrets
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

try:
    VERSION = version("secret-jax")
except PackageNotFoundError:  # a checkout that was never installed
    VERSION = "0+unknown"

# Packages that stand between a user's line and ours.
_BETWEEN = ("secret_jax", "sklearn", "joblib", "contextlib")
# What was said inside the `each_once` that surrounds the work, if one does.
_said: ContextVar[set[str] | None] = ContextVar("said", default=None)


class PackageError(ImportError):
    """A package that something needs is not there, or cannot be imported."""


def imported(module: str, what: str, extra: str) -> Any:
    """Import a module that something needs; a `PackageError` names the extra."""
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)  # a part may be there without the whole
        return importlib.import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise PackageError(
                f"{what} need {package}, which is not installed. Install the extra: "
                f"pip install 'secret-jax[{extra}]'"
            ) from error
        raise PackageError(
            f"{what} need {package}, which is installed but cannot be imported: "
            f"{error}. Install it again: pip install --force-reinstall {package}"
        ) from error


@contextmanager
def each_once() -> Iterator[None]:
    """Warn of each thing once inside a with block that does work again."""
    token = _said.set(set())
    try:
        yield
    finally:
        _said.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, pointing at the user's own line."""
    said = _said.get()
    if said is not None:
        if message in said:
            return
        said.add(message)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _BETWEEN:
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces ``path`` only once it is complete.

    OSError if the folder cannot be written to, or ``path`` is no file.
    """
    target = Path(path).resolve()  # a link stays a link, its file is replaced
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)!r} exists and is not a regular file")
    # In the same folder, since os.replace does not cross file systems. Not tempfile,
    # whose files nobody else may read.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # a name must not outlive its content
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
