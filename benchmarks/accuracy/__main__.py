"""Accuracy beside other packages, what each ingredient brings, learners side by side.

Every fit appends one line to a file of JSON lines, so a stopped run goes on where it
was stopped; the tables are made from that file. `benchmarks/README.md` says more.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict
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
from benchmarks.accuracy.ours import (
    ABLATIONS,
    FINDERS,
    LEAVES,
    PRUNINGS,
    SETTINGS,
    SPLITS,
    VARIANTS,
    learners,
    ours,
)
from benchmarks.accuracy.peers import PEER_NAMES, Candidate, peers
from benchmarks.accuracy.report import Record, Results, Run, report
from benchmarks.shared import Experiment, code_version, fit_missing, whole_number
from secret_jax.datasets import available


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
    if len({source.name for source in sources}) < len(sources):
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
    parts = (options.finders, options.leaves, options.prunings, options.splits)
    made = learners(*parts) if options.finders else {}
    names = options.models
    if names is None:
        every = [] if options.finders else [*VARIANTS, *PEER_NAMES]
        names = ["default", *ABLATIONS] if options.ablation else every
    own = {name: SETTINGS[name] for name in names if name in SETTINGS}
    theirs = [name for name in names if name not in SETTINGS]
    found = [*ours(own | made), *peers(theirs, options.threads)]
    if not found:
        raise SystemExit("None of the models can be made here; see above.")
    return found


def fit_all(
    sources: Sequence[Source],
    candidates: Sequence[Candidate],
    n_seeds: int,
    path: Path,
    *,
    summary_only: bool = False,
    together: int = 1,
) -> Results:
    """Fit every model to every set, seeds outermost, unless a file holds the fit.

    So all sets have as many seeds when the benchmark is stopped; but of those whose
    trees grow ``together`` each set and model has its turn.
    """
    planned = {
        Run(
            set=source.name,
            model=candidate.name,
            seed=seed,
            data=source.version,
            key=candidate.key,
        ): (source, candidate)
        for first in range(0, n_seeds, together)
        for source in sources
        for seed in range(first, min(first + together, n_seeds))
        for candidate in candidates
    }
    experiment_of = functools.lru_cache(together)(make_experiment)
    at_once = together * len(candidates) if together > 1 else 1

    def fit(run: Run) -> Record:
        source, candidate = planned[run]
        return fit_one(run, candidate, experiment_of(source, run.seed))

    make: Callable[[Run], Record] | None = None if summary_only else fit
    if make:
        _check_data(sources)
    found = fit_missing(list(planned), path, Record, make, at_once)
    return Results(found)


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


def _check_data(sources: Sequence[Source]) -> None:
    """Read all real sets before the first fit, so that none fails hours later."""
    for source in sources:
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
    models = [*SETTINGS, *PEER_NAMES]
    add("--sets", nargs="+", metavar="SET", help=f"sets or groups: {', '.join(GROUPS)}")
    add("--data", help="folder of CSV files; else SECRET_JAX_DATA, else OpenML")
    add("--folder", type=Path, help="further CSV files, the target in the last column")
    add("--target", help="target column of the files in --folder")
    add("--models", nargs="+", choices=models, metavar="MODEL", help=", ".join(models))
    add("--ablation", action="store_true", help="the default without its ingredients")
    add("--finders", nargs="+", choices=FINDERS, help="of learners of the literature")
    add("--leaves", nargs="+", choices=LEAVES, default=["linear"], help="of these")
    add("--prunings", nargs="+", choices=PRUNINGS, default=["cross-validation"])
    add("--splits", nargs="+", choices=SPLITS, default=list(SPLITS))
    add("--seeds", type=whole_number, default=5, help="each with its own random split")
    add("--synthetic-rows", type=whole_number, default=16384, help="in each of 3 parts")
    add(
        "--together", type=whole_number, default=1, help="seeds that are fitted at once"
    )
    add("--threads", type=whole_number, help="of LightGBM, CatBoost, EBM; else all")
    add("--baseline", metavar="MODEL", help="set beside all others")
    add("--out", type=Path, default=Path("results/accuracy.jsonl"), help="JSON lines")
    add("--summary-only", action="store_true", help="fit nothing, print the tables")
    options = parser.parse_args(arguments)
    if options.target and not options.folder:
        parser.error("--target names a column of the files in --folder: give that too")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing runs, then print the tables."""
    options = parse_options(arguments)
    results = fit_all(
        chosen_sources(options),
        chosen_candidates(options),
        options.seeds,
        options.out,
        summary_only=options.summary_only,
        together=options.together,
    )
    preferred = (options.baseline, "lightgbm_refitted", "default", *results.models)
    baseline = next(model for model in preferred if model in results.models)
    print(f"Code {code_version()}. Mean ± standard error over the seeds.\n")
    print(report(results, baseline))


if __name__ == "__main__":
    main()
