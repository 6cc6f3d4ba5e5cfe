"""Time of a fit beside the number of rows: Figures 7 and 8 of Dobra & Gehrke 2002.

Every point appends one line to a file of JSON lines, so a stopped run goes on where it
was stopped; tables, a summary and a picture are made from that file.
`benchmarks/README.md` says more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.scaling.exhaustive import OutOfTimeError
from benchmarks.scaling.memory import available_bytes, child, peak_of_child
from benchmarks.scaling.models import (
    NAMES,
    OF_FIGURES,
    OF_MILLION,
    Contestant,
    Fitted,
    contestants,
    machine,
)
from benchmarks.scaling.plot import draw, draw_million
from benchmarks.scaling.report import (
    Record,
    Run,
    at_rows,
    memory_table,
    million_table,
    report,
    summary,
)
from benchmarks.shared import (
    append_record,
    make_appendable,
    randomness_of,
    read_records,
    run_of,
    say,
    say_what_is_done,
    whole_number,
)
from benchmarks.timing import add_busy_option, refuse_if_busy, timed
from secret_jax.datasets import make_3dsin, make_fried

SETS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "3dsin": make_3dsin,
    "fried": make_fried,
}
FIRST_ROWS, LAST_ROWS = 250, 256_000
MILLION = "million"
# A fit holds the rows a few times over, among others in float64.
_COPIES = 6


class Data(NamedTuple):
    """Rows to train and to test on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def make_data(name: str, n_rows: int, n_test: int) -> Data:
    """The rows of a point: the same in every run."""
    make = SETS["fried" if name == MILLION else name]
    random, _ = randomness_of(f"scaling {name}", n_rows)
    return Data(*make(n_rows, random_state=random), *make(n_test, random_state=random))


def sizes(options: argparse.Namespace) -> list[int]:
    """Numbers of rows: those asked for, or powers of a factor up to the largest."""
    if options.rows:
        return sorted(set(options.rows))
    found = [FIRST_ROWS]
    last = max(LAST_ROWS, options.largest or 0)
    while found[-1] * options.factor <= last:
        found.append(found[-1] * options.factor)
    if options.largest and options.largest not in found:
        found.append(options.largest)
    return [n_rows for n_rows in found if n_rows <= (options.largest or LAST_ROWS)]


def make_missing(
    runs: Sequence[Run],
    records: Sequence[Record],
    models: dict[str, Contestant],
    options: argparse.Namespace,
) -> Iterator[Record]:
    """Make the points that have no record yet, sizes rising; append each to the file.

    A contestant that took longer than the budget sits out the larger sizes.
    """
    known = {run_of(record, Run): record for record in records}

    def is_done(run: Run) -> bool:
        record = known.get(run)
        return record is not None and (
            record.status == "done" or record.budget >= options.budget
        )

    missing = [run for run in runs if not is_done(run)]
    say_what_is_done(len(runs), len(missing), options.out)
    make_appendable(options.out)
    # By set and contestant the size that took too long.
    late: dict[tuple[str, str], int] = {}

    def note(record: Record) -> None:
        if record.is_late(options.budget):
            place = record.set, record.model
            late[place] = min(record.rows, late.get(place, record.rows))

    for run, record in known.items():
        if is_done(run):
            note(record)
    for name, n_rows in dict.fromkeys((run.set, run.rows) for run in missing):
        here = [run for run in missing if (run.set, run.rows) == (name, n_rows)]
        tired = [run for run in here if n_rows > late.get((name, run.model), n_rows)]
        for run in tired:
            say(f"{name}, {n_rows} rows, {run.model}: skipped, over its budget")
        here = [run for run in here if run not in tired]
        n_columns = 2 if name == "3dsin" else 10
        needed, free = _COPIES * 8 * n_rows * (n_columns + 1), available_bytes()
        if needed > free:
            say(
                f"{name}, {n_rows} rows: skipped, they need about {needed / 1e9:.1f} GB"
                f" and {free / 1e9:.1f} GB are free"
            )
            continue
        if not here:
            continue
        data = make_data(name, n_rows, options.test_rows)
        for record in measured(here, models, data, options.repeats, options.budget):
            append_record(options.out, record)
            note(record)
            yield record


def measured(
    runs: Sequence[Run],
    models: dict[str, Contestant],
    data: Data,
    repeats: int,
    budget: float,
) -> list[Record]:
    """Time the contestants of one point in turn, several times over.

    What compiles is called once before. A contestant whose calls have taken longer
    than the budget is not called again.
    """
    made = {
        run.model: Record(**asdict(run), budget=budget, data_bytes=data.X.nbytes)
        for run in runs
    }
    for name in [name for name in made if models[name].compiles]:
        made[name] = _called(models[name], made[name], data, first=True)
    for repeat in range(repeats):
        names = list(made)
        turn = repeat % max(len(names), 1)
        for name in names[turn:] + names[:turn]:  # nobody is always first
            record = made[name]
            tired = record.spent > budget and record.seconds
            if record.status == "done" and not tired:
                made[name] = _called(models[name], record, data, first=False)
    for record in made.values():
        say(f"{record.set}, {record.rows} rows, {record.model}: {record.text()}")
    return list(made.values())


def _called(model: Contestant, record: Record, data: Data, *, first: bool) -> Record:
    """The record with one call more."""
    try:
        fitted, taken = timed(lambda: model.fit(data.X, data.y, record.budget))
    except OutOfTimeError:
        return replace(record, status="over budget")
    except Exception as error:  # one that fails must not stop the others
        say(f"{record.model} failed: {type(error).__name__}: {error}")
        return replace(record, status="failed")
    if first:
        return _with_error(replace(record, first=taken.clock), fitted, data)
    record = replace(
        record,
        seconds=[*record.seconds, taken.clock],
        processors=[*record.processors, taken.processors],
    )
    if fitted.search_seconds is not None:
        spent = [*record.search_seconds, fitted.search_seconds]
        record = replace(record, search_seconds=spent)
    return record if record.mse is not None else _with_error(record, fitted, data)


def _with_error(record: Record, fitted: Fitted, data: Data) -> Record:
    error = float(np.mean((fitted.predict(data.X_test) - data.y_test) ** 2))
    return replace(
        record, leaves=fitted.leaves, mse=error if np.isfinite(error) else None
    )


def planned(options: argparse.Namespace, models: dict[str, Contestant]) -> list[Run]:
    """All points, sizes rising."""
    names = [MILLION] if options.million else options.sets
    rows = options.million_rows if options.million else sizes(options)
    here = machine()
    return [
        Run(set=name, rows=n_rows, model=model.name, key=model.key, machine=here)
        for n_rows in rows
        for name in names
        for model in models.values()
    ]


def measured_memory(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Peak memory of fits, each in a process of its own."""
    made = []
    for n_rows in options.memory_rows:
        for name in options.models or ("fit", "linear"):
            point = peak_of_child(MILLION, n_rows, name)
            say(f"{n_rows} rows, {name}: {point['peak_bytes'] / 1e6:.0f} MB at most")
            made.append(point)
    return made


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling",
        description="Time fits of rising size, beside peers and the exhaustive search.",
    )
    add = parser.add_argument
    add("--sets", nargs="+", choices=SETS, default=list(SETS))
    add("--models", nargs="+", choices=NAMES, metavar="MODEL", help=", ".join(NAMES))
    add("--rows", nargs="+", type=whole_number, help="sizes; else from 250 by --factor")
    add("--factor", type=int, choices=(2, 4), default=4, help="between two sizes")
    add("--largest", type=whole_number, help="go on to so many rows; 256000 by default")
    add("--repeats", type=whole_number, default=3, help="timed calls; medians are kept")
    add("--budget", type=float, default=120.0, help="seconds; larger sizes are skipped")
    add("--test-rows", type=whole_number, default=100_000, help="fresh rows for errors")
    add("--threads", type=whole_number, help="of LightGBM; all by default")
    add(
        "--million", action="store_true", help="10 columns and millions of rows instead"
    )
    add("--million-rows", nargs="+", type=whole_number, default=[1_000_000, 4_000_000])
    add("--memory", action="store_true", help="peak memory of fits instead of time")
    add("--memory-rows", nargs="+", type=whole_number, default=[4_000_000])
    add("--out", type=Path, default=Path("results/scaling.jsonl"), help="JSON lines")
    add("--summary-only", action="store_true", help="fit nothing, print the tables")
    add_busy_option(parser)
    add("--child", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing points, print the tables, write summary and picture."""
    options = parse_options(arguments)
    if options.child:
        child(json.loads(options.child), make_data)
        return
    if options.memory:
        points = measured_memory(options)
        print(memory_table(points))
        _write(options.out, "memory", {"machine": machine(), "points": points})
        return
    default = OF_MILLION if options.million else OF_FIGURES
    models = {
        m.name: m for m in contestants(options.models or default, options.threads)
    }
    runs = planned(options, models)
    records = read_records(options.out, Record)
    if not options.summary_only:
        refuse_if_busy(options.busy)
        records.extend(make_missing(runs, tuple(records), models, options))
    # The last of a run: it may have been made again with a larger budget.
    made = {run_of(record, Run): record for record in records}
    chosen = [made[run] for run in runs if run in made]
    if not chosen:
        raise SystemExit(
            f"{options.out} holds no points with these options and this code. Leave "
            "out --summary-only to make them."
        )
    kind = MILLION if options.million else "summary"
    picture = options.out.with_suffix(f".{kind}.png")
    if options.million:
        print(million_table(chosen))
        draw_million(chosen, picture)
    else:
        print(report(chosen))
        draw(chosen, picture)
    _write(options.out, kind, summary(chosen) if kind != MILLION else at_rows(chosen))
    say(f"The picture is {picture}.")


def _write(out: Path, kind: str, content: dict[str, Any]) -> None:
    path = out.with_suffix(f".{kind}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
