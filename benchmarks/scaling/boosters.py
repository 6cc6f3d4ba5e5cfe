"""Seconds of boosters on many rows, beside LightGBM and CatBoost, and of predictions.

    python -m benchmarks.scaling.boosters --rows 100000 1000000

Friedman's function of ten attributes with noise of variance 1. Ours fits once before
with two rounds: what is measured is not the compiling. Seconds are those of a clock,
and of all processors together.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.shared import whole_number
from benchmarks.timing import add_busy_option, refuse_if_busy, timed
from secret_jax import SecretBoostingRegressor
from secret_jax.datasets import make_fried

_PREDICTED, _TREES = 1_000_000, 60
_HEAD = ("rows", "model", "seconds", "of processors", "rounds", "test MSE")


def contestants(n_rounds: int) -> dict[str, tuple[Callable[[], Any], Any]]:
    """Models by name, and what fits before the time is taken."""
    warm = SecretBoostingRegressor(max_leaf_nodes=16, max_iter=2)
    found: dict[str, tuple[Callable[[], Any], Any]] = {
        "ours, 16 leaves": (lambda: SecretBoostingRegressor(max_leaf_nodes=16), warm),
        f"ours, 16 leaves, {_TREES} rounds": (
            lambda: SecretBoostingRegressor(
                max_leaf_nodes=16, max_iter=_TREES, early_stopping=False
            ),
            warm,
        ),
        "ours, all sizes": (
            SecretBoostingRegressor,
            SecretBoostingRegressor(max_iter=2),
        ),
    }
    if importlib.util.find_spec("lightgbm") is not None:
        lightgbm: Any = importlib.import_module("lightgbm")
        settings: dict[str, Any] = {"n_estimators": n_rounds, "verbose": -1}
        found[f"LightGBM, {n_rounds} rounds"] = (
            lambda: lightgbm.LGBMRegressor(**settings),
            None,
        )
    if importlib.util.find_spec("catboost") is not None:
        catboost: Any = importlib.import_module("catboost")
        found[f"CatBoost, {n_rounds} rounds"] = (
            lambda: catboost.CatBoostRegressor(
                iterations=n_rounds, verbose=False, allow_writing_files=False
            ),
            None,
        )
    return found


def report_fits(n_rows: int, n_test: int, n_rounds: int, names: list[str]) -> None:
    """A line for each model, as soon as it is fitted."""
    X, y = make_fried(n_rows, random_state=0)
    X_test, y_test = make_fried(n_test, random_state=1)
    _line(*_HEAD)
    _line(*("-" * len(name) for name in _HEAD))
    for name, (make, before) in contestants(n_rounds).items():
        if names and not any(name.startswith(own) for own in names):
            continue
        if before is not None:
            before.fit(X, y)
        model, seconds = timed(lambda: make().fit(X, y))  # noqa: B023
        error = float(np.mean((model.predict(X_test) - y_test) ** 2))
        rounds = getattr(model, "n_iter_", n_rounds)
        _line(
            *(f"{n_rows:,}", name, f"{seconds.clock:.1f}"),
            *(f"{seconds.processors:.1f}", str(rounds), f"{error:.3f}"),
        )


def _line(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def report_predictions() -> None:
    """Of a million rows through sixty trees, the median of three."""
    X, y = make_fried(20_000, random_state=0)
    model = SecretBoostingRegressor(
        max_leaf_nodes=16, max_iter=_TREES, early_stopping=False, ensemble=False
    ).fit(X, y)
    rows = make_fried(_PREDICTED, random_state=1)[0].astype(np.float32)
    model.predict(rows)
    seconds = [timed(lambda: model.predict(rows))[1] for _ in range(3)]
    clock, processors = np.median(seconds, axis=0)
    print(
        f"{_PREDICTED:,} predictions through {_TREES} trees of 16 leaves: "
        f"{clock:.2f} s, {processors:.2f} s of processors"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling.boosters",
        description=(__doc__ or "").splitlines()[0],
    )
    add = parser.add_argument
    add("--rows", type=whole_number, nargs="+", default=[100_000, 1_000_000])
    add("--test-rows", type=whole_number, default=100_000)
    add("--rounds", type=whole_number, default=200, help="of the others")
    add("--models", nargs="+", default=[], help="how their names begin; default: all")
    add_busy_option(parser)
    options = parser.parse_args(arguments)
    known = list(contestants(options.rounds))
    for name in options.models:
        if not any(each.startswith(name) for each in known):
            parser.error(f"no model begins with {name!r}; there are {'; '.join(known)}")
    refuse_if_busy(options.busy)
    for n_rows in options.rows:
        report_fits(n_rows, options.test_rows, options.rounds, options.models)
    report_predictions()


if __name__ == "__main__":
    main()
