"""What all tests share: strict arithmetic, no windows, real data if there is any."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Also for the subprocesses that tests start.
os.environ.setdefault("MPLBACKEND", "Agg")
# As many processes as processors leave none for threads of matrix products.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests compile much and compute little, beside each other: a compiler in one piece.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_parallel_codegen_split_count=1"
    " --xla_cpu_enable_concurrency_optimized_scheduler=false",
)

import jax
import jaxtyping
import numpy as np
import pytest
from jaxtyping import install_import_hook

_jaxtyped = jaxtyping.jaxtyped


def _without_inner_functions(**options: Any) -> Any:
    """The decorator of checks; functions in functions are made anew at every call."""
    check = _jaxtyped(**options)
    return lambda made: made if "<locals>" in made.__qualname__ else check(made)


jaxtyping.jaxtyped = _without_inner_functions

# Shapes and types of what the numerics take and give are checked at every call, in the
# rooms whose tests call them without much between. Checks are half the time of a fit.
CHECKED = {"grow", "models", "runtime", "splits", "tree"}
install_import_hook(
    [
        "secret_jax.models",
        "secret_jax.runtime.linalg",
        "secret_jax.splits",
        "secret_jax.tree.walk",
        "secret_jax.tree.soft",
    ],
    "beartype.beartype",
)

# An implicit float32 with int32 (or float64) promotion in the package is an error.
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Programs need not know which lines they come from: lowering them takes less.
jax.config.update("jax_traceback_in_locations_limit", 0)
# Tracing makes many small objects, nearly all of which stay or are freed by counting.
gc.set_threshold(50_000, 20, 20)

from secret_jax.runtime import programs  # noqa: E402

programs.OPTIMIZATION_LEVEL = 0


def pytest_collection_finish() -> None:
    """What is imported stays: the collector of garbage need not look at it again."""
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _checks_of_shapes(request: pytest.FixtureRequest) -> None:
    unchecked = request.path.parent.name not in CHECKED
    jaxtyping.config.update("jaxtyping_disable", unchecked)


@pytest.fixture(scope="session", autouse=True)
def _programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Workers share what they compile.

    ``SECRET_JAX_TEST_PROGRAMS`` names a folder that outlives a run of the tests.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder = os.environ.get("SECRET_JAX_TEST_PROGRAMS") or shared / "programs"
    with programs.keep_programs(folder):
        yield


@pytest.fixture(autouse=True)
def _no_figures() -> Iterator[None]:
    """Pictures of a test are closed after it."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process; its exit code, output and error output."""
    from secret_jax.cli.main import main

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


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
