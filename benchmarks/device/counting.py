"""What a fit would ask of an accelerator that is not there.

The fit believes that it runs on one: tiles and transfers are those that one would get,
the programs run on the processor. Kernels are read off what the CUDA compiler makes of
these programs for a device that is only described: how many they are, how much memory
they take and how long to compile, not how long they run. What the host takes beside
them is measured: their answers are remembered and given back at once.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np
from jax.core import Tracer

from benchmarks.accuracy.ours import Setting
from benchmarks.shared import markdown
from benchmarks.timing import Seconds, timed
from secret_jax.data.fallback import MAY_USE_KERNELS
from secret_jax.datasets import make_fried
from secret_jax.runtime.devices import in_32_bits, runs_triton
from secret_jax.runtime.programs import Program

# A booster takes a few rounds, as all are alike.
_ROUNDS = {"max_iter": 3, "max_leaf_nodes": 16}
MODELS = {
    "tree": Setting(),
    "paper": Setting(model="SecretRegressor.paper"),
    "soft": Setting({"refine": "soft"}),
    "booster": Setting(_ROUNDS, "SecretBoostingRegressor"),
    "classifier": Setting(model="SecretClassifier"),
}


class Case(NamedTuple):
    """A program, the shapes of its arguments, and what is static of it."""

    program: Program
    arguments: Any
    static: dict[str, Any]

    @property
    def function(self) -> Callable[..., Any]:
        """What is compiled: a function of the arrays alone."""
        plain: Any = self.program
        return functools.partial(plain.__wrapped__, **self.static)


@dataclass
class Demands:
    """What a fit asked of the device."""

    # How many times a program was started, and the programs, by what tells them apart.
    starts: dict[str, int] = field(default_factory=dict)
    cases: dict[str, Case] = field(default_factory=dict)
    bytes_to_device: int = 0

    def starts_of(self, name: str) -> int:
        """How often programs of a name were started."""
        mine = [kind for kind in self.starts if kind.startswith(f"{name} ")]
        return sum(self.starts[kind] for kind in mine)


@contextmanager
def as_on_accelerator() -> Iterator[None]:
    """Within it programs are traced, and batches made, as they are for accelerators."""
    name = "secret_jax.runtime.devices.chosen_device"
    with mock.patch(name, return_value=SimpleNamespace(platform="gpu")):
        yield


@contextmanager
def counted() -> Iterator[Demands]:
    """Within it fits believe in an accelerator, and what they ask of it is counted."""
    demands, lock = Demands(), threading.Lock()
    original, put = Program.__call__, jax.device_put

    def sent(values: Any) -> None:
        arrays = [leaf for leaf in jax.tree.leaves(values) if type(leaf) is np.ndarray]
        demands.bytes_to_device += sum(array.nbytes for array in arrays)

    def call(self: Program, *arguments: Any, **static: Any) -> Any:
        name = self.__name__  # pyright: ignore[reportAttributeAccessIssue]
        shapes = jax.tree.map(_shape, arguments)
        kind = f"{name} {jax.tree.leaves(shapes)} {sorted(static.items(), key=str)}"
        with lock:  # batches come from several threads
            sent((arguments, static))
            demands.starts[kind] = demands.starts.get(kind, 0) + 1
            demands.cases[kind] = Case(self, shapes, dict(static))
        return original(self, *arguments, **static)

    def put_there(values: Any, *arguments: Any, **more: Any) -> Any:
        with lock:
            sent(values)
        return put(values, *arguments, **more)

    with (
        as_on_accelerator(),
        mock.patch.object(Program, "__call__", call),
        mock.patch("jax.device_put", put_there),
    ):
        yield demands


def _shape(value: Any) -> Any:
    kinds = {bool: np.bool_, int: np.int32, float: np.float32}
    dtype = kinds.get(type(value)) or value.dtype
    return jax.ShapeDtypeStruct(np.shape(value), dtype)


def demands_of(rows: int, columns: int, model: str = "tree") -> Demands:
    """What a fit of so many made-up rows asks of an accelerator."""
    fit = _fit_of(rows, columns, model)
    with counted() as demands:
        fit()
    return demands


def _fit_of(rows: int, columns: int, model: str, device: str | None = None) -> Any:
    """A fit to be called; the rows lie on a device, if one is named, or on the host."""
    X, y = make_fried(rows, n_features=columns, random_state=0, device=device)
    if model == "classifier":
        y = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    estimator = MODELS[model].build().set_params(random_state=0)
    return functools.partial(estimator.fit, X.astype(np.float32), y)


class Answers:
    """What programs answered: from `again` on they are not run but give it back.

    ``known``: what each run answered, by shapes, numbers and what is static of the
    arguments, and by order among those that are alike: threads may come in another one.
    """

    def __init__(self) -> None:
        self.known, self._given = dict[Any, Any](), Counter[Any]()
        self._lock, self._run = threading.Lock(), Program.__call__

    def again(self) -> None:
        """Begin with the first answers."""
        self._given.clear()

    def of(self, program: Program, *arguments: Any, **static: Any) -> Any:
        """Answer of a program, which takes the place of a call."""
        leaves = jax.tree.leaves(arguments)
        if any(isinstance(leaf, Tracer) for leaf in leaves):
            return self._run(program, *arguments, **static)
        key = program, *map(_told_by, leaves), *sorted(static.items())
        with self._lock:
            key = *key, self._given[key]
            self._given[key[:-1]] += 1
        if key not in self.known:
            answer = self._run(program, *arguments, **static)
            self.known[key] = jax.block_until_ready(answer)
        return self.known[key]


def _told_by(value: Any) -> Any:
    shape = np.shape(value)
    return (shape, value.dtype) if shape or isinstance(value, jax.Array) else value


@contextmanager
def remembered() -> Iterator[Answers]:
    """Within it arrays of JAX lie on an accelerator, and its answers are remembered."""
    answers = Answers()
    with as_on_accelerator(), ExitStack() as patches:
        for reader in ("shards", "validation", "encoding"):
            name = f"secret_jax.data.{reader}.is_resident"
            patch = mock.patch(name, lambda X: isinstance(X, jax.Array))
            patches.enter_context(patch)

        def call(self: Program, *arguments: Any, **static: Any) -> Any:
            return answers.of(self, *arguments, **static)

        patches.enter_context(mock.patch.object(Program, "__call__", call))
        yield answers


def host_seconds(rows: int, columns: int, model: str, turns: int = 5) -> Seconds:
    """Least time of fits of rows that lie on an accelerator which answers at once."""
    fit, taken = _fit_of(rows, columns, model, "cpu"), []
    with remembered() as answers:
        for _ in range(1 + turns):
            answers.again()
            taken.append(timed(fit)[1])
    return Seconds(*map(min, zip(*taken[1:], strict=True)))


# What names or views an array, and takes no kernel.
_FREE = re.compile(
    r"after-all|bitcast|constant|copy-done|get-tuple-element|opt-barrier|parameter"
    r"|partition-id|replica-id|tuple|async-(update|done)"
)


def kernels_of(text: str, *, assumed_turns: int = 1) -> int:
    """Kernels, copies and calls of libraries of a compiled program, off its HLO.

    Loops count as often as they turn; where the compiler does not know how often that
    is, a number is assumed, in all turns of a loop around it together: attempts of EM
    would count its steps several times. Of two branches the longer one counts.
    """
    computation = r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{\s*\n((?: .*\n)+)"
    bodies = dict(re.findall(computation, text, re.MULTILINE))

    @functools.cache
    def of(name: str, assumed: int) -> int:
        return sum(of_line(line, assumed) for line in bodies[name].splitlines())

    def of_line(line: str, assumed: int) -> int:
        # After the type, which ends with a bracket and perhaps a layout.
        found = re.search(r" = .*?[\])}] ([a-z][\w\-]*)\(", line)
        if found is None or _FREE.fullmatch(found[1]):
            return 0
        named = re.findall(r"\b(?:to_apply|calls|body)=%?([\w.\-]+)", line)
        if found[1] == "while":
            turns = re.search(r"known_trip_count\W+n\W+(\d+)", line)
            (condition,) = re.findall(r"\bcondition=%?([\w.\-]+)", line)
            if turns:
                return int(turns[1]) * of(named[0], assumed)
            return assumed * of(named[0], 1) + (assumed + 1) * of(condition, 1)
        if found[1] == "conditional":
            several = re.search(r"branch_computations=\{([^}]*)\}", line)
            pair = re.findall(r"\b(?:true|false)_computation=%?([\w.\-]+)", line)
            branches = re.findall(r"[\w.\-]+", several[1]) if several else pair
            return max(of(branch, assumed) for branch in branches)
        if found[1] not in ("call", "async-start"):
            return 1
        return sum(of(name, assumed) for name in named)

    (entry,) = re.findall(r"^ENTRY %?([\w.\-]+)", text, re.MULTILINE)
    return of(entry, assumed_turns)


# What the compiler has to know of cards, after NVIDIA's data sheets and CUDA's limits.
CARDS = {
    "H100": """
gpu_device_info {
  threads_per_block_limit: 1024  threads_per_warp: 32  core_count: 132
  shared_memory_per_block: 49152  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472  threads_per_core_limit: 2048  fpus_per_core: 128
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
  memory_bandwidth: 3350000000000  l2_cache_size: 52428800  clock_rate_ghz: 1.98
  device_memory_size: 85520809984  cuda_compute_capability { major: 9 }
}
device_description_str: "NVIDIA H100 80GB HBM3"
""",
    # Of a free Colab notebook; too old for Triton.
    "T4": """
gpu_device_info {
  threads_per_block_limit: 1024  threads_per_warp: 32  core_count: 40
  shared_memory_per_block: 49152  shared_memory_per_block_optin: 65536
  shared_memory_per_core: 65536  threads_per_core_limit: 1024  fpus_per_core: 64
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
  memory_bandwidth: 320000000000  l2_cache_size: 4194304  clock_rate_ghz: 1.59
  device_memory_size: 15835660288  cuda_compute_capability { major: 7 minor: 5 }
}
device_description_str: "Tesla T4"
""",
}
_CUDA = """
platform_name: "CUDA"
dnn_version_info { major: 9  minor: 10 }
runtime_version { major: 12  minor: 9 }
"""


def described_device(card: str = "H100") -> Any:
    """A card that is described; SystemExit without the compiler for it."""
    nvidia = importlib.util.find_spec("nvidia")
    plugin = importlib.util.find_spec("jax_cuda12_plugin")
    places = nvidia.submodule_search_locations or () if nvidia else ()
    found = [place for place in map(Path, places) if (place / "cuda_nvcc").is_dir()]
    if not found or plugin is None:
        version = jax.__version__
        raise SystemExit(
            "The CUDA compiler is not installed. It needs no device, 220 MB, and is "
            "no dependency of the package. In an environment of its own:\n"
            f"  pip install --no-deps jax-cuda12-plugin=={version} "
            f"jax-cuda12-pjrt=={version} nvidia-cuda-nvcc-cu12"
        )
    nvcc = found[0] / "cuda_nvcc"
    wanted = f"--xla_gpu_autotune_level=0 --xla_gpu_cuda_data_dir={nvcc}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {wanted}".strip()
    os.environ["PATH"] += f"{os.pathsep}{nvcc / 'bin'}"
    jax.config.update("jax_platforms", "cpu")
    jax.devices()  # finds the plug-in
    from jax.experimental import topologies

    described = {"target_config": CARDS[card] + _CUDA, "topology": "1x1x1"}
    return topologies.get_topology_desc(platform="cuda", **described).devices[0]


@contextmanager
def with_kernels(used: bool) -> Iterator[None]:
    """Within it programs are traced with kernels, untried, or without."""
    name = "secret_jax.data.tiles.uses_kernels"
    with mock.patch(name, return_value=used), MAY_USE_KERNELS(used):
        yield


def described_by(kind: str) -> AbstractContextManager[Any]:
    """Within it kernels are lowered for a kind of card: from JAX 0.11 on it counts."""
    card = jax.sharding.AbstractDevice(kind, None, "gpu")
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=card)
    return jax.sharding.use_abstract_mesh(mesh)


class Compiled(NamedTuple):
    """What it takes to compile a program, and what it takes."""

    text: str  # the optimised program, as the compiler prints it
    traced: float  # processor seconds of tracing and lowering
    compiled: float  # processor seconds of compiling, those of helpers included
    memory: int  # bytes of arguments, results and what is between

    @property
    def kernels(self) -> int:
        """Kernels of one call."""
        return kernels_of(self.text, assumed_turns=8)


def compiled_for(device: Any, case: Case) -> Compiled:
    """Compile a program ahead of time."""
    there = functools.partial(
        jax.ShapeDtypeStruct, sharding=jax.sharding.SingleDeviceSharding(device)
    )
    arguments = jax.tree.map(lambda a: there(a.shape, a.dtype), case.arguments)
    used, card = runs_triton(device), described_by(device.device_kind)
    with in_32_bits(), as_on_accelerator(), with_kernels(used), card:
        begun = _processor_seconds()
        lowered = case.program.jitted(arguments).lower(*arguments, **case.static)
        traced = _processor_seconds()
        compiled = lowered.compile()
    seconds = traced - begun, _processor_seconds() - traced
    memory: Any = compiled.memory_analysis()
    taken = memory.argument_size_in_bytes + memory.output_size_in_bytes
    taken += memory.temp_size_in_bytes - memory.alias_size_in_bytes
    return Compiled(compiled.as_text() or "", *seconds, taken)


def _processor_seconds() -> float:
    """Of this process, and of those that it has waited for."""
    return sum(os.times()[:4])


def count(options: argparse.Namespace) -> str:
    """What a fit of each size asks of an accelerator, and what its programs are."""
    lines = [["fit", "program", "starts", "GB to it"]]
    lines[0] += ["traced, s", "compiled, s", "kernels", "GB"] * options.kernels
    lines[0] += ["host, s", "of processors, s"] * options.host
    device = described_device(options.card) if options.kernels else None
    for rows in options.rows:
        found = demands_of(rows, options.columns, options.model)
        parts = []
        for kind, case in found.cases.items():
            parts.append([kind.split()[0], found.starts[kind], 0.0])
            if device is not None:
                made = compiled_for(device, case)
                kernels = made.kernels * found.starts[kind]
                parts[-1] += [made.traced, made.compiled, kernels, made.memory / 1e9]
        whole = [
            f"{len(parts)} programs",
            *map(sum, list(zip(*parts, strict=True))[1:]),
        ]
        whole[2] = found.bytes_to_device / 1e9
        if device is not None:
            whole[-1] = max(part[-1] for part in parts)
        if options.host:
            whole += host_seconds(rows, options.columns, options.model)
        fit = f"{rows:,} x {options.columns}"
        for part in [*parts, whole]:
            cells = [f"{n:,}" if isinstance(n, int) else f"{n:.3g}" for n in part[1:]]
            empty = [""] * (len(lines[0]) - 2 - len(cells))
            lines.append([fit, part[0], *cells, *empty])
    return markdown(lines)
