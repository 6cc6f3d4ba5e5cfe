"""Several processes with rows of their own come to one tree."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stream_tables import SMALL, mixed_table, pieces, write_parts

import secret_jax
from secret_jax import SecretRegressor
from secret_jax.stream.batches import StreamError, Wanted
from secret_jax.stream.fit import StreamOptions, fit_stream
from secret_jax.stream.sources import opened

ROOT = Path(secret_jax.__file__).parents[1]


class Threads:
    """Processes that are threads: the exchange without the machinery of JAX."""

    def __init__(self, rank: int, box: list, barrier: threading.Barrier):
        self.rank, self._box, self._barrier = rank, box, barrier

    def __call__(self, content: bytes) -> list[bytes]:
        self._box[self.rank] = content
        self._barrier.wait(60)
        found = list(self._box)
        self._barrier.wait(60)
        return found


def fit_together(sources: list, **more) -> list:
    """What every process ends with: a tree or an error."""
    n = len(sources)
    box, barrier, found = [b""] * n, threading.Barrier(n), [None] * n

    def work(rank: int) -> None:
        plan = SecretRegressor(**(SMALL | more))._plan()
        exchange = Threads(rank, box, barrier)
        options = StreamOptions(("y",), exchange=exchange)
        try:
            source = opened(sources[rank], Wanted(("y",)))
            found[rank] = fit_stream(plan, source, options).tree
        except StreamError as error:
            found[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def assert_nearly(tree, expected):
    """The same splits, and coefficients within 1e-5."""
    assert np.array_equal(tree.attribute, expected.attribute)
    assert np.array_equal(tree.direction, expected.direction)
    assert np.array_equal(tree.goes_left, expected.goes_left)
    assert np.array_equal(tree.weight, expected.weight)
    np.testing.assert_allclose(tree.threshold, expected.threshold, atol=1e-5)
    np.testing.assert_allclose(tree.coefficient, expected.coefficient, atol=1e-5)


@pytest.fixture(scope="module")
def table():
    return mixed_table().drop(columns=["w", "b", "count"])


@pytest.fixture(scope="module")
def with_violet(table):
    """A category that only the last rows have."""
    frame = table.copy()
    frame.loc[60_000:, "colour"] = "violet"
    return frame


def test_uneven_and_empty_parts_and_a_category_that_one_process_has_seen(with_violet):
    parts = [[part] for part in pieces(with_violet, [45_000, 14_000])] + [[]]
    parts[0], parts[1] = parts[1], parts[0]
    trees = fit_together(parts)
    expected = SecretRegressor(**SMALL).fit(
        with_violet.drop(columns="y"), with_violet["y"]
    )
    for tree in trees:
        assert_nearly(tree, expected.tree_)
    assert "violet" in trees[0].schema.categories[0]


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        (lambda f: f.assign(y=np.nan), ["In process 1: .*NaN", "NaN"]),
        (
            lambda f: f.rename(columns={"day": "date"}),
            ["names of its columns are others, .*: 'date"] * 2,
        ),
        (
            lambda f: f.assign(a="few"),
            ["Process 1 is unlike process 0: the roles of its columns .* 'discrete'"]
            * 2,
        ),
        (
            lambda f: f[f.columns[::-1]],
            ["names of its columns are .* in another order: 'day"] * 2,
        ),
        (lambda f: f.head(0), ["stream is empty"] * 2),
    ],
)
def test_an_error_of_one_process_is_told_to_all(table, change, messages):
    own = table.head(50) if "empty" not in messages[0] else table.head(0)
    errors = fit_together([[own], [change(table.tail(50))]], max_depth=0)
    for error, message in zip(errors, messages, strict=True):
        with pytest.raises(StreamError, match=message):
            raise error


def test_ordered_categories_that_differ_between_processes_are_named(table):
    many = {f"other {i}": table["a"].head(50) for i in range(12)}

    def part(*levels):
        size = pd.Categorical(["low", "high"] * 25, levels, ordered=True)
        return [table.head(50).assign(**many, size=size)]

    for levels in (("high", "low"), ("low", "middle", "high")):
        parts = [[], part("low", "high"), part(*levels)]
        message = (
            "Process 2 is unlike process 1: the levels of its columns are others, or "
            rf"in another order: .*{levels[0]}', '{levels[1]}"
        )
        for error in fit_together(parts, max_depth=0):
            with pytest.raises(StreamError, match=message):
                raise error


# What every process runs, as benchmarks/scaling/ENGINES.md shows it.
_JOINING = """
import sys
from glob import glob

import jax
import pyarrow.dataset

from stream_tables import SMALL
from secret_jax import SecretRegressor

address, n_processes, rank, folder, out = sys.argv[1:]
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, int(n_processes), int(rank))
files = sorted(glob(f"{folder}/*.parquet"))[int(rank) :: int(n_processes)]
source = pyarrow.dataset.dataset(files) if files else []
model = SecretRegressor(**SMALL).fit_stream(source, target="y", processes=True)
model.save(f"{out}-{rank}")
jax.distributed.shutdown()
"""


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


def started(code: str, *arguments: str) -> subprocess.Popen:
    helpers = Path(__file__).parents[1] / "helpers"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{helpers}"},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_of_jax_come_to_one_file(with_violet, tmp_path):
    folder = write_parts(tmp_path / "parts", with_violet, [45_000, 14_000])
    out, address = tmp_path / "model", free_address()
    running = [
        started(_JOINING, address, "2", rank, str(folder), str(out)) for rank in "01"
    ]
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert (tmp_path / "model-0").read_bytes() == (tmp_path / "model-1").read_bytes()
    expected = SecretRegressor(**SMALL).fit(
        with_violet.drop(columns="y"), with_violet["y"]
    )
    assert_nearly(SecretRegressor.load(f"{out}-0").tree_, expected.tree_)


_DYING = """
import os, signal, sys
import jax

jax.config.update("jax_cpu_collectives_implementation", "gloo")
rank = int(sys.argv[2])
jax.distributed.initialize(
    sys.argv[1], 2, rank, heartbeat_timeout_seconds=5, shutdown_timeout_seconds=5
)
import numpy as np
from secret_jax import SecretRegressor

def batches():
    yield np.zeros((10, 2)), np.arange(10.0)
    if rank:
        os.kill(os.getpid(), signal.SIGKILL)

try:
    SecretRegressor(max_depth=0).fit_stream(batches, processes=True)
finally:
    os._exit(3)
"""


def test_a_killed_process_ends_the_others():
    address = free_address()
    running = [started(_DYING, address, rank) for rank in "01"]
    codes = [
        (process.communicate(timeout=90), process.returncode) for process in running
    ]
    assert codes[1][1] == -signal.SIGKILL
    assert codes[0][1] != 0
