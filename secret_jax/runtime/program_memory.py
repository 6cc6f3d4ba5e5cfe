"""Compiled programs in memory, limited in number.

Every program takes some hundred memory maps, and a process may have 65,530 of them on
Linux: the compiler ends a process that asks for one more. So the least recently used
programs are dropped before that; on disk they stay.
"""

import gc
import itertools
import threading
from collections.abc import Callable, Hashable, Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

# A program takes 150 to 400 maps (jaxlib 0.10.2 on Linux), a default fit needs some
# five programs, a booster some twenty. Most maps are left to other libraries.
MOST_MAPS = 16_000
MOST_PROGRAMS = 512
FEWEST_PROGRAMS = 16
_CLOCK = itertools.count()
_LOCK = threading.Lock()
_MAPS = Path("/proc/self/maps")


class Compiled:
    """Compiled program with the time of its last use."""

    __slots__ = ("call", "last_use")

    def __init__(self, call: Callable[..., Any]):
        self.call, self.last_use = call, next(_CLOCK)

    def __call__(self, *leaves: Any) -> Any:
        self.last_use = next(_CLOCK)
        return self.call(*leaves)


def n_maps() -> int:
    """Number of memory maps of this process; 0 where the system hides it."""
    try:
        return _MAPS.read_bytes().count(b"\n")
    except OSError:
        return 0


def make_room(memories: Iterable[dict[Hashable, Compiled]]) -> None:
    """Drop the least recently used half of all programs while there are too many."""
    memories = list(memories)
    with _LOCK:
        while True:
            held = [
                (compiled.last_use, key, memory)
                for memory in memories
                for key, compiled in list(memory.items())
            ]
            too_many = len(held) > MOST_PROGRAMS or n_maps() > MOST_MAPS
            # Maps may be somebody else's: the last few programs are worth more.
            if len(held) <= FEWEST_PROGRAMS or not too_many:
                return
            held.sort(key=itemgetter(0))
            for _, key, memory in held[: len(held) // 2]:
                memory.pop(key, None)
            del held
            gc.collect()  # executables are parts of circles
