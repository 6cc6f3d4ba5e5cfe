"""Progress display: a line that redraws itself, or a few plain lines in a pipe."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, TextIO

from tqdm import tqdm

from secret_jax.runtime.progress import Event, Note, Progress, Step, silent

# Maximum time between two updates of a terminal's line, in seconds.
_TICK = 0.5
# In a pipe the same stage is reported again after this time, in seconds.
_QUIET = 15.0
# Minimum time between two updates that people can read, in seconds.
_LEAST_PAUSE = 0.1
# Where a terminal does not say how wide it is.
_USUAL_WIDTH = 80
# A notebook has no width of its own, in characters.
_NOTEBOOK_WIDTH = 88


@contextmanager
def shown(wanted: Any = True, stream: TextIO | None = None) -> Iterator[Progress]:
    """Display progress while the with block lasts.

    Parameters
    ----------
    wanted : bool or int
        False or 0: nothing is shown.
    stream : text file, optional
        By default standard error, in a notebook standard output (which is not red).

    Yields
    ------
    callable
        On a terminal and in a notebook it draws one line over and over (stage, share,
        time, time left of the stage), which is gone in the end. Elsewhere each stage is
        a line, and one that takes long is another now and then.
    """
    if not wanted:
        yield silent
        return
    notebook = stream is None and _in_notebook()
    target = stream or (sys.stdout if notebook else sys.stderr)
    redraws = notebook or target.isatty()
    width = _NOTEBOOK_WIDTH if notebook else None
    show = _Redrawn(target, width) if redraws else _Lines(target)
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


def _duration(seconds: float) -> str:
    return tqdm.format_interval(max(seconds, 0.0))


def _terminal_width(stream: TextIO) -> int:
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        width = 0
    return (width or _USUAL_WIDTH) - 1


class _Shown:
    """Base of both displays: the current stage and its start time."""

    pause = _TICK

    def __init__(self, stream: TextIO):
        self._stream, self._lock = stream, threading.RLock()
        self._step: Step | None = None
        self._began = self._stage_began = monotonic()

    def __call__(self, event: Event) -> None:
        """Show an event, from any thread."""
        with self._lock:
            if isinstance(event, Note):
                self._note(event.text)
                return
            new = self._step is None or self._step.stage != event.stage
            if new:
                self._stage_began = monotonic()
            self._step = event
            self._show(event, new)

    def _note(self, text: str) -> None:
        raise NotImplementedError

    def _show(self, step: Step, new: bool) -> None:
        raise NotImplementedError

    def tick(self) -> None:
        """Update the display as time passes."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish the display."""

    def _remaining(self, step: Step) -> str:
        """Estimated time left of the stage; empty if unknown."""
        now = monotonic()
        if not step.total or not 0 < step.done < step.total:
            return ""
        # Of the time since the step was told some has gone by.
        rate = step.done / max(now - self._stage_began, 1e-9)
        left = (step.total - step.done) / rate
        return f"{_duration(left)} left of this" if left >= 1.0 else ""


class _Redrawn(_Shown):
    """Display of a single line that tqdm redraws."""

    def __init__(self, stream: TextIO, width: int | None):
        super().__init__(stream)
        self._width, self._drawn = width, 0.0
        self._bar: _Bar | None = None

    def _note(self, text: str) -> None:
        _Bar.write(text, file=self._stream)

    def _show(self, step: Step, new: bool) -> None:
        if new or monotonic() - self._drawn > _LEAST_PAUSE:
            self._draw(step)

    def _draw(self, step: Step) -> None:
        self._drawn = monotonic()
        if self._bar is None:
            self._bar = _Bar(file=self._stream, leave=False, bar_format="{desc}")
        bar, known = self._bar, step.total is not None
        bar.ncols = self._width or _terminal_width(self._stream)
        bar.bar_format = "{desc} {bar:18} {percentage:3.0f} %{postfix}"
        if not known:
            bar.bar_format = "{desc}{postfix}"
        bar.total = step.total or 1.0
        bar.n = min(step.done, bar.total)
        bar.desc = step.stage
        words = [step.detail, _duration(self._drawn - self._began)]
        bar.postfix = ", ".join(filter(None, [*words, self._remaining(step)]))
        bar.refresh()

    def tick(self) -> None:
        """Redraw the line with the new time."""
        with self._lock:
            if self._step is not None:
                self._draw(self._step)

    def close(self) -> None:
        """Erase the line."""
        if self._bar is not None:
            self._bar.close()


class _Bar(tqdm):
    """Bar of tqdm without its monitor thread and lock between processes."""

    monitor_interval = 0


_Bar.set_lock(threading.RLock())


class _Lines(_Shown):
    """Display of a line per stage, and further lines for long stages."""

    pause = _QUIET / 5

    def __init__(self, stream: TextIO):
        super().__init__(stream)
        self._printed = monotonic()

    def _print(self, text: str) -> None:
        self._printed = monotonic()
        print(text, file=self._stream, flush=True)

    def _note(self, text: str) -> None:
        self._print(text)

    def _show(self, step: Step, new: bool) -> None:
        if new:
            self._print(f"{_duration(monotonic() - self._began)} {step.stage}")

    def tick(self) -> None:
        """Report a long stage again if nothing was printed for a while."""
        with self._lock:
            step = self._step
            if step is None or monotonic() - self._printed < _QUIET:
                return
            share = f": {step.done / step.total:.0%}" if step.total else ""
            words = [f"{step.stage}{share}", step.detail, self._remaining(step)]
            passed = _duration(monotonic() - self._began)
            self._print(f"{passed} {', '.join(filter(None, words))}")
