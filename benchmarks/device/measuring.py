"""What a device does: its ceilings, EM and histograms beside them, fits, and peers.

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
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.shared import markdown, say
from benchmarks.timing import timed
from secret_jax import SecretBoostingRegressor, SecretForestRegressor, SecretRegressor
from secret_jax.data import kernels
from secret_jax.data.tiles import TiledRows
from secret_jax.datasets import make_fried
from secret_jax.runtime.devices import in_32_bits, runs_triton
from secret_jax.splits.mixture import MixtureRows, fit_mixtures, moments_of

_TILE = 256
_STEPS = 20  # of EM in a call


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
    later: float
    note: str = ""

    def cells(self, stage: str) -> list[str]:
        """As they stand in the table."""
        first = "" if self.first is None else _short(self.first)
        return [stage, self.what, self.size, first, _short(self.later), self.note]


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


def _short(seconds: float) -> str:
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
    """Steps of EM, each beside a reading of its rows; by kernels at any width."""
    rate = _bandwidth(machine)[0]
    cases = [(1024, 2048, 11), (64, 1 << 16, 11)]
    cases += [(64, 1 << 14, width) for width in (11, 31, 63, 127)]
    for n_nodes, n_rows, width in [(4, 256, 5)] if machine.small else cases:
        known, start = _mixture_rows(machine, n_nodes, n_rows, width)
        n_bytes = known.z.nbytes + known.weight.nbytes
        for triton in (False, True) if runs_triton(machine.device) else (False,):
            rows = replace(known.rows, triton=triton)
            steps = functools.partial(_em_steps, known._replace(rows=rows), start)
            with mock.patch.object(kernels, "MOST_BY_BLOCKS", 1 + width):
                first, later = _first_and_later(steps)
            what = f"{_STEPS} steps of EM, {n_nodes:,} nodes"
            what += ", by kernels" if triton else ""
            share = n_bytes * _STEPS / later / rate
            note = f"{_of_a_step(later)}, {share:.2f} of the bandwidth of a copy"
            yield Line(what, f"{n_nodes * n_rows:,} x {width}", first, later, note)


def _of_a_step(seconds: float) -> str:
    return f"{1e6 * seconds / _STEPS:,.0f} µs a step"


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


def histograms(machine: Machine) -> Iterator[Line]:
    """Sums below the cuts of columns, by node: what searches of splits are made of."""
    n_nodes, n_rows, width = (4, 256, 3) if machine.small else (64, 1 << 14, 10)
    known, _ = _mixture_rows(machine, n_nodes, n_rows, width)
    with jax.default_device(machine.device), in_32_bits():
        edges = jnp.linspace(-2.0, 2.0, 16)
        cuts = jnp.broadcast_to(edges, (n_nodes, width, 16))
        for n_moments in (3, width + 1):

            @jax.jit
            def below(known: MixtureRows, cuts: jax.Array, n: int = n_moments) -> Any:
                z, weight = known.z, known.weight
                return known.rows.moments_below(z[:, 1:], cuts, z[:, :n], weight)

            first, later = _first_and_later(functools.partial(below, known, cuts))
            what = f"{n_moments} moments below 16 cuts, {n_nodes} nodes"
            yield Line(what, f"{n_nodes * n_rows:,} x {width}", first, later)


def fits(machine: Machine) -> Iterator[Line]:
    """The default and the paper's method, on rows that lie on the device."""
    name = machine.platform
    default = SecretRegressor(random_state=0, device=name)
    paper = SecretRegressor.paper(oblique=True, random_state=0)
    paper = paper.set_params(device=name)
    for what, model, sizes in (
        ("default", default, (4000, 131_072, 1_000_000, 10_000_000, 100_000_000)),
        ("paper", paper, (131_072, 524_288, 4_194_304, 33_554_432)),
    ):
        for n_rows in machine.sizes(*sizes):
            X, y = make_fried(n_rows, random_state=0, device=name)
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


def learners(machine: Machine) -> Iterator[Line]:
    """Gates, a booster and a forest."""
    places = {"random_state": 0, "device": machine.platform}
    for n_rows in machine.sizes(100_000):
        X, y = make_fried(n_rows, random_state=0, device=machine.platform)
        for what, model in (
            ("gates", SecretRegressor(refine="soft", **places)),
            ("booster", SecretBoostingRegressor(**places)),
            ("forest", SecretForestRegressor(**places)),
        ):
            yield _fitted(what, model, X, y, machine)


def predictions(machine: Machine) -> Iterator[Line]:
    """Predictions that stay on the device."""
    model = SecretRegressor(random_state=0, device=machine.platform)
    for n_rows in machine.sizes(1_000_000, 10_000_000):
        X, y = make_fried(n_rows, random_state=0, device=machine.platform)
        model.fit(X, y)
        predict = functools.partial(model.predict, X, output="device")
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
    """One constant tree of 64 leaves by what else is installed, and EM in PyTorch."""
    one = {"n_estimators": 1, "learning_rate": 1.0}
    for n_rows in machine.sizes(1_000_000, 10_000_000):
        X, y = (np.asarray(a) for a in make_fried(n_rows, random_state=0, device="cpu"))
        where = ("cuda", "GPU") if machine.platform != "cpu" else ("cpu", "CPU")
        several = {
            "lightgbm": ("LGBMRegressor", one | {"num_leaves": 64, "verbose": -1}),
            "xgboost": (
                "XGBRegressor",
                one
                | {"max_leaves": 64, "max_depth": 0, "device": where[0]}
                | {"grow_policy": "lossguide"},
            ),
            "catboost": (
                "CatBoostRegressor",
                one
                | {"depth": 6, "verbose": 0, "task_type": where[1]}
                | {"allow_writing_files": False},
            ),
        }
        for package, (name, options) in several.items():
            if importlib.util.find_spec(package):
                model = getattr(importlib.import_module(package), name)(**options)
                yield _fitted(package, model, X, y, machine)
    if importlib.util.find_spec("torch"):
        yield from _em_in_torch(machine)


def _em_in_torch(machine: Machine) -> Iterator[Line]:
    """Plain batched steps of EM: what one would write for nodes of equal size."""
    torch: Any = importlib.import_module("torch")

    n_nodes, n_rows, width = (4, 256, 5) if machine.small else (1024, 2048, 11)
    where = "cuda" if machine.platform != "cpu" else "cpu"
    x = torch.randn(n_nodes, n_rows, width, device=where)
    share = (x[..., :1] > 0).float()
    share = torch.stack([share, 1 - share], 1)[..., 0]  # (n_nodes, 2, n_rows)

    def step(share: Any) -> Any:
        mass = share.sum(-1, keepdim=True)
        mean = share @ x / mass
        apart = x[:, None] - mean[:, :, None]
        weighted = share[..., None] * apart
        covariance = weighted.mT @ apart / mass[..., None]
        covariance = covariance + 1e-6 * torch.eye(width, device=where)
        factor = torch.linalg.cholesky(covariance)
        scaled = torch.linalg.solve_triangular(factor, apart.mT, upper=False)
        logarithm = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)[..., None]
        density = mass.log() - logarithm - 0.5 * (scaled**2).sum(-2)
        return torch.softmax(density, 1)

    def steps() -> None:
        found = share
        for _ in range(_STEPS):
            found = step(found)
        float(found[0, 0, 0])  # wait for it

    first, later = _first_and_later(steps)
    what = f"{_STEPS} steps of EM, {n_nodes:,} nodes, PyTorch"
    size = f"{n_nodes * n_rows:,} x {width}"
    yield Line(what, size, first, later, _of_a_step(later))


STAGES: dict[str, Stage] = {
    stage.__name__: stage
    for stage in (ceilings, em, histograms, fits, learners, predictions, busy, peers)
}
