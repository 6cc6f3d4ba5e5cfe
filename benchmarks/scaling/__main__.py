"""Time of a fit beside the number of rows: Figures 7 and 8 of Dobra & Gehrke 2002.

Every call appends one line to a file of JSON lines, so a stopped run goes on where it
was stopped; tables and a picture are made from that file. `benchmarks/README.md` says
more.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.scaling.models import CONTESTANTS, DEFAULT
from benchmarks.shared import (
    fit_missing,
    markdown,
    new_figure,
    randomness_of,
    save_figure,
    styles,
    told_in_words,
    whole_number,
)
from benchmarks.timing import add_busy_option, refuse_if_busy, timed
from secret_jax.datasets import make_3dsin, make_fried

SETS = {"3dsin": make_3dsin, "fried": make_fried}
# "From 32 thousand to 4 million rows": small sizes are mostly the price of a call.
LARGE = (2**15, 2**22)
_TEST_ROWS = 100_000
# Where the paper compares, and its seconds there on a Pentium III of 933 MHz: GUIDE's,
# GUIDE(S)'s, SECRET's and SECRET(O)'s.
TARGET_ROWS = 256_000
_SEARCHES = ("exhaustive", "sampled")
_METHODS = (*_SEARCHES, "axis", "oblique")
PAPER = {
    "3dsin": dict(zip(_METHODS, (25224.02, 2637.94, 129.95, 131.70), strict=True)),
    "fried": dict(zip(_METHODS, (18052.16, 8434.33, 460.12, 470.68), strict=True)),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One call: repeat 0 may compile, and is no part of the medians."""

    set: str
    rows: int
    model: str
    repeat: int
    key: str


@dataclass(frozen=True, kw_only=True)
class Record(Run):
    """What came of it: seconds of the clock and of all processors, leaves, test MSE."""

    seconds: float
    processors: float
    leaves: int
    mse: float

    def __str__(self) -> str:
        return f"{self.set}, {self.rows} rows, {self.model}: {self.seconds:.3g} s"


def machine() -> str:
    """What the times belong to."""
    device = jax.devices()[0]
    kind = "" if device.platform == "cpu" else f", {device.device_kind}"
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores{kind}"


@functools.lru_cache(maxsize=1)
def rows_of(name: str, n_rows: int) -> tuple[np.ndarray, ...]:
    """Rows to train and to test on: the same in every run."""
    random, _ = randomness_of(f"scaling {name}", n_rows)
    make = SETS[name]
    return *make(n_rows, random_state=random), *make(_TEST_ROWS, random_state=random)


class Timer:
    """Makes calls; what took longer than the budget sits out the larger sizes."""

    def __init__(self, budget: float):
        self._budget = budget
        self._late: dict[tuple[str, str], int] = {}

    def __call__(self, run: Run) -> Record:
        place = run.set, run.model
        if run.rows > self._late.get(place, run.rows):
            late = f"over {self._budget:g} s with {self._late[place]} rows"
            raise TimeoutError(late)
        X, y, X_test, y_test = rows_of(run.set, run.rows)
        (predict, leaves), taken = timed(lambda: CONTESTANTS[run.model].fit(X, y))
        if taken.clock > self._budget:
            self._late.setdefault(place, run.rows)
        error = float(np.mean((predict(X_test) - y_test) ** 2))
        times: dict[str, Any] = dict(seconds=taken.clock, processors=taken.processors)
        return Record(**asdict(run), **times, leaves=leaves, mse=error)


class Cell(NamedTuple):
    """Medians of the later calls, seconds of the first one, and what was fitted."""

    seconds: float
    processors: float
    first: float
    leaves: int
    mse: float


Cells = dict[tuple[str, str], dict[int, Cell]]


def cells_of(records: Sequence[Record]) -> Cells:
    """By set and model, then by rows."""
    calls: dict[tuple[str, str, int], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.repeat):
        calls.setdefault((record.set, record.model, record.rows), []).append(record)
    found: Cells = {}
    for (name, model, n_rows), every in sorted(calls.items(), key=lambda c: c[0][2]):
        later = [record for record in every if record.repeat] or every
        found.setdefault((name, model), {})[n_rows] = Cell(
            statistics.median(record.seconds for record in later),
            statistics.median(record.processors for record in later),
            every[0].seconds,
            later[-1].leaves,
            later[-1].mse,
        )
    return found


def slope(times: dict[int, float], least: float = 0.0, most: float = np.inf) -> float:
    """Exponent of the rows in the time, by least squares; NaN of a single size."""
    inside = [n_rows for n_rows in times if least <= n_rows <= most]
    if len(inside) < 2:
        return np.nan
    x, y = np.log(inside), np.log([times[n_rows] for n_rows in inside])
    return float(np.polyfit(x, y, 1)[0])


def ratio(search: dict[int, float], ours: dict[int, float]) -> tuple[float, str]:
    """How many times longer a search takes, as near to the paper's size as ours goes.

    Where the search was not finished there its time is extrapolated along its last
    three sizes, and said to be.
    """
    n_rows = TARGET_ROWS if TARGET_ROWS in ours else max(ours)
    if n_rows in search:
        return search[n_rows] / ours[n_rows], f"{n_rows}"
    last = dict(sorted(search.items())[-3:])
    seconds = search[max(last)] * (n_rows / max(last)) ** slope(last)
    return seconds / ours[n_rows], f"{n_rows}, EXTRAPOLATED from {max(last)}"


def report(found: Cells) -> str:
    """All tables, as Markdown that is legible as it is."""
    parts = []
    for name in dict.fromkeys(name for name, _ in found):
        lines = [["rows", "model", "seconds", "of processors", "first call"]]
        lines[0] += ["leaves", "test MSE"]
        here = {model: cells for (of, model), cells in found.items() if of == name}
        for n_rows in sorted({n_rows for cells in here.values() for n_rows in cells}):
            for model in [model for model in here if n_rows in here[model]]:
                *times, leaves, mse = here[model][n_rows]
                shown = [f"{seconds:.3g}" for seconds in times]
                lines.append([str(n_rows), model, *shown, str(leaves), f"{mse:.4g}"])
        parts += [f"### {name}: medians of seconds, {machine()}", markdown(lines)]
    slopes = [["set", "model", "slope of log seconds", "2^15 to 2^22 rows"]]
    ratios = [["set", "search", "ours", "rows", "ratio", f"paper, {TARGET_ROWS}"]]
    for (name, model), cells in found.items():
        times = {n_rows: cell.seconds for n_rows, cell in cells.items()}
        both = (slope(times), slope(times, *LARGE))
        slopes.append([name, model, *(f"{s:.2f}".replace("nan", "-") for s in both)])
        for search in _SEARCHES:
            if "growth" in model and (name, search) in found:
                theirs = {n: c.seconds for n, c in found[name, search].items()}
                value, rows = ratio(theirs, times)
                kind = "oblique" if model.endswith("oblique") else "axis"
                printed = PAPER[name][search] / PAPER[name][kind]
                cell = [f"{value:.3g}", f"{printed:.3g}"]
                ratios.append([name, search, model, rows, *cell])
    parts += ["### Slopes", markdown(slopes)]
    if len(ratios) > 1:
        parts += ["### Searches over ours, growth alone", markdown(ratios)]
    return "\n\n".join(parts)


def draw(found: Cells, path: Path) -> None:
    """Time beside rows: growth and the searches above, whole fits and peers below."""
    sets = list(dict.fromkeys(name for name, _ in found))
    models = list(dict.fromkeys(model for _, model in found))
    upper = [m for m in models if "growth" in m or m in _SEARCHES]
    halves = [half for half in (upper, [m for m in models if m not in upper]) if half]
    figure, axes = new_figure(len(halves), len(sets), width=6.4)
    for line, half in zip(axes, halves, strict=True):
        looks = styles(half)
        for axis, name in zip(line, sets, strict=True):
            for model in [model for model in half if (name, model) in found]:
                cells, look = found[name, model], looks[model]
                times = [cell.seconds for cell in cells.values()]
                axis.plot(list(cells), times, label=model, markersize=5, **look)
            axis.set(xscale="log", yscale="log", title=name)
            axis.set(xlabel="training rows", ylabel="time (s, median)")
            axis.legend(fontsize=7, frameon=False)
    save_figure(figure, path)


@told_in_words()
def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing calls, print the tables, draw the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling",
        description="Time fits of rising size, beside peers and the exhaustive search.",
    )
    add = parser.add_argument
    add("--sets", nargs="+", choices=SETS, default=list(SETS))
    names = ", ".join(CONTESTANTS)
    add("--models", nargs="+", choices=CONTESTANTS, metavar="MODEL", help=names)
    sizes = [250 * 4**i for i in range(6)]
    add("--rows", nargs="+", type=whole_number, default=sizes, help="sizes")
    add("--repeats", type=whole_number, default=3, help="timed calls after the first")
    add("--budget", type=float, default=120.0, help="seconds; larger sizes are skipped")
    add("--out", type=Path, default=Path("results/scaling.jsonl"), help="JSON lines")
    add("--summary-only", action="store_true", help="fit nothing, print the tables")
    add_busy_option(parser)
    options = parser.parse_args(arguments)
    here = machine()
    runs = [
        Run(set=name, rows=n_rows, model=model, repeat=repeat, key=f"{key} on {here}")
        for n_rows in sorted(options.rows)
        for name in options.sets
        for repeat in range(options.repeats + 1)
        for model in options.models or DEFAULT
        if (key := CONTESTANTS[model].key()) is not None
    ]
    if not options.summary_only:
        refuse_if_busy(options.busy)
    timer = None if options.summary_only else Timer(options.budget)
    found = cells_of(fit_missing(runs, options.out, Record, timer))
    print(report(found))
    draw(found, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
