"""Errors, numbers to read and processor seconds of two working copies, in turns.

``python -m benchmarks.accuracy.versions OLD[:MODEL] NEW[:MODEL]`` fits a model of each
copy to the same rows, one after the other, and prints each table's ratios and their
geometric means. Copies may be one and the same, with two models, one of which may be a
peer of another package; with parameters: ``tree,leaf=Ridge(tail_share=0.0)``. Of tables
with classes models are classifiers, and errors log-losses. Fits are kept in a file by
the checksum of the code that ran.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from benchmarks.accuracy.classes import (
    WITH_CLASSES,
    lightgbm_classifier,
    log_loss,
    table_with_classes,
)
from benchmarks.accuracy.data import REAL, TABLES, Data, named_source, read
from benchmarks.accuracy.teaching import CLASSES, TARGETS, teaching_table
from benchmarks.shared import Experiment, dealt_out, randomness_of

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
GROUPS = {"chosen": REAL + TABLES, "teaching": tuple(TARGETS)}
GROUPS["classes"] = (*WITH_CLASSES, *CLASSES)


class Side(NamedTuple):
    """A working copy, and the model that it fits."""

    copy: Path
    model: str


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare two sides as the command line asks."""
    options = _parser().parse_args(arguments)
    sides = [_side(text) for text in (options.old, options.new)]
    names = [name for word in options.sets for name in GROUPS.get(word, (word,))]
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(_Worker(side, options.records)) for side in sides
        ]
        _compare(workers, names, options.seeds, options.rows)


def _compare(
    workers: Sequence[_Worker], names: Sequence[str], n_seeds: int, rows: int
) -> None:
    """Print a line a table as soon as its fits are there, and the means."""
    ratios = []
    print(f"{'table':20} {'error':>15} {'ratio':>6} {'numbers':>13} {'seconds':>13}")
    for name in names:
        found = [
            [worker.fit(name, seed, rows) for worker in workers]
            for seed in range(n_seeds)
        ]
        error, numbers, seconds = np.mean(found, axis=0).T
        ratios.append([error[1] / error[0], *(_over(numbers), _over(seconds))])
        print(
            f"{name:20} {error[0]:7.4f} {error[1]:7.4f} {ratios[-1][0]:6.3f} "
            f"{numbers[0]:6.0f} {numbers[1]:6.0f} {seconds[0]:6.2f} {seconds[1]:6.2f}",
            flush=True,
        )
    means = np.exp(np.mean(np.log(ratios), axis=0))
    worst = names[int(np.argmax([ratio[0] for ratio in ratios]))]
    print(
        f"geometric means: error {means[0]:.4f} (worst {worst}), "
        f"numbers {means[1]:.3f}, processor seconds {means[2]:.3f}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.versions", description=__doc__
    )
    known = ", ".join(MODELS) + ", or a peer of benchmarks/accuracy/peers.py"
    parser.add_argument("old", help="COPY[:MODEL], a folder and one of " + known)
    parser.add_argument("new", help="the same of the other side")
    parser.add_argument(
        "--sets",
        nargs="+",
        default=["chosen"],
        help="chosen, teaching, classes, or names; NAME+15: 15 columns of noise more",
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=2500, help="to fit at most")
    parser.add_argument("--records", type=Path, default=Path("results/versions.jsonl"))
    return parser


def _side(text: str) -> Side:
    copy, _, model = text.partition(":")
    return Side(Path(copy).resolve(), model or "tree")


def _over(values: np.ndarray) -> float:
    return float(values[1] / values[0]) if values[0] else np.nan


class _Worker:
    """A process that fits the model of one side, and what it has fitted before."""

    def __init__(self, side: Side, records: Path) -> None:
        folders = [str(side.copy), str(Path(__file__).parents[2])]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORK, *folders, side.model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._records = records
        lines = records.read_text().splitlines() if records.exists() else []
        self._known = dict(map(json.loads, lines))
        self._key = f"{self._ask('code')} {side.model}"

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
    from benchmarks.accuracy.ours import code_version

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Prints of packages are no answers.
    for line in sys.stdin:
        what = json.loads(line)
        answer = code_version() if what == "code" else _fitted(model, *what)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _fitted(name: str, table: str, seed: int, rows: int) -> list[float]:
    experiment = _experiment(table, seed, rows)
    y = experiment.test.y
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if y.dtype.kind == "f":
            numbers, prediction = _outcome(name, experiment)
            error = np.mean((y - prediction) ** 2) / np.var(y)
        else:
            model = _fit(CLASSIFIERS, name, experiment)
            numbers = getattr(model, "reading_cost_", 0)
            error = log_loss(model, experiment.test)
    return [float(error), float(numbers or 0), time.process_time() - started]


def _outcome(text: str, experiment: Experiment) -> tuple[float | None, np.ndarray]:
    name = text.split(",")[0]
    if name not in MODELS:
        from benchmarks.accuracy.peers import peers

        outcome = peers([name], 1)[0].run(experiment)
        return outcome.numbers, outcome.prediction
    model = _fit(MODELS, text, experiment)
    if name == "distilled":
        model = model.distill()
    return getattr(model, "reading_cost_", 0), model.predict(experiment.test.X)


def _fit(models: Mapping[str, Any], text: str, experiment: Experiment) -> Any:
    import pandas

    import secret_jax

    name, *pairs = text.split(",")
    model = models[name](secret_jax)
    parameters = {k: _value(word) for k, word in (p.split("=", 1) for p in pairs)}
    model.set_params(random_state=experiment.seed, **parameters)
    train, prune = experiment[:2]
    y = np.concatenate([train.y, prune.y])
    return model.fit(pandas.concat([train.X, prune.X]), y)


def _value(word: str) -> Any:
    import secret_jax

    try:
        return eval(word, {name: getattr(secret_jax, name) for name in dir(secret_jax)})
    except (NameError, SyntaxError):
        return word


def _experiment(table: str, seed: int, rows: int) -> Experiment:
    data = _data(table)
    random, seed_of_fits = randomness_of(table, seed)
    parts = dealt_out(data.X, data.y, random)
    n_train = min(len(parts[0].y), rows * 5 // 8)
    n_prune = min(len(parts[1].y), rows - rows * 5 // 8)
    for i, n in enumerate((n_train, n_prune)):
        parts[i] = parts[i]._replace(X=parts[i].X.iloc[:n], y=parts[i].y[:n])
    return Experiment(*parts, discrete=data.discrete, seed=seed_of_fits)


def _data(table: str) -> Data:
    name, _, noise = table.partition("+")
    n_noise = int(noise or 0)
    if name in TARGETS:
        data = teaching_table(name, TARGETS)
    elif name in GROUPS["classes"]:
        data = table_with_classes(name)
    else:
        data = read(named_source(name, os.environ.get("SECRET_JAX_DATA"), 0))
    draws = np.random.default_rng(n_noise).normal(size=(n_noise, len(data.y)))
    columns = {f"noise {i}": values for i, values in enumerate(draws)}
    return data._replace(X=data.X.assign(**columns)) if columns else data


if __name__ == "__main__":
    main()
