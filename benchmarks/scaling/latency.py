"""What a user waits for: the first fit, a later one, and predictions.

The first fit is that of a fresh process, imports and reading included.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from benchmarks.shared import whole_number
from benchmarks.timing import Seconds, add_busy_option, refuse_if_busy, timed
from secret_jax import SecretRegressor
from secret_jax.datasets import load, make_fried

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
    done = subprocess.run(command, env=alone, check=True, stdout=subprocess.PIPE)
    return Seconds(*map(float, done.stdout.split()))


def _line(name: str, times: Sequence[Seconds]) -> None:
    clock, processors = map(min, zip(*times, strict=True))
    print(f"{name:<37} {clock:.3g} s ({processors:.3g} of processors)")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the waiting times."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling.latency",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--data", help="folder of the data sets; default: OpenML")
    parser.add_argument("--repeats", type=whole_number, default=3)
    parser.add_argument("--rows", type=whole_number, default=1_000_000)
    add_busy_option(parser)
    options = parser.parse_args(arguments)
    refuse_if_busy(options.busy)

    def least(name: str, call: Callable[[], object], repeats: int) -> None:
        call()  # compiles
        _line(name, [timed(call)[1] for _ in range(repeats)])

    _line("first fit of abalone", [first_fit(options.data) for _ in range(3)])
    abalone, model = load("abalone", options.data), SecretRegressor(random_state=0)
    X, y = make_fried(options.rows, random_state=0)
    for name, rows in {"abalone": (abalone.X, abalone.y), "Fried": (X, y)}.items():
        some = rows[0][:4000], rows[1][:4000]
        fit = lambda some=some: model.fit(*some)  # noqa: E731
        least(f"fit of 4,000 rows of {name}", fit, options.repeats)
    model.set_params(oblique=True, max_leaf_nodes=64).fit(X[:20_000], y[:20_000])
    for n_rows in (1, 100, options.rows):
        predict = lambda n_rows=n_rows: model.predict(X[:n_rows])  # noqa: E731
        name = f"{n_rows:,} predictions, {model.n_leaves_} leaves"
        least(name, predict, 200 if n_rows <= 100 else options.repeats)


if __name__ == "__main__":
    main()
