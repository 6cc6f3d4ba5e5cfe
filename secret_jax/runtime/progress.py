"""Typed progress events, independent of their display.

Working code calls a `Progress` with events; `secret_jax.runtime.progress_line` shows
them. Working code knows nothing of terminals, and the display nothing of trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Step(NamedTuple):
    """Progress of a stage.

    Attributes
    ----------
    stage : str
        Name of the stage, in words of the user.
    total : float or None
        None if unknown.
    detail : str
        A word on where in it.
    """

    stage: str
    done: float = 0.0
    total: float | None = None
    detail: str = ""


Progress = Callable[[Step], None]


def silent(event: Step) -> None:
    """Ignore an event."""
    del event


@dataclass(frozen=True)
class Stage:
    """Stage of the work, with the receiver of its progress.

    Attributes
    ----------
    progress : callable

    Examples
    --------
    >>> heard = []
    >>> Stage("pruning", heard.append).at(2, 3)
    >>> heard
    [Step(stage='pruning', done=2, total=3, detail='')]
    """

    name: str
    progress: Progress = silent

    def at(
        self, done: float = 0.0, total: float | None = None, detail: str = ""
    ) -> None:
        """Report progress."""
        self.progress(Step(self.name, done, total, detail))


UNTOLD = Stage("")
