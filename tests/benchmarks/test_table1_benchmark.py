"""The Table 1 benchmark: printed values, verdicts, resuming, and a tiny real run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.shared import read_records
from benchmarks.table1 import __main__ as table1
from benchmarks.table1 import report as table1_report
from benchmarks.table1.report import PRINTED, Record


def record(**changed) -> Record:
    base = Record(
        set="abalone",
        leaf="linear",
        split="axis",
        repeat=0,
        min_samples_split=0.01,
        mode="paper",
        start="rows",
        synthetic_rows=None,
        mse=4.5,
        leaves_grown=60,
        leaves_kept=10,
        seconds=1.0,
    )
    return replace(base, **changed)


def printed_mean(name: str, split: str) -> float:
    return PRINTED[name, "linear", split][1].mean


@pytest.mark.parametrize(
    ("name", "percent"), [("kin8nm", 27), ("stock", 24), ("tecator", 35), ("3dsin", 45)]
)
def test_printed_values_give_the_gains_of_the_papers_text(name, percent):
    gain = 1 - printed_mean(name, "oblique") / printed_mean(name, "axis")
    assert 100 * gain == pytest.approx(percent, abs=1)


def test_cell_has_mean_and_standard_error_of_the_mean():
    mse = [1.0, 2.0, 3.0, 6.0]
    grown = [10, 20, 30, 40]
    (cell,) = table1_report.make_cells(
        record(repeat=i, mse=m, leaves_grown=g, seconds=s)
        for i, (m, g, s) in enumerate(zip(mse, grown, [90, 2, 2, 4], strict=True))
    )
    assert cell.ours.mean == 3.0
    assert cell.ours.standard_error == pytest.approx(np.std(mse, ddof=1) / 2)
    assert (cell.runs, cell.leaves_grown, cell.leaves_kept) == (4, 25, 10)
    assert cell.seconds == 3.0  # the median: the first fit compiled


def test_verdict_allows_three_printed_and_two_of_our_standard_errors():
    # 4.67 ± 0.04 is printed; the two runs below have a standard error of 0.1.
    limit = 4.67 + 3 * 0.04 + 2 * 0.1
    for mean, verdict in ((limit - 0.001, "holds"), (limit + 0.001, "misses")):
        records = [record(mse=mean - 0.1), record(mse=mean + 0.1, repeat=1)]
        (cell,) = table1_report.make_cells(records)
        assert cell.limit == pytest.approx(limit)
        assert cell.verdict == verdict


def test_summary_judges_linear_leaves_and_the_constant_ones_of_cart():
    def pair(**changed):
        return [record(**changed), record(repeat=1, **changed)]

    records = [
        *pair(set="abalone", mse=4.0),
        *pair(set="abalone", mse=99.0, leaf="constant"),
        *pair(set="boston", mse=99.0),
        *pair(set="cart", leaf="constant", mse=1.171),
        *pair(set="kin8nm", split="oblique", mse=0.01),
        record(set="stock", split="oblique", mse=0.1),
        *pair(set="mumps_1968_2002", mse=0.1),
    ]
    axis, oblique = table1_report.summary_text(
        table1_report.make_cells(records)
    ).splitlines()
    assert axis.startswith("SECRET holds on 2 of 11; misses: boston; not run: base")
    assert "N/A" not in axis
    assert oblique.startswith("SECRET(O) holds on 1 of 11; misses: -; not run: aba")
    assert "too few runs: stock" in oblique
    assert "N/A: cart" in oblique
    assert "mumps" not in axis + oblique


def test_all_cells_of_the_paper_are_planned():
    runs = table1.planned_runs(table1.parse_options(["--together", "1"]))
    assert len(set(runs)) == len(runs) == 100 * 2 * (11 * 4 + 1)
    assert {run.repeat for run in runs[:90]} == {0}
    assert {run.start for run in runs} == {"rows", "component"}
    runs = table1.planned_runs(table1.parse_options(["--starts", "rows"]))
    assert len(runs) == 100 * (11 * 4 + 1)
    default = table1.planned_runs(table1.parse_options(["--mode", "default"]))
    assert {run.start for run in default} == {None}
    cart = {(run.leaf, run.split) for run in runs if run.set == "cart"}
    assert cart == {("constant", "axis")}
    assert {run.synthetic_rows for run in runs if run.set == "fried"} == {16384}
    assert {run.synthetic_rows for run in runs if run.set == "ta"} == {None}


def test_a_set_that_cannot_be_loaded_stops_before_the_first_fit(tmp_path):
    arguments = ["--sets", "3dsin", "mumps_1968_2002", "--data", str(tmp_path)]
    with pytest.raises(SystemExit, match=r"mumps_1968_2002 out of --sets"):
        table1.main([*arguments, "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_a_tiny_real_run(tmp_path, capsys):
    out = tmp_path / "table1.jsonl"
    chosen = ["--sets", "3dsin", "--leaves", "linear", "--splits", "axis"]
    chosen += ["--starts", "rows"]
    table1.main(
        [*chosen, "--synthetic-rows", "256", "--repeats", "2", "--out", str(out)]
    )
    records = read_records(out, Record)
    assert [r.repeat for r in records] == [0, 1]
    # The variance of 3DSin's output is 9/4 (1 - sin(6)/6)^2 = 2.46.
    assert all(0 < r.mse < 2.46 for r in records)
    assert all(1 < r.leaves_kept <= r.leaves_grown for r in records)
    assert "SECRET holds on" in (printed := capsys.readouterr().out)
    again = [*chosen, "--synthetic-rows", "256", "--repeats", "2", "--summary-only"]
    table1.main([*again, "--out", str(out)])
    assert capsys.readouterr().out == printed
    with pytest.raises(SystemExit, match="no fits with these options"):
        table1.main([*chosen, "--summary-only", "--out", str(out)])
