"""This package's version, and packages that an extra of it installs."""

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    VERSION = version("secret-jax")
except PackageNotFoundError:  # a checkout that was never installed
    VERSION = "0+unknown"


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
