"""The benchmarks of speed: slopes, ratios, budgets."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from benchmarks import timing
from benchmarks.scaling import __main__ as scaling
from benchmarks.scaling.__main__ import PAPER, Record, ratio, slope
from benchmarks.scaling.models import Contestant
from benchmarks.shared import read_records

# ---- slopes and ratios


def test_printed_figures_give_the_ratios_of_the_papers_text():
    last = PAPER["3dsin"]
    assert last["exhaustive"] / last["axis"] == pytest.approx(200, rel=0.05)
    assert last["sampled"] / last["axis"] == pytest.approx(20, rel=0.05)
    # "from 3 to 11 attributes the time of SECRET went up about 3.5 times".
    for method in ("axis", "oblique"):
        assert PAPER["fried"][method] / last[method] == pytest.approx(3.5, rel=0.03)


def test_slopes_are_exponents_within_a_range():
    times = {n: 3.0 * n**1.5 for n in (1000, 2**15, 2**20)} | {2**23: 1e-9}
    assert slope(times, 1000, 2**20) == pytest.approx(1.5)
    assert slope(times, *scaling.LARGE) == pytest.approx(1.5)
    assert math.isnan(slope(times, 10, 2000))


def test_ratios_say_what_is_extrapolated():
    ours = {64_000: 0.5, 256_000: 0.5}
    value, how = ratio({n: n**2 / 1e6 for n in (10, 16_000, 64_000)}, ours)
    assert value == pytest.approx(256_000**2 / 1e6 / 0.5)
    assert how == "256000, EXTRAPOLATED from 64000"
    assert ratio({256_000: 2.0}, ours) == (4.0, "256000")
    assert ratio({64_000: 2.0}, {64_000: 8.0}) == (0.25, "64000")


# ---- the runs


@pytest.fixture
def made_up(monkeypatch):
    """Contestants that do next to nothing, and the order in which they were called."""
    calls = []

    def contestant(name, limit=math.inf):
        def fit(X, y):
            calls.append((name, len(X)))
            time.sleep(0.12 if len(X) > limit else 0.002)
            return lambda X: np.zeros(len(X)), 3

        return Contestant(fit, "numpy")

    found = {"growth axis": contestant("growth axis")}
    found["exhaustive"] = contestant("exhaustive", limit=150)
    monkeypatch.setattr(scaling, "CONTESTANTS", found)
    monkeypatch.setattr(scaling, "_TEST_ROWS", 50)
    monkeypatch.setattr(timing, "busy_share", lambda: 0.0)
    return calls


def test_budgets_turns_and_going_on(made_up, tmp_path, capsys):
    out = tmp_path / "new" / "scaling.jsonl"
    base = ["--sets", "fried", "--repeats", "2", "--budget", "0.1", "--out", str(out)]
    base += ["--models", "growth axis", "exhaustive"]
    scaling.main([*base, "--rows", "100", "200", "400"])
    pair = [("growth axis", 100), ("exhaustive", 100)]
    assert made_up[:6] == pair * 3  # in turns
    # Late with 200 rows, and not tried with 400.
    assert [n for name, n in made_up if name == "exhaustive"] == [100] * 3 + [200] * 3
    records = read_records(out, Record)
    assert len(records) == 3 * 3 + 3 * 2
    printed = capsys.readouterr()
    assert "with 200 rows" in printed.err
    assert "256000, EXTRAPOLATED" not in printed.out  # of a single size
    assert out.with_suffix(".png").stat().st_size > 1000
    made_up.clear()
    scaling.main([*base, "--rows", "100"])
    assert made_up == []


def test_a_tiny_real_run_beside_a_peer(tmp_path, capsys):
    out = tmp_path / "scaling.jsonl"
    base = ["--sets", "fried", "--rows", "256", "--models", "fit axis", "linear"]
    scaling.main([*base, "--repeats", "1", "--busy", "--out", str(out)])
    ours, linear = read_records(out, Record)[2:]
    assert linear.leaves == 1 < ours.leaves
    assert 1 < ours.mse < linear.mse
    assert "| 256  | fit axis |" in capsys.readouterr().out


# ---- the clock


def test_waiting_costs_no_processor():
    found, seconds = timing.timed(lambda: time.sleep(0.05) or "slept")
    assert found == "slept"
    assert seconds.clock >= 0.05 > seconds.processors


def test_the_busy_share_is_what_was_not_idle(monkeypatch, tmp_path):
    ticks = tmp_path / "stat"
    ticks.write_text("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n")
    later = "cpu  160 0 70 820 50 0 0 0 0 0\n"
    monkeypatch.setattr(timing, "_STATISTICS", ticks)
    monkeypatch.setattr(timing.time, "sleep", lambda _: ticks.write_text(later))
    assert timing.busy_share() == pytest.approx(0.8)


def test_nothing_is_timed_on_a_busy_machine(monkeypatch):
    monkeypatch.setattr(timing, "busy_share", lambda: 0.5)
    with pytest.raises(SystemExit, match="50% of the processors"):
        timing.refuse_if_busy(anyway=False)
    timing.refuse_if_busy(anyway=True)
