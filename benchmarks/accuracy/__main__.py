"""Accuracy beside other packages, and what each ingredient of the default brings.

Every fit appends one line to a file of JSON lines, so a stopped run goes on where it
was stopped; the tables are made from that file. `benchmarks/README.md` says more.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from benchmarks.accuracy.data import (
    GROUPS,
    Source,
    default_names,
    folder_sources,
    make_experiment,
    named_source,
    read,
)
from benchmarks.accuracy.ours import ABLATIONS, VARIANTS, code_version, key_of, ours
from benchmarks.accuracy.peers import PEER_NAMES, Candidate, peers
from benchmarks.accuracy.report import Record, Results, Run, report
from benchmarks.shared import (
    Experiment,
    append_record,
    make_appendable,
    read_records,
    run_of,
    say,
    say_what_is_done,
    whole_number,
)
from secret_jax.datasets import available

Task = tuple[Run, Source, Candidate]


def chosen_sources(options: argparse.Namespace) -> list[Source]:
    """The data sets asked for, each once."""
    try:
        names = _set_names(options)
        sources = [
            named_source(name, options.data, options.synthetic_rows) for name in names
        ]
        if options.folder:
            sources += folder_sources(options.folder, options.target)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    unique = {source.name: source for source in sources}
    if len(unique) < len(sources):
        raise SystemExit(
            "Two of the sets have the same name. Rename the file in --folder, or leave "
            "the other out of --sets."
        )
    return sources


def _set_names(options: argparse.Namespace) -> list[str]:
    """Names of sets, with the groups among them resolved."""
    if options.sets is None:
        return [] if options.folder else default_names(options.data)
    names = [name for word in options.sets for name in GROUPS.get(word, (word,))]
    known = {*available(options.data), *(n for group in GROUPS.values() for n in group)}
    for name in names:
        if name not in known:
            raise ValueError(
                f"There is no data set {name!r}. Known are {', '.join(sorted(known))}; "
                f"the groups {', '.join(GROUPS)}; and the files in --folder."
            )
    return list(dict.fromkeys(names))


def chosen_candidates(options: argparse.Namespace) -> list[Candidate]:
    """The models asked for that can be made here."""
    names = options.models
    if names is None:
        names = (
            ["default", *ABLATIONS] if options.ablation else [*VARIANTS, *PEER_NAMES]
        )
    theirs = [name for name in names if name in PEER_NAMES]
    others = peers(theirs, options.hrt, options.threads)
    own = ours([name for name in names if name not in PEER_NAMES], options.code)
    found = {candidate.name: candidate for candidate in [*own, *others]}
    return [found[name] for name in dict.fromkeys(names) if name in found]


def planned_tasks(
    sources: Sequence[Source], candidates: Sequence[Candidate], n_seeds: int
) -> list[Task]:
    """Every model on every set, seeds outermost.

    So all sets have as many seeds when the benchmark is stopped.
    """
    return [
        (
            Run(
                set=source.name,
                model=candidate.name,
                seed=seed,
                data=source.version,
                key=candidate.key,
            ),
            source,
            candidate,
        )
        for seed in range(n_seeds)
        for source in sources
        for candidate in candidates
    ]


def fit_one(run: Run, candidate: Candidate, experiment: Experiment) -> Record:
    """Fit one model and measure it on the test rows."""
    outcome = candidate.run(experiment)
    target = experiment.test.y
    mse = float(np.mean((outcome.prediction - target) ** 2))
    variance = float(np.var(target))
    if variance == 0:
        raise ValueError("the target is constant in the test rows")
    return Record(
        **asdict(run),
        error=mse / variance if np.isfinite(mse) else float("inf"),
        mse=mse if np.isfinite(mse) else float("inf"),
        leaves=int(outcome.leaves),
        seconds=round(outcome.seconds, 4),
        rows=len(experiment.train.y),
        columns=experiment.train.X.shape[1],
        numbers=outcome.numbers,
    )


def make_missing(
    tasks: Sequence[Task], records: Sequence[Record], path: Path
) -> Iterator[Record]:
    """Make the runs that have no record yet; append each to the file at once."""
    done = {run_of(record, Run) for record in records}
    missing = [task for task in tasks if task[0] not in done]
    say_what_is_done(len(tasks), len(missing), path)
    _check_data({source for _, source, _ in missing})
    make_appendable(path)
    experiment_of = functools.lru_cache(maxsize=1)(make_experiment)
    failed = []
    for number, (run, source, candidate) in enumerate(missing, start=1):
        what = _what(run, number, len(missing))
        try:
            record = fit_one(run, candidate, experiment_of(source, run.seed))
        except Exception as error:  # one model that fails must not stop the others
            say(f"{what}: failed, {type(error).__name__}: {error}")
            failed.append(what)
            continue
        append_record(path, record)
        say(
            f"{what}: error {record.error:.4f}, leaves {record.leaves}, "
            f"{record.seconds:.1f} s"
        )
        yield record
    if failed:
        say(f"{len(failed)} fits failed and are missing from the tables.")


def _what(run: Run, number: int, n_missing: int) -> str:
    return f"[{number}/{n_missing}] {run.set}, {run.model}, seed {run.seed}"


def records_of_codes(
    records: Sequence[Record], tasks: Sequence[Task], codes: Sequence[str]
) -> list[Record]:
    """Records of our models under other code, as models of their own."""
    wanted = {}
    for run, _, _ in tasks:
        if run.model in VARIANTS or run.model in ABLATIONS:
            for code in codes:
                other = replace(run, key=key_of(run.model, code))
                wanted[other] = f"{run.model}@{code}"
    return [
        replace(record, model=wanted[run_of(record, Run)])
        for record in records
        if run_of(record, Run) in wanted
    ]


def _check_data(sources: set[Source]) -> None:
    """Read all real sets before the first fit, so that none fails hours later."""
    for source in sorted(sources, key=lambda source: source.name):
        if source.n_rows:  # generated, not read
            continue
        try:
            read(source)
        except (ValueError, OSError, ImportError) as error:
            raise SystemExit(f"{error} Or leave {source.name} out.") from error


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description="Compare this package with others, or the default with less of it.",
    )
    add = parser.add_argument
    models = [*VARIANTS, *ABLATIONS, *PEER_NAMES]
    add("--sets", nargs="+", metavar="SET", help=f"sets or groups: {', '.join(GROUPS)}")
    add("--data", help="folder of CSV files; else SECRET_JAX_DATA, else OpenML")
    add("--folder", type=Path, help="further CSV files, the target in the last column")
    add("--target", help="target column of the files in --folder")
    add("--models", nargs="+", choices=models, metavar="MODEL", help=", ".join(models))
    add("--ablation", action="store_true", help="the default without its ingredients")
    add("--hrt", type=Path, help="folder that holds the package hrt")
    add("--seeds", type=whole_number, default=5, help="each with its own random split")
    add(
        "--synthetic-rows",
        type=whole_number,
        default=16384,
        help="in each of three parts",
    )
    add(
        "--threads",
        type=whole_number,
        help="of LightGBM, CatBoost and EBM; all by default",
    )
    add("--baseline", choices=models, metavar="MODEL", help="set beside all others")
    add("--exclude", nargs="+", default=[], metavar="SET", help="also tables without")
    add("--code", default=code_version(), help="name of our code in the records")
    add("--compare", nargs="+", default=[], metavar="CODE", help="show records of it")
    add("--out", type=Path, default=Path("results/accuracy.jsonl"), help="JSON lines")
    add("--summary-only", action="store_true", help="fit nothing, print the tables")
    options = parser.parse_args(arguments)
    if options.target and not options.folder:
        parser.error("--target names a column of the files in --folder: give that too")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing runs, then print the tables."""
    options = parse_options(arguments)
    candidates = chosen_candidates(options)
    if not candidates:
        raise SystemExit("None of the models can be made here; see above.")
    tasks = planned_tasks(chosen_sources(options), candidates, options.seeds)
    records = read_records(options.out, Record)
    if not options.summary_only:
        missing = make_missing(tasks, tuple(records), options.out)
        records.extend(missing)
    # By run: two processes that wrote to one file may both have made it.
    made = {run_of(record, Run): record for record in records}
    chosen = [made[run] for run, _, _ in tasks if run in made]
    chosen += records_of_codes(records, tasks, options.compare)
    if not chosen:
        raise SystemExit(
            f"{options.out} holds no runs with these options and this code. Leave out "
            "--summary-only to make them."
        )
    stale = len(made) - len(chosen)
    if stale:
        say(f"{stale} records of other sets, models, settings or code are not shown.")
    results = Results(chosen)
    baseline = options.baseline
    if baseline not in results.models:
        preferred = ("default",) if options.ablation else ("lightgbm_refitted",)
        baseline = next((m for m in preferred if m in results.models), None)
    print(
        f"Code {options.code}. Mean ± standard error over the seeds; "
        f"{options.synthetic_rows} rows in each part of a synthetic set.\n"
    )
    print(report(results, baseline or results.models[0], options.exclude))


if __name__ == "__main__":
    main()
