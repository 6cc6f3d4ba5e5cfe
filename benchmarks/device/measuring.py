"""What a device does: its ceilings, EM beside them, where it wins, fits, and peers.

Stages in one table; one that fails says so and does not stop the others. Our rows are
born on the device, those of peers on the host. Seconds are of the clock, with what is
traced and compiled in the first.
"""

from __future__ import annotations

import functools
import gzip
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.device.counting import with_kernels
from benchmarks.shared import markdown, say
from benchmarks.timing import timed
from secret_jax import SecretBoostingRegressor, SecretForestRegressor, SecretRegressor
from secret_jax.data.kernels import takes
from secret_jax.data.tiles import TiledRows
from secret_jax.datasets import make_fried
from secret_jax.runtime.devices import FEW_ROWS, in_32_bits, runs_triton
from secret_jax.splits.mixture import MixtureRows, fit_mixtures, moments_of

_TILE = 256
_STEPS = 20  # of EM in a call
_MILLIONS = 1_000_000, 10_000_000, 100_000_000


class Machine(NamedTuple):
    """Where to measure, and whether few rows will do."""

    platform: str
    small: bool = False

    @property
    def device(self) -> Any:
        """The first device of the platform."""
        return jax.local_devices(backend=self.platform)[0]

    def sizes(self, *numbers: int) -> list[int]:
        """Numbers of rows; one of a thousand where few will do."""
        return [1024] if self.small else list(numbers)


class Line(NamedTuple):
    """What was done, to how much, and how long it took."""

    what: str
    size: str
    first: float | None
    later: float | None
    note: str = ""

    def cells(self, stage: str) -> list[str]:
        """As they stand in the table."""
        seconds = map(_short, (self.first, self.later))
        return [stage, self.what, self.size, *seconds, self.note]


Stage = Callable[[Machine], Iterator[Line]]


def measure(machine: Machine, stages: Sequence[str], seconds: float) -> str:
    """Table of stages; none begins after so many seconds."""
    begun = time.perf_counter()
    kind = f"{machine.device.device_kind}, JAX {jax.__version__}"
    lines = [["stage", kind, "rows x columns", "first, s", "later, s", "note"]]
    for name in stages:
        if time.perf_counter() - begun > seconds:
            lines.append([name, "not run: the time was over", *[""] * 4])
            continue
        try:
            for line in STAGES[name](machine):
                lines.append(line.cells(name))
                say(" | ".join(lines[-1]))
        except Exception as error:  # a stage must not stop those after it
            said = (str(error).splitlines() or [""])[0][:120]
            text = f"{type(error).__name__}: {said}"
            lines.append([name, "failed", *[""] * 3, text])
            say(" | ".join(lines[-1]))
    return markdown(lines)


def _short(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.3g}" if seconds < 100 else f"{seconds:.0f}"


def _first_and_later(call: Callable[[], Any], turns: int = 3) -> tuple[float, float]:
    """Seconds of the first call, and the median of some more."""

    def once() -> float:
        return timed(lambda: jax.block_until_ready(call()))[1].clock

    first = once()
    return first, statistics.median(once() for _ in range(turns))


def _bandwidth(machine: Machine) -> tuple[float, float, float]:
    """Bytes a second of a copy, read and written, and the seconds of its calls."""
    n = 1 << (20 if machine.small else 28)
    values = jax.device_put(np.zeros(n, np.float32), machine.device)
    first, later = _first_and_later(functools.partial(jax.jit(lambda a: a + 1), values))
    return 2 * values.nbytes / later, first, later


def ceilings(machine: Machine) -> Iterator[Line]:
    """What no program can do better than: a copy, and products of matrices."""
    rate, first, later = _bandwidth(machine)
    yield Line("a copy", "", first, later, f"{rate / 1e9:,.0f} GB/s")
    n = 256 if machine.small else 8192
    square = jax.device_put(np.ones((n, n), np.float32), machine.device)
    for name in ("highest", "tensorfloat32", "bfloat16"):
        product = jax.jit(functools.partial(jnp.matmul, precision=name))
        first, later = _first_and_later(functools.partial(product, square, square))
        rate = 2 * n**3 / later / 1e12
        what = f"a product, {name}"
        yield Line(what, f"{n:,} x {n:,}", first, later, f"{rate:.3g} TFLOP/s")


def em(machine: Machine) -> Iterator[Line]:
    """Steps of EM, each beside a reading of its rows; by a kernel where fits use it."""
    rate = _bandwidth(machine)[0]
    cases = [(1024, 2048, 11), (64, 1 << 16, 11)]
    cases += [(64, 1 << 14, width) for width in (11, 31, 63, 127)]
    for n_nodes, n_rows, width in [(4, 256, 5)] if machine.small else cases:
        known, start = _mixture_rows(machine, n_nodes, n_rows, width)
        n_bytes = known.z.nbytes + known.weight.nbytes
        used = runs_triton(machine.device) and takes(known.rows, 1 + width)
        for kernel in (False, True) if used else (False,):
            steps = functools.partial(_em_steps, known, start)
            with with_kernels(kernel):
                first, later = _first_and_later(steps)
            what = f"{_STEPS} steps of EM, {n_nodes:,} nodes"
            what += ", by a kernel" if kernel else ""
            share = n_bytes * _STEPS / later / rate
            note = f"{1e6 * later / _STEPS:,.0f} µs a step, "
            note += f"{share:.2f} of the bandwidth of a copy"
            yield Line(what, f"{n_nodes * n_rows:,} x {width}", first, later, note)


@jax.jit
def _em_steps(known: MixtureRows, start: jax.Array) -> jax.Array:
    fit = fit_mixtures(known, start, max_iter=_STEPS, tolerance=-1e9, floor=1e-6)
    return fit.objective


def _mixture_rows(
    machine: Machine, n_nodes: int, n_rows: int, width: int
) -> tuple[MixtureRows, jax.Array]:
    """Random rows in tiles, and half of them as the start of one component."""
    with jax.default_device(machine.device), in_32_bits():
        n_tiles = n_nodes * n_rows // _TILE
        rows = TiledRows.of(np.full(n_nodes, n_rows), n_tiles, _TILE)
        z = jax.random.normal(jax.random.key(0), (n_tiles, 1 + width, _TILE))
        z = z.at[:, 0].set(1.0)
        weight = jnp.ones((n_tiles, _TILE))
        (total,) = jax.jit(moments_of)(rows, (), (z, weight))
        (half,) = jax.jit(moments_of)(
            rows, (), (z, jnp.where(z[:, 1] > 0, weight, 0.0))
        )
        known = MixtureRows(rows, z, weight, total, jnp.ones((n_nodes, width), bool))
    return known, half[:, None]


def fits(machine: Machine) -> Iterator[Line]:
    """Models of rows that lie on the device: the largest tables come last."""
    places = {"random_state": 0, "device": machine.platform}
    paper = SecretRegressor.paper(oblique=True).set_params(**places)
    for what, model, sizes in (
        ("gates", SecretRegressor(refine="soft", **places), (100_000,)),
        ("booster", SecretBoostingRegressor(**places), (100_000,)),
        ("forest", SecretForestRegressor(**places), (100_000,)),
        ("paper", paper, (131_072, 524_288, 4_194_304, 33_554_432)),
        ("default", SecretRegressor(**places), (4000, 131_072, *_MILLIONS)),
    ):
        for n_rows in machine.sizes(*sizes):
            X, y = make_fried(n_rows, random_state=0, device=machine.platform)
            yield _fitted(what, model, X, y, machine)


def _fitted(what: str, model: Any, X: Any, y: Any, machine: Machine) -> Line:
    first, later = _first_and_later(lambda: model.fit(X, y), turns=2)
    T, t = make_fried(20_000, random_state=1)
    note = f"error {np.mean((model.predict(T) - t) ** 2):.3f}"
    if leaves := getattr(model, "n_leaves_", 0):
        note += f", {leaves} leaves"
    memory = machine.device.memory_stats() or {}
    if peak := memory.get("peak_bytes_in_use"):
        note += f", peak so far {peak / 1e9:.1f} GB"
    return Line(what, "{:,} x {}".format(*X.shape), first, later, note)


def predictions(machine: Machine) -> Iterator[Line]:
    """Predictions that stay on the device."""
    model = SecretRegressor(random_state=0, device=machine.platform)
    for n_rows in machine.sizes(1_000_000, 10_000_000):
        X, y = make_fried(n_rows, random_state=0, device=machine.platform)
        model.fit(X, y)
        predict = functools.partial(model.predict, X)
        first, later = _first_and_later(predict)
        rate = f"{n_rows / later / 1e6:,.0f} million rows a second"
        yield Line("predictions", f"{n_rows:,} x 10", first, later, rate)


def busy(machine: Machine) -> Iterator[Line]:
    """Share of a warm fit in which the device computes, off its profile."""
    for n_rows in machine.sizes(1_000_000, 10_000_000):
        X, y = make_fried(n_rows, random_state=0, device=machine.platform)
        model = SecretRegressor(random_state=0, device=machine.platform)
        for _ in range(2):
            model.fit(X, y)
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                seconds = timed(functools.partial(model.fit, X, y))[1].clock
            traces = Path(folder).rglob("*.trace.json.gz")
            events = [e for path in traces for e in _on_streams(path)]
        spent = sum(event["dur"] for event in events) / 1e6
        note = f"{len(events):,} events, {spent / seconds:.2f} of the time"
        yield Line("busy in a default fit", f"{n_rows:,} x 10", None, spent, note)


def _on_streams(path: Path) -> list[dict[str, Any]]:
    """Events on the streams of GPUs, of a profile."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]

    def named(kind: str, *keys: str) -> dict[Any, str]:
        meta = [e for e in events if e.get("ph") == "M" and e.get("name") == kind]
        return {tuple(e[key] for key in keys): e["args"]["name"] for e in meta}

    devices, streams = named("process_name", "pid"), named("thread_name", "pid", "tid")
    return [
        e
        for e in events
        if e.get("ph") == "X"
        and "GPU" in devices.get((e["pid"],), "")
        and "Stream" in streams.get((e["pid"], e["tid"]), "")
    ]


def peers(machine: Machine) -> Iterator[Line]:
    """One constant tree of 64 leaves by what else is installed."""
    one = {"n_estimators": 1, "learning_rate": 1.0}
    lossguide = {"max_leaves": 64, "max_depth": 0, "grow_policy": "lossguide"}
    deep = {"depth": 6, "verbose": 0, "allow_writing_files": False}
    for n_rows in machine.sizes(1_000_000, 10_000_000):
        X, y = (np.asarray(a) for a in make_fried(n_rows, random_state=0, device="cpu"))
        where = ("cuda", "GPU") if machine.platform != "cpu" else ("cpu", "CPU")
        several = {
            "lightgbm": ("LGBMRegressor", one | {"num_leaves": 64, "verbose": -1}),
            "xgboost": ("XGBRegressor", one | lossguide | {"device": where[0]}),
            "catboost": ("CatBoostRegressor", one | deep | {"task_type": where[1]}),
        }
        for package, (name, options) in several.items():
            if importlib.util.find_spec(package):
                model = getattr(importlib.import_module(package), name)(**options)
                yield _fitted(package, model, X, y, machine)


def crossing(machine: Machine) -> Iterator[Line]:
    """Fits of rows of the host on both sides: from which size on the device wins."""
    fewest = None
    for n_rows in machine.sizes(4096, 16_384, 65_536, 131_072, 262_144, 524_288):
        X, y = make_fried(n_rows, random_state=0)
        sides = []
        for name in ("cpu", machine.platform):
            model = SecretRegressor(random_state=0, device=name)
            sides.append(_first_and_later(functools.partial(model.fit, X, y)))
            yield Line(f"default on {name}", f"{n_rows:,} x 10", *sides[-1])
        wins = sides[1][1] < sides[0][1]
        fewest = (fewest or n_rows) if wins else None
    note = f"from {fewest:,} rows on" if fewest else "at none of these sizes"
    note += f"; device=None: from {FEW_ROWS + 1:,} (FEW_ROWS of runtime/devices.py)"
    yield Line(f"{machine.platform} wins", "", None, None, note)


STAGES: dict[str, Stage] = {
    stage.__name__: stage
    for stage in (ceilings, em, crossing, fits, predictions, busy, peers)
}
