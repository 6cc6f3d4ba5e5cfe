"""The table and the verdicts: our runs beside the printed values.

`benchmarks/README.md` says how to read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.shared import Figure, figure, markdown

LEAVES = ("constant", "linear")
# SECRET's two kinds of splits; the rival's with every threshold, and with 1 % of them.
SPLITS = ("axis", "oblique", "guide", "guide(s)")
RIVALS = ("guide", "guide(s)")
# How EM starts in the paper's mode: as in the paper, or by a principal component.
STARTS = ("rows", "component")
METHODS = {
    "axis": "SECRET",
    "oblique": "SECRET(O)",
    "guide": "GUIDE",
    "guide(s)": "GUIDE(S)",
}
STAND_INS = ("mumps_1968_2002",)  # other data than the paper's: shown, never judged

# Table 1 of Dobra & Gehrke 2002: mean and standard error over 100 runs, with constant
# and then with linear leaves, each for GUIDE, SECRET and SECRET(O); N/A as printed.
PAPER_TABLE = """
abalone         5.32±0.05     5.50±0.10     5.41±0.10     4.63±0.04     4.67±0.04     4.76±0.05
baseball_log    0.224±0.009   0.200±0.008   0.289±0.012   0.173±0.005   0.243±0.011   0.280±0.009
boston          23.34±0.72    28.00±0.92    30.91±0.94    40.63±6.63    24.01±0.69    26.11±0.66
kin8nm          0.0419±0.0002 0.0437±0.0002 0.0301±0.0003 0.0235±0.0002 0.0222±0.0002 0.0162±0.0001
auto_mpg        12.94±0.33    30.09±2.28    26.26±2.45    34.92±21.92   15.88±0.68    16.76±0.74
mumps_1968_2002 1.34±0.02     1.59±0.02     1.56±0.02     1.02±0.02     1.23±0.02     1.32±0.04
stock           2.23±0.06     2.20±0.06     2.18±0.07     1.49±0.09     1.35±0.05     1.03±0.03
ta              0.74±0.02     0.69±0.01     0.69±0.01     0.81±0.04     0.72±0.01     0.79±0.08
tecator         57.59±2.40    49.72±1.72    28.21±1.75    13.46±0.72    12.08±0.53    7.80±0.53
3dsin           0.1435±0.0020 0.4110±0.0006 0.2864±0.0077 0.0448±0.0018 0.0384±0.0026 0.0209±0.0004
cart            1.506±0.005   1.171±0.001   N/A           N/A           N/A           N/A
fried           7.29±0.01     7.45±0.01     6.43±0.03     1.21±0.00     1.26±0.01     1.50±0.01
"""  # noqa: E501


@dataclass(frozen=True, kw_only=True)
class Run:
    """One fit to make."""

    set: str
    leaf: str
    split: str
    repeat: int
    min_samples_split: float  # share of the rows below which a node is not split
    mode: str
    start: str | None  # None where the mode has no EM of its own
    synthetic_rows: int | None  # of each part


@dataclass(frozen=True, kw_only=True)
class Record(Run):
    """One fit made: test error, leaves before and after pruning, wall time."""

    mse: float
    leaves_grown: int
    leaves_kept: int
    seconds: float
    together: int = 1  # fits of which the seconds are the mean

    def __str__(self) -> str:
        return (
            f"{self.set}, {self.leaf} leaves, {self.split} splits, "
            f"{self.start or self.mode}, repeat {self.repeat}: MSE {self.mse:.4g}, "
            f"leaves {self.leaves_grown} -> {self.leaves_kept}, {self.seconds:.1f} s"
        )


def _parse_paper_table() -> dict[tuple[str, str, str], tuple[str, Figure]]:
    methods = ("guide", "axis", "oblique")
    columns = [(leaf, method) for leaf in LEAVES for method in methods]
    printed = {}
    for name, *cells in map(str.split, PAPER_TABLE.strip().splitlines()):
        for (leaf, method), cell in zip(columns, cells, strict=True):
            if cell != "N/A":
                mean, standard_error = map(float, cell.split("±"))
                figure = Figure(mean, standard_error)
                printed[name, leaf, method] = (cell.replace("±", " ± "), figure)
    return printed


# (set, leaf, "guide" or split) to the value as printed and as numbers.
PRINTED = _parse_paper_table()
SETS = tuple(dict.fromkeys(name for name, _, _ in PRINTED))


def printed(name: str, leaf: str, split: str) -> tuple[str, Figure] | None:
    """The printed value of a cell, if there is one.

    The paper has no errors of GUIDE(S), only times: GUIDE's are its limit too.
    """
    return PRINTED.get((name, leaf, "guide" if split in RIVALS else split))


class Cell(NamedTuple):
    """One cell of the table: means over the runs of one method on one set."""

    set: str
    leaf: str
    split: str
    start: str | None
    runs: int
    ours: Figure
    leaves_grown: float
    leaves_kept: float
    seconds: float

    @property
    def limit(self) -> float:
        """Largest mean of ours that the one-sided test lets pass."""
        _, value = _printed(self)
        return value.mean + 3 * value.standard_error + 2 * self.ours.standard_error

    @property
    def verdict(self) -> str:
        """Whether our mean is no worse than the printed one, errors considered."""
        if self.set in STAND_INS:
            return "stand-in"
        if self.runs < 2:
            return "too few runs"
        return "holds" if self.ours.mean <= self.limit else "misses"


def _printed(cell: Cell) -> tuple[str, Figure]:
    found = printed(cell.set, cell.leaf, cell.split)
    if found is None:
        raise KeyError(f"the paper has no {cell.split} of {cell.set}, {cell.leaf}")
    return found


def make_cells(records: Iterable[Record]) -> list[Cell]:
    """Means over the repeats, constant leaves first, in the order of the paper."""
    groups: dict[tuple[str, str, str, str | None], list[Record]] = {}
    for record in records:
        key = record.leaf, record.set, record.split, record.start
        groups.setdefault(key, []).append(record)
    keys = product(LEAVES, SETS, SPLITS, (None, *STARTS))
    return [
        Cell(
            set=name,
            leaf=leaf,
            split=split,
            start=start,
            runs=len(found),
            ours=figure(record.mse for record in found),
            leaves_grown=float(np.mean([r.leaves_grown for r in found])),
            leaves_kept=float(np.mean([r.leaves_kept for r in found])),
            # The median, because a first fit also compiles.
            seconds=float(np.median([r.seconds for r in found])),
        )
        for leaf, name, split, start in keys
        if (found := groups.get((leaf, name, split, start)))
    ]


def table_text(cells: Sequence[Cell]) -> str:
    """A line for each cell that starts as the paper does, beside it the other start."""
    head = "set leaves splits runs ours component paper GUIDE limit grown kept seconds"
    lines: list[list[str]] = [[*head.split(), "verdict"]]
    other = {c[:3]: str(c.ours) for c in cells if c.start == "component"}
    for cell in judged_cells(cells):
        guide = PRINTED[cell.set, cell.leaf, "guide"][0]
        known = str(cell.ours), other.get(cell[:3], ""), _printed(cell)[0], guide
        leaves = f"{cell.leaves_grown:.1f}", f"{cell.leaves_kept:.1f}"
        told = f"{cell.limit:.4g}", *leaves, f"{cell.seconds:.2f}", cell.verdict
        lines.append([*cell[:3], str(cell.runs), *known, *told])
    return markdown(lines)


def judged_cells(cells: Sequence[Cell]) -> list[Cell]:
    """The cells that start as the paper does, or all if there are none."""
    return [cell for cell in cells if cell.start != "component"] or list(cells)


def summary_text(cells: Sequence[Cell]) -> str:
    """On how many of the paper's sets each method holds.

    Linear leaves are judged, for cart the constant ones. The paper prints N/A for
    SECRET(O) on cart, so that one cannot hold. Rivals without runs are left out.
    """
    judged = [name for name in SETS if name not in STAND_INS]
    verdicts = {
        (cell.split, cell.set): cell.verdict
        for cell in judged_cells(cells)
        if cell.leaf == _judged_leaf(cell.set)
    }
    lines = []
    for split, method in METHODS.items():
        if split in RIVALS and all(which != split for which, _ in verdicts):
            continue
        names: dict[str, list[str]] = {"holds": [], "misses": []}
        for name in judged:
            known = printed(name, _judged_leaf(name), split) is not None
            verdict = verdicts.get((split, name), "not run" if known else "N/A")
            names.setdefault(verdict, []).append(name)
        n_holds = len(names.pop("holds"))
        rest = [f"{verdict}: {', '.join(names[verdict]) or '-'}" for verdict in names]
        lines.append(f"{method} holds on {n_holds} of {len(judged)}; {'; '.join(rest)}")
    return "\n".join(lines)


def _judged_leaf(name: str) -> str:
    return "constant" if name == "cart" else "linear"
