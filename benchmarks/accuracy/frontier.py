"""Error against the numbers that a reader has to read, on tables as people bring them.

Ours along ``tau`` and along ``tolerance``, beside other models that can be read, and
boosted trees, which cannot, as the error to reach. `benchmarks/README.md` says more.

    python -m benchmarks.accuracy.frontier --data FOLDER --tables saratoga sacramento
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import plots
from benchmarks.accuracy.__main__ import make_missing, planned_tasks
from benchmarks.accuracy.data import TABLES, named_source
from benchmarks.accuracy.ours import Setting, code_version, key_of_setting, run_setting
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


def _changed(name: str, value: float) -> Setting:
    """The default with another value of a parameter."""
    return Setting({name: value} if value != DEFAULT[name] else {})


TAU = {f"tau {tau:g}": _changed("tau", tau) for tau in (0.0, 0.01, 0.03, 0.05, 0.1)}
TOLERANCE = {
    f"tolerance {share:g}": _changed("tolerance", share)
    for share in (0.0, 0.01, 0.02, 0.05, 0.1)
}
LINES = {"ours along tau": TAU, "ours along tolerance": TOLERANCE}
READABLE = ("cubist", "cubist_on_text", "cart", "pilot", "ridge")
HORIZON = "lightgbm_refitted"


class Point(NamedTuple):
    """A model on a table, or on all of them: mean error, mean numbers to read."""

    error: float
    numbers: float

    def __str__(self) -> str:
        return f"{self.error:.4f} / {self.numbers:.0f}"


def own_candidates(code: str) -> dict[str, Candidate]:
    """Our models by name; a setting that both lines have is one candidate."""
    found: dict[str, Candidate] = {}
    of_key: dict[str, Candidate] = {}
    for name, setting in (pair for line in LINES.values() for pair in line.items()):
        key = f"{key_of_setting(setting, code)} on all rows"
        run = functools.partial(run_setting, setting, held_out=False)
        title = name if setting.parameters else "default"
        found[name] = of_key.setdefault(key, Candidate(title, key, run))
    return found


def points(results: Results) -> dict[str, dict[str, Point]]:
    """Of every model by table: means over the splits."""
    found: dict[str, dict[str, Point]] = {}
    for model in results.models:
        found[model] = {
            name: Point(
                float(np.mean(errors)),
                float(np.mean(results.values(model, name, "numbers") or [math.nan])),
            )
            for name in results.sets
            if (errors := results.values(model, name))
        }
    return found


def overall(of_tables: Iterable[Point]) -> Point:
    """Geometric means over tables."""
    errors, numbers = zip(*of_tables, strict=True)
    return Point(
        float(np.exp(np.mean(np.log(np.maximum(errors, FLOOR))))),
        float(np.exp(np.mean(np.log(numbers)))),
    )


def with_overall(results: Results) -> dict[str, dict[str, Point]]:
    """Points by model and table; ``all tables`` where a model has every table."""
    found = points(results)
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


def draw(results: Results, path: Path) -> None:
    """A panel per table and one for all: error against numbers on a log axis."""
    found = with_overall(results)
    names = [*results.sets, "all tables"] if len(results.sets) > 1 else results.sets
    n_columns = min(3, len(names))
    figure, axes = plots.new_figure(
        -(-len(names) // n_columns), n_columns, width=4.6, height=3.7
    )
    own = own_candidates("")
    theirs = [model for model in READABLE if model in found]
    looks = plots.styles([*LINES, HORIZON, *theirs])
    for axis, name in zip(axes.flat, names, strict=False):
        for line, settings in LINES.items():
            along = [found.get(own[setting].name, {}).get(name) for setting in settings]
            _draw_line(axis, line, [p for p in along if p is not None], looks[line])
        if name in found.get(HORIZON, {}):
            label = f"{HORIZON} (far right)"
            colour = looks[HORIZON].color
            height = found[HORIZON][name].error
            axis.axhline(height, color=colour, linestyle="--", linewidth=1, label=label)
        for model in theirs:
            if name in found[model]:
                _draw_line(axis, model, [found[model][name]], looks[model])
        axis.set_xscale("log")
        axis.set_title(name)
        axis.set_xlabel("numbers to read")
        axis.set_ylabel("test MSE / variance")
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    handles, labels = axes.flat[len(names) - 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    plots.save(figure, path)


def _draw_line(
    axis: Any, label: str, along: Sequence[Point], look: plots.Style
) -> None:
    errors, numbers = [p.error for p in along], [p.numbers for p in along]
    size = 5 if len(along) > 1 else 7
    axis.plot(
        numbers, errors, label=label, markersize=size, linewidth=1.2, **look._asdict()
    )


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.frontier",
        description=(__doc__ or "").splitlines()[0],
    )
    add = parser.add_argument
    add("--data", help="folder of CSV files; else SECRET_JAX_DATA")
    add("--tables", nargs="+", default=list(TABLES), metavar="TABLE", help="names")
    add("--splits", type=whole_number, default=2, help="80 %% train, 20 %% test")
    add("--threads", type=whole_number, help="of LightGBM; all by default")
    add("--code", default=code_version(), help="name of our code in the records")
    add("--out", type=Path, default=Path("results/frontier.jsonl"), help="JSON lines")
    add("--picture", type=Path, help="PNG; by default beside --out")
    add("--summary-only", action="store_true", help="fit nothing, print the table")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing fits, print the table and draw the picture."""
    options = parse_options(arguments)
    theirs = peers([*READABLE, HORIZON], None, options.threads)
    own = dict.fromkeys(own_candidates(options.code).values())
    sources = [named_source(name, options.data, 0) for name in options.tables]
    tasks = planned_tasks(sources, [*theirs, *own], options.splits)
    records = read_records(options.out, Record)
    if not options.summary_only:
        records.extend(make_missing(tasks, tuple(records), options.out))
    made = {run_of(record, Run): record for record in records}
    results = Results(made[run] for run, _, _ in tasks if run in made)
    if not results.sets:
        raise SystemExit(f"{options.out} holds no fits with these options and code.")
    print(f"Code {options.code}. Test MSE over the variance / numbers to read.\n")
    print(frontier_table(results))
    picture = options.picture or options.out.with_suffix(".png")
    draw(results, picture)
    print(f"\nPicture: {picture}")


if __name__ == "__main__":
    main()
