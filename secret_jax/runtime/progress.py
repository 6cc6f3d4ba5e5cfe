"""Typed progress events, and their display: a line that redraws itself, or a few.

Working code calls a `Progress` with events and knows nothing of terminals; `shown`
displays them and knows nothing of trees.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple, TextIO

from tqdm import tqdm


class Step(NamedTuple):
    """Progress of a stage, named in words of the user; ``detail`` says where in it."""

    stage: str
    done: float = 0.0
    total: float | None = None
    detail: str = ""


Progress = Callable[[Step], None]


def silent(event: Step) -> None:
    del event


def told_apart(progress: Progress, what: str) -> Progress:
    """Receive the stages of work that is done again, named by what is other in it."""
    return lambda step: progress(step._replace(stage=f"{what}: {step.stage}"))


@dataclass(frozen=True)
class Stage:
    """Stage of the work, with the receiver of its progress."""

    name: str
    progress: Progress = silent

    def at(
        self, done: float = 0.0, total: float | None = None, detail: str = ""
    ) -> None:
        self.progress(Step(self.name, done, total, detail))


UNTOLD = Stage("")

# In a pipe the same stage is reported again after this time, in seconds.
_QUIET = 15.0
# Minimum time between two updates that people can read, in seconds.
_LEAST_PAUSE = 0.1
# Width in a notebook, in characters.
_NOTEBOOK_WIDTH = 88


@contextmanager
def shown(wanted: Any = True, stream: TextIO | None = None) -> Iterator[Progress]:
    """Display progress while the with block lasts, by default on standard error.

    On a terminal and in a notebook (there on standard output, which is not red) one
    line is drawn over and over (stage, share, time), which is gone in the end.
    Elsewhere each stage is a line, and one that takes long is another now and then.
    """
    if not wanted:
        yield silent
        return
    notebook = stream is None and _in_notebook()
    target = stream or (sys.stdout if notebook else sys.stderr)
    redrawn = notebook or target.isatty()
    width = _NOTEBOOK_WIDTH if notebook else None  # a terminal says how wide it is
    began, shown_at, stage = monotonic(), 0.0, ""
    options = {"leave": False, "bar_format": "{desc}", "disable": not redrawn}
    with _Bar(file=target, ncols=width, **options) as bar:

        def show(step: Step) -> None:
            nonlocal shown_at, stage
            now, pause = monotonic(), _LEAST_PAUSE if redrawn else _QUIET
            if step.stage == stage and now - shown_at < pause:
                return
            shown_at, stage = now, step.stage
            passed = tqdm.format_interval(now - began)
            if not redrawn:
                done = step.done / step.total if step.total else 0.0
                share = f": {done:.0%}" if done else ""
                words = ", ".join(filter(None, [f"{step.stage}{share}", step.detail]))
                print(f"{passed} {words}", file=target, flush=True)
                return
            share = "" if step.total is None else " {bar:18} {percentage:3.0f} %"
            bar.bar_format = f"{{desc}}{share}{{postfix}}"
            bar.total = step.total or 1.0
            bar.n = min(step.done, bar.total)
            bar.desc = step.stage
            bar.postfix = ", ".join(filter(None, [step.detail, passed]))
            bar.refresh()

        yield show


def _in_notebook() -> bool:
    """Whether a Jupyter kernel (Colab has one) shows what is printed."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class _Bar(tqdm):
    """Bar of tqdm without its monitor thread and lock between processes."""

    monitor_interval = 0


_Bar.set_lock(threading.RLock())
