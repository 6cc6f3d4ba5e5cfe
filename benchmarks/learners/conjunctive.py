"""Conjunctive splits beside those on one attribute and sums of several.

    SECRET_JAX_DATA=FOLDER python -m benchmarks.learners.conjunctive

Means of a few repeats: the squared error as a share of the variance of the test rows,
numbers to read, seconds of a fit.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy.data import GROUPS, make_experiment, named_source
from benchmarks.shared import Experiment, folder_of_data, whole_number
from secret_jax import SecretRegressor

SETTINGS: dict[str, dict[str, Any]] = {
    "axis": {"oblique": False},
    "oblique": {"oblique": True},
    "conjunctive": {"splits": "conjunctive"},
}


def measured(setting: dict[str, Any], given: Experiment) -> list[float]:
    """Error of new rows and of training rows, numbers to read, seconds."""
    (X, y), test = given.train, given.test
    model = SecretRegressor(
        categorical_features=given.discrete or None, random_state=given.seed
    )
    started = time.process_time()
    model.set_params(**setting).fit(X, y)
    seconds = time.process_time() - started
    of_rows = [
        np.mean((part.y - model.predict(part.X)) ** 2) / np.var(part.y)
        for part in (test, given.train)
    ]
    return [*map(float, of_rows), float(model.reading_cost_), seconds]


def shortened(given: Experiment, most: int) -> Experiment:
    """At most so many rows to train on, of those that train and prune others."""
    X = given.train.X[:most]
    train = given.train._replace(X=X, y=given.train.y[:most])
    return given._replace(train=train)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line as soon as it is measured, and the means of ratios at the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learners.conjunctive")
    add = parser.add_argument
    data = os.environ.get("SECRET_JAX_DATA")
    add("--data", default=data, help="folder of CSV files; else SECRET_JAX_DATA")
    add("--sets", nargs="+", default=[*GROUPS["real"], *GROUPS["tables"]])
    add("--repeats", type=whole_number, default=2)
    add("--rows", type=whole_number, default=1500, help="most rows to train on")
    options = parser.parse_args(arguments)
    folder = str(folder_of_data(parser, options))
    warnings.simplefilter("ignore")
    print("| set | splits | error | on training rows | numbers | s |")
    print("| --- " * 6 + "|")
    every = []
    for name in options.sets:
        source = named_source(name, folder, 0)
        repeats = [make_experiment(source, seed) for seed in range(options.repeats)]
        repeats = [shortened(given, options.rows) for given in repeats]
        means = [
            np.mean([measured(setting, given) for given in repeats], axis=0)
            for setting in SETTINGS.values()
        ]
        every.append(means)
        for kind, mean in zip(SETTINGS, means, strict=True):
            print(f"| {name} | {kind} | " + " | ".join(f"{v:.3g}" for v in mean) + " |")
        print(end="", flush=True)
    ratios = np.exp(np.log(np.array(every) / np.array(every)[:, :1]).mean(axis=0))
    for kind, mean in zip(SETTINGS, ratios, strict=True):
        told = " | ".join(f"{value:.3f}" for value in mean)
        print(f"| ratio to axis | {kind} | {told} |")


if __name__ == "__main__":
    main()
