"""Seconds of the clock and of the processors, and the refusal of busy machines."""

from __future__ import annotations

import time

import pytest

from benchmarks import timing


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
