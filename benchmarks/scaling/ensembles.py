"""Seconds of a tree inside a booster, of a booster with all chosen, and of a forest.

    python -m benchmarks.scaling.ensembles --data FOLDER --only "tree, axis" forest

Of the copy of the package on PYTHONPATH: medians of fits after a first one, and an
error that tells whether two copies fit the same. Boosters of many rows beside others,
and predictions of a million rows, are in `benchmarks.scaling.boosters`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.shared import whole_number
from benchmarks.timing import add_busy_option, refuse_if_busy, timed
from secret_jax import SecretBoostingRegressor, SecretForestRegressor, TreeSize
from secret_jax.datasets import load, make_fried

_HEAD = ("what", "clock", "processors", "unit", "error in unseen rows")
_ROUNDS, _ROWS = 60, 2400


class Case(NamedTuple):
    """What is fitted to which rows, and how many times what is asked for."""

    make: Callable[[], Any]
    rows: Callable[[], tuple[Any, np.ndarray]]
    count: int = 1


def cases(data: str | None) -> dict[str, Case]:
    """What is timed, by name."""

    def kin8nm() -> tuple[Any, np.ndarray]:
        found = load("kin8nm", data)
        chosen = np.random.default_rng(0).permutation(len(found.y))[:_ROWS]
        return found.X.iloc[chosen], found.y[chosen]

    def trees(size: TreeSize) -> Case:
        fixed = {"max_iter": _ROUNDS, "early_stopping": False, "ensemble": False}
        return Case(
            lambda: SecretBoostingRegressor(max_leaf_nodes=size, **fixed),
            kin8nm,
            _ROUNDS,
        )

    return {
        "tree, axis": trees(TreeSize()),
        "tree, oblique": trees(TreeSize(oblique=True)),
        "booster, Friedman": Case(
            SecretBoostingRegressor,
            lambda: make_fried(2000, n_features=8, random_state=0),
        ),
        "booster, kin8nm": Case(SecretBoostingRegressor, kin8nm),
        "forest": Case(
            SecretForestRegressor, lambda: make_fried(20_000, random_state=0)
        ),
    }


def report(chosen: dict[str, Case], repeats: int) -> None:
    """A line for each case, as soon as it is timed."""
    for line in (_HEAD, tuple("-" * len(name) for name in _HEAD)):
        _line(*line)
    for name, case in chosen.items():
        X, y = case.rows()
        model = case.make().fit(X, y)
        times = [timed(lambda: case.make().fit(X, y))[1] for _ in range(repeats)]  # noqa: B023
        clock, processors = np.median(times, axis=0)
        alone = case.count == 1
        scale, unit = (1, "s a fit") if alone else (1000 / case.count, "ms a tree")
        error = getattr(model, "validation_error_", None)
        if error is None:
            error = 1 - model.oob_score_
        told = "" if np.isnan(error) else f"{error:.8f}"
        _line(name, f"{clock * scale:.2f}", f"{processors * scale:.2f}", unit, told)


def _line(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling.ensembles",
        description=(__doc__ or "").splitlines()[0],
    )
    add = parser.add_argument
    add("--data", help="folder of the data sets; default: OpenML")
    add("--only", nargs="+", default=list(cases(None)), choices=list(cases(None)))
    add("--repeats", type=whole_number, default=3)
    add_busy_option(parser)
    options = parser.parse_args(arguments)
    refuse_if_busy(options.busy)
    every = cases(options.data)
    report({name: every[name] for name in options.only}, options.repeats)


if __name__ == "__main__":
    main()
