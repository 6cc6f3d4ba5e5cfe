"""Packages that an extra of this one installs."""

import importlib
from typing import Any


def imported(module: str, what: str, extra: str) -> Any:
    """Import a module that something needs; an ImportError names the extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{what} need {module.partition('.')[0]}, which is not installed. Install "
            f"the extra: pip install 'secret-jax[{extra}]'"
        ) from error
