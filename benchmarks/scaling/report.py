"""The tables of scaling: seconds, slopes, and ratios beside the paper's.

`benchmarks/README.md` says how to read them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from benchmarks.shared import markdown

# Where the paper compares.
TARGET_ROWS = 256_000
# "From 32 thousand to 4 million rows": small sizes are mostly the price of a call.
LARGE = (2**15, 2**22)

# Figures 7 and 8 of Dobra & Gehrke 2002: seconds on a Pentium III of 933 MHz.
_PAPER_ROWS = tuple(250 * 2**i for i in range(11))
_PAPER_METHODS = ("exhaustive", "sampled", "axis", "oblique")
_PAPER_TEXT = {
    "3dsin": """
0.07 0.13 0.30 0.94 3.28 12.58 48.93 264.50 1389.88 6369.94 25224.02
0.05 0.07 0.12 0.24 0.66 2.40 9.48 43.25 184.50 708.73 2637.94
0.21 0.33 0.55 1.08 2.11 4.07 8.16 16.71 35.62 73.35 129.95
0.21 0.34 0.58 1.12 2.07 4.12 8.37 16.19 35.91 71.67 131.70
""",
    "fried": """
0.09 0.17 0.36 1.12 2.90 10.46 42.16 194.63 1082.70 4464.88 18052.16
0.07 0.14 0.28 0.80 2.38 8.43 33.09 123.63 533.16 1937.94 8434.33
0.47 0.87 1.85 3.58 7.33 13.77 27.80 56.87 122.26 223.42 460.12
0.43 0.92 1.83 3.69 7.36 14.05 28.68 58.01 124.60 222.75 470.68
""",
}


def _parsed(text: str) -> dict[str, dict[int, float]]:
    rows = [map(float, line.split()) for line in text.strip().splitlines()]
    return {
        method: dict(zip(_PAPER_ROWS, seconds, strict=True))
        for method, seconds in zip(_PAPER_METHODS, rows, strict=True)
    }


# By set, method (GUIDE, GUIDE(S), SECRET, SECRET(O)) and rows.
PAPER = {name: _parsed(text) for name, text in _PAPER_TEXT.items()}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One point to be made.

    Attributes
    ----------
    set : str
    rows : int
    model : str
    key : str
        Version and settings of the model.
    machine : str
    """

    set: str
    rows: int
    model: str
    key: str
    machine: str


@dataclass(frozen=True, kw_only=True)
class Record(Run):
    """One point made.

    Attributes
    ----------
    budget : float
        Seconds that a call was allowed.
    data_bytes : int
        Of the regressors, as they were handed over.
    status : {"done", "over budget", "failed"}
    seconds, processors : list of float
        Of the calls after the first, or of all where nothing compiles: those of the
        clock, and those of all processors together.
    search_seconds : list of float
        Of these, the seconds of the level loop (ours only).
    first : float or None
        Seconds of the first call, which compiles.
    leaves : int
    mse : float or None
        On fresh rows.
    """

    budget: float
    data_bytes: int
    status: str = "done"
    seconds: list[float] = field(default_factory=list)
    processors: list[float] = field(default_factory=list)
    search_seconds: list[float] = field(default_factory=list)
    first: float | None = None
    leaves: int = 0
    mse: float | None = None

    @property
    def median(self) -> float:
        """Median of the seconds; NaN if there is no call to speak of."""
        sound = self.status == "done" and self.seconds
        return statistics.median(self.seconds) if sound else math.nan

    @property
    def least(self) -> float:
        """Least seconds of the clock: what is left of noise; NaN if there is none."""
        return min(self.seconds) if math.isfinite(self.median) else math.nan

    @property
    def least_processors(self) -> float:
        """Least seconds of all processors together; NaN if there are none."""
        sound = math.isfinite(self.median) and self.processors
        return min(self.processors) if sound else math.nan

    @property
    def spent(self) -> float:
        """Seconds of all calls together."""
        return sum(self.seconds) + (self.first or 0.0)

    @property
    def compiling(self) -> float:
        """Seconds of the first call beyond those of a later one."""
        return math.nan if self.first is None else max(self.first - self.median, 0.0)

    def is_late(self, budget: float) -> bool:
        """Whether larger sizes are not worth trying."""
        slow = self.median > budget or self.spent > 4 * budget
        return self.status != "done" or slow

    def text(self) -> str:
        """What came of it, in a few words."""
        if self.status != "done":
            return f"{self.status} ({self.budget:g} s)"
        error = "" if self.mse is None else f", MSE {self.mse:.4g}"
        return f"{self.median:.3g} s, {self.leaves} leaves{error}"


class Ratio(NamedTuple):
    """How many times longer a search took than ours.

    Attributes
    ----------
    set, ours, search : str
    rows : int
    value : float
    paper : float
        The paper's figure for the same pair at `TARGET_ROWS`.
    extrapolated : str
        Empty if both were measured at ``rows``; else from which sizes.
    """

    set: str
    ours: str
    search: str
    rows: int
    value: float
    paper: float
    extrapolated: str


def medians(records: Iterable[Record]) -> dict[tuple[str, str], dict[int, float]]:
    """Median seconds by set and model, then by rows; only points that were finished."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for record in sorted(records, key=lambda record: record.rows):
        if math.isfinite(record.median):
            found.setdefault((record.set, record.model), {})[record.rows] = (
                record.median
            )
    return found


def slope(times: dict[int, float], least: float = 0.0, most: float = math.inf) -> float:
    """Exponent of the rows in the time: least squares on logarithms.

    NaN with fewer than two points in the range.
    """
    inside = [n_rows for n_rows in times if least <= n_rows <= most]
    if len(inside) < 2:
        return math.nan
    x, y = np.log(inside), np.log([times[n_rows] for n_rows in inside])
    return float(np.polyfit(x, y, 1)[0])


def extrapolated(times: dict[int, float], n_rows: int) -> tuple[float, str]:
    """Seconds for more rows along the last three points, and which those were."""
    last = dict(sorted(times.items())[-3:])
    exponent, largest = slope(last), max(last)
    seconds = last[largest] * (n_rows / largest) ** exponent
    return seconds, f"from {min(last)} to {largest} rows"


def ratios(records: Iterable[Record]) -> list[Ratio]:
    """Every search over every growth of ours, as near to the paper's size as it goes.

    Where the search was not finished at that size its time is extrapolated, and said
    to be.
    """
    times = medians(records)
    names = dict.fromkeys(name for name, _ in times if name in PAPER)
    found = []
    for name in names:
        growths = [m for n, m in times if n == name and "growth" in m]
        for ours in growths:
            for search in ("exhaustive", "sampled"):
                theirs, own = times.get((name, search)), times[name, ours]
                if not theirs:
                    continue
                n_rows = TARGET_ROWS if TARGET_ROWS in own else max(own)
                how = ""
                if n_rows in theirs:
                    seconds = theirs[n_rows]
                elif len(theirs) > 1 and n_rows > max(theirs):
                    seconds, how = extrapolated(theirs, n_rows)
                else:
                    continue
                split = "oblique" if ours.endswith("oblique") else "axis"
                printed = [PAPER[name][m][TARGET_ROWS] for m in (search, split)]
                paper = printed[0] / printed[1]
                value = seconds / own[n_rows]
                found.append(Ratio(name, ours, search, n_rows, value, paper, how))
    return found


def report(records: Sequence[Record]) -> str:
    """All tables, as Markdown that is legible as it is."""
    parts = [f"Medians of seconds; {records[0].machine}."]
    for name in dict.fromkeys(record.set for record in records):
        here = [record for record in records if record.set == name]
        parts += [f"### {name}: seconds", _table(here, "median", "{:.3g}")]
        compiled = [r for r in here if r.first is not None]
        if compiled:
            parts += [
                f"### {name}: seconds of compiling (first call less a later one)",
                _table(compiled, "compiling", "{:.3g}"),
            ]
        parts += [f"### {name}: leaves", _table(here, "leaves", "{:d}")]
        parts += [f"### {name}: test MSE", _table(here, "mse", "{:.4g}")]
    parts += ["### Slopes of log seconds on log rows", slope_table(records)]
    found = ratios(records)
    if found:
        parts += ["### Searches over ours, growth alone", ratio_table(found)]
    parts += _late(records)
    return "\n\n".join(parts)


def _table(records: Sequence[Record], what: str, form: str) -> str:
    models = list(dict.fromkeys(record.model for record in records))
    cells = {(record.rows, record.model): record for record in records}
    lines = [["rows", *models]]
    for n_rows in sorted({record.rows for record in records}):
        line = [str(n_rows)]
        for model in models:
            record = cells.get((n_rows, model))
            value = None if record is None else getattr(record, what)
            if record is not None and record.status == "over budget":
                line.append(f"> {record.budget:g}" if what == "median" else "-")
            elif value is None or not math.isfinite(value):
                line.append("-")
            else:
                line.append(form.format(value))
        lines.append(line)
    return markdown(lines)


def slope_table(records: Iterable[Record]) -> str:
    """Slopes over all sizes and over the large ones."""
    lines = [["set", "model", "sizes", "all", "2^15 to 2^22"]]
    for (name, model), times in medians(records).items():
        cells = (f"{slope(times, *limits):.2f}" for limits in ((), LARGE))
        sizes = f"{min(times)} to {max(times)}"
        lines.append([name, model, sizes, *(c.replace("nan", "-") for c in cells)])
    return markdown(lines)


def ratio_table(found: Iterable[Ratio]) -> str:
    """Ratios beside the paper's."""
    lines = [["set", "ours", "search", "rows", "ratio", f"paper, {TARGET_ROWS}"]]
    for ratio in found:
        value = f"{ratio.value:.3g}"
        if ratio.extrapolated:
            value += f" (search EXTRAPOLATED {ratio.extrapolated})"
        names = [ratio.set, ratio.ours, ratio.search, str(ratio.rows)]
        lines.append([*names, value, f"{ratio.paper:.3g}"])
    return markdown(lines)


def _late(records: Iterable[Record]) -> list[str]:
    lines = [
        f"{r.set}, {r.model}: {r.text()} at {r.rows} rows; larger sizes are skipped."
        for r in records
        if r.is_late(r.budget)
    ]
    return ["\n".join(lines)] if lines else []


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """The same as JSON."""
    slopes = [
        {
            "set": name,
            "model": model,
            "all": _number(slope(times)),
            "large": _number(slope(times, *LARGE)),
        }
        for (name, model), times in medians(records).items()
    ]
    return {
        **at_rows(records),
        "slopes": slopes,
        "ratios": [ratio._asdict() for ratio in ratios(records)],
        "skipped_above": [
            {"set": r.set, "model": r.model, "rows": r.rows, "why": r.text()}
            for r in records
            if r.is_late(r.budget)
        ],
        "paper": {
            name: {m: {str(n): s for n, s in times.items()} for m, times in of.items()}
            for name, of in PAPER.items()
        },
    }


def at_rows(records: Sequence[Record]) -> dict[str, Any]:
    """The points as JSON, with their medians."""
    return {
        "machine": records[0].machine,
        "points": [asdict(r) | {"median": _number(r.median)} for r in records],
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def million_table(records: Sequence[Record]) -> str:
    """Seconds and errors beside each other, a line per size and model."""
    head = ["rows", "model", "seconds", "median", "of processors", "first call"]
    head += ["leaves", "test MSE"]
    lines = [head]
    for r in sorted(records, key=lambda record: record.rows):
        first = "-" if r.first is None else f"{r.first:.3g}"
        sound = math.isfinite(r.median)
        seconds = f"{r.least:.3g}" if sound else r.text()
        others = ("-" if math.isnan(s) else f"{s:.3g}" for s in _others(r))
        error = "-" if r.mse is None else f"{r.mse:.4g}"
        last = [first, str(r.leaves), error]
        lines.append([str(r.rows), r.model, seconds, *others, *last])
    return f"Least of several; {records[0].machine}.\n\n{markdown(lines)}"


def _others(record: Record) -> tuple[float, float]:
    return record.median, record.least_processors


def memory_table(points: Sequence[dict[str, Any]]) -> str:
    """Peak memory, a line per size and model."""
    lines = [
        ["rows", "model", "data, MB", "before the fit, MB", "peak, MB", "rise, MB"]
    ]
    for point in points:
        before, peak = point["before_bytes"], point["peak_bytes"]
        sizes = (point["data_bytes"], before, peak, peak - before)
        megabytes = (f"{size / 1e6:.0f}" for size in sizes)
        lines.append([str(point["rows"]), point["model"], *megabytes])
    return markdown(lines)
