"""Error of the trees that a booster teaches against their leaves.

Hard and soft students of several sizes, and of the size that the booster's folds
choose, beside our trees that had no teacher and Cubist; the booster is the error to
reach. `benchmarks/README.md` says more.

    python -m benchmarks.accuracy.students --data FOLDER --tables saratoga servo
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence

from benchmarks.accuracy.frontier import (
    add_options,
    draw,
    on_all_rows,
    results_of,
    with_overall,
)
from benchmarks.accuracy.ours import (
    Setting,
    fitted_booster,
    key_of_setting,
    outcome_of_booster,
)
from benchmarks.accuracy.panels import Shown
from benchmarks.accuracy.peers import Candidate, Outcome, peers
from benchmarks.accuracy.report import Results
from benchmarks.shared import Experiment, markdown
from secret_jax import SecretBoostingRegressor

TABLES = ("saratoga", "sacramento", "servo", "auto_mpg", "abalone", "kin8nm")
SIZES = (2, 4, 8, 12, 16, 24, 32)
PEERS = ("cubist", "cubist_on_text")
TREES = {"tree": Setting(), "soft tree": Setting({"refine": "soft"})}


def _student(**parameters: object) -> Setting:
    return Setting(booster=True, student=parameters)


HARD = {f"student of {size}": _student(max_leaf_nodes=size) for size in SIZES}
SOFT = {
    f"soft student of {size}": _student(max_leaf_nodes=size, refine="soft")
    for size in SIZES
}
# The booster's folds say how many leaves these have.
CHOSEN = {"student": _student(), "soft student": _student(refine="soft")}
TAUGHT = {"booster": Setting(booster=True), **HARD, **SOFT, **CHOSEN}
SHOWN = {
    size: Shown(
        {"students": list(HARD), "soft students": list(SOFT)},
        (*TREES, *PEERS),
        {"student of chosen size": "student", "soft, chosen size": "soft student"},
        "booster",
        size,
    )
    for size in ("leaves", "numbers")
}


class Boosters:
    """The booster of an experiment, kept until another experiment comes."""

    def __init__(self) -> None:
        self._last: tuple[Experiment, SecretBoostingRegressor, float] | None = None

    def of(self, experiment: Experiment) -> tuple[SecretBoostingRegressor, float]:
        """The fitted booster and the seconds of its fit."""
        if self._last is None or self._last[0] is not experiment:
            self._last = (experiment, *fitted_booster(TAUGHT["booster"], experiment))
        return self._last[1:]

    def run(self, setting: Setting, experiment: Experiment) -> Outcome:
        """The booster, or a student, whose seconds are its own only."""
        booster, seconds = self.of(experiment)
        outcome = outcome_of_booster(booster, setting.student, experiment)
        if setting.student is not None:
            return outcome
        return outcome._replace(seconds=seconds)


def own_candidates(code: str) -> list[Candidate]:
    """Trees without a teacher, the booster, and its students, which share one fit."""
    boosters = Boosters()
    taught = [
        Candidate(
            name,
            f"{key_of_setting(setting, code)} of one fit",
            functools.partial(boosters.run, setting),
        )
        for name, setting in TAUGHT.items()
    ]
    trees = [on_all_rows(name, setting, code) for name, setting in TREES.items()]
    return [*trees, *taught]


def students_table(results: Results) -> str:
    """Error / leaves / numbers, a line per model, a column per table."""
    names = [*results.sets, "all tables"]
    by_leaves, by_numbers = (with_overall(results, size) for size in SHOWN)
    lines = [["error / leaves / numbers", *names]]
    for model, of_tables in by_leaves.items():
        cells = [
            f"{of_tables[name]} / {by_numbers[model][name].size:.0f}"
            if name in of_tables
            else "-"
            for name in names
        ]
        lines.append([model, *cells])
    return markdown(lines)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.students",
        description=(__doc__ or "").splitlines()[0],
    )
    add_options(parser, TABLES, "results/students.jsonl")
    parser.add_argument(
        "--against", choices=tuple(SHOWN), default="leaves", help="of the picture"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing fits, print the table and draw the picture."""
    options = parse_options(arguments)
    candidates = [*peers(PEERS, None, None), *own_candidates(options.code)]
    results = results_of(options, candidates)
    print(f"Code {options.code}. Test MSE over the variance / leaves / numbers.\n")
    print(students_table(results))
    picture = options.picture or options.out.with_suffix(".png")
    draw(results, SHOWN[options.against], picture)
    print(f"\nPicture: {picture}")


if __name__ == "__main__":
    main()
