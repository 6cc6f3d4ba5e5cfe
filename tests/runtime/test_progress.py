"""Progress as people see it: one line on a terminal, few in a pipe, or nothing."""

from __future__ import annotations

import io
import time

import pytest

from secret_jax.runtime import progress_line
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.progress_line import shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(stream: io.StringIO, wanted=True) -> str:
    with shown(wanted, stream) as progress:
        for done in range(3):
            Stage("growing", progress).at(done, 4, f"level {done + 1}")
        Stage("pruning", progress).at()
    return stream.getvalue()


def test_a_pipe_gets_a_line_for_each_stage():
    assert told(io.StringIO()).splitlines() == [
        "00:00 growing, level 1",
        "00:00 pruning",
    ]


def test_a_terminal_gets_one_line_that_is_wiped_in_the_end():
    frames = told(Terminal()).split("\r")
    assert any(f.startswith("growing") and "0 %, level 1, 00:00" in f for f in frames)
    assert any(f.startswith("pruning, 00:00") for f in frames)
    assert frames[-1] == ""
    assert frames[-2].strip() == ""
    assert max(map(len, frames)) < 80  # of a terminal that tells no width


def test_nothing_is_shown_where_nothing_is_wanted():
    assert told(Terminal(), wanted=0) == ""


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_a_long_silence_of_the_work_is_none_of_the_line(kind, monkeypatch):
    monkeypatch.setattr(progress_line, "_QUIET", 0.05)
    monkeypatch.setattr(progress_line._Lines, "pause", 0.02)
    monkeypatch.setattr(progress_line._Redrawn, "pause", 0.02)
    stream = kind()
    with shown(True, stream) as progress:
        Stage("growing", progress).at(1, 4)
        before = len(stream.getvalue())
        time.sleep(0.4)
        assert "25" in stream.getvalue()[before:]
