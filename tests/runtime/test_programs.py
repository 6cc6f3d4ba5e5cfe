"""Compiled programs: one for every shape, and kept by JAX where that is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import secret_jax
from secret_jax.runtime import programs
from secret_jax.runtime.programs import program

FIT = """
import sys, jax, numpy as np, secret_jax
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
before = jax.config.values.copy()
with secret_jax.keep_programs(sys.argv[1]):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = secret_jax.SecretRegressor(refine="soft", prune="holdout", oblique=False)
    model.fit(X, X[:, 0] ** 2)
print(model.predict(X).sum().hex(), before == jax.config.values)
print(sum("cache_misses" in name for name in events))
"""


def doubled(most: int = 3) -> programs.Program:
    """A program that may be traced so often."""

    @program(static_argnames=("power",), small_steps=True)
    @chex.assert_max_traces(n=most)
    def double(x, *, power: int = 1):
        return {"twice": 2.0 * x**power, "sum": (jnp.sum(x), x[:1])}

    return double


def test_a_second_process_compiles_nothing_and_fits_the_same_tree(tmp_path):
    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", FIT, str(tmp_path / "kept")],
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert not done.stderr
        return done.stdout.split()

    first, kept = run(), sorted((tmp_path / "kept").glob("*-cache"))
    second = run()
    assert first[:2] == second[:2]
    assert first[1] == "True"  # the settings are restored
    assert (int(first[2]), int(second[2])) == (len(kept), 0)
    assert kept
    assert sorted((tmp_path / "kept").glob("*-cache")) == kept


def test_settings_are_restored_after_errors_and_blocks_that_overlap(tmp_path):
    before = jax.config.values.copy()  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(KeyError), secret_jax.keep_programs(tmp_path):
        raise KeyError
    assert before == jax.config.values  # pyright: ignore[reportAttributeAccessIssue]
    with ThreadPoolExecutor(2) as threads:  # each opens and closes its block by itself
        one, two = (secret_jax.keep_programs(tmp_path / name) for name in "ab")
        for step in (one.__enter__, two.__enter__):
            threads.submit(step).result()
        for block in (one, two):
            assert jax.config.jax_compilation_cache_dir == str(tmp_path / "b")
            threads.submit(block.__exit__, None, None, None).result()
    assert before == jax.config.values  # pyright: ignore[reportAttributeAccessIssue]


def test_a_program_is_traced_once_for_a_shape():
    double = doubled(most=3)
    for n in (3, 4, 3):
        found = double(np.arange(float(n), dtype=np.float32), power=2)
        np.testing.assert_array_equal(found["twice"], 2.0 * np.arange(n) ** 2)
        assert found["sum"][0] == n * (n - 1) / 2
    assert double.n_compiled == 2
    double(np.arange(3, dtype=np.float32), power=1)
    assert double.n_compiled == 3


def test_within_another_program_or_switched_off_it_is_none_of_its_own():
    double = doubled()
    assert float(jax.jit(lambda x: double(x)["sum"][0])(jnp.ones(3))) == 3.0
    assert jax.vmap(lambda x: double(x)["sum"][0])(jnp.ones((2, 3))).tolist() == [3, 3]
    before = double.n_compiled
    with jax.disable_jit():
        assert float(double(jnp.ones(3))["sum"][0]) == 3.0
    assert double.n_compiled == before


@pytest.mark.skipif(not programs.n_maps(), reason="maps are not told")
def test_programs_leave_memory_where_they_take_too_many_maps(monkeypatch):
    double = doubled()
    for n in (3, 4):
        double(np.ones(n, np.float32))
    before = programs.n_maps()
    assert double.n_compiled == 2
    monkeypatch.setattr(programs, "MOST_MAPS", 1)
    double(np.ones(3, np.float32))  # which is there
    assert double.n_compiled == 2
    double(np.ones(5, np.float32))
    assert double.n_compiled == 0
    assert programs.n_maps() < before


@pytest.mark.parametrize(
    "version", [(0, 10, 2), (0, 11, 0), (0, 11, 1), (0, 12, 0, 1)], ids=str
)
def test_small_steps_are_an_option_where_the_compiler_knows_it(monkeypatch, version):
    monkeypatch.setattr("jaxlib.version.__version_info__", version)
    known = version in ((0, 10, 2), (0, 11, 0))
    assert (
        "xla_cpu_use_fusion_emitters" in programs._compiler_options("cpu", True)
    ) == known


FORKED = """
import os, sys, warnings
import numpy as np, secret_jax as sj

warnings.simplefilter("ignore")  # JAX's, that it was forked
X = np.random.default_rng(0).normal(size=(60, 2))
y = X[:, 0] ** 2
gates = sj.SecretRegressor.accurate(prune="holdout")
if sys.argv[1] == "after":
    model = sj.SecretRegressor().fit(X, y)
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
try:
    if sys.argv[1] == "after":
        assert (model.predict(X) == sj.SecretRegressor().fit(X, y).predict(X)).all()
        sj.SecretRegressor.accurate(gates=False).fit(X, y)
        sj.SecretRegressor.paper().fit(X, y)
    try:
        print("fitted", gates.fit(X, y).n_leaves_)
    except RuntimeError as error:
        print(error)
except BaseException as error:
    print(repr(error))
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize(
    ("when", "said"), [("before", "fitted "), ("after", "get_context('spawn')")]
)
def test_forked_processes_fit_what_compiles_nothing_and_refuse_the_rest(when, said):
    """Where JAX has started before the fork, what compiles would wait for ever."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED, when],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.count(said) == 1
