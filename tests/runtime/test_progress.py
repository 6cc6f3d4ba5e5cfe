"""Progress as people see it: one line on a terminal, few in a pipe, or nothing."""

from __future__ import annotations

import io

from secret_jax.runtime import progress
from secret_jax.runtime.progress import Stage, shown, told_apart


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(stream: io.StringIO, wanted=True) -> str:
    with shown(wanted, stream) as progress:
        for done in range(3):
            Stage("growing", progress).at(done, 4, f"level {done + 1}")
        Stage("pruning", progress).at()
    return stream.getvalue()


def test_a_pipe_gets_a_line_for_each_stage_and_nobody_else_one():
    lines = ["00:00 growing, level 1", "00:00 pruning"]
    assert told(io.StringIO()).splitlines() == lines
    assert told(Terminal(), wanted=0) == ""


def test_work_that_is_done_again_says_what_is_other():
    stream = io.StringIO()
    with shown(True, stream) as progress:
        for told in (progress, told_apart(progress, "smaller leaves")):
            Stage("growing", told).at()
    assert stream.getvalue().splitlines() == [
        "00:00 growing",
        "00:00 smaller leaves: growing",
    ]


def test_a_terminal_gets_one_line_that_is_wiped_in_the_end():
    frames = told(Terminal()).split("\r")
    assert any(f.startswith("growing") and "0 %, level 1, 00:00" in f for f in frames)
    assert any(f.startswith("pruning, 00:00") for f in frames)
    assert frames[-1] == ""
    assert frames[-2].strip() == ""
    assert max(map(len, frames)) < 80  # of a terminal that tells no width


def test_a_pipe_gets_further_lines_of_a_long_stage(monkeypatch):
    monkeypatch.setattr(progress, "_QUIET", 0.0)
    assert told(io.StringIO()).splitlines() == [
        "00:00 growing, level 1",
        "00:00 growing: 25%, level 2",
        "00:00 growing: 50%, level 3",
        "00:00 pruning",
    ]
