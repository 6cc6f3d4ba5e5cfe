"""A fit that was interrupted goes on, to the file that it would have written."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stream_tables import SMALL, assert_same_model, mixed_table, pieces

import secret_jax
from secret_jax import SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.runtime.parallel import ROW_BLOCK
from secret_jax.stream import chunks
from secret_jax.stream.batches import StreamError, Wanted
from secret_jax.stream.fit import StreamOptions, prepare_stream
from secret_jax.stream.sources import ArrayBatches

# Three chunks in each pass.
N_ROWS = 70_000
_DUMP = pickle.dump


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 2 * ROW_BLOCK)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    X, y = make_fried(N_ROWS, random_state=3)
    return X[:, :2].astype(np.float32), y


def fit(rows, folder: Path, **more) -> SecretRegressor:
    model = SecretRegressor(**(SMALL | more))
    return model.fit_stream(rows, checkpoint=folder, checkpoint_seconds=0)


@pytest.fixture(scope="module")
def whole(rows, tmp_path_factory) -> bytes:
    """The file of a fit that nobody interrupted."""
    path = tmp_path_factory.mktemp("whole") / "model"
    SecretRegressor(**SMALL).fit_stream(rows).save(path)
    return path.read_bytes()


def file_of(model: SecretRegressor, folder: Path) -> bytes:
    model.save(folder / "model")
    return (folder / "model").read_bytes()


class Interrupting(np.ndarray):
    """An array that lets itself be sliced so many times."""

    left: list[int]

    def __getitem__(self, index):
        is_batch = isinstance(index, slice) and index.step is None
        if is_batch and hasattr(self, "left"):
            self.left[0] -= 1
            if self.left[0] < 0:
                raise KeyboardInterrupt
        return np.asarray(self)[index]


@pytest.mark.parametrize(("n_reads", "state"), [(3, 1), (8, 2)])
def test_an_interrupted_fit_goes_on(rows, whole, tmp_path, monkeypatch, n_reads, state):
    monkeypatch.setattr("secret_jax.stream.sources._BATCH_ROWS", ROW_BLOCK)
    X = rows[0].view(Interrupting)
    X.left = [n_reads]
    with pytest.raises(KeyboardInterrupt):
        fit((X, rows[1]), tmp_path)
    begun = []
    batches = ArrayBatches.batches

    def noted(self, start, targets=True):
        begun.append(start)
        return batches(self, start, targets)

    monkeypatch.setattr(ArrayBatches, "batches", noted)
    assert file_of(fit(rows, tmp_path), tmp_path) == whole
    assert len(begun) == 3 - state
    assert begun[0] >= 2 * ROW_BLOCK
    assert begun[0] % ROW_BLOCK == 0


_KILLED = """
import os, pickle, signal, sys
import numpy as np
from secret_jax import RssSplits, SecretRegressor
from secret_jax.runtime.parallel import ROW_BLOCK
from secret_jax.stream import chunks

chunks.CHUNK_ROWS = 2 * ROW_BLOCK
rows = tuple(np.load(path, mmap_mode="r") for path in sys.argv[2:4])
dump, calls = pickle.dump, []

def dying(state, file):
    calls.append(1)
    if len(calls) == 6:  # the second of the second pass
        file.write(b"half a file")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    dump(state, file)

pickle.dump = dying
options = eval(sys.argv[4])
SecretRegressor(**options).fit_stream(
    rows, checkpoint=sys.argv[1], checkpoint_seconds=0
)
"""


def test_a_killed_fit_goes_on_and_half_a_file_is_no_state(rows, whole, tmp_path):
    paths = [str(tmp_path / name) for name in ("X.npy", "y.npy")]
    for path, array in zip(paths, rows, strict=True):
        np.save(path, array)
    folder = tmp_path / "state"
    root = Path(secret_jax.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(folder), *paths, repr(SMALL)],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    names = {path.name for path in folder.iterdir()}
    assert {"first-pass.state", "sums-1.state"} < names
    (half,) = (path for path in folder.iterdir() if path.suffix == ".tmp")
    assert half.read_bytes() == b"half a file"
    assert file_of(fit(rows, folder), tmp_path) == whole


def test_a_full_disk_is_told_and_the_last_state_stays(
    rows, whole, tmp_path, monkeypatch
):
    left = [2]

    def full(state, file):
        left[0] -= 1
        if left[0] < 0:
            file.write(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _DUMP(state, file)

    with monkeypatch.context() as patch:
        patch.setattr(pickle, "dump", full)
        with pytest.raises(OSError, match=r"first-pass.*No space left") as caught:
            fit(rows, tmp_path)
    assert caught.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["first-pass.state"]
    assert file_of(fit(rows, tmp_path), tmp_path) == whole


def test_a_checkpoint_of_another_fit_or_damaged_is_refused(rows, tmp_path):
    fit(rows, tmp_path)
    with pytest.raises(StreamError, match="another fit: its parameters"):
        fit(rows, tmp_path, equation_tolerance=0.5)
    fewer = tuple(array[:-1] for array in rows)
    with pytest.raises(StreamError, match="another fit: its source"):
        fit(fewer, tmp_path)
    path = tmp_path / "sums-1.state"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(StreamError, match=r"sums-1\.state' is damaged"):
        fit(rows, tmp_path)
    path.unlink()
    fit(rows, tmp_path)


def test_a_checkpoint_of_other_columns_weights_or_files_is_refused(tmp_path, rng):
    table = pd.DataFrame(rng.normal(size=(900, 3)), columns=list("abc"))
    table["y"] = 2 * table.a + abs(table.b)
    table["w"] = np.arange(900.0) % 3
    folder = tmp_path / "data"
    folder.mkdir()
    table.to_parquet(folder / "p.parquet")

    def fit(columns=("a", "b"), **more) -> SecretRegressor:
        model = SecretRegressor(**SMALL)
        state = tmp_path / "state"
        return model.fit_stream(folder, columns=columns, checkpoint=state, **more)

    first = fit()
    assert_same_model(fit(), first)
    with pytest.raises(StreamError, match=r"another fit: its source .*'a', 'c'"):
        fit(("a", "c"))
    with pytest.raises(StreamError, match=r"another fit: its source .* by 'w'"):
        fit(sample_weight="w")
    table.assign(y=-3 * table.y).to_parquet(folder / "p.parquet")
    with pytest.raises(StreamError, match="another fit: its source"):
        fit()


def test_arrays_of_other_numbers_are_another_fit(rows):
    def identity(X, y) -> str:
        return ArrayBatches((X, y), Wanted(("y",))).identity

    X, y = rows
    assert identity(X, y) == identity(X.copy(), y.copy())
    assert identity(X, y) != identity(X, -3 * y)


def test_a_fit_goes_on_with_the_seed_that_it_began_with(rows, tmp_path):
    options = StreamOptions(("y",), checkpoint=tmp_path)
    source = ArrayBatches(rows, Wanted(("y",)))
    plan = SecretRegressor()._plan()
    seeds = [
        prepare_stream(replace(plan, seed=seed), source, options)[0].seed
        for seed in (7, 8)
    ]
    assert seeds == [7, 7]


def test_categories_and_dates_outlive_an_interruption(tmp_path):
    table = mixed_table().drop(columns=["w", "b", "count"])
    frames = list(pieces(table, [20_000, 20_000]))
    reads = []

    def batches():
        reads.append(1)
        yield from frames[:2]
        if len(reads) == 1:
            raise KeyboardInterrupt
        yield from frames[2:]

    with pytest.raises(KeyboardInterrupt):
        fit(batches, tmp_path, max_depth=0)
    model = fit(batches, tmp_path, max_depth=0)
    expected = SecretRegressor(**SMALL | {"max_depth": 0}).fit(
        table.drop(columns="y"), table["y"]
    )
    assert_same_model(model, expected)
