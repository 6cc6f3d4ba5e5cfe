"""A stream gives the tree of the same rows in memory, but for rounding."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from sklearn.base import clone
from stream_tables import SMALL, assert_same_model, mixed_table, pieces, write_parts

import secret_jax
from secret_jax import HoldOut, SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.estimators.stream.batches import Wanted, opened
from secret_jax.estimators.stream.fit import fit_stream
from secret_jax.runtime.progress import Step

SIZES = [1, 30_000, 17, 25_000]
PAGE = Path(secret_jax.__file__).parents[1] / "benchmarks/scaling/ENGINES.md"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return mixed_table()


@pytest.fixture(scope="module")
def in_memory(table) -> SecretRegressor:
    X = table.drop(columns=["y", "w"])
    return SecretRegressor(**SMALL).fit(X, table["y"])


@pytest.mark.parametrize(
    ("loss", "n_rows"),  # more than the pool keeps, and fewer
    [("gamma", 150_000), ("absolute", 150_000), ("absolute", 500), ("poisson", 500)],
)
def test_losses_have_the_units_of_the_table(loss, n_rows):
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, 2))
    y = random.poisson(np.exp(1 + X[:, 0])).astype(float)
    if loss == "gamma":
        y = np.exp(0.5 * X[:, 0]) * random.gamma(5.0, 0.2, n_rows)
    elif loss == "absolute":
        y[:3] = 1e4
    model = SecretRegressor(loss=loss, max_leaf_nodes=2, oblique=False)
    expected = clone(model).fit(X, y)
    model.fit_stream([(X[:200], y[:200]), (X[200:], y[200:])])
    assert model.tree_.schema.target_scales == expected.tree_.schema.target_scales
    assert_same_model(model, expected)


@pytest.mark.parametrize(
    "kind", ["folder", "dataset", "frames", "another order", "tables", "dicts"]
)
def test_a_stream_gives_the_tree_of_the_table(tmp_path, table, in_memory, kind):
    used = table.drop(columns="w")
    source = {
        "folder": lambda: str(write_parts(tmp_path / "parts", used, SIZES)),
        "dataset": lambda: ds.dataset(pa.Table.from_pandas(used)),
        "frames": lambda: list(pieces(used, SIZES)),
        "another order": lambda: [*pieces(used, SIZES)][::-1],
        "tables": lambda: lambda: map(pa.Table.from_pandas, pieces(used, SIZES)),
        "dicts": lambda: [
            {name: part[name].to_numpy() for name in part}
            for part in pieces(used, SIZES)
        ],
    }[kind]()
    model = SecretRegressor(**SMALL).fit_stream(source)
    assert in_memory.n_leaves_ > 2
    assert_same_model(model, in_memory)
    assert model.feature_names_in_.tolist() == in_memory.feature_names_in_.tolist()
    X = table.drop(columns=["y", "w"]).head(200)
    np.testing.assert_allclose(model.predict(X), in_memory.predict(X), rtol=1e-6)


def test_columns_in_the_names_of_folders_are_columns(tmp_path, table):
    used = table[["a", "b", "y"]].assign(
        kind=np.where(np.arange(len(table)) < 20_000, 1, 2)
    )
    for kind, part in used.groupby("kind"):
        folder = tmp_path / f"kind={kind}"
        folder.mkdir()
        part.drop(columns="kind").to_parquet(folder / "part.parquet", index=False)
    model = SecretRegressor(**SMALL).fit_stream(tmp_path)
    expected = SecretRegressor(**SMALL).fit(used[["a", "b", "kind"]], used["y"])
    assert_same_model(model, expected)


def test_weights_and_chosen_columns(table):
    model = SecretRegressor(**SMALL).fit_stream(
        list(pieces(table, SIZES)), sample_weight="w", columns=["a", "colour"]
    )
    expected = SecretRegressor(**SMALL).fit(
        table[["a", "colour"]], table["y"], table["w"]
    )
    # Rows of no weight stand in the blocks of a stream, so sums are rounded otherwise.
    assert np.array_equal(model.tree_.attribute, expected.tree_.attribute)
    positive = int((table["w"] > 0).sum())
    assert model.tree_.weight[0] == pytest.approx(positive, rel=1e-9)
    X = table[["a", "colour"]].head(500)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-5)
    halves = table.assign(w=table["w"] / 2)
    scaled = SecretRegressor(**SMALL).fit_stream(
        [halves], sample_weight="w", columns=["a", "colour"]
    )
    assert scaled.tree_.weight[0] == pytest.approx(positive, rel=1e-6)


def test_arrays_on_disk_with_two_targets(tmp_path):
    X, y = make_fried(70_000, random_state=0)
    X = X[:, :6].astype(np.float32)
    targets = np.column_stack([y, X[:, 0] - X[:, 1]])
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", targets)
    mapped = tuple(np.load(tmp_path / f"{n}.npy", mmap_mode="r") for n in ("X", "y"))
    model = SecretRegressor(**SMALL).fit_stream(mapped, target=["y", "z"])
    expected = SecretRegressor(**SMALL).fit(
        X, pd.DataFrame(targets, columns=["y", "z"])
    )
    assert_same_model(model, expected)
    assert not hasattr(model, "feature_names_in_")


def test_targets_and_weights_may_lie_anyhow():
    X, y = make_fried(400, random_state=0)
    weight = np.repeat([3.0, 1.0], 200)
    whole = np.column_stack([X, y, weight])
    flat = [np.broadcast_to(value, 200) for value in (3.0, 1.0)]  # they take no memory
    several = [
        [(X, y, weight)],
        [(X, whole[:, -2], whole[:, -1])],
        [(X[:200], y[:200], flat[0]), (X[200:], y[200:], flat[1])],
    ]
    first, *others = (SecretRegressor(**SMALL).fit_stream(given) for given in several)
    assert first.tree_.weight[0] == 400.0
    for model in others:
        assert_same_model(model, first)


def test_many_copies_of_few_rows():
    X, y = make_fried(300, random_state=0)
    X = X[:, :6]
    many = [(X, y)] * 100
    model = SecretRegressor(**SMALL).fit_stream(many)
    expected = SecretRegressor(**SMALL).fit_stream([(X, y)])
    assert model.tree_.weight[0] == pytest.approx(300, rel=1e-9)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-5)


def test_the_sample_may_be_larger_and_stays_within_bounds(table):
    used = table[["a", "b", "y"]]
    plan = SecretRegressor(**SMALL)._plan()
    for wanted in (500, 9000):
        finished = fit_stream(plan, opened([used], Wanted(("y",))), ("y",), wanted)
        n_rows = finished.data.rows.n_rows
        assert abs(n_rows - wanted) < 5 * np.sqrt(wanted)
        assert finished.data.sampled_share == pytest.approx(n_rows / len(used))


def test_held_out_rows_do_not_depend_on_the_order_of_the_rows(table):
    used, parts = table[["a", "b", "y"]], []
    plan = SecretRegressor(prune=HoldOut(refit=False), **SMALL)._plan()
    for frame in (used, used.sample(frac=1.0, random_state=0)):
        fitted = fit_stream(plan, opened([frame], Wanted(("y",))), ("y",)).fitted
        held_out, training = (
            fitted.tree.schema.restore_targets(part.targets)
            for part in (fitted.held_out, fitted.training)
        )
        assert not set(held_out) & set(training)
        parts.append(np.sort(held_out))
    # The scale differs in its last digit.
    np.testing.assert_allclose(*parts, rtol=1e-9)


def test_progress_tells_rows_rate_and_how_far_it_is(table):
    heard = []
    plan = replace(SecretRegressor(**SMALL)._plan(), progress=heard.append)
    source = opened(
        (table[["a", "b"]].to_numpy(), table["y"].to_numpy()), Wanted(("y",))
    )
    fit_stream(plan, source, ("y",))
    for stage in ("reading the rows", "fitting models on all rows"):
        steps = [e for e in heard if isinstance(e, Step) and e.stage == stage]
        assert {step.total for step in steps if step.detail} == {70_000}
        assert "70,000 rows" in steps[-1].detail
        assert "a second" in steps[-1].detail


def test_predictions_are_written_with_what_is_kept(tmp_path, table, in_memory):
    folder = write_parts(tmp_path / "parts", table, SIZES)
    out = tmp_path / "predicted.parquet"
    assert in_memory.predict_stream(folder, out, keep=["y", "colour"]) == 70_000
    found = pd.read_parquet(out)
    assert list(found) == ["y", "colour", "prediction"]
    expected = in_memory.predict(table.drop(columns=["y", "w"]))
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-5, atol=1e-6)
    assert found["colour"].isna().sum() == table["colour"].isna().sum()
    blind = [part.drop(columns=["y", "w"]) for part in pieces(table, SIZES)]
    in_memory.predict_stream(blind, out)
    again = pd.read_parquet(out)["prediction"]
    np.testing.assert_allclose(again, expected, rtol=1e-5, atol=1e-6)


def test_targets_that_no_row_of_the_sample_has_are_refused():
    y = np.arange(2000.0)
    y[1234] = -3.0
    frame = pd.DataFrame({"a": np.sin(y), "y": y})
    with pytest.raises(ValueError, match="the least target is -3"):
        SecretRegressor(loss="poisson").fit_stream([frame], sample_rows=50)


def test_partitions_of_dask_give_the_tree_as_the_page_shows(table):
    dask_frame = pytest.importorskip("dask.dataframe")
    table = table[["a", "b", "y"]]
    frame = dask_frame.from_pandas(table, npartitions=5)
    page = PAGE.read_text()
    dask = page[page.index("## Rows that live in Dask") :]
    (code,) = re.findall(r"```python\n(.*?)```", dask, re.DOTALL)
    space = {"frame": frame, "SecretRegressor": SecretRegressor, "options": SMALL}
    exec(code, space)
    expected = SecretRegressor(**SMALL).fit(table[["a", "b"]], table["y"])
    assert_same_model(space["model"], expected)
    predicted = np.asarray(space["predicted"].compute())
    known = expected.predict(table[["a", "b"]])
    np.testing.assert_allclose(predicted, known, rtol=1e-5, atol=1e-6)
