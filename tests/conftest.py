"""What all tests share: strict arithmetic, no windows, real data if there is any."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Also for the subprocesses that tests start.
os.environ.setdefault("MPLBACKEND", "Agg")
# Tests compile much and compute little.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import numpy as np
import pytest
from jaxtyping import install_import_hook

# Shapes and types of what the numerics take and give are checked at every call.
install_import_hook(
    [
        "secret_jax.models",
        "secret_jax.runtime.linalg",
        "secret_jax.runtime.moments",
        "secret_jax.splits",
        "secret_jax.tree.decision",
        "secret_jax.tree.soft",
    ],
    "beartype.beartype",
)

# An implicit float32 with int32 (or float64) promotion in the package is an error.
jax.config.update("jax_numpy_dtype_promotion", "strict")

from secret_jax.runtime import programs  # noqa: E402

programs.OPTIMIZATION_LEVEL = 0

# A process may have so many maps of memory; every program takes some.
_MOST_MAPS = 20_000


@pytest.fixture(scope="session", autouse=True)
def _programs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Workers share what they compile, and leave the user's folder alone."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder = shared / "programs"
    os.environ["SECRET_JAX_CACHE"] = str(folder)
    programs.keep_programs(folder)


@pytest.fixture(scope="module", autouse=True)
def _few_programs() -> Iterator[None]:
    """Programs of other modules make room before there are too many."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > _MOST_MAPS:
        programs.forget_programs()
        jax.clear_caches()


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run and for every test."""
    return np.random.default_rng(20020723)


@pytest.fixture(scope="session")
def data_home() -> Path:
    """Folder of the real data sets; the test is skipped where there is none."""
    folder = os.environ.get("SECRET_JAX_DATA", "")
    if not folder:
        pytest.skip("SECRET_JAX_DATA names no folder of real data sets")
    path = Path(folder)
    assert path.is_dir(), f"SECRET_JAX_DATA is {folder!r}, which is no folder"
    return path
