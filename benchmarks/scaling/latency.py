"""What a user waits for: the first fit, a later one, and predictions.

    python -m benchmarks.scaling.latency --data FOLDER

The first fit is that of a fresh process, imports and compiling included: without
compiled programs, and with those that an earlier process kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.datasets import make_friedman1

from benchmarks.timing import Seconds, add_busy_option, refuse_if_busy, timed
from secret_jax import SecretRegressor
from secret_jax.datasets import load

_FIRST_FIT = """
import sys, time
started, busy = time.perf_counter(), time.process_time()
import secret_jax
from secret_jax.datasets import load
data = load("abalone", sys.argv[1] or None)
secret_jax.SecretRegressor(random_state=0).fit(data.X, data.y)
print(time.perf_counter() - started, time.process_time() - busy)
"""


def first_fit(data: str | None) -> Seconds:
    """Time of imports, reading and the first fit of abalone in a fresh process."""
    alone = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    command = [sys.executable, "-c", _FIRST_FIT, data or ""]
    done = subprocess.run(
        command, env=alone, check=True, capture_output=True, text=True
    )
    return Seconds(*map(float, done.stdout.split()))


def least_seconds(call: Callable[[], object], repeats: int) -> Seconds:
    """Least time of several calls, after one that compiles."""
    call()
    return least([timed(call)[1] for _ in range(repeats)])


def least(times: Sequence[Seconds]) -> Seconds:
    """The least seconds of the clock and of the processors."""
    return Seconds(*map(min, zip(*times, strict=True)))


def _line(name: str, seconds: Seconds) -> None:
    print(f"{name:<37} {seconds.clock:.2f} s ({seconds.processors:.2f} of processors)")


def report_fits(data: str | None, repeats: int) -> None:
    """First fits, and warm ones of 4,000 rows."""
    first = [first_fit(data) for _ in range(repeats)]
    _line("first fit of abalone, fresh process", least(first))
    abalone = load("abalone", data)
    X, y = make_friedman1(4000, n_features=10, noise=1.0, random_state=0)
    model = SecretRegressor(random_state=0)
    for name, (rows, target) in {
        "abalone": (abalone.X.iloc[:4000], abalone.y[:4000]),
        "Friedman 1": (X, y),
    }.items():
        seconds = least_seconds(lambda: model.fit(rows, target), 3 * repeats)  # noqa: B023
        _line(f"warm fit of 4,000 rows, {name}", seconds)


def report_predictions(n_rows: int, repeats: int) -> None:
    """Rates of a tree of about 64 leaves, and the time of few rows."""
    X, y = make_friedman1(n_rows, n_features=10, noise=1.0, random_state=0)
    model = SecretRegressor(oblique=True, max_leaf_nodes=64, random_state=0)
    model.fit(X[:20_000], y[:20_000])
    print(f"predictions of an oblique tree of {model.n_leaves_} leaves")
    for kind in (np.float32, np.float64):
        rows = X.astype(kind)
        seconds = least_seconds(lambda: model.predict(rows), 3 * repeats).clock  # noqa: B023
        print(f"  {n_rows:,} rows of {kind.__name__}: {n_rows / seconds / 1e6:.1f} M/s")
    for n in (1, 100):
        seconds = least_seconds(lambda: model.predict(X[:n]), 200).clock  # noqa: B023
        print(f"  {n} row{'s' * (n > 1)}: {1e6 * seconds:.0f} µs")


def main(argv: list[str] | None = None) -> None:
    """Print the waiting times."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling.latency",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--data", help="folder of the data sets; default: OpenML")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000, help="to predict")
    add_busy_option(parser)
    options = parser.parse_args(argv)
    refuse_if_busy(options.busy)
    report_fits(options.data, options.repeats)
    report_predictions(options.rows, options.repeats)


if __name__ == "__main__":
    sys.exit(main())
