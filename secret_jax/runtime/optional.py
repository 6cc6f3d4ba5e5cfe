"""Packages that an extra of this one installs."""

import importlib
from typing import Any


def imported(module: str, what: str, extra: str) -> Any:
    """Import a module that something needs; an ImportError names the extra."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, and lacks something itself
            raise
        raise ImportError(
            f"{what} need {package}, which is not installed. Install the extra: pip "
            f"install 'secret-jax[{extra}]'"
        ) from error
