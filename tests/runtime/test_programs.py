"""Compiled programs on disk: a second process compiles nothing, and only if asked."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import pytest

import secret_jax
from secret_jax.runtime.programs import small_steps

FIT = """
import jax, numpy as np, secret_jax
{ask}
from secret_jax import SecretRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 2))
SecretRegressor(splits="secret", oblique=False).fit(X, X[:, 0])
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


@pytest.mark.parametrize("version", ["0.10.2", "0.11.0", "0.11.1", "0.12.0.1"])
def test_small_steps_are_an_option_where_the_compiler_knows_it(monkeypatch, version):
    monkeypatch.setattr("jaxlib.version.__version__", version)
    known = version in ("0.10.2", "0.11.0")
    assert small_steps() == ({"xla_cpu_use_fusion_emitters": False} if known else None)


def test_this_compiler_knows_the_options():
    raised = jax.jit(lambda x: x**3, compiler_options=small_steps())
    assert float(raised(2.0)) == 8.0
