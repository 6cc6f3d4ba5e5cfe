"""Compiled programs on disk: a second process compiles nothing, and only if asked."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import jax

import secret_jax
from secret_jax.runtime import compiling
from secret_jax.runtime.compiling import jit

FIT = """
import jax, numpy as np, secret_jax
{ask}
from secret_jax import SecretRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 2))
SecretRegressor(criterion="gini", oblique=False).fit(X, X[:, 0])
print(jax.config.jax_compilation_cache_dir)
"""


def run(source, folder):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment |= {"XDG_CACHE_HOME": str(folder), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_nothing_is_kept_unless_asked_for(tmp_path):
    assert run(FIT.format(ask=""), tmp_path) == "None"
    assert not list(tmp_path.iterdir())


def test_programs_are_kept_in_the_folder_and_found_again(tmp_path):
    # Small programs compile in about the time from which they are kept: keep them all.
    ask = (
        "secret_jax.enable_compilation_cache()\n"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)"
    )
    assert run(FIT.format(ask=ask), tmp_path) == str(tmp_path / "secret-jax")
    kept = {path.name for path in (tmp_path / "secret-jax").iterdir()}
    programs = {name for name in kept if name.endswith("-cache")}
    assert any("find_splits" in name for name in programs)
    run(FIT.format(ask=ask), tmp_path)
    again = {path.name for path in (tmp_path / "secret-jax").iterdir()}
    assert {name for name in again if name.endswith("-cache")} == programs


def test_a_folder_of_ones_own(tmp_path):
    before = jax.config.jax_compilation_cache_dir
    seconds = jax.config.jax_persistent_cache_min_compile_time_secs
    try:
        folder = secret_jax.enable_compilation_cache(tmp_path / "a" / "b")
        assert folder.is_dir()
        assert jax.config.jax_compilation_cache_dir == str(folder)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", seconds)


@functools.partial(jit, static_argnames=("power",), small_steps=True)
def raised(x, *, power):
    """Named and documented as written."""
    return x**power


def test_a_program_of_small_steps_is_compiled_once_for_each_kind():
    assert raised.__doc__ == "Named and documented as written."
    assert [float(raised(x, power=p)) for x, p in ((2.0, 3), (3.0, 3), (2.0, 2))] == [
        8.0,
        27.0,
        4.0,
    ]
    assert raised.program()._cache_size() == 2


def test_options_that_jax_does_not_know_are_left_out(monkeypatch):
    monkeypatch.setattr(compiling, "_SMALL_STEPS", {"xla_cpu_no_such_option": True})
    known = compiling._known_options.__wrapped__()
    assert known is None
