"""The accuracy benchmark: sets, resuming, ratios, and what is left out and why."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from fitted_records import record, results

from benchmarks.accuracy import __main__ as accuracy
from benchmarks.accuracy import data as accuracy_data
from benchmarks.accuracy import grid, hard_sets
from benchmarks.accuracy import peers as accuracy_peers
from benchmarks.accuracy.grid import experiments
from benchmarks.accuracy.report import Record
from benchmarks.shared import InputError, read_records
from benchmarks.table1 import __main__ as table1
from secret_jax import RssSplits
from secret_jax.datasets import make_fried
from secret_jax.learners import GuideSplits


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two small files, the first with its target in the middle."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=40)
    frame = pd.DataFrame({"size": size, "price": 2 * size, "town": list("ab") * 20})
    frame.to_csv(tmp_path / "houses.csv", index=False)
    frame[["size", "price"]].to_csv(tmp_path / "plain.csv", index=False)
    return tmp_path


def test_ratio_is_the_geometric_mean_over_sets_of_the_mean_errors():
    # On "one" the means are 0.3 and 0.1; on "two" 0.0001 counts as 0.001.
    found = results(
        [
            *(record("a", "one", s, e) for s, e in enumerate([0.2, 0.4])),
            *(record("b", "one", s, 0.1) for s in range(2)),
            *(record("a", "two", s, 0.0001) for s in range(2)),
            *(record("b", "two", s, 0.002) for s in range(2)),
        ]
    )
    ratio, error = found.ratio("a", "b")
    assert ratio == pytest.approx(math.sqrt(3 * 0.5))
    # Logarithms ln 2 and ln 4 on "one": standard error (ln 2) / 2; none on "two".
    assert error == pytest.approx(math.log(2) / 2 / 2)
    assert found.ratio("b", "a")[0] == pytest.approx(1 / ratio)
    assert found.wins("a", "b") == found.wins("b", "a") == 1


def test_a_stopped_run_goes_on_where_it_was_stopped(folder, tmp_path, capsys):
    out, long = tmp_path / "new" / "accuracy.jsonl", tmp_path / "other" / "long.csv"
    base = ["--sets", str(folder), "--target", "price", "--models", "ridge", "cart"]
    base += ["--out", str(out), "--long", str(long)]
    accuracy.main([*base, "--seeds", "2"])
    complete = out.read_bytes()
    lines = [json.loads(line) for line in complete.splitlines()]
    assert len(lines) == 2 * 2 * 2
    assert set(lines[0]) == set(Record.__dataclass_fields__)
    assert [line["seed"] for line in lines] == [0] * 4 + [1] * 4

    out.write_bytes(complete[:-20])  # stopped while it wrote its last line
    capsys.readouterr()
    accuracy.main([*base, "--seeds", "3"])
    again = out.read_bytes()
    assert again.startswith(complete[: complete.rfind(b"\n", 0, -1)])
    assert len(again.splitlines()) == 12
    printed = capsys.readouterr()
    assert "7 of 12 fits are in" in printed.err
    assert printed.err.count("error") == 5
    assert "| houses | 20   | 3 " in printed.out
    assert pd.read_csv(long).groupby(["set", "model"]).size().tolist() == [3] * 4


GRID = [
    {"oblique": [False], "prune": ["holdout", None], "leaf": ["linear", "constant"]},
    {"estimator": ["SecretRegressor.paper"], "splits": [GuideSplits(n_bootstraps=9)]},
]


def test_a_grid_grown_together_is_that_of_fits_one_after_the_other(
    tmp_path, monkeypatch
):
    make = mock.Mock(side_effect=grid.make_experiment)
    monkeypatch.setattr(grid, "make_experiment", make)
    frames = {}
    for name, n_rows in (("few", 90), ("more", 200)):
        X, y = make_fried(n_rows, n_features=5, random_state=n_rows)
        frames[name] = pd.DataFrame(X, columns=list("abcde")).assign(
            kind=np.resize(["u", "v"], n_rows), y=y
        )
        frames[name].iloc[3, [0, 5]] = None  # gaps of numbers and of text

    def fit(name, **options):
        return experiments(frames, GRID, out=tmp_path / name, **options)

    alone, together = fit("alone", seeds=3, together=1), fit("together", seeds=3)
    of_fits = [*together.columns.drop(["seconds", "together"])]
    pd.testing.assert_frame_equal(alone[of_fits], together[of_fits], rtol=1e-4)
    assert len(together) == 2 * 3 * 5
    assert make.call_count < len(together)  # models of a seed share its rows
    assert set(alone["together"]) == {1} != set(together["together"])
    assert together["seconds"].nunique() < alone["seconds"].nunique() / 3  # means
    assert set(together["prune"].dropna()) == {"holdout", "None"}
    assert together["estimator"].notna().sum() == 6

    before = (tmp_path / "together").read_bytes()
    again = fit("together", seeds=4)
    after = (tmp_path / "together").read_bytes()
    assert after.startswith(before)
    assert len(after.splitlines()) == len(again) == 2 * 4 * 5  # none was made twice
    shown = fit("together", seeds=4, summary_only=True)
    pd.testing.assert_frame_equal(shown, again)
    # A table is its content, whatever it was read from.
    frames["few"] = frames["few"].iloc[::-1]
    assert len(fit("together", seeds=1, summary_only=True)) == 5


def test_rows_are_those_of_the_other_benchmark(tmp_path):
    rows = pd.DataFrame({"sex": list("MF") * 50, "size": range(100), "rings": 1.5})
    rows.to_csv(tmp_path / "abalone.csv", index=False)
    (source,) = accuracy_data.sources_of("abalone", None, str(tmp_path), 0)
    ours = accuracy_data.make_experiment(source, 3)
    theirs = table1.make_experiment("abalone", 3, None, str(tmp_path))
    assert ours.seed == theirs.seed
    assert ours.discrete == ["sex"]
    sizes = [list(part.X["size"]) for part in ours[:3]]
    assert sizes == [list(part.X["size"]) for part in theirs[:3]]
    assert [len(part) for part in sizes] == [50, 30, 20]
    assert sorted(np.concatenate(sizes)) == list(range(100))
    other = accuracy_data.make_experiment(source, 4)
    assert other.seed != ours.seed
    assert sizes != [list(part.X["size"]) for part in other[:3]]


def test_rows_without_target_are_dropped_and_text_is_discrete(folder):
    frame = pd.read_csv(folder / "houses.csv")
    frame.loc[3, "size"] = frame.loc[5, "price"] = np.nan
    frame.to_csv(folder / "houses.csv", index=False)
    frame["built"] = pd.Timestamp("2020-01-01")
    from_file = accuracy_data.sources_of(folder, "price", None, 0)[0].read()
    (houses,) = accuracy_data.sources_of({"houses": frame}, "price", None, 0)
    for data in (from_file, houses.read()):
        assert len(data.y) == len(data.X) == 39
        assert data.X["size"].isna().sum() == 1
        assert data.discrete == ["town"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sets", "irises"], "no data set 'irises'"),
        (["--sets", "FOLDER", "--target", "cost"], "no column 'cost'"),
        (["--sets", "FOLDER"], "numbers in its target 'town'"),
        (["--sets", "FOLDER", "NEW/plain.csv", "--target", "size"], "same name"),
        (["--sets", "NEW/empty"], "no CSV file in the folder"),
        (["--data", "nowhere"], "no folder 'nowhere'"),
        (["--grid", "lief=linear"], "Invalid parameter 'lief'"),
        (["--grid", "leaf=linear,linaer"], "'leaf' parameter .* Got 'linaer'"),
        (["--grid", "estimator=SecretClassifier"], "does not predict numbers"),
        (["--grid", "estimator=SecretX"], "attribute SecretX"),
        (["--models", "ridge", "--baseline", "rigde"], "No model is 'rigde'"),
        (["--sets", "NEW/ragged.csv"], "ragged: .*Expected 2 fields"),
        (["--sets", "NEW/nothing.csv"], "nothing: No columns"),
    ],
)
def test_what_cannot_be_fitted_stops_before_the_first_fit(
    folder, tmp_path, arguments, message
):
    out, new = tmp_path / "out.jsonl", tmp_path / "new"
    (new / "empty").mkdir(parents=True)
    pd.read_csv(folder / "plain.csv")[:9].to_csv(new / "plain.csv", index=False)
    (new / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    (new / "nothing.csv").touch()
    places = {"FOLDER": str(folder), "NEW": str(new)}
    for word, place in places.items():
        arguments = [one.replace(word, place) for one in arguments]
    with pytest.raises(SystemExit, match=message):
        accuracy.main([*arguments, "--out", str(out)])
    assert not out.exists()


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("monotonic_cst=[1,0,0],None", [[1, 0, 0], None]),
        ("a=[('a',1),('b',2)],{'a':1,'b':2}", [[("a", 1), ("b", 2)], {"a": 1, "b": 2}]),
        (
            "splits=RssSplits(max_split_features=2,sparse_terms=(2,3)),cart",
            [RssSplits(max_split_features=2, sparse_terms=(2, 3)), "cart"],
        ),
        ("estimator=SecretRegressor.paper", ["SecretRegressor.paper"]),
    ],
)
def test_values_of_a_grid_end_at_commas_outside_of_brackets(word, values):
    (found,) = accuracy.parse_options(["--grid", word]).grid
    assert found == [(word.partition("=")[0], values)]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("leaf=Ridge.foo", "no attribute 'foo'"),
        ("leaf=Ridge(bad=1)", "unexpected keyword argument 'bad'"),
        ("leaf=Rigde()", "'Rigde' is not defined"),
        ("max_depth=1/0", "division by zero"),
        ("monotonic_cst=[1,0", "was never closed"),
    ],
)
def test_values_of_a_grid_that_cannot_be_read_are_refused(word, message, capsys):
    with pytest.raises(SystemExit):
        accuracy.parse_options(["--grid", word])
    told = capsys.readouterr().err
    assert repr(word) in told
    assert message in told


def test_models_of_a_grid_are_told_by_what_they_do_not_share(folder, tmp_path, capsys):
    leaf = "leaf=Ridge(tail_share=0.0,clip_margin=None)"
    both = ["--grid", leaf, "prune=None", "--grid", leaf, "prune=None", "oblique=False"]
    given = ["--sets", str(folder / "plain.csv"), "--seeds", "1", *both]
    given += ["--out", str(tmp_path / "out.jsonl")]
    accuracy.main([*given, "--baseline", "oblique=False"])
    printed = capsys.readouterr().out
    assert "| model         | error / oblique=False |" in printed
    assert "\n| default       | " in printed
    # Seconds of trees that grew together are of no model.
    assert all(
        line.split(" | ")[4].strip() == "-" for line in printed.split("\n")[-3:-1]
    )
    full = [record.model for record in read_records(tmp_path / "out.jsonl", Record)]
    accuracy.main([*given, "--baseline", full[0], "--models", "default"])
    assert f"error / {full[0]}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tables", "seeds", "message"),
    [
        ({}, 1, "Name tables"),
        ("iris_petal_width", 0, "Name tables, seeds"),
        ({"lists": pd.DataFrame({"a": [[1]] * 9, "b": 1.0})}, 1, "lists: unhashable"),
        ({"bare": pd.DataFrame()}, 1, "bare: "),
        ({"far": "nowhere.csv"}, 1, "far: .*No such file"),
    ],
)
def test_nothing_to_fit_is_said_in_words(tables, seeds, message, tmp_path):
    with pytest.raises(InputError, match=message):
        experiments(tables, {"oblique": [False]}, seeds=seeds, out=tmp_path / "out")


def test_a_table_without_a_name_is_refused(folder):
    frame = pd.read_csv(folder / "plain.csv")
    for tables in (frame, [frame]):
        with pytest.raises(ValueError, match="given by name: a dict"):
            experiments(tables, {"oblique": [False]})


@pytest.mark.parametrize("name", list(hard_sets.GENERATORS))
def test_synthetic_parts_are_new_rows_of_one_kind(name):
    (source,) = accuracy_data.sources_of(name, None, None, 40)
    experiment = accuracy_data.make_experiment(source, 0)
    again = accuracy_data.make_experiment(source, 0)
    for part, same in zip(experiment[:3], again[:3], strict=True):
        assert len(part.X) == len(part.y) == 40
        assert np.isfinite(part.y).all()
        np.testing.assert_array_equal(part.y, same.y)
        assert list(part.X) == list(experiment.train.X)
    assert not np.array_equal(experiment.train.y, experiment.test.y)
    numeric = experiment.train.X.drop(columns=experiment.discrete)
    assert np.isfinite(numeric.to_numpy(np.float64)).all()


def test_peers_that_are_not_installed_are_left_out_in_words(monkeypatch, capsys):
    for module in ("catboost", "cubist", "interpret", "lightgbm", "pilot"):
        monkeypatch.setitem(sys.modules, module, None)
    found = accuracy_peers.peers(accuracy_peers.PEER_NAMES, None)
    assert [candidate.name for candidate in found] == ["ridge", "cart"]
    said = capsys.readouterr().err
    assert "cubist is left out" in said
    assert "pip install fast-model-trees" in said
    assert "pip install interpret-core" in said


def test_a_tiny_real_run(tmp_path, capsys):
    out = tmp_path / "accuracy.jsonl"
    chosen = ["--sets", "fried", "--synthetic-rows", "256", "--seeds", "1"]
    models = ["--models", "default", "no_pruning", "ridge"]
    learner = ["--grid", "splits=CartSplits(criterion='gini'),cart", "distill=False"]
    given = [*chosen, *models, *learner, "--baseline", "ridge", "--out", str(out)]
    accuracy.main(given)
    records = {r.model: r for r in read_records(out, Record)}
    cart = "distill=False, splits=cart"
    assert list(records)[:2] == ["default", "no_pruning"]
    assert list(records)[-2:] == [cart, "ridge"]
    # A quarter of Fried's variance is beyond linear models, 4 % is noise.
    assert 0.2 < records["ridge"].error < 0.4
    assert records["default"].error < records["ridge"].error
    assert records["ridge"].numbers == 1 + 10
    sizes = [records[name] for name in ("default", "no_pruning")]
    assert sizes[0].leaves < sizes[0].numbers < sizes[1].numbers
    assert "error / ridge" in capsys.readouterr().out
