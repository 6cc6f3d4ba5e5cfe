"""What a whole fit would ask of an accelerator, counted without having one.

The fit believes that it runs on an accelerator, so batches, padding and transfers are
those that one would get; the programs run on the processor, node by node, which gives
the same splits.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
import numpy as np

from benchmarks.shared import markdown
from secret_jax import SecretBoostingRegressor, SecretClassifier, SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.runtime.programs import Program


@dataclass
class Demands:
    """What a fit asked of the device.

    Attributes
    ----------
    programs : int
        How many times a program was started.
    compiled : int
        How many different programs.
    nodes, padded_nodes : int
        That were searched, and with the padding of their batches.
    bytes_to_device, bytes_from_device : int
    calls : dict
        Starts of each program, by its name.
    """

    programs: int = 0
    compiled: int = 0
    nodes: int = 0
    padded_nodes: int = 0
    bytes_to_device: int = 0
    bytes_from_device: int = 0
    calls: dict[str, int] = field(default_factory=dict)


@contextmanager
def counted() -> Iterator[Demands]:
    """Within it fits believe in an accelerator, and what they ask of it is counted."""
    demands, kinds, lock = Demands(), set(), threading.Lock()
    original, put = Program.__call__, jax.device_put

    def sent(leaves: list[Any]) -> None:
        arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
        demands.bytes_to_device += sum(array.nbytes for array in arrays)

    def call(self: Program, *arguments: Any, **more: Any) -> Any:
        name = self.__name__  # pyright: ignore[reportAttributeAccessIssue]
        leaves = jax.tree.leaves((arguments, more))
        # Numbers are arguments like any others; what has a name is part of a program.
        given = jax.tree.leaves(arguments)
        kind = [(np.shape(a), str(getattr(a, "dtype", type(a)))) for a in given]
        with lock:  # batches come from several threads
            sent(leaves)
            demands.programs += 1
            demands.calls[name] = demands.calls.get(name, 0) + 1
            kinds.add((name, str(sorted(more.items())), *kind))
            demands.compiled = len(kinds)
            if name == "find_splits":
                nodes, n_nodes, *_ = arguments
                demands.nodes += int(n_nodes)
                demands.padded_nodes += len(nodes.min_weight)
                more["together"] = False
        found = original(self, *arguments, **more)
        with lock:
            demands.bytes_from_device += sum(a.nbytes for a in jax.tree.leaves(found))
        return found

    def put_there(values: Any, *arguments: Any, **more: Any) -> Any:
        with lock:
            sent(jax.tree.leaves(values))
        return put(values, *arguments, **more)

    accelerator = SimpleNamespace(platform="gpu")
    with (
        mock.patch.object(Program, "__call__", call),
        mock.patch("jax.device_put", put_there),
        mock.patch(
            "secret_jax.runtime.devices.chosen_device", return_value=accelerator
        ),
    ):
        yield demands


# Models by name; a booster takes a few rounds, as all are alike.
MODELS: dict[str, Callable[..., Any]] = {
    "tree": SecretRegressor,
    "paper": partial(SecretRegressor.paper, oblique=True),
    "soft": partial(SecretRegressor, refine="soft"),
    "booster": partial(SecretBoostingRegressor, max_iter=3, max_leaf_nodes=16),
    "classifier": SecretClassifier,
}


def demands_of(
    rows: int, columns: int, model: str = "tree", **parameters: Any
) -> Demands:
    """What a fit of so many made-up rows asks of an accelerator."""
    X, y = make_fried(rows, n_features=columns, random_state=0)
    if model == "classifier":
        y = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    with counted() as demands:
        MODELS[model](random_state=0, **parameters).fit(X.astype(np.float32), y)
    return demands


def main(argv: list[str] | None = None) -> None:
    """Print what fits would ask of an accelerator."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.device.dry_run",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[4000, 100_000])
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--model", choices=MODELS, default="tree")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args(argv)
    lines = [["fit", "programs", "different", "nodes", "padded over real", "GB to it"]]
    for rows in options.rows:
        found = demands_of(rows, options.columns, options.model)
        if options.json:
            print(
                json.dumps(
                    {"rows": rows, "columns": options.columns, "model": options.model}
                    | asdict(found)
                )
            )
            continue
        lines.append(
            [
                f"{rows:,} x {options.columns}",
                str(found.programs),
                str(found.compiled),
                f"{found.nodes:,}",
                f"{found.padded_nodes / max(found.nodes, 1):.1f}",
                f"{found.bytes_to_device / 1e9:.3f}",
            ]
        )
    if not options.json:
        print(markdown(lines))


if __name__ == "__main__":
    sys.exit(main())
