"""The same fit in other threads, other processes, other settings of JAX, and often."""

from __future__ import annotations

import gc
import hashlib
import os
import pkgutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from configurations import FEW, crease, regressor, shop

import secret_jax
from secret_jax import SecretRegressor
from secret_jax.runtime.programs import Program


def soft() -> SecretRegressor:
    X, y = crease(256)
    across = 4 * X[:, 0] + X[:, 1]
    y = y + np.hypot(across, 6.0) - np.abs(across)  # a round bend, for soft gates
    return regressor("default", refine=FEW, prune="holdout").fit(X, y)


# Every kind of tree, on few shapes: the other process compiles all of its programs.
KINDS = {
    "default": lambda: regressor("default").fit(*crease(128)),
    "paper": lambda: regressor("paper").fit(*shop(128)),
    "tao": lambda: regressor("default", refine="tao").fit(*crease(128)),
    "blend": lambda: regressor("default", refine="blend").fit(*crease(128)),
    "soft": soft,
}
TABLES = {"paper": shop}


def rows_of(kind: str):
    return TABLES.get(kind, crease)(100, seed=5)[0]


@cache
def fitted(kind: str) -> SecretRegressor:
    """A model that tests only read."""
    return KINDS[kind]()


def in_another_process(code: str, folder: Path, **environment: str) -> None:
    here = Path(__file__).parent
    folders = (here, here.parent / "helpers", here.parents[1])
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(folder)],
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


_THERE = """
import sys
from pathlib import Path
import numpy as np
from secret_jax import SecretRegressor
from secret_jax.runtime import programs
from test_processes import KINDS, rows_of
programs.OPTIMIZATION_LEVEL = 0  # as in the process of the tests
folder = Path(sys.argv[1])
"""


def test_a_second_fit_and_another_process_write_the_same_bytes(tmp_path):
    """Whatever Python's hashes are; in 64 bits, strictly promoted, without NaN."""
    for kind in KINDS:
        model, again = fitted(kind), KINDS[kind]()
        model.save(tmp_path / kind)
        again.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / kind).read_bytes()
        np.save(tmp_path / f"{kind}.npy", model.predict(rows_of(kind)))
    code = """
import jax
assert jax.config.jax_enable_x64 and jax.config.jax_debug_nans
for kind, fit in KINDS.items():
    fit().save(folder / "there")
    assert (folder / "there").read_bytes() == (folder / kind).read_bytes(), kind
    found = SecretRegressor.load(folder / kind).predict(rows_of(kind))
    assert np.array_equal(found, np.load(folder / f"{kind}.npy")), kind
"""
    in_another_process(
        _THERE + code,
        tmp_path,
        PYTHONHASHSEED="1",
        JAX_DEBUG_NANS="1",
        JAX_ENABLE_X64="1",
        JAX_NUMPY_DTYPE_PROMOTION="strict",
    )


def digest(model: SecretRegressor, path: Path) -> str:
    model.save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_fits_and_predictions_in_threads_equal_those_one_by_one(tmp_path):
    def fit(seed):
        model = regressor("default").fit(*crease(128, seed))
        return digest(model, tmp_path / f"{seed}.{os.urandom(4).hex()}")

    seeds = list(range(3))
    serial = [fit(seed) for seed in seeds]
    assert len(set(serial)) == len(seeds)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fit, seeds)) == serial
        kinds = ["default", "blend"] * 4
        found = list(pool.map(lambda k: fitted(k).predict(rows_of(k)), kinds))
    for kind, prediction in zip(kinds, found, strict=True):
        assert np.array_equal(prediction, fitted(kind).predict(rows_of(kind)))


def compiled_programs() -> int:
    """How many programs the functions of the package hold, all of them together."""
    total = 0
    for module in pkgutil.walk_packages(secret_jax.__path__, "secret_jax."):
        if not module.name.endswith("__main__"):
            for value in vars(import_module(module.name)).values():
                if isinstance(value, Program):
                    total += value.n_compiled
    return total


def resident() -> int:
    """Bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux only")
def test_many_fits_leave_neither_programs_nor_memory_behind():
    rng = np.random.default_rng(0)

    def fit(n_rows):
        X, y = crease(n_rows, seed=int(rng.integers(2**31)))
        model = regressor("default", max_depth=1, prune=None).fit(X, y)
        model.predict(X)

    for _ in range(10):
        fit(64)
    gc.collect()
    programs, memory = compiled_programs(), resident()
    assert programs > 0
    for _ in range(40):
        fit(int(rng.integers(33, 65)))
    gc.collect()
    assert compiled_programs() == programs
    assert resident() - memory < 20e6
