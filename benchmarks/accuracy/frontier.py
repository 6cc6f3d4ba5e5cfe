"""Error against the numbers that a reader has to read, on tables as people bring them.

Ours along ``equation_tolerance`` and ``pruning_tolerance``, beside other models that
can be read, and boosted trees, which cannot, as the error to reach.
`benchmarks/README.md` says more.

    python -m benchmarks.accuracy.frontier --data FOLDER --tables saratoga sacramento
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.accuracy import panels
from benchmarks.accuracy.__main__ import make_missing, planned_tasks
from benchmarks.accuracy.data import TABLES, named_source
from benchmarks.accuracy.ours import Setting, candidate_of, code_version, key_of_setting
from benchmarks.accuracy.panels import Point, Shown
from benchmarks.accuracy.peers import Candidate, peers
from benchmarks.accuracy.report import FLOOR, Record, Results, Run
from benchmarks.shared import (
    markdown,
    read_records,
    run_of,
    whole_number,
)
from secret_jax import SecretRegressor

DEFAULT = SecretRegressor().get_params(deep=False)


def _along(name: str, *values: float) -> dict[str, Setting]:
    """The default with other values of a parameter; its own is among them."""
    every = sorted({*values, DEFAULT[name]})
    return {
        f"{name} {value:g}": Setting({name: value} if value != DEFAULT[name] else {})
        for value in every
    }


TAU = _along("equation_tolerance", 0.0, 0.01, 0.03, 0.05, 0.1)
TOLERANCE = _along("pruning_tolerance", 0.0, 0.03, 0.06, 0.1, 0.15)
ACCURATE = {
    "pruning_tolerance 0": TOLERANCE["pruning_tolerance 0"],
    "accurate": Setting(
        {
            name: value
            for name, value in SecretRegressor.accurate().get_params(deep=False).items()
            if value != DEFAULT[name]
        }
    ),
}
LINES = {
    "ours along equation_tolerance": TAU,
    "ours along pruning_tolerance": TOLERANCE,
    "ours accurate, hard and with gates": ACCURATE,
}
READABLE = ("cubist", "cubist_on_text", "cart", "pilot", "ridge")
HORIZON = "lightgbm_refitted"


def _title(name: str, setting: Setting) -> str:
    """The default has one name wherever it stands."""
    return name if setting.parameters else "default"


SHOWN = Shown(
    {
        line: [_title(name, setting) for name, setting in along.items()]
        for line, along in LINES.items()
    },
    READABLE,
    {"ours by default": "default", "ours accurate": "accurate"},
    HORIZON,
    "numbers",
)


def own_candidates(code: str) -> dict[str, Candidate]:
    """Our models by name; a setting that both lines have is one candidate."""
    found: dict[str, Candidate] = {}
    of_key: dict[str, Candidate] = {}
    for name, setting in (pair for line in LINES.values() for pair in line.items()):
        candidate = on_all_rows(_title(name, setting), setting, code)
        found[name] = of_key.setdefault(candidate.key, candidate)
    return found


def on_all_rows(name: str, setting: Setting, code: str) -> Candidate:
    """A tree of ours that is given no rows to prune it."""
    key = f"{key_of_setting(setting, code)} on all rows"
    return candidate_of(name, setting, key, held_out=False)


def complete(records: Iterable[Record]) -> list[Record]:
    """Records of the splits of a table that all models with records of it have."""
    records = list(records)
    splits: dict[str, dict[str, set[int]]] = {}
    for record in records:
        of_models = splits.setdefault(record.set, {})
        of_models.setdefault(record.model, set()).add(record.seed)
    shared = {name: set.intersection(*found.values()) for name, found in splits.items()}
    return [record for record in records if record.seed in shared[record.set]]


def points(results: Results, size: str = "numbers") -> dict[str, dict[str, Point]]:
    """Of every model by table: mean error, mean numbers or leaves over the splits."""
    found: dict[str, dict[str, Point]] = {}
    for model in results.models:
        found[model] = {
            name: Point(
                float(np.mean(errors)),
                float(np.mean(results.values(model, name, size) or [math.nan])),
            )
            for name in results.sets
            if (errors := results.values(model, name))
        }
    return found


def overall(of_tables: Iterable[Point]) -> Point:
    """Geometric means over tables."""
    errors, sizes = zip(*of_tables, strict=True)
    return Point(
        float(np.exp(np.mean(np.log(np.maximum(errors, FLOOR))))),
        float(np.exp(np.mean(np.log(sizes)))),
    )


def with_overall(
    results: Results, size: str = "numbers"
) -> dict[str, dict[str, Point]]:
    """Points by model and table; ``all tables`` where a model has every table."""
    found = points(results, size)
    for of_tables in found.values():
        if len(of_tables) == len(results.sets):
            of_tables["all tables"] = overall(of_tables.values())
    return found


def frontier_table(results: Results) -> str:
    """Error / numbers, a line per model, a column per table."""
    tables = [*results.sets, "all tables"]
    lines = [["error / numbers", *tables]]
    for model, of_tables in with_overall(results).items():
        cells = [str(of_tables[name]) if name in of_tables else "-" for name in tables]
        lines.append([model, *cells])
    return markdown(lines)


def draw(results: Results, shown: Shown, path: Path) -> None:
    """A panel per table and, of several, one for all."""
    sets = results.sets
    names = [*sets, "all tables"] if len(sets) > 1 else sets
    panels.draw(with_overall(results, shown.size), names, shown, path)


def add_options(
    parser: argparse.ArgumentParser, tables: Sequence[str], out: str
) -> None:
    """Options of the commands that fit models to tables and draw error against size."""
    add = parser.add_argument
    add("--data", help="folder of CSV files; else SECRET_JAX_DATA")
    add("--tables", nargs="+", default=list(tables), metavar="TABLE", help="names")
    add("--splits", type=whole_number, default=2, help="80 %% train, 20 %% test")
    add("--code", default=code_version(), help="name of our code in the records")
    add("--out", type=Path, default=Path(out), help="JSON lines")
    add("--picture", type=Path, help="PNG; by default beside --out")
    add("--summary-only", action="store_true", help="fit nothing, print the table")


def results_of(options: argparse.Namespace, candidates: Sequence[Candidate]) -> Results:
    """Make the missing fits; of all, the splits that every model has."""
    sources = [named_source(name, options.data, 0) for name in options.tables]
    tasks = planned_tasks(sources, candidates, options.splits)
    records = read_records(options.out, Record)
    if not options.summary_only:
        records.extend(make_missing(tasks, tuple(records), options.out))
    made = {run_of(record, Run): record for record in records}
    results = Results(complete(made[run] for run, _, _ in tasks if run in made))
    if not results.sets:
        raise SystemExit(f"{options.out} holds no fits with these options and code.")
    return results


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.frontier",
        description=(__doc__ or "").splitlines()[0],
    )
    add_options(parser, TABLES, "results/frontier.jsonl")
    parser.add_argument(
        "--threads", type=whole_number, help="of LightGBM; all by default"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing fits, print the table and draw the picture."""
    options = parse_options(arguments)
    theirs = peers([*READABLE, HORIZON], None, options.threads)
    own = dict.fromkeys(own_candidates(options.code).values())
    results = results_of(options, [*theirs, *own])
    print(f"Code {options.code}. Test MSE over the variance / numbers to read.\n")
    print(frontier_table(results))
    picture = options.picture or options.out.with_suffix(".png")
    draw(results, SHOWN, picture)
    print(f"\nPicture: {picture}")


if __name__ == "__main__":
    main()
