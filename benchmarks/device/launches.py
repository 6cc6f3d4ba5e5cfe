"""Kernels that the main programs start on an H200, counted on a machine without one.

The programs are compiled by the CUDA compiler that JAX's own plug-in brings, for a
device that is only described. What is counted stands in the compiler's result; how long
a kernel takes does not. Products are not tuned: on a real device they may be others.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np

from benchmarks.device.kernels import Launches, launches_of
from benchmarks.shared import markdown
from secret_jax import RssSplits, SecretRegressor, SecretSplits
from secret_jax.data.rows import Rows, Table
from secret_jax.datasets import make_fried
from secret_jax.fit.refine.soft.parameters import to_parameters, with_widths
from secret_jax.fit.refine.soft.steps import (
    Rates,
    TrainingData,
    initial_state,
    train_chunk,
)
from secret_jax.grow.program import find_splits
from secret_jax.learners import CartSplits
from secret_jax.runtime.devices import in_32_bits
from secret_jax.runtime.programs import Program
from secret_jax.splits.em import STEPS_TOGETHER
from secret_jax.splits.interface import Columns, Node, SplitFinder
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.structure import Tree

# What the compiler has to know of an H200, after NVIDIA's data sheet and CUDA's limits.
_H200 = """
gpu_device_info {
  threads_per_block_limit: 1024  threads_per_warp: 32  core_count: 132
  shared_memory_per_block: 49152  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472  threads_per_core_limit: 2048  fpus_per_core: 128
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
  memory_bandwidth: 4800000000000  l2_cache_size: 52428800  clock_rate_ghz: 1.98
  device_memory_size: 151397597184  cuda_compute_capability { major: 9 }
}
platform_name: "CUDA"
dnn_version_info { major: 9  minor: 10 }
runtime_version { major: 12  minor: 9 }
device_description_str: "NVIDIA H200"
"""


class Case(NamedTuple):
    """A program with the shapes of its arguments."""

    program: Program
    arguments: tuple[Any, ...]
    static: dict[str, Any]
    assumed_turns: int = 1


def search(
    finder: SplitFinder, *, oblique: bool, nodes: int, rows: int, columns: int
) -> Case:
    """A batch of the search for splits, of nodes side by side."""
    shape = (nodes, rows)
    batch = Node(
        x=_shape((*shape, columns)),
        codes=_shape((*shape, 0), np.int32),
        targets=_shape((*shape, 1)),
        weight=_shape(shape),
        min_weight=_shape((nodes,)),
        random=_shape((nodes, finder.n_random(columns))),
        coefficient=_shape((nodes, 1, 1 + columns)),
        degrees=_shape((nodes,)),
        oblique=_shape((nodes,), bool),
        allowed=_shape((nodes, columns), bool),
        extra={},
        columns=Columns(n_regressors=columns, oblique=oblique),
    )
    static = {"finder": finder, "together": True}
    return Case(find_splits, (batch, _shape((), np.int32)), static)


def seen(call: Callable[[], Any]) -> Case:
    """The first program that a function calls, which it does not get to run."""

    class Seen(BaseException):
        pass

    def stop(program: Program, *arguments: Any, **static: Any) -> None:
        raise Seen(program, arguments, static)

    with mock.patch.object(Program, "__call__", stop):
        try:
            call()
        except Seen as found:
            program, arguments, static = found.args
            shapes = jax.tree.map(lambda a: _shape(np.shape(a), _dtype(a)), arguments)
            return Case(program, shapes, static)
    raise ValueError("no program was called")


def _shape(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """An array of a shape, of zeros that take no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def _dtype(value: Any) -> Any:
    known = {bool: np.bool_, int: np.int32, float: np.float32}
    return known.get(type(value)) or value.dtype


def main_cases(nodes: int, rows: int, columns: int) -> dict[str, Callable[[], Case]]:
    """The main programs by their names."""
    sizes = {"nodes": nodes, "rows": rows, "columns": columns}
    return {
        "oblique search": lambda: search(RssSplits(), oblique=True, **sizes),
        "axis search": lambda: search(RssSplits(), oblique=False, **sizes),
        "SECRET search": lambda: search(SecretSplits(), oblique=True, **sizes)._replace(
            assumed_turns=-(-_EM_STEPS // STEPS_TOGETHER)
        ),
        "routing of a block": _through_tree(columns, apply),
        "prediction of a block": _through_tree(columns, predict),
        "soft training, 64 steps": lambda: _soft(columns),
    }


# Rows of a block, and leaves of the tree that they go through.
_BLOCK = 1 << 20
_N_LEAVES = 64
# Loops whose turns the compiler does not know go down a tree, or are steps of EM.
_DEPTH, _EM_STEPS = 8, 30
_N_STARTS, _N_STEPS, _BATCH = 6, 64, 128


def _rows(columns: int, n_rows: int) -> Rows:
    x = np.zeros((n_rows, columns), np.float32)
    table = Table(x, np.zeros((n_rows, 0), np.int32))
    return Rows(table, np.zeros((n_rows, 1)), np.ones(n_rows))


def _tree(columns: int) -> Tree:
    """Any tree of so many leaves, found without much compiling."""
    X, y = make_fried(2000, n_features=max(columns, 5), random_state=0)
    model = SecretRegressor(
        splits=CartSplits(),
        oblique=False,
        prune=None,
        refine=None,
        max_leaf_nodes=_N_LEAVES,
        random_state=0,
    )
    return model.fit(X[:, :columns], y).tree_


def _through_tree(
    columns: int, function: Callable[[Tree, Table], Any]
) -> Callable[[], Case]:
    def case() -> Case:
        tree, table = _tree(columns), _rows(columns, _BLOCK).table
        return seen(lambda: function(tree, table))._replace(assumed_turns=_DEPTH)

    return case


def _soft(columns: int) -> Case:
    tree = _tree(columns)
    made = to_parameters(
        with_widths(tree, 1.0, np.ones(tree.n_nodes)),
        oblique=True,
        n_inner=_N_LEAVES,
        n_leaves=_N_LEAVES,
    )
    both = (initial_state(made[0]), made[1])
    state, structure = jax.tree.map(
        lambda a: _shape((_N_STARTS, *np.shape(a)), a.dtype), both
    )
    n_rows, n_judged = 1 << 14, 1 << 12
    data = TrainingData(
        x=_shape((n_rows, columns)),
        codes=_shape((n_rows, 0), np.int32),
        targets=_shape((n_rows, 1)),
        weight=_shape((n_rows,)),
        validation=_shape((n_judged,), np.int32),
        fold=_shape((4, n_judged)),
        low=_shape((1,)),
        high=_shape((1,)),
    )
    rates = Rates(*[_shape(())] * len(Rates._fields))
    rows = _shape((_N_STEPS, _BATCH), np.int32)
    return Case(train_chunk, (state, structure, data, rows, rates), {})


def _toolkit() -> Path:
    """Where the plug-in and the assembler are, or a word on how to get them."""
    found = None
    with contextlib.suppress(ModuleNotFoundError):
        found = importlib.util.find_spec("nvidia.cuda_nvcc")
    plugin = importlib.util.find_spec("jax_cuda12_plugin")
    if found is None or plugin is None or not found.submodule_search_locations:
        version = jax.__version__
        raise SystemExit(
            "The CUDA compiler is not installed. It needs no device, 220 MB, and is "
            "no dependency of the package. In an environment of its own:\n"
            f"  pip install --no-deps jax-cuda12-plugin=={version} "
            f"jax-cuda12-pjrt=={version} nvidia-cuda-nvcc-cu12"
        )
    return Path(next(iter(found.submodule_search_locations)))


def described_device() -> Any:
    """An H200 that is described, not there.

    Raises
    ------
    SystemExit
        Without the compiler, or if this process has used JAX before.
    """
    folder = _toolkit()
    wanted = f"--xla_gpu_autotune_level=0 --xla_gpu_cuda_data_dir={folder}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {wanted}".strip()
    os.environ["PATH"] += f"{os.pathsep}{folder / 'bin'}"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    jax.config.update("jax_platforms", "cpu")
    jax.devices()  # finds the plug-in
    from jax.experimental import topologies

    return topologies.get_topology_desc(
        platform="cuda", target_config=_H200, topology="1x1x1"
    ).devices[0]


def function_of(case: Case) -> Callable[..., Any]:
    """What is compiled: a function of the arrays alone."""
    plain = case.program.__wrapped__  # pyright: ignore[reportAttributeAccessIssue]
    return functools.partial(plain, **case.static)


@contextlib.contextmanager
def as_on_accelerator() -> Iterator[None]:
    """Within it programs are traced as they are for an accelerator."""
    device = SimpleNamespace(platform="gpu")
    name = "secret_jax.runtime.devices.chosen_device"
    with in_32_bits(), mock.patch(name, return_value=device):
        yield


def compiled_for(device: Any, case: Case) -> str:
    """The optimised program, as the compiler prints it."""
    where = jax.sharding.SingleDeviceSharding(device)
    shapes = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=where),
        case.arguments,
    )
    with as_on_accelerator():
        text = jax.jit(function_of(case)).lower(*shapes).compile().as_text()
    assert text is not None
    return text


def main(argv: list[str] | None = None) -> None:
    """Print what the main programs start."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.device.launches",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument(
        "--programs", nargs="+", help="some of them only: words of their names"
    )
    parser.add_argument("--places", action="store_true", help="by functions, too")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args(argv)
    device = described_device()
    cases = main_cases(options.nodes, options.rows, options.columns)
    lines = [
        [
            "program",
            "kernels",
            "products",
            "turns of loops",
            "host reads",
            "compiled, s",
        ]
    ]
    for name, case_of in cases.items():
        if options.programs and not any(word in name for word in options.programs):
            continue
        case = case_of()
        started = time.process_time()
        text = compiled_for(device, case)
        seconds = time.process_time() - started
        found = launches_of(text, assumed_turns=case.assumed_turns)
        if options.json:
            print(json.dumps({"program": name, "seconds": seconds, **asdict(found)}))
            continue
        lines.append([name, *_shown(found), f"{seconds:.0f}"])
        if options.places:
            lines.extend([f"  {a}", str(n), "", "", "", ""] for a, n in _most(found))
    if not options.json:
        print(markdown(lines))


def _shown(found: Launches) -> list[str]:
    numbers = (found.kernels, found.products, found.turns, found.host_reads)
    return [f"{number:,}" for number in numbers]


def _most(found: Launches) -> list[tuple[str, int]]:
    return found.places.most_common(20)


if __name__ == "__main__":
    sys.exit(main())
