"""Numbers to read, tables with gaps, and error against numbers."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from fitted_records import constant, record, results

from benchmarks.accuracy import frontier
from benchmarks.accuracy import peers as accuracy_peers
from benchmarks.shared import Experiment, Part

RULES = """id="Cubist 2.07 GPL Edition 2026-01-01"
att="x0" mean="3.1" sd="1.3" min="1" max="8"
entries="1"
rules="3"
conds="3" cover="56" mean="16.8" loval="14" hival="23" esterr="0.9"
type="2" att="x0" cut="3.5" result=">"
type="3" att="x1" elts="v8","v20","v6"
type="2" att="x2" val="N/A"
coeff="22.6" att="x0" coeff="-1.75" att="x2" coeff="0.39"
conds="1" cover="3" mean="34.3" loval="32" hival="37" esterr="3.3"
type="3" att="x1" elts="v4"
coeff="34"
conds="0" cover="3" mean="34.3" loval="32" hival="37" esterr="3.3"
coeff="1" att="x0" coeff="2"
"""


def test_rules_of_cubist_count_conditions_constants_and_coefficients():
    # Three conditions and an equation of three; one and one; none and two.
    assert accuracy_peers.numbers_of_cubist(RULES) == (3 + 3) + (1 + 1) + 2


def test_trees_and_linear_models_are_counted_where_they_are_fitted():
    rng = np.random.default_rng(0)

    def part():
        X = pd.DataFrame({"x": rng.uniform(size=100), "c": list("uvwx") * 25})
        return Part(X, np.floor(4 * X["x"].to_numpy()))

    experiment = Experiment(part(), part(), part(), ["c"], 0)
    cart, ridge = accuracy_peers.peers(["cart", "ridge"], None)
    assert cart.run(experiment).numbers == 3 + 4
    assert ridge.run(experiment).numbers == 1 + 1 + 4


def test_all_tables_are_a_geometric_mean_of_means_over_splits():
    found = results(
        [
            record("a", "one", 0, 0.1, numbers=10),
            record("a", "one", 1, 0.3, numbers=30),
            record("a", "two", 0, 0.8, numbers=5),
            record("b", "one", 0, 0.1, numbers=3),
        ]
    )
    points = frontier.points(found)
    assert points["a"][frontier.ALL] == pytest.approx((math.sqrt(0.16), 10))
    assert frontier.ALL not in points["b"]
    line = frontier.frontier_table(found).splitlines()[2]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        *("a", "0.2000 / 20", "0.8000 / 5", "0.4000 / 10")
    ]
    whole = found.complete()  # of the splits that all models have
    assert whole.values("a", "one") == [0.1]
    assert whole.values("a", "two") == [0.8]


def test_the_command_prints_a_table_and_writes_a_picture(tmp_path, monkeypatch, capsys):
    made = []

    def own(name, setting, *, held_out):
        made.append(name)
        assert not held_out
        return constant(name, float(len(made)), 5 + len(made))

    theirs = [constant("cubist", 2.0, 40), constant(frontier.HORIZON, 1.5, 4000)]
    monkeypatch.setattr(frontier, "candidate_of", own)
    monkeypatch.setattr(frontier, "peers", lambda *arguments: theirs)
    for name in ("first", "second"):
        frame = pd.DataFrame({"x": range(20), "y": np.arange(20) % 5})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    chosen = ["--data", str(tmp_path), "--tables", "first", "second"]
    out = tmp_path / "results" / "frontier.jsonl"
    frontier.main([*chosen, "--splits", "1", "--out", str(out)])
    printed = capsys.readouterr().out
    assert made.count("default") == printed.count("| default ") == 1
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert len(out.read_text().splitlines()) == 2 * (len(made) + 2)
    frontier.main([*chosen, "--splits", "1", "--out", str(out), "--summary-only"])
    assert capsys.readouterr().out == printed
