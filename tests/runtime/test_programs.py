"""Compiled programs: one for every shape, and found on disk by later processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secret_jax
from secret_jax import RssSplits, SecretRegressor
from secret_jax.runtime import (
    program_files,
    program_memory,
    program_sources,
    programs,
)
from secret_jax.runtime.program_files import ProgramFolder, default_folder, key_of
from secret_jax.runtime.program_sources import imported, sources_of
from secret_jax.runtime.programs import program

FIT = """
import jax, numpy as np
from secret_jax import SecretRegressor
from secret_jax.grow.program import find_splits
from secret_jax.runtime import programs
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: compiled.append(name) if "backend_compile" in name else None
)
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
y = X[:, 0] ** 2
model = SecretRegressor(splits="cart", prune=None, random_state=0).fit(X, y)
print(len(compiled), find_splits.n_compiled, model.predict(X).sum().hex())
print(jax.config.jax_compilation_cache_dir)
"""


@pytest.fixture
def folder(tmp_path):
    """A fresh folder in place of that of the tests."""
    before = list(programs._FOLDER)
    yield tmp_path / "programs"
    programs._FOLDER[:] = before


def doubled(scale: float = 2.0, calls: list | None = None) -> programs.Program:
    """A program that notes how often it is traced."""

    @program(static_argnames=("power",))
    def double(x, *, power: int = 1):
        if calls is not None:
            calls.append(x.shape)
        return {"twice": scale * x**power, "sum": (jnp.sum(x), x[:1])}

    return double


def run(source: str, **environment: str) -> list[str]:
    alone = {
        k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "SECRET"))
    }
    alone |= {"JAX_PLATFORMS": "cpu"} | environment
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=alone,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return done.stdout.split()


def test_a_second_process_compiles_nothing_of_ours_and_fits_the_same_tree(tmp_path):
    first = run(FIT, XDG_CACHE_HOME=str(tmp_path))
    kept = sorted((tmp_path / "secret-jax" / "programs").iterdir())
    assert kept
    second = run(FIT, XDG_CACHE_HOME=str(tmp_path))
    assert int(second[0]) < int(first[0])
    assert second[1:] == first[1:]
    assert first[3] == "None"  # JAX's own cache is left alone
    assert sorted((tmp_path / "secret-jax" / "programs").iterdir()) == kept


def test_nothing_is_kept_where_the_environment_says_no(tmp_path):
    run(FIT, XDG_CACHE_HOME=str(tmp_path), SECRET_JAX_CACHE="off")
    assert not list(tmp_path.iterdir())


def test_a_program_is_traced_once_for_a_shape_and_never_if_kept(folder):
    secret_jax.keep_programs(folder)
    calls: list = []
    double = doubled(calls=calls)
    for n in (3, 4, 3):
        found = double(np.arange(float(n), dtype=np.float32), power=2)
        np.testing.assert_array_equal(found["twice"], 2.0 * np.arange(n) ** 2)
        assert found["sum"][0] == n * (n - 1) / 2
    assert (double.n_compiled, len(calls)) == (2, 2)
    double(jnp.arange(3.0), power=1)
    assert len(calls) == 3
    again = doubled(calls=calls)
    found = again(jnp.arange(4.0), power=2)
    assert (again.n_compiled, len(calls)) == (1, 3)
    assert jax.tree.map(np.shape, found) == {"twice": (4,), "sum": ((), (1,))}


def test_within_another_program_it_is_a_part_of_that(folder):
    secret_jax.keep_programs(folder)
    double = doubled()
    assert float(jax.jit(lambda x: double(x)["sum"][0])(jnp.ones(3))) == 3.0
    assert double.n_compiled == 0


def test_programs_of_foreign_values_are_not_kept(folder):
    secret_jax.keep_programs(folder)

    @dataclass(frozen=True)
    class Foreign:
        factor: float = 2.0

    @program(static_argnames=("value",))
    def scaled(x, *, value):
        return x * getattr(value, "factor", 1.0)

    assert float(scaled(jnp.float32(3.0), value=Foreign())) == 6.0
    assert not folder.exists()
    scaled(jnp.float32(3.0), value=RssSplits())
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "foreign", "a folder"])
def test_a_broken_file_is_compiled_again(folder, damage):
    secret_jax.keep_programs(folder)
    calls: list = []
    doubled(calls=calls)(jnp.arange(3.0))
    (path,) = folder.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[-20] ^= 1
        path.write_bytes(content)
    elif damage == "foreign":
        ProgramFolder(folder, named=True).write(path.stem, (b"no program", {"x": 0}))
    else:
        path.unlink()
        path.mkdir()
    with warnings.catch_warnings():
        if damage == "a folder":
            warnings.simplefilter("ignore")
        found = doubled(calls=calls)(jnp.arange(3.0))
    np.testing.assert_array_equal(found["twice"], [0.0, 2.0, 4.0])
    assert len(calls) == 2
    if damage != "a folder":  # and the next one finds it mended
        doubled(calls=calls)(jnp.arange(3.0))
        assert len(calls) == 2


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no permissions of this kind")
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_not_used(folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    secret_jax.keep_programs(folder)
    double = doubled()
    with pytest.warns(RuntimeWarning, match=r"others may write to it.*chmod 700"):
        double(jnp.arange(3.0))
    double(jnp.arange(4.0))  # it is said once
    assert not list(folder.iterdir())


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no permissions of this kind")
def test_a_file_that_others_may_write_to_is_not_read(folder):
    secret_jax.keep_programs(folder)
    calls: list = []
    doubled(calls=calls)(jnp.arange(3.0))
    (path,) = folder.iterdir()
    path.chmod(0o666)
    doubled(calls=calls)(jnp.arange(3.0))
    assert len(calls) == 2


def test_a_folder_that_cannot_be_made_is_a_warning_if_it_was_named(folder):
    folder.write_text("a file")
    secret_jax.keep_programs(folder / "below")
    with pytest.warns(RuntimeWarning, match="cannot be written to"):
        doubled()(jnp.arange(3.0))
    programs._FOLDER[:] = [ProgramFolder(folder / "below", named=False)]
    doubled()(jnp.arange(3.0))


def test_the_oldest_programs_make_room(folder):
    small = ProgramFolder(folder, named=True, most_bytes=1)
    small.write("a", 1)
    assert not list(folder.iterdir())
    one = ProgramFolder(folder, named=True)
    for name in "abc":
        one.write(name, name)
        os.utime(folder / f"{name}.program", (0, ord(name)))
    size = (folder / "a.program").stat().st_size
    assert one.read("a") == "a"  # used just now
    ProgramFolder(folder, named=True, most_bytes=3 * size).write("d", "d")
    assert {path.stem for path in folder.iterdir()} == {"a", "c", "d"}


def test_two_writers_at_once_leave_one_whole_file(folder):
    values = [np.full(200_000, i) for i in range(8)]
    both = ProgramFolder(folder, named=True)
    threads = [threading.Thread(target=both.write, args=("key", v)) for v in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = both.read("key")
    assert any(np.array_equal(found, value) for value in values)
    assert len(list(folder.iterdir())) == 1


def test_keys_know_what_made_a_program(monkeypatch):
    assert key_of("a", 1) == key_of("a", 1)
    assert len({key_of("a", 1), key_of("a", 2), key_of("a")}) == 3
    before = key_of("a")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    program_files._surroundings.cache_clear()
    assert key_of("a") != before
    monkeypatch.undo()
    program_files._surroundings.cache_clear()
    assert key_of("a") == before


def test_keys_know_the_sources_that_a_program_is_made_of_and_no_others(monkeypatch):
    search = "secret_jax.grow.program"
    assert "secret_jax.runtime.linalg" in imported([search])
    rooms = {name.split(".")[1] for name in imported([search, "secret_jax.splits.rss"])}
    assert not rooms & {"inspect", "cli", "boost", "stream", "prune", "estimator"}
    before = sources_of([search]), sources_of(["test_programs"])
    for edited, ours in (("inspect.text", True), ("runtime.linalg", False)):
        program_sources._hash_of.cache_clear()
        with monkeypatch.context() as patch:
            patch.setitem(program_sources._SOURCES, f"secret_jax.{edited}", "x = 1")
            assert (sources_of([search]) == before[0]) == ours
            assert sources_of(["test_programs"]) != before[1]
    program_sources._hash_of.cache_clear()


def test_only_programs_are_deleted_from_a_folder_that_grows(folder):
    folder.mkdir(mode=0o700)
    (folder / "folder.program").mkdir()
    own = folder / "dataset.bin"
    own.write_bytes(b"x" * 3_000_000)
    os.utime(own, (1e9, 1e9))
    left = folder / "tmp1.program-unfinished"  # by a process that was killed
    left.write_bytes(b"x" * 2_000_000)
    os.utime(left, (1e9, 1e9))
    kept = ProgramFolder(folder, named=True, most_bytes=1 << 20)
    rng = np.random.default_rng(0)
    for name in "abc":
        kept.write(name, rng.bytes(400_000))
    assert own.stat().st_size == 3_000_000
    assert not left.exists()
    assert kept.read("a") is None
    assert kept.read("c") is not None
    assert (folder / "folder.program").is_dir()


def test_the_least_recently_used_programs_leave_memory_first(monkeypatch, folder):
    secret_jax.keep_programs(folder)
    programs.forget_programs()
    monkeypatch.setattr(program_memory, "FEWEST_PROGRAMS", 1)
    calls: list = []
    double = doubled(calls=calls)
    for n in (3, 4, 5, 6):
        double(np.ones(n, np.float32))
    double(np.ones(3, np.float32))
    monkeypatch.setattr(program_memory, "MOST_PROGRAMS", 3)
    program_memory.make_room([double._compiled])
    assert double.n_compiled == 2
    double(np.ones(3, np.float32))
    assert double.n_compiled == 2
    double(np.ones(4, np.float32))  # read from its file
    assert (double.n_compiled, len(calls)) == (3, 4)
    if program_memory.n_maps():
        monkeypatch.setattr(program_memory, "MOST_MAPS", 1)
        program_memory.make_room([double._compiled])
        assert double.n_compiled == 1


def test_nothing_is_compiled_where_compiling_is_switched_off():
    double = doubled()
    with jax.disable_jit():
        assert float(double(jnp.ones(3))["sum"][0]) == 3.0
    assert double.n_compiled == 0


def test_where_programs_are_kept(monkeypatch, folder):
    monkeypatch.setenv("SECRET_JAX_CACHE", str(folder))
    found = default_folder()
    assert found is not None
    assert found.path == folder
    assert secret_jax.keep_programs() == folder
    monkeypatch.setenv("SECRET_JAX_CACHE", "OFF")
    assert default_folder() is None
    assert secret_jax.keep_programs() is None
    assert secret_jax.keep_programs(False) is None
    assert secret_jax.keep_programs(None) is None
    monkeypatch.delenv("SECRET_JAX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    assert secret_jax.keep_programs() == folder / "secret-jax" / "programs"
    with pytest.raises(ValueError, match="max_megabytes is 0"):
        secret_jax.keep_programs(folder, max_megabytes=0)


def test_a_whole_fit_is_the_same_from_kept_programs(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.abs(X[:, 0] + X[:, 1]) + 0.1 * rng.normal(size=300)
    secret_jax.keep_programs(False)
    # The default compiles nothing on processors.
    model = SecretRegressor(splits="cart", prune=None)
    compiled = model.fit(X, y).predict(X)
    secret_jax.keep_programs(folder)
    for _ in range(2):
        programs.forget_programs()
        assert np.array_equal(model.fit(X, y).predict(X), compiled)
    assert list(Path(folder).iterdir())


@pytest.mark.parametrize("version", ["0.10.2", "0.11.0", "0.11.1", "0.12.0.1"])
def test_small_steps_are_an_option_where_the_compiler_knows_it(monkeypatch, version):
    monkeypatch.setattr("jaxlib.version.__version__", version)
    known = version in ("0.10.2", "0.11.0")
    assert ("xla_cpu_use_fusion_emitters" in programs._small_steps("cpu")) == known


def test_this_compiler_knows_the_options():
    raised = program(small_steps=True)(lambda x: x**3)
    assert float(raised(2.0)) == 8.0


def test_nothing_warns_when_programs_are_found(folder):
    secret_jax.keep_programs(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            doubled()(jnp.arange(3.0))
