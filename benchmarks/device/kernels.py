"""How many kernels a compiled program starts, read off the compiler's own text (HLO).

Loops count as often as they turn. Where the compiler does not know how often that is,
a number is assumed, and the host has to read before each turn whether there is another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

# What names or views an array, and takes no kernel.
_FREE = frozenset(
    (
        *("after-all", "bitcast", "constant", "copy-done", "get-tuple-element"),
        *("opt-barrier", "parameter", "partition-id", "replica-id", "tuple"),
    )
)
_HEAD = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) .*\{\s*$")
# After the type, which ends with a bracket and perhaps a layout.
_OPERATION = re.compile(r"[\])}] ([a-z][\w\-]*)\(")
_TURNS = re.compile(r"known_trip_count\W+n\W+(\d+)")


@dataclass
class Launches:
    """What a program asks a device to start.

    Attributes
    ----------
    kernels : int
        Kernels, copies and calls of libraries, each turn of a loop counted.
    products : int
        Those of them that are products of matrices.
    loops : int
        Loops, as often as they are entered.
    turns : int
        Turns of these loops together.
    host_reads : int
        How often the host has to read whether a loop goes on.
    places : dict of str to int
        Kernels by the innermost function of the source they belong to.
    """

    kernels: int = 0
    products: int = 0
    loops: int = 0
    turns: int = 0
    host_reads: int = 0
    places: Counter[str] = field(default_factory=Counter)

    def add(self, other: Launches, times: int = 1) -> None:
        """Add what another computation starts, so many times."""
        for name in ("kernels", "products", "loops", "turns", "host_reads"):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        for place, count in other.places.items():
            self.places[place] += times * count


def launches_of(text: str, *, assumed_turns: int = 1) -> Launches:
    """Count the launches of an optimised program.

    Parameters
    ----------
    text : str
        Of ``compiled.as_text()``.
    assumed_turns : int
        Of loops whose turns the compiler does not know.

    Returns
    -------
    Launches
    """
    computations, entry = _computations(text)
    frames = _frames(text)
    known: dict[str, Launches] = {}

    def of(name: str) -> Launches:
        if name not in known:
            known[name] = _added_up(computations[name], of, frames, assumed_turns)
        return known[name]

    return of(entry)


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    """Instructions of each computation, and the name of the first to run."""
    found: dict[str, list[str]] = {}
    inside, entry = None, ""
    for line in text.splitlines():
        head = None if line.startswith(" ") else _HEAD.match(line)
        if head and not line.startswith("HloModule"):
            inside = found.setdefault(head["name"], [])
            entry = head["name"] if head["entry"] else entry
        elif line.startswith("}"):
            inside = None
        elif inside is not None and " = " in line:
            inside.append(line.strip())
    return found, entry


def _added_up(
    instructions: list[str],
    of: Callable[[str], Launches],
    frames: dict[int, str],
    assumed_turns: int,
) -> Launches:
    total = Launches()
    for line in instructions:
        found = _OPERATION.search(line.split(" = ", 1)[1])
        operation = found[1] if found else ""
        if operation in _FREE or not operation:
            continue
        if operation == "while":
            body, condition = _named(line, "body", "condition")
            turns = _TURNS.search(line)
            n = int(turns[1]) if turns else assumed_turns
            total.add(of(body), n)
            total.add(Launches(loops=1, turns=n))
            if not turns:
                total.add(of(condition), n + 1)
                total.add(Launches(host_reads=n + 1))
        elif operation == "conditional":
            branches = [of(name) for name in _branches(line)]
            total.add(max(branches, key=lambda branch: branch.kernels))
            total.add(Launches(host_reads=1))
        elif operation in ("call", "async-start"):
            for name in _named(line, "to_apply", "calls"):
                total.add(of(name))
        elif not operation.startswith("async-"):
            target = line if operation == "custom-call" else line.split(" = ")[0]
            product = "gemm" in target or operation == "dot"
            place = {_place(line, frames): 1}
            total.add(Launches(kernels=1, products=product, places=Counter(place)))
    return total


def _named(line: str, *attributes: str) -> Iterator[str]:
    for attribute in attributes:
        yield from re.findall(rf"\b{attribute}=%?([\w.\-]+)", line)


def _branches(line: str) -> list[str]:
    several = re.search(r"branch_computations=\{([^}]*)\}", line)
    if several:
        return [name.strip().lstrip("%") for name in several[1].split(",")]
    return list(_named(line, "true_computation", "false_computation"))


def _place(line: str, frames: dict[int, str]) -> str:
    """The function of the source that an instruction was made by."""
    found = re.search(r"stack_frame_id=(\d+)", line)
    frame = frames.get(int(found[1]), "") if found else ""
    return frame or "made by the compiler"


def _frames(text: str) -> dict[int, str]:
    """Functions of the source by the numbers of the compiler's stack frames."""

    def table(name: str, value: str) -> dict[int, str]:
        body = re.search(rf"^{name}\n((?:\d+ .*\n)+)", text, re.MULTILINE)
        lines = body[1].splitlines() if body else []
        pairs = (re.match(rf"(\d+) .*?{value}", line) for line in lines)
        return {int(pair[1]): pair[2] for pair in pairs if pair}

    functions = table("FunctionNames", '"(.*)"')
    locations = table("FileLocations", r"function_name_id=(\d+)")
    frames = table("StackFrames", r"file_location_id=(\d+)")
    return {
        number: functions.get(int(locations.get(int(place), 0)), "")
        for number, place in frames.items()
    }
