"""Readable regression trees with linear models: SECRET on JAX, and beyond."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from secret_jax.data.columns import UnseenCategoryWarning as UnseenCategoryWarning
    from secret_jax.estimator import SecretRegressor as SecretRegressor
    from secret_jax.refine.refine import RefinementWarning as RefinementWarning
    from secret_jax.runtime.compiling import (
        enable_compilation_cache as enable_compilation_cache,
    )

try:
    __version__ = version("secret-jax")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0+unknown"

# Imported when first used: `secret-jax --help` need not wait for JAX.
_HOMES = {
    "RefinementWarning": "secret_jax.refine.refine",
    "SecretRegressor": "secret_jax.estimator",
    "UnseenCategoryWarning": "secret_jax.data.columns",
    "enable_compilation_cache": "secret_jax.runtime.compiling",
}
__all__ = [
    "RefinementWarning",
    "SecretRegressor",
    "UnseenCategoryWarning",
    "enable_compilation_cache",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
