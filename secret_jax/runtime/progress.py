"""Typed progress events, independent of their display.

Working code calls a `Progress` with events; `secret_jax.runtime.progress_line` shows
them. Working code knows nothing of terminals, and the display nothing of trees.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


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
