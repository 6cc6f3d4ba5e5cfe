"""The literature's learners on one grower: finder, leaf, pruning, kind of splits.

The same rows, the same leaf models and the same pruning, so that a difference is the
method's and not the program's. `benchmarks/README.md` says more.

    python -m benchmarks.learners --data FOLDER --finders cart retis --leaves linear
    python -m benchmarks.learners --folder OWN --target price
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from benchmarks.accuracy.__main__ import chosen_sources, make_missing, planned_tasks
from benchmarks.accuracy.data import REAL
from benchmarks.accuracy.ours import code_version
from benchmarks.accuracy.peers import PEER_NAMES, peers
from benchmarks.accuracy.report import Record, Results, Run
from benchmarks.learners.parts import FINDERS, LEAVES, PRUNINGS, SPLITS, learners
from benchmarks.learners.report import draw, learner_table
from benchmarks.shared import read_records, run_of, whole_number

SETS = (*REAL, "fried", "3dsin")


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learners",
        description=(__doc__ or "").splitlines()[0],
    )
    add = parser.add_argument
    add("--data", help="folder of CSV files; else SECRET_JAX_DATA")
    add("--sets", nargs="+", metavar="SET", help=f"of accuracy; {', '.join(SETS)}")
    add("--folder", type=Path, help="further CSV files, the target in the last column")
    add("--target", help="target column of the files in --folder")
    add("--finders", nargs="+", choices=FINDERS, default=list(FINDERS))
    add("--leaves", nargs="+", choices=LEAVES, default=["linear"])
    add("--prunings", nargs="+", choices=PRUNINGS, default=["cross-validation"])
    add("--splits", nargs="+", choices=SPLITS, default=list(SPLITS))
    add("--peers", nargs="*", choices=PEER_NAMES, default=["cubist"], metavar="PEER")
    add("--seeds", type=whole_number, default=3, help="each deals the rows anew")
    add("--synthetic-rows", type=whole_number, default=2048, help="in each part")
    add("--code", default=code_version(), help="name of our code in the records")
    add("--out", type=Path, default=Path("results/learners.jsonl"), help="JSON lines")
    add("--long", type=Path, help="also write a CSV file with one line for each fit")
    add("--picture", type=Path, help="PNG; by default beside --out")
    add("--summary-only", action="store_true", help="fit nothing, print the table")
    options = parser.parse_args(arguments)
    if options.target and not options.folder:
        parser.error("--target names a column of the files in --folder: give that too")
    if not options.sets and not options.folder:
        options.sets = list(SETS)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing fits, print the table and draw the picture."""
    options = parse_options(arguments)
    chosen = learners(options.finders, options.leaves, options.prunings, options.splits)
    sources = chosen_sources(options)
    candidates = [learner.candidate(options.code) for learner in chosen]
    candidates += peers(options.peers, None, 1)
    tasks = planned_tasks(sources, candidates, options.seeds)
    records = read_records(options.out, Record)
    if not options.summary_only:
        records.extend(make_missing(tasks, tuple(records), options.out))
    made = {run_of(record, Run): record for record in records}
    results = Results(made[run] for run, _, _ in tasks if run in made)
    if not results.sets:
        raise SystemExit(f"{options.out} holds no fits with these options and code.")
    baseline = results.models[0]
    print(f"Code {options.code}. Test MSE over the variance of the test target.\n")
    print(learner_table(results, baseline))
    if options.long:
        chosen_runs = [asdict(made[run]) for run, _, _ in tasks if run in made]
        pd.DataFrame(chosen_runs).to_csv(options.long, index=False)
    picture = options.picture or options.out.with_suffix(".png")
    draw(results, chosen, baseline, picture)
    print(f"\nPicture: {picture}")


if __name__ == "__main__":
    main()
