"""What work says of itself while it goes on: typed events, however they are shown.

Whoever works calls a `Progress` with events; `secret_jax.runtime.progress_line` shows
them. Nobody who works knows of terminals, and nobody who shows knows of trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Step(NamedTuple):
    """How far a stage has come.

    Attributes
    ----------
    stage : str
        What is being done, in words of the user.
    done : float
    total : float or None
        None where nobody knows.
    detail : str
        A word on where in it.
    """

    stage: str
    done: float = 0.0
    total: float | None = None
    detail: str = ""


class Note(NamedTuple):
    """Something that should be read, and stays on the screen."""

    text: str


Event = Step | Note
Progress = Callable[[Event], None]


def silent(event: Event) -> None:
    """Show nothing."""
    del event


@dataclass(frozen=True)
class Stage:
    """One stage of the work, and whom it tells.

    Attributes
    ----------
    name : str
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
        """Tell how far it has come."""
        self.progress(Step(self.name, done, total, detail))


UNTOLD = Stage("")
