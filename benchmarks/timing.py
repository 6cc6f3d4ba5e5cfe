"""Seconds of the clock and of the processors, on a machine that does nothing else.

Beside other work a clock says how long somebody waited, and no more: threads that wait
for each other lose whole turns. So nothing is timed on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

_Found = TypeVar("_Found")
_STATISTICS = Path("/proc/stat")
# Processors that other work may keep busy, per processor of the machine.
_MOST_BUSY = 0.2


class Seconds(NamedTuple):
    """How long something took, by the clock and by all processors together."""

    clock: float
    processors: float


def timed(call: Callable[[], _Found]) -> tuple[_Found, Seconds]:
    """Call a function, and return its result and its time."""
    clock, processors = time.perf_counter(), time.process_time()
    found = call()
    taken = time.perf_counter() - clock, time.process_time() - processors
    return found, Seconds(*taken)


def busy_share(seconds: float = 1.0) -> float:
    """Share of the processors' time that goes to work, while this process waits."""
    if not _STATISTICS.exists():
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    before = _ticks()
    time.sleep(seconds)
    idle, total = (b - a for a, b in zip(before, _ticks(), strict=True))
    return 1.0 - idle / max(total, 1)


def _ticks() -> tuple[int, int]:
    """Idle and all ticks of the processors since the machine was started."""
    ticks = [int(word) for word in _STATISTICS.read_text().split("\n")[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def add_busy_option(parser: argparse.ArgumentParser) -> None:
    """Let the user time on a busy machine all the same."""
    parser.add_argument(
        "--busy", action="store_true", help="time even if the machine does other work"
    )


def refuse_if_busy(anyway: bool) -> None:
    """End the program if other work keeps the processors busy."""
    share = 0.0 if anyway else busy_share()
    if share > _MOST_BUSY:
        raise SystemExit(
            f"Other work takes {share:.0%} of the processors: times would say nothing. "
            "Wait until it is done, or add --busy to time all the same."
        )
