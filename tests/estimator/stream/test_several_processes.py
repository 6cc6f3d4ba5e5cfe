"""Several processes with rows of their own come to one tree."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stream_tables import SMALL, assert_same_model, mixed_table, pieces, write_parts

import secret_jax
from secret_jax import SecretRegressor
from secret_jax.estimators.stream.batches import StreamError, Wanted, opened
from secret_jax.estimators.stream.fit import fit_stream

ROOT = Path(secret_jax.__file__).parents[1]


def fit_together(sources: list, **more) -> list:
    """What every process ends with, if processes are threads: a tree or an error."""
    n = len(sources)
    box, barrier, found = [b""] * n, threading.Barrier(n), [None] * n

    def work(rank: int) -> None:
        def exchange(content: bytes) -> list[bytes]:
            box[rank] = content
            barrier.wait(60)
            received = list(box)
            barrier.wait(60)
            return received

        plan = SecretRegressor(**(SMALL | more))._plan()
        try:
            source = opened(sources[rank], Wanted(("y",)))
            found[rank] = fit_stream(plan, source, ("y",), exchange=exchange).tree
        except StreamError as error:
            found[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture(scope="module")
def table():
    return mixed_table().drop(columns=["w", "b", "count"])


@pytest.fixture(scope="module")
def with_violet(table):
    """A category that only the last rows have."""
    frame = table.copy()
    frame.loc[60_000:, "colour"] = "violet"
    return frame


@pytest.fixture(scope="module")
def in_memory(with_violet) -> SecretRegressor:
    X = with_violet.drop(columns="y")
    return SecretRegressor(**SMALL).fit(X, with_violet["y"])


def test_uneven_and_empty_parts_and_a_category_that_one_process_has_seen(
    with_violet, in_memory
):
    parts = [[part] for part in pieces(with_violet, [45_000, 14_000])] + [[]]
    parts[0], parts[1] = parts[1], parts[0]
    for tree in fit_together(parts):
        assert "violet" in tree.schema.categories[0]
        model = SecretRegressor(**SMALL)
        model.tree_ = tree
        assert_same_model(model, in_memory)


def ordered(*levels):
    """Makes ordered categories of the colours of a frame."""
    size = pd.Categorical(["low", "high"] * 25, levels, ordered=True)
    return lambda frame: frame.assign(colour=size)


@pytest.mark.parametrize(
    ("first", "second", "messages"),
    [
        (None, lambda f: f.assign(y=np.nan), ["In process 1: .*NaN", "NaN"]),
        (
            None,
            lambda f: f.rename(columns={"day": "date"}),
            ["names of its columns are others, .*: 'date"] * 2,
        ),
        (
            None,
            lambda f: f.assign(a="few"),
            ["Process 1 is unlike process 0: the roles of its columns .* 'discrete'"]
            * 2,
        ),
        (
            None,
            lambda f: f[f.columns[::-1]],
            ["names of its columns are .* in another order: 'day"] * 2,
        ),
        (lambda f: f.head(0), lambda f: f.head(0), ["stream is empty"] * 2),
        (
            ordered("low", "high"),
            ordered("high", "low"),
            ["the levels of its columns .*: .*'high', 'low'"] * 2,
        ),
        (
            ordered("low", "high"),
            ordered("low", "middle", "high"),
            ["the levels of its columns .*: .*'low', 'middle'"] * 2,
        ),
    ],
)
def test_an_error_of_one_process_is_told_to_all(table, first, second, messages):
    own = table.head(50)
    parts = [[first(own) if first else own], [second(table.tail(50))]]
    for error, message in zip(fit_together(parts, max_depth=0), messages, strict=True):
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


def test_processes_of_jax_come_to_one_file(with_violet, in_memory, tmp_path):
    folder = write_parts(tmp_path / "parts", with_violet, [45_000, 14_000])
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    helpers, out = Path(__file__).parents[2] / "helpers", tmp_path / "model"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _JOINING, address, "2", rank, str(folder), str(out)],
            env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{helpers}"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert (tmp_path / "model-0").read_bytes() == (tmp_path / "model-1").read_bytes()
    assert_same_model(SecretRegressor.load(f"{out}-0"), in_memory)
