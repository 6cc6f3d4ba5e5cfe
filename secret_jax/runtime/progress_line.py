"""Progress display: a line that redraws itself, or a few plain lines in a pipe."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, TextIO

from tqdm import tqdm

from secret_jax.runtime.progress import Progress, Step, silent

# Maximum time between two updates of a terminal's line, in seconds.
_TICK = 0.5
# In a pipe the same stage is reported again after this time, in seconds.
_QUIET = 15.0
# Minimum time between two updates that people can read, in seconds.
_LEAST_PAUSE = 0.1
# Width where a terminal does not say how wide it is, and in a notebook, in characters.
_USUAL_WIDTH, _NOTEBOOK_WIDTH = 79, 88


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
    width = _NOTEBOOK_WIDTH if notebook else _terminal_width(target)
    show = _Redrawn(target, width) if notebook or target.isatty() else _Lines(target)
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(show.pause):
            show.tick()

    clock = threading.Thread(target=tick, daemon=True)
    clock.start()
    try:
        yield show
    finally:
        stop.set()
        clock.join()
        show.close()


def _in_notebook() -> bool:
    """Whether a Jupyter kernel (Colab has one) shows what is printed."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _terminal_width(stream: TextIO) -> int:
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        width = 0
    return width - 1 if width else _USUAL_WIDTH


class _Lines:
    """Display of a line per stage, and further lines for long stages."""

    pause = _QUIET / 5

    def __init__(self, stream: TextIO):
        self._stream, self._lock = stream, threading.RLock()
        self._step: Step | None = None
        self._began = self._shown = monotonic()

    def __call__(self, step: Step) -> None:
        with self._lock:
            new = self._step is None or self._step.stage != step.stage
            self._step = step
            if new or self._is_due():
                self._show(step)

    def tick(self) -> None:
        with self._lock:
            if self._step is not None and monotonic() - self._shown >= self._patience():
                self._show(self._step)

    def close(self) -> None:
        """Finish the display."""

    def _is_due(self) -> bool:
        return False

    def _patience(self) -> float:
        return _QUIET

    def _passed(self) -> str:
        self._shown = monotonic()
        return tqdm.format_interval(max(self._shown - self._began, 0.0))

    def _show(self, step: Step) -> None:
        share = f": {step.done / step.total:.0%}" if step.total and step.done else ""
        words = ", ".join(filter(None, [f"{step.stage}{share}", step.detail]))
        print(f"{self._passed()} {words}", file=self._stream, flush=True)


class _Redrawn(_Lines):
    """Display of a single line that tqdm redraws."""

    pause = _TICK

    def __init__(self, stream: TextIO, width: int):
        super().__init__(stream)
        self._width = width
        self._bar: _Bar | None = None

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _is_due(self) -> bool:
        return monotonic() - self._shown > _LEAST_PAUSE

    def _patience(self) -> float:
        return 0.0

    def _show(self, step: Step) -> None:
        if self._bar is None:
            self._bar = _Bar(file=self._stream, leave=False, bar_format="{desc}")
        bar = self._bar
        bar.ncols = self._width
        bar.bar_format = "{desc} {bar:18} {percentage:3.0f} %{postfix}"
        if step.total is None:
            bar.bar_format = "{desc}{postfix}"
        bar.total = step.total or 1.0
        bar.n = min(step.done, bar.total)
        bar.desc = step.stage
        bar.postfix = ", ".join(filter(None, [step.detail, self._passed()]))
        bar.refresh()


class _Bar(tqdm):
    """Bar of tqdm without its monitor thread and lock between processes."""

    monitor_interval = 0


_Bar.set_lock(threading.RLock())
