"""Accuracy beside the paper's: the protocol of section 5.2 of Dobra & Gehrke 2002.

Every fit appends one line to a file of JSON lines, so a stopped run goes on where it
was stopped; the table is made from that file. `benchmarks/README.md` says more.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared import (
    Experiment,
    InputError,
    Part,
    dealt_out,
    fit_missing,
    randomness_of,
    told_in_words,
    whole_number,
)
from benchmarks.table1.report import (
    LEAVES,
    RIVALS,
    SETS,
    SPLITS,
    STARTS,
    Record,
    Run,
    make_cells,
    printed,
    summary_text,
    table_text,
)
from secret_jax import Constant, HoldOut, LeastSquares, SecretRegressor
from secret_jax.datasets import load, make_3dsin, make_cart, make_fried
from secret_jax.learners import GuideSplits

MODES = ("paper", "default")
SYNTHETIC = {"3dsin": make_3dsin, "cart": make_cart, "fried": make_fried}


def planned_runs(options: argparse.Namespace) -> list[Run]:
    """All runs asked for that the paper has too.

    Repeats are outermost, so that all sets have as many when the benchmark is stopped;
    but of those whose trees grow together each set has its turn.
    """
    starts = options.starts if options.mode == "paper" else (None,)
    return [
        Run(
            set=name,
            leaf=leaf,
            split=split,
            repeat=repeat,
            min_samples_split=options.min_samples_split,
            mode=options.mode,
            start=start,
            synthetic_rows=options.synthetic_rows if name in SYNTHETIC else None,
        )
        for first in range(0, options.repeats, options.together)
        for name in options.sets
        for repeat in range(first, min(first + options.together, options.repeats))
        for leaf in options.leaves
        for split in options.splits
        for start in (starts if split not in RIVALS else (None,))
        if printed(name, leaf, split)
    ]


def make_experiment(
    name: str, repeat: int, synthetic_rows: int | None, data_home: str | None = None
) -> Experiment:
    """Split or generate the rows of one repeat: the same ones for every method."""
    random, seed = randomness_of(name, repeat)
    if name in SYNTHETIC:
        make = SYNTHETIC[name]
        parts = [Part(*make(synthetic_rows, random_state=random)) for _ in range(3)]
        discrete = list(range(10)) if name == "cart" else []
    else:
        data = _load(name, data_home)
        parts = dealt_out(data.X, data.y, random)
        discrete = list(data.discrete)
    return Experiment(*parts, discrete=discrete, seed=seed)


_load = functools.cache(load)


def make_model(run: Run) -> SecretRegressor:
    """The paper's tree, or the default one with the same kinds of splits and leaves."""
    if run.split in RIVALS:
        return _rival(run)
    options: dict[str, Any] = {"leaf": run.leaf, "oblique": run.split == "oblique"}
    options |= {"min_samples_split": run.min_samples_split}
    if run.start is not None:
        options["start"] = run.start
        return SecretRegressor.paper(**options)
    options["leaf"] = "constant" if run.leaf == "constant" else "ridge"
    return SecretRegressor(**options)


def _rival(run: Run) -> SecretRegressor:
    """GUIDE in the paper's protocol: its splits, pruned by the error of other rows."""
    thresholds = "all" if run.split == "guide" else 0.01
    model: Any = run.leaf
    splits = GuideSplits(model=model, thresholds=thresholds, n_bootstraps=50)
    leaf = Constant if run.leaf == "constant" else LeastSquares
    return SecretRegressor.literature(
        "guide",
        splits=splits,
        leaf=leaf(clip_margin=None),
        prune=HoldOut(refit=False),
        min_samples_split=run.min_samples_split,
        min_samples_leaf=1,
    )


def fit_one(run: Run, experiment: Experiment) -> Record:
    """Grow, prune and test one tree."""
    model = make_model(run).set_params(
        random_state=experiment.seed, categorical_features=experiment.discrete
    )
    started = time.perf_counter()
    model.fit(*experiment.train, eval_set=tuple(experiment.prune))
    seconds = time.perf_counter() - started
    residual = model.predict(experiment.test.X) - experiment.test.y
    return Record(
        **asdict(run),
        mse=float(np.mean(residual**2)),
        leaves_grown=int(model.n_leaves_grown_),
        leaves_kept=model.n_leaves_,
        seconds=round(seconds, 3),
    )


def _check_data(names: set[str], data_home: str | None) -> None:
    """Load all real sets before the first fit, so that none fails hours later."""
    for name in sorted(names - SYNTHETIC.keys()):
        try:
            _load(name, data_home)
        except (ValueError, OSError, ImportError) as error:
            raise InputError(f"{error} Or leave {name} out of --sets.") from error


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.table1",
        description="Rerun Table 1 of the SECRET paper and set it beside the print.",
    )
    add = parser.add_argument
    names = ", ".join(SETS)
    add("--sets", nargs="+", type=_set_name, default=SETS, metavar="SET", help=names)
    several: dict[str, Any] = {"nargs": "+"}
    add("--leaves", **several, choices=LEAVES, default=LEAVES)
    rival = "of SECRET; guide, guide(s): the paper's rival instead"
    add("--splits", **several, choices=SPLITS, default=["axis", "oblique"], help=rival)
    add("--starts", **several, choices=STARTS, default=STARTS, help="of EM")
    add("--repeats", type=whole_number, default=100)
    add("--synthetic-rows", type=whole_number, default=16384, help="in each part")
    add("--min-samples-split", type=_share, default=0.01, help="of the training rows")
    add("--together", type=whole_number, default=8, help="repeats that grow at once")
    add("--mode", choices=MODES, default="paper", help="the paper's tree, or our own")
    add("--data", help="folder of CSV files; else SECRET_JAX_DATA, else OpenML")
    add("--out", type=Path, default=Path("results/table1.jsonl"), help="JSON lines")
    add("--summary-only", action="store_true", help="fit nothing, print the table")
    return parser.parse_args(arguments)


def _set_name(text: str) -> str:
    if text not in SETS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not in the paper's Table 1, which has {', '.join(SETS)}. "
            "benchmarks.accuracy takes other sets, and files."
        )
    return text


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number between 0 and 1")
    return value


@told_in_words()
def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing runs, then print the table and the verdicts."""
    options = parse_options(arguments)
    runs = planned_runs(options)
    experiment_of = functools.lru_cache(options.together)(make_experiment)

    def fit(run: Run) -> Record:
        rows = experiment_of(run.set, run.repeat, run.synthetic_rows, options.data)
        return fit_one(run, rows)

    if not options.summary_only:
        _check_data({run.set for run in runs}, options.data)
    # All runs of a set's repeats.
    per_repeat = len({replace(run, set="", repeat=0) for run in runs})
    at_once = options.together * per_repeat if options.together > 1 else 1
    chosen = fit_missing(
        runs,
        options.out,
        Record,
        None if options.summary_only else fit,
        lambda _: at_once,
    )
    cells = make_cells(chosen)
    print(
        f"Test MSE, mean ± standard error. Mode {options.mode}, min_samples_split "
        f"{options.min_samples_split:g}, {options.synthetic_rows} rows in each part of "
        "a synthetic set.\n"
    )
    print(table_text(cells), summary_text(cells), sep="\n\n")


if __name__ == "__main__":
    main()
