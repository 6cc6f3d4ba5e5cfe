"""Many fits: tables by models by seeds, in a file that is resumed, and in long form."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from benchmarks.accuracy.data import Source, make_experiment, sources_of
from benchmarks.accuracy.ours import SETTINGS, candidate_of, grid_candidates
from benchmarks.accuracy.peers import PEER_NAMES, Candidate, peers
from benchmarks.accuracy.report import Record, Run
from benchmarks.shared import Experiment, InputError, fit_missing, run_of

# Fits of single trees that grow at once, of tables of at most so many training rows.
_AT_ONCE, _MOST_ROWS = 64, 1 << 14
# Seeds of a model that follow each other where fits grow at once: alike, they are one
# growth.
_LEAST_SEEDS = 8


def experiments(
    tables: Any,
    grid: Any = (),
    *,
    models: Sequence[str] = (),
    seeds: int = 5,
    out: str | Path = "results/accuracy.jsonl",
    target: str | None = None,
    together: int | None = None,
    data: str | None = None,
    synthetic_rows: int = 16384,
    threads: int | None = None,
    summary_only: bool = False,
) -> pandas.DataFrame:
    """Fit every model of a grid to every table, with every seed.

    Rows are dealt out by table and seed: 50 % train, 30 % prune or train, 20 % test.
    Fits of small tables grow their trees at the same time, which takes less time, and
    gives the same trees but for rounding.

    Parameters
    ----------
    tables : str, Path, sequence of these, or dict of DataFrames or paths by name
        CSV files, folders of them, or names of sets, see ``benchmarks/README.md``.
    grid : dict of lists, or list of dicts
        Values of parameters of `secret_jax.SecretRegressor`, every combination, as of
        `sklearn.model_selection.ParameterGrid`; ``"estimator"``: names in `secret_jax`
        of others, such as ``"SecretRegressor.paper"``.
    models : sequence of str
        Models of the benchmark and other packages besides, by name.
    seeds : int, default=5
        Number of random splits of each table, each with a seed of the fits of its own.
    out : path, default="results/accuracy.jsonl"
        Lines of JSON. Fits that it holds, of these rows, parameters and code, are not
        made again; others in it stay. What a class of your own does is no part of the
        code: name another file when you change one.
    target : str, optional
        Column of the tables that are no names; by default the last one.
    together : int, optional
        Number of fits of single trees that grow at the same time: those under way are
        lost when they are interrupted. By default 64 of tables of up to 16,384 rows to
        train on, else one; and one beside other packages, to compare seconds.
    data, synthetic_rows, threads
        Folder of sets with names; rows in each part of a generated set; threads of
        other packages.
    summary_only : bool, default=False
        Fit nothing, and return what the file holds.

    Returns
    -------
    DataFrame
        A row a fit: set, model, the grid's parameters, seed, error (MSE of the test
        rows over the variance of their target), mse, leaves, seconds (the mean of those
        that grew together), rows and columns to train on, numbers to read, together
        (how many grew together). A fit that failed is told on standard error, and tried
        again the next time.

    Raises
    ------
    InputError
        A ValueError, before the first fit: tables that cannot be read, names or values
        of parameters that do not exist.

    Examples
    --------
    >>> from benchmarks.accuracy.grid import experiments
    >>> out, grid = getfixture("tmp_path") / "fits.jsonl", {"oblique": [False, True]}
    >>> found = experiments("iris_petal_width", grid, seeds=2, out=out)
    >>> found.groupby("oblique")["error"].mean().shape
    (2,)
    """
    sources = sources_of(tables, target, data, synthetic_rows)
    candidates = grid_candidates(grid) if grid else []
    for name in models:
        if name not in SETTINGS and name not in PEER_NAMES:
            known = ", ".join([*SETTINGS, *PEER_NAMES])
            raise InputError(f"There is no model {name!r}. Known are {known}.")
    own = [candidate_of(name, SETTINGS[name]) for name in models if name in SETTINGS]
    others = peers([name for name in models if name in PEER_NAMES], threads)
    candidates = [*own, *candidates, *others]
    if not (sources and candidates and seeds >= 1):
        raise InputError("Name tables, seeds, and models that can be made; see above.")
    together = 1 if together is None and others else together
    return fit_all(sources, candidates, seeds, Path(out), together, summary_only)


def fit_all(
    sources: Sequence[Source],
    candidates: Sequence[Candidate],
    n_seeds: int,
    path: Path,
    together: int | None,
    summary_only: bool,
) -> pandas.DataFrame:
    """Fit every model to every set unless a file holds the fit, see `experiments`."""
    n_rows = {one.name: 0 if summary_only else _n_training(one) for one in sources}

    def at_once(run: Run) -> int:
        if not planned[run][1].is_tree:
            return 1
        return together or (_AT_ONCE if n_rows[run.set] <= _MOST_ROWS else 1)

    planned = {
        Run(
            set=source.name,
            model=candidate.name,
            seed=seed,
            data=source.version,
            key=candidate.key,
        ): (source, candidate)
        for source, candidate, seed in product(sources, candidates, range(n_seeds))
    }
    # As many as grow together: those of a model ask for one seed each.
    experiments_of = {
        size: functools.lru_cache(size)(make_experiment)
        for size in set(map(at_once, planned))
    }

    def fit(run: Run) -> Record:
        source, candidate = planned[run]
        experiment = experiments_of[at_once(run)](source, run.seed)
        return fit_one(run, candidate, experiment)

    # All sets have as many seeds when the fits are stopped, or nearly as many.
    block = max(_LEAST_SEEDS, -(-_AT_ONCE // len(candidates))) if together != 1 else 1
    places = {source.name: place for place, source in enumerate(sources)}

    def turn(run: Run) -> tuple[int, ...]:
        is_alone = at_once(run) == 1
        return run.seed // block, places[run.set], run.seed if is_alone else 0

    make: Callable[[Run], Record] | None = None if summary_only else fit
    found = fit_missing(sorted(planned, key=turn), path, Record, make, at_once)
    of = {run_of(record, Run): asdict(record) for record in found}
    rows = [
        {"set": run.set, "model": run.model, **candidate.parameters, **of[run]}
        for run, (_, candidate) in planned.items()
        if run in of
    ]
    return pandas.DataFrame(rows).drop(columns=["data", "key"])


def _n_training(source: Source) -> int:
    """Rows to train on; a real set is read, so that none fails hours later."""
    if source.n_rows:
        return source.n_rows
    try:
        return len(source.read().y) // 2
    except (ValueError, OSError, ImportError) as error:
        raise InputError(f"{error} Or leave {source.name} out.") from error


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
