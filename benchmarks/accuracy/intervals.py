"""How often conformal intervals hold, and how wide they are.

    python -m benchmarks.accuracy.intervals --data FOLDER

Of the rows 60 % train, 20 % make the intervals, 20 % test them.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np

from benchmarks.shared import standard_error
from secret_jax import SecretRegressor, UnseenCategoryWarning
from secret_jax.datasets import load

SETS = ["abalone", "boston", "kin8nm", "mumps_1968_2002", "stock"]


def coverage_and_width(
    name: str, data: str | None, seed: int, wanted: float, refine: Any
) -> tuple[float, float]:
    """Share of the test rows inside, and the mean width in deviations of the target."""
    found = load(name, data)
    order = np.random.default_rng([5, seed]).permutation(len(found.y))
    cuts = round(0.6 * len(order)), round(0.8 * len(order))
    (X, y), (X_apart, y_apart), (X_test, y_test) = (
        (found.X.iloc[rows], found.y[rows]) for rows in np.split(order, cuts)
    )
    model = SecretRegressor(
        random_state=seed, categorical_features=list(found.discrete), refine=refine
    )
    model.fit(X, y).conformalize(X_apart, y_apart)
    lower, upper = model.predict_interval(X_test, wanted)
    inside = (lower <= y_test) & (y_test <= upper)
    return float(inside.mean()), float((upper - lower).mean() / np.std(y))


def main(argv: list[str] | None = None) -> None:
    """Print a table, a row for every data set."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.intervals",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--data", help="folder of the data sets; default: OpenML")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--refine", choices=["tao", "blend", "soft"])
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore", UnseenCategoryWarning)
    print(f"Intervals that should hold {options.coverage:.0%} of new rows")
    print(f"{'set':<18}{'coverage':>18}{'width / deviation':>22}")
    for name in options.sets:
        runs = [
            coverage_and_width(
                name, options.data, seed, options.coverage, options.refine
            )
            for seed in range(options.seeds)
        ]
        mean, error = np.mean(runs, axis=0), standard_error(np.array(runs))
        held, width = (f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True))
        print(f"{name:<18}{held:>18}{width:>22}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
