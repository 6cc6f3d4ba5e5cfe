"""Time of a fit by stage, beside the floor: one pass that forms a Gram matrix.

The stages are functions of the package that are wrapped from outside while the fit
runs; the package itself holds no clock. A stage's time is its own: what it spends in
another stage counts there.

    python -m benchmarks.scaling.stages --rows 1000000
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.plots import COLOURS, new_figure, save
from benchmarks.scaling.models import machine
from benchmarks.shared import markdown, randomness_of, say, whole_number
from secret_jax import SecretRegressor
from secret_jax.datasets import make_fried

_COMPILED = "/jax/core/compile/backend_compile_duration"
_COMPILING = (
    _COMPILED,
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
)
REST = "everything else"


class Stage(NamedTuple):
    """Functions that make up one stage.

    Attributes
    ----------
    name : str
    places : tuple of str
        "module:function" or "module:Class.method", where the caller looks them up.
    within : str
        The stage has another name, or none, when it runs outside of this one.
    """

    name: str
    places: tuple[str, ...]
    within: str = ""


_ESTIMATOR, _FIT = "secret_jax.estimators.regressor:", "secret_jax.fit.pipeline:"
_PREPARE = "secret_jax.fit.prepare:"
_BASE, _SHARDED = "secret_jax.estimators.base:", "secret_jax.data.sharded:"
_SOURCE, _FITTING = "secret_jax.data.source:", "secret_jax.models.fitting:"
_SEARCH, _GROWER = "secret_jax.grow.search:", "secret_jax.grow.grower:"
_BINNED = "secret_jax.grow.binned:"
_TREES, _DISTILLATION = "secret_jax.grow.trees:", "secret_jax.fit.refine.distillation:"
_GROWING = "rest of growing"
_PRUNING, _DISTILLING, _REFINING = "prune", "distill", "refine"
_RULES = {
    "hold_out": ("HoldOut",),
    "cross_validation": ("CrossValidation",),
    "criteria": ("InformationCriterion",),
    "cost_complexity": ("CostComplexity", "Unpruned"),
}


def _stage(name: str, module: str, *functions: str, within: str = "") -> Stage:
    return Stage(name, tuple(module + function for function in functions), within)


STAGES = (
    _stage(
        "read and validate",
        _ESTIMATOR,
        *("validated_targets", "names_of"),
    ),
    _stage("read and validate", _BASE, "validated", "checked_weight"),
    _stage("read and validate", _PREPARE, "read_rows"),
    _stage("encode", _PREPARE, "encode"),
    _stage("encode", _SOURCE, "encoded"),
    _stage("shuffle and sample", _SOURCE, "HostRows.sample", "EncodedRows.sample"),
    _stage("shuffle and sample", _SHARDED, "ShardedRows.sample"),
    _stage("shuffle and sample", _FIT, "divided"),
    _stage("shuffle and sample", "secret_jax.fit.refine.interface:", "Fitted.all_rows"),
    _stage("shuffle and sample", _DISTILLATION, "shuffled"),
    _stage("search (EM, splits, scores)", _SEARCH, "BatchSearch.find"),
    _stage("search (EM, splits, scores)", _BINNED, "BinnedSearch.find"),
    _stage(
        "models of the searched nodes",
        "secret_jax.grow.node_models:",
        "NodeModels.fitted",
    ),
    _stage("partition on the host", _GROWER, "divide", "descend"),
    _stage("rest of the level loop", _TREES, "grown"),
    _stage("routing while growing", _FITTING, "apply", "descend", within=_GROWING),
    _stage(
        "statistics while growing",
        _FITTING,
        *("_sums", "node_statistics"),
        within=_GROWING,
    ),
    _stage("statistics while growing", _FIT, "node_statistics", within=_GROWING),
    _stage("models of the nodes", _TREES, "fit_models"),
    _stage("models of the nodes", _FIT, "fit_models"),
    _stage(_GROWING, _TREES, "Recipe.grow"),
    *(
        _stage(_PRUNING, f"secret_jax.fit.prune.{module}:", f"{rule}.__call__")
        for module, rules in _RULES.items()
        for rule in rules
    ),
    _stage(_PRUNING, _FIT, "of_size"),
    _stage(_PRUNING, _DISTILLATION, "of_size"),
    _stage(_DISTILLING, _DISTILLATION, "Distillation.__call__"),
    _stage(_REFINING, _BASE, "refine_tree"),
)
# What the threads of a search do, added up over them.
THREADS = (
    _stage("gather batches", _SEARCH, "BatchSearch._batch"),
    _stage("find splits", "secret_jax.grow.compiled:", "CompiledSearch._found"),
    _stage("find splits", "secret_jax.grow.in_numpy:", "NumpySearch._found"),
)
# Names of what does not run within the growing of a tree; what pruning, distilling and
# refining route and add up is their own.
FINAL = {
    "routing while growing": "final routing pass",
    "statistics while growing": "final Gram pass",
}
_WITH_PASSES = {_PRUNING, _DISTILLING, _REFINING}


class Clock:
    """Seconds of stages: those of the main thread exclude each other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self.in_threads: dict[str, float] = defaultdict(float)
        self._stack: list[str] = []
        self._since = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def running(self, stage: Stage) -> Iterator[None]:
        """Count what is inside as a stage; only on the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        name = stage.name
        if stage.within and stage.within not in self._stack:
            if _WITH_PASSES.intersection(self._stack):
                yield
                return
            name = FINAL[name]
        self._pass()
        self._stack.append(name)
        self.calls[name] += 1
        try:
            yield
        finally:
            self._pass()
            self._stack.pop()

    def _pass(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def add(self, name: str, seconds: float) -> None:
        """Count seconds of any thread."""
        with self._lock:
            self.in_threads[name] += seconds


@contextmanager
def wrapped(clock: Clock) -> Iterator[list[str]]:
    """Wrap the stages' functions; gives the places that do not exist (any more)."""
    missing: list[str] = []
    with ExitStack() as stack:
        for stage in (*STAGES, *THREADS):
            wrap = _counted if stage in THREADS else _timed
            for place in stage.places:
                owner, name = _owner(place)
                function = getattr(owner, name, None)
                if function is None:
                    missing.append(place)
                    continue
                setattr(owner, name, wrap(function, stage, clock))
                stack.callback(setattr, owner, name, function)
        yield missing


def _owner(place: str) -> tuple[Any, str]:
    module, _, path = place.partition(":")
    *classes, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in classes:
        owner = getattr(owner, part, None)
    return owner, name


def _timed(function: Callable[..., Any], stage: Stage, clock: Clock) -> Any:
    @functools.wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        with clock.running(stage):
            return function(*arguments, **named)

    return timed


def _counted(function: Callable[..., Any], stage: Stage, clock: Clock) -> Any:
    @functools.wraps(function)
    def counted(*arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        result = jax.block_until_ready(function(*arguments, **named))
        clock.add(stage.name, time.perf_counter() - started)
        return result

    return counted


class Compiling(NamedTuple):
    """What JAX compiled: all programs of XLA, whoever asked for them.

    Attributes
    ----------
    programs : int
        Those read from a persistent cache included.
    seconds : float
        Of tracing, lowering and compiling, added up over the threads.
    """

    programs: int
    seconds: float


@contextmanager
def compiling() -> Iterator[Callable[[], Compiling]]:
    """Count what is compiled inside a with block; gives a function that tells."""
    found: list[tuple[str, float]] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event in _COMPILING:
            found.append((event, duration_secs))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield lambda: Compiling(
            sum(event == _COMPILED for event, _ in found),
            sum(seconds for _, seconds in found),
        )
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def profiled(
    fit: Callable[[], Any],
) -> tuple[Clock, float, Compiling, list[str]]:
    """Run a fit with its stages timed: clock, seconds, compiling, missing places."""
    clock = Clock()
    with wrapped(clock) as missing, compiling() as so_far:
        started = time.perf_counter()
        fit()
        seconds = time.perf_counter() - started
        compiled = so_far()
    return clock, seconds, compiled, missing


def floor_seconds(X: np.ndarray, y: np.ndarray, repeats: int = 5) -> float:
    """Median seconds of one product of BLAS that forms the Gram of [x, y], float32."""
    joint = np.column_stack([X, y]).astype(np.float32)
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        _ = joint.T @ joint
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def copy_seconds(X: np.ndarray, repeats: int = 3) -> float:
    """Median seconds of handing the table to the device, float32."""
    rows = X.astype(np.float32)
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        jax.block_until_ready(jax.device_put(rows.copy()))
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def stage_seconds(clock: Clock, total: float) -> dict[str, float]:
    """Seconds by stage in the order of a fit; what no stage holds comes last."""
    order = list(dict.fromkeys(stage.name for stage in STAGES))
    order += list(FINAL.values())
    found = {name: clock.seconds[name] for name in order if clock.calls[name]}
    return {**found, REST: max(total - sum(found.values()), 0.0)}


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Everything the command finds out, as JSON."""
    X, y = _data(options.rows, options.columns)
    parameters = json.loads(options.parameters)

    def model() -> SecretRegressor:
        make = SecretRegressor.paper if options.paper else SecretRegressor
        return make(random_state=0).set_params(**parameters)

    say(f"First fit of {options.rows} x {options.columns}")
    clock, seconds, compiled, missing = profiled(lambda: model().fit(X, y))
    fits = [_as_json("first", clock, seconds, compiled)]
    for repeat in range(options.repeats):
        say(f"Fit {repeat + 2}, warm")
        clock, seconds, compiled, missing = profiled(lambda: model().fit(X, y))
        fits.append(_as_json("warm", clock, seconds, compiled))
    nearby = []
    for share in options.nearby:
        n_rows = max(round(share * options.rows), 10)
        say(f"A fit of {n_rows} other rows")
        rows = _data(n_rows, options.columns)
        with compiling() as so_far:
            started = time.perf_counter()
            model().fit(*rows)
            seconds = time.perf_counter() - started
            programs = so_far().programs
        nearby.append({"rows": n_rows, "seconds": seconds, "programs": programs})
    return {
        "machine": machine(),
        "rows": options.rows,
        "columns": options.columns,
        "paper": options.paper,
        "parameters": parameters,
        "floor_seconds": floor_seconds(X, y),
        "copy_seconds": copy_seconds(X),
        "fits": fits,
        "nearby": nearby,
        "not_found": missing,
    }


def _data(n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    random, _ = randomness_of("profile", n_rows)
    return make_fried(n_rows, n_features=n_columns, random_state=random)


def _as_json(
    name: str, clock: Clock, seconds: float, compiled: Compiling
) -> dict[str, Any]:
    return {
        "fit": name,
        "seconds": seconds,
        "stages": stage_seconds(clock, seconds),
        "thread_seconds": dict(clock.in_threads),
        "programs": compiled.programs,
        "compiling_thread_seconds": compiled.seconds,
    }


def middle(fits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The warm fit with the median time; the first where there is no warm one."""
    warm = [fit for fit in fits if fit["fit"] == "warm"] or list(fits)
    return sorted(warm, key=lambda fit: fit["seconds"])[(len(warm) - 1) // 2]


def report(found: dict[str, Any]) -> str:
    """The tables, as Markdown."""
    first, warm, floor = found["fits"][0], middle(found["fits"]), found["floor_seconds"]
    lines = [["stage", "first fit, s", "warm fit, s", "share of warm", "in floors"]]
    names = dict.fromkeys([*first["stages"], *warm["stages"]])
    names = [name for name in names if name != REST] + [REST]
    for name, seconds in [
        *((name, warm["stages"].get(name, 0.0)) for name in names),
        ("whole fit", warm["seconds"]),
    ]:
        before = first["stages"].get(name, 0.0)
        before = first["seconds"] if name == "whole fit" else before
        share = f"{100 * seconds / warm['seconds']:.1f} %"
        cells = [f"{before:.4f}", f"{seconds:.4f}", share, f"{seconds / floor:.1f}"]
        lines.append([name, *cells])
    threads = [["inside the search, seconds over all threads", "first fit", "warm fit"]]
    for name in dict.fromkeys([*first["thread_seconds"], *warm["thread_seconds"]]):
        pair = (fit["thread_seconds"].get(name, 0.0) for fit in (first, warm))
        threads.append([name, *(f"{seconds:.4f}" for seconds in pair)])
    pair = (fit["compiling_thread_seconds"] for fit in (first, warm))
    threads.append(["tracing and compiling", *(f"{seconds:.4f}" for seconds in pair)])
    programs = [["fit", "rows", "seconds", "programs compiled"]]
    for fit in found["fits"]:
        numbers = [f"{fit['seconds']:.3f}", str(fit["programs"])]
        programs.append([fit["fit"], str(found["rows"]), *numbers])
    for fit in found["nearby"]:
        numbers = [f"{fit['seconds']:.3f}", str(fit["programs"])]
        programs.append(["other data", str(fit["rows"]), *numbers])
    parts = [
        f"{found['rows']} x {found['columns']}, {found['machine']}. Floor (one Gram of "
        f"[x, y] by BLAS, float32): {floor:.4f} s. Handing the table to the device: "
        f"{found['copy_seconds']:.4f} s.",
        markdown(lines),
        markdown(threads),
        markdown(programs),
    ]
    if found["not_found"]:
        parts.append(f"Not found, so not timed: {', '.join(found['not_found'])}.")
    return "\n\n".join(parts)


def draw(found: dict[str, Any], path: Path) -> None:
    """A bar for every stage, first fit and warm fit."""
    first, warm = found["fits"][0], middle(found["fits"])
    names = list(dict.fromkeys([*warm["stages"], *first["stages"]]))[::-1]
    figure, axes = new_figure(1, 1, width=8, height=0.5 * len(names) + 1.6)
    axis, place = axes[0, 0], np.arange(len(names))
    for fit, shift, colour in ((warm, 0.2, COLOURS[0]), (first, -0.2, COLOURS[4])):
        seconds = [fit["stages"].get(name, 0.0) for name in names]
        label = f"{fit['fit']} fit, {fit['seconds']:.2f} s"
        axis.barh(place + shift, seconds, 0.38, color=colour, label=label)
    floor = found["floor_seconds"]
    axis.axvline(floor, color=COLOURS[1], linestyle="--", label="one Gram by BLAS")
    axis.set_xscale("symlog", linthresh=max(floor, 1e-3))
    axis.set_yticks(place, names)
    axis.set_xlabel("time of the stage (s)")
    axis.set_title(f"{found['rows']:,} rows, {found['columns']} columns", fontsize=10)
    axis.legend(fontsize=8, frameon=False)
    save(figure, path)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling.stages",
        description="Time of a fit by stage, and what it compiles.",
    )
    add = parser.add_argument
    add("--rows", type=whole_number, default=1_000_000)
    add("--columns", type=whole_number, default=10, help="at least 5")
    add("--paper", action="store_true", help="SecretRegressor.paper() instead")
    add("--parameters", default="{}", help="further ones, as JSON")
    add("--repeats", type=whole_number, default=3, help="warm fits; the middle counts")
    add(
        "--nearby",
        nargs="*",
        type=float,
        default=[0.9, 0.99, 1.01, 1.1],
        help="further fits of other data, their rows as shares of --rows",
    )
    add("--out", type=Path, default=Path("results/stages.json"))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Profile, print the tables, write JSON and picture."""
    options = parse_options(arguments)
    found = measured(options)
    print(report(found))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    draw(found, options.out.with_suffix(".png"))
    say(f"The picture is {options.out.with_suffix('.png')}.")


if __name__ == "__main__":
    main()
