"""Warnings that point at the caller's own line, and come once."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Packages that stand between a user's line and ours.
_BETWEEN = ("secret_jax", "sklearn", "joblib", "contextlib")
# What was said inside the `each_once` that surrounds the work, if one does.
_said: ContextVar[set[str] | None] = ContextVar("said", default=None)


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
