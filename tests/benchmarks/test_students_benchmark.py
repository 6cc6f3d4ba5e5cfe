"""Trees that a booster teaches: one booster a split, errors against leaves."""

from __future__ import annotations

import types

import numpy as np
import pandas as pd
import pytest

from benchmarks.accuracy import data as accuracy_data
from benchmarks.accuracy import ours, students
from benchmarks.accuracy.peers import Candidate, Outcome
from secret_jax import SecretBoostingRegressor


def test_the_students_of_a_split_have_one_teacher(monkeypatch):
    fits, asked = [], []

    def fit(self, X, y):
        fits.append((len(y), self.random_state))

    def distill(self, **parameters):
        asked.append(parameters)
        return types.SimpleNamespace(
            predict=lambda X: np.zeros(len(X)),
            n_leaves_=parameters.get("max_leaf_nodes", 5),
            reading_cost_=7,
        )

    monkeypatch.setattr(SecretBoostingRegressor, "fit", fit)
    monkeypatch.setattr(SecretBoostingRegressor, "distill", distill)
    source = accuracy_data.named_source("friedman2_noise", None, 40)
    first, second = (accuracy_data.make_experiment(source, seed) for seed in (0, 1))
    taught = [c for c in students.own_candidates("code") if "student" in c.name]
    for experiment in (first, second):
        outcomes = [candidate.run(experiment) for candidate in taught]
        assert [outcome.leaves for outcome in outcomes] == [
            *(2, 4, 8, 12, 16, 24, 32, 2, 4, 8, 12, 16, 24, 32, 5, 5)
        ]
        assert {outcome.numbers for outcome in outcomes} == {7}
    assert fits == [(80, first.seed), (80, second.seed)]
    wanted = [{"max_leaf_nodes": size} for size in students.SIZES]
    wanted += [found | {"refine": "soft"} for found in wanted]
    assert asked == [*wanted, {}, {"refine": "soft"}] * 2


def test_the_command_prints_a_table_and_writes_a_picture(tmp_path, monkeypatch, capsys):
    def model(name, level, leaves, numbers):
        def run(experiment):
            prediction = np.full(len(experiment.test.y), level)
            return Outcome(prediction, leaves, 0.1, numbers)

        return Candidate(name, "k", run)

    names = [candidate.name for candidate in students.own_candidates("code")]
    own = [model(name, i / 8, 2 + i, 5 + 3 * i) for i, name in enumerate(names)]
    theirs = [model("cubist", 2.0, 4, 40)]
    monkeypatch.setattr(students, "own_candidates", lambda code: own)
    monkeypatch.setattr(students, "peers", lambda *arguments: theirs)
    for name in ("first", "second"):
        frame = pd.DataFrame({"x": range(20), "y": np.arange(20) % 5})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    out = tmp_path / "results" / "students.jsonl"
    chosen = ["--data", str(tmp_path), "--tables", "first", "second", "--splits", "1"]
    chosen += ["--out", str(out)]
    students.main(chosen)
    printed = capsys.readouterr().out
    (line,) = (line for line in printed.splitlines() if line.startswith("| cubist "))
    cells = [cell.strip() for cell in line.split("|")[2:-1]]
    assert [cell.split(" / ")[1:] for cell in cells] == [["4", "40"]] * 3
    assert len(out.read_text().splitlines()) == 2 * (len(own) + 1)
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    other = tmp_path / "numbers.png"
    again = ["--summary-only", "--against", "numbers", "--picture", str(other)]
    students.main([*chosen, *again])
    assert capsys.readouterr().out.splitlines()[:-1] == printed.splitlines()[:-1]
    assert other.read_bytes().startswith(b"\x89PNG")
    assert other.read_bytes() != out.with_suffix(".png").read_bytes()


def test_every_model_of_the_picture_is_fitted():
    fitted = {candidate.name for candidate in students.own_candidates("code")}
    fitted |= set(students.PEERS)
    for shown in students.SHOWN.values():
        drawn = {model for line in shown.lines.values() for model in line}
        drawn |= {*shown.single, *shown.rings.values(), shown.horizon}
        assert drawn == fitted


@pytest.mark.parametrize("name", ["distilled", "distilled_soft"])
def test_students_of_chosen_size_are_those_of_the_benchmark_of_accuracy(name):
    assert ours.VARIANTS[name] in students.CHOSEN.values()
