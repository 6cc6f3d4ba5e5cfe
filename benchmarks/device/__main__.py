"""Accelerators: what one brings, and what a fit would ask of one that is not there.

`benchmarks/README.md` shows how to call it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import jax

from benchmarks.device.counting import CARDS, MODELS, count
from benchmarks.device.measuring import STAGES, Machine, measure
from benchmarks.shared import say, whole_number

# Options of --count, and what they are by default.
_OF_COUNT = {"rows": [1_000_000], "columns": 10, "model": "tree"}
_OF_COUNT |= {"kernels": False, "card": "H100", "host": False}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or count."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.device", description=(__doc__ or "").split("\n")[0]
    )
    add = parser.add_argument
    add("--device", help="cpu, gpu or tpu; else what JAX prefers")
    add("--stages", choices=STAGES, nargs="+", default=[*STAGES])
    add("--seconds", type=whole_number, default=600, help="after which no stage begins")
    add("--small", action="store_true", help="few rows, to see that everything runs")
    add("--count", action="store_true", help="what a fit would ask of an accelerator")
    add("--rows", type=whole_number, nargs="+", help="with --count")
    add("--columns", type=whole_number, help="with --count")
    add("--model", choices=MODELS, help="with --count")
    kernels = "with --count: what a card would do"
    add("--kernels", action="store_true", default=None, help=kernels)
    host = "with --count: what the host takes beside the programs"
    add("--host", action="store_true", default=None, help=host)
    add("--card", choices=CARDS, help="with --count --kernels")
    options = parser.parse_args(arguments)
    for name, default in _OF_COUNT.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif not options.count:
            parser.error(f"--{name} goes with --count")
    if options.count:
        print(count(options))
        return
    name = options.device or jax.devices()[0].platform
    if name == "cpu" and not options.device:
        say("There is no accelerator here: JAX sees the CPU alone. Try --count.")
        return
    print(measure(Machine(name, options.small), options.stages, options.seconds))


if __name__ == "__main__":
    main()
