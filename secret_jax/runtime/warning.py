"""Warnings that point at the caller's own line."""

import sys
import warnings

# Packages that stand between a user's line and ours.
_BETWEEN = ("secret_jax", "sklearn", "joblib", "contextlib")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, pointing at the user's own line."""
    warnings.warn(message, category, stacklevel=_levels_up())


def _levels_up() -> int:
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _BETWEEN:
            break
        level, frame = level + 1, frame.f_back
    return level
