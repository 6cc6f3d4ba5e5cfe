"""The main times in one table: fits, predictions and streams on processors.

    python -m benchmarks.scaling.table --data FOLDER

Contestants take turns, and medians are shown. It measures the package that PYTHONPATH
finds, so that two working copies can be compared.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from benchmarks.scaling.streamed import read, write
from benchmarks.shared import markdown, whole_number
from benchmarks.timing import Seconds, add_busy_option, refuse_if_busy, timed
from secret_jax import SecretBoostingRegressor, SecretRegressor
from secret_jax.datasets import load, make_fried

Calls = dict[str, Callable[[], object]]
_ROWS_OF_BOOSTER = 20_000


def small_fits(data: str | None, scale: float) -> Calls:
    """Warm default fits of 4,000 Friedman rows and of abalone."""
    X, y = make_fried(round(4000 * scale), random_state=0)
    abalone = load("abalone", data)
    model = SecretRegressor(random_state=0)
    return {
        "4,000 Friedman": lambda: model.fit(X, y),
        "abalone": lambda: model.fit(abalone.X, abalone.y),
    }


def million_fits(data: str | None, scale: float) -> Calls:
    """The default tree of a million rows beside LightGBM's tree of constants."""
    lightgbm: Any = importlib.import_module("lightgbm")
    X, y = make_fried(round(1_000_000 * scale), random_state=0)
    model = SecretRegressor(random_state=0)
    options = {"num_leaves": 64, "learning_rate": 1.0, "verbose": -1}
    rival = lightgbm.LGBMRegressor(n_estimators=1, **options)
    return {
        "1M": lambda: model.fit(X, y),
        "1M, LightGBM": lambda: rival.fit(X, y),
    }


def float32_fits(data: str | None, scale: float) -> Calls:
    """The default tree of four million float32 rows beside least squares."""
    X, y = make_fried(round(4_000_000 * scale), random_state=0)
    X, y = X.astype(np.float32), y.astype(np.float32)
    model = SecretRegressor(random_state=0)
    return {
        "4M float32": lambda: model.fit(X, y),
        "4M float32, least squares": lambda: LinearRegression().fit(X, y),
    }


def predictions(data: str | None, scale: float) -> Calls:
    """A million predictions of 24 oblique leaves, and of 60 booster trees."""
    X, y = make_fried(round(1_000_000 * scale), random_state=0)
    few = slice(_ROWS_OF_BOOSTER)
    tree = SecretRegressor(oblique=True, max_leaf_nodes=24, random_state=0)
    booster = SecretBoostingRegressor(
        max_leaf_nodes=16,
        max_iter=60,
        early_stopping=False,
        ensemble=False,
        random_state=0,
    )
    tree.fit(X[few], y[few])
    booster.fit(X[few], y[few])
    return {
        f"1M predictions, {tree.n_leaves_} oblique leaves": lambda: tree.predict(X),
        "1M predictions, 60 booster trees": lambda: booster.predict(X),
    }


def streams(folder: Path, scale: float) -> Calls:
    """A streamed fit of Parquet files beside one bare read of them."""
    write(folder, round(5_000_000 * scale))
    model = SecretRegressor(random_state=0)
    return {
        "5M streamed": lambda: model.fit_stream(folder),
        "5M, bare read": lambda: read(folder),
    }


ROWS = {
    "small": small_fits,
    "million": million_fits,
    "float32": float32_fits,
    "predictions": predictions,
}


def medians(calls: Calls, repeats: int) -> dict[str, Seconds]:
    """Median seconds of calls that take turns, after one round that compiles."""
    for call in calls.values():
        call()
    turns = [[timed(call)[1] for call in calls.values()] for _ in range(repeats)]
    middle = np.median(turns, axis=0)
    return {name: Seconds(*row) for name, row in zip(calls, middle, strict=True)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the parts asked for, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.table")
    add = parser.add_argument
    add("--data", help="folder with abalone.csv (default: SECRET_JAX_DATA)")
    add("--parts", nargs="+", choices=[*ROWS, "stream"], default=[*ROWS, "stream"])
    add("--repeats", type=whole_number, default=5)
    add("--scale", type=float, default=1.0, help="share of the rows (default 1)")
    add_busy_option(parser)
    options = parser.parse_args(arguments)
    refuse_if_busy(options.busy)
    found: dict[str, Seconds] = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts:
            calls = (
                streams(Path(folder), options.scale)
                if part == "stream"
                else ROWS[part](options.data, options.scale)
            )
            found |= medians(calls, options.repeats)
    lines = [
        [name, f"{s.clock:.3f}", f"{s.processors:.3f}"] for name, s in found.items()
    ]
    print(markdown([["what", "seconds", "of processors"], *lines]))


if __name__ == "__main__":
    main()
