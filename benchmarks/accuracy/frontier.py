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


def _along(name: str, *values: float) -> dict[str, Setting]:
    """The default with other values of a parameter; its own is among them."""
    every = sorted({*values, DEFAULT[name]})
    return {
        f"{name} {value:g}": Setting({name: value} if value != DEFAULT[name] else {})
        for value in every
    }


TAU = _along("tau", 0.0, 0.01, 0.03, 0.05, 0.1)
TOLERANCE = _along("tolerance", 0.0, 0.01, 0.02, 0.05, 0.1)
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


def complete(records: Iterable[Record]) -> list[Record]:
    """Records of the splits of a table that all models with records of it have."""
    records = list(records)
    splits: dict[str, dict[str, set[int]]] = {}
    for record in records:
        of_models = splits.setdefault(record.set, {})
        of_models.setdefault(record.model, set()).add(record.seed)
    shared = {name: set.intersection(*found.values()) for name, found in splits.items()}
    return [record for record in records if record.seed in shared[record.set]]


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
    """A panel per table and one for all: error against numbers, on log axes."""
    found = with_overall(results)
    names = [*results.sets, "all tables"] if len(results.sets) > 1 else results.sets
    n_columns = min(3, len(names))
    figure, axes = plots.new_figure(
        -(-len(names) // n_columns), n_columns, width=4.6, height=3.7
    )
    for axis, name in zip(axes.flat, names, strict=False):
        of_models = {
            model: found[model][name] for model in found if name in found[model]
        }
        _draw_panel(axis, name, of_models)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    # The same numbers are at the same place in all panels.
    limits = [axis.get_xlim() for axis in axes.flat[: len(names)]]
    for axis in axes.flat:
        axis.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))
    handles, labels = axes.flat[len(names) - 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    plots.save(figure, path)


def _draw_panel(axis: Any, title: str, of_models: dict[str, Point]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    own = own_candidates("")
    lines = {
        line: [of_models[own[s].name] for s in settings if own[s].name in of_models]
        for line, settings in LINES.items()
    }
    lines |= {name: [of_models[name]] for name in READABLE if name in of_models}
    looks = plots.styles([*LINES, HORIZON, *READABLE])
    for line, along in lines.items():
        look = looks[line]._asdict() | ({"linestyle": "-"} if line in LINES else {})
        size = 5 if line in LINES else 8
        numbers, errors = [p.numbers for p in along], [p.error for p in along]
        axis.plot(numbers, errors, label=line, markersize=size, linewidth=1.2, **look)
    if "default" in of_models:
        error, numbers = of_models["default"]
        ring = {"marker": "o", "markersize": 12, "markerfacecolor": "none"}
        ring |= {"color": "black", "linestyle": "none"}
        axis.plot([numbers], [error], label="ours by default", **ring)
    if HORIZON in of_models:
        error, numbers = of_models[HORIZON]
        axis.axhline(error, color=looks[HORIZON].color, linestyle="--", label=HORIZON)
        where = {"xy": (1, error), "xycoords": ("axes fraction", "data")}
        where |= {"xytext": (-2, 3), "textcoords": "offset points", "ha": "right"}
        axis.annotate(f"{numbers:,.0f} numbers", fontsize=8, **where)
    axis.set(xscale="log", yscale="log", title=title)
    axis.set(xlabel="numbers to read", ylabel="test MSE / variance")
    for side, marks in ((axis.xaxis, (1, 2, 5)), (axis.yaxis, (1, 1.5, 2, 3, 4, 5, 7))):
        side.set_major_locator(LogLocator(subs=marks))
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        side.set_minor_formatter(NullFormatter())


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
    results = Results(complete(made[run] for run, _, _ in tasks if run in made))
    if not results.sets:
        raise SystemExit(f"{options.out} holds no fits with these options and code.")
    print(f"Code {options.code}. Test MSE over the variance / numbers to read.\n")
    print(frontier_table(results))
    picture = options.picture or options.out.with_suffix(".png")
    draw(results, picture)
    print(f"\nPicture: {picture}")


if __name__ == "__main__":
    main()
