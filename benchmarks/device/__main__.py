"""An accelerator in ten minutes: fits, predictions, EM beside what the device can do.

One command; data are made on the device. What does not fit its memory, or the time
that is left, is skipped and said to be. `benchmarks/README.md` says more.
"""

from __future__ import annotations

import argparse
import inspect
import json
import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.device.rates import copy_rate, em_rate, friedman_on, product_rate
from benchmarks.plots import Style, new_figure, save, styles
from benchmarks.scaling.memory import available_bytes
from benchmarks.shared import markdown, say, whole_number
from secret_jax import SecretRegressor
from secret_jax.tree.structure import SplitKind, Tree

# A fit holds the rows on the device so many times over, and numbers on the host.
_DEVICE_COPIES, _HOST_NUMBERS = 4, 8
_TEST_ROWS = 100_000
# Least seconds for a step that nothing is known of.
_LEAST = 20.0


class Size(NamedTuple):
    """Rows and columns of a fit."""

    rows: int
    columns: int

    def __str__(self) -> str:
        return f"{self.rows:,} x {self.columns}"


class Timer:
    """How much of the time allowed is left."""

    def __init__(self, minutes: float):
        self._end = time.monotonic() + 60 * minutes

    @property
    def left(self) -> float:
        """Seconds; negative when it is over."""
        return self._end - time.monotonic()


def chosen_device(name: str | None) -> Any:
    """The device that was asked for; None if nothing was and there is only the CPU."""
    if name is None:
        device = jax.devices()[0]
        return None if device.platform == "cpu" else device
    try:
        return jax.devices(name)[0]
    except RuntimeError as error:
        seen = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise SystemExit(
            f"--device {name}: JAX sees no such device, only {seen}."
        ) from error


def free_bytes(device: Any) -> int:
    """Memory of the device that is not in use; the host's for the CPU."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    if not stats or "bytes_limit" not in stats:
        return available_bytes()
    return stats["bytes_limit"] - stats.get("bytes_in_use", 0)


def why_not(size: Size, device: Any) -> str:
    """Why a size cannot be fitted here; empty if it can."""
    needs = {
        "device": (4 * _DEVICE_COPIES * size.rows * size.columns, free_bytes(device)),
        "host": (8 * _HOST_NUMBERS * size.rows, available_bytes()),
    }
    for place, (needed, free) in needs.items():
        if needed > free:
            return (
                f"needs about {needed / 1e9:.1f} GB on the {place}, "
                f"{free / 1e9:.1f} GB are free"
            )
    return ""


def make_model(device: Any) -> tuple[SecretRegressor, Any]:
    """An estimator for a device, and the context in which it computes there."""
    if "device" in inspect.signature(SecretRegressor).parameters:
        number = jax.devices(device.platform).index(device)
        named: Any = {"device": f"{device.platform}:{number}"}
        return SecretRegressor(random_state=0, **named), nullcontext()
    return SecretRegressor(random_state=0), jax.default_device(device)


def timed_fit(
    device: Any, X: Any, y: np.ndarray, repeats: int, timer: Timer
) -> tuple[SecretRegressor, dict[str, Any]]:
    """Fit several times: the model, and the first and the median of further times."""
    times = []
    model, context = make_model(device)
    with context:
        for _ in range(repeats + 1):
            started = time.perf_counter()
            model.fit(X, y)
            times.append(time.perf_counter() - started)
            if timer.left < times[-1]:
                break
    warm = times[1:]
    return model, {
        "first": times[0],
        "seconds": statistics.median(warm) if warm else None,
        "calls": len(times),
        "leaves": model.n_leaves_,
    }


def fit_point(
    size: Size, device: Any, other: Any, repeats: int, timer: Timer, cpu_largest: int
) -> tuple[list[dict[str, Any]], SecretRegressor]:
    """Fits of one size, on the device and, where it is small enough, on the CPU."""
    X, target = friedman_on(device, *size, seed=0)
    y = np.asarray(target, np.float64)
    del target
    X_test, y_test = (
        np.asarray(a) for a in friedman_on(device, _TEST_ROWS, size.columns, seed=1)
    )
    points = []

    def add(where: Any, rows: Any, place: str) -> SecretRegressor:
        model, found = timed_fit(where, rows, y, repeats, timer)
        error = float(np.mean((model.predict(X_test) - y_test) ** 2))
        point = {**size._asdict(), "where": where.platform, "data": place}
        points.append({**point, **found, "mse": error})
        shown = found["seconds"] or found["first"]
        say(f"{size} on {where.platform}, rows on the {place}: {shown:.3g} s")
        return model

    try:
        model = add(device, X, "device")
    except (TypeError, ValueError) as error:
        say(f"Rows on the device are not taken ({error}); they go by way of the host.")
        model = add(device, np.asarray(X), "host")
    if other is not None and size.rows <= cpu_largest and timer.left > _LEAST:
        add(other, np.asarray(X), "host")
    return points, model


def with_gates(tree: Tree) -> Tree:
    """The tree with every continuous split as a gate, for the rate alone."""
    linear = (tree.kind == SplitKind.AXIS) | (tree.kind == SplitKind.OBLIQUE)
    width = np.where(linear, 0.1, 0.0).astype(tree.gate_width.dtype)
    return replace(tree, gate_width=width)


def prediction_rates(
    model: SecretRegressor, device: Any, n_rows: int, repeats: int
) -> list[dict[str, Any]]:
    """Rows a second, hard and soft, of rows on the device and on the host."""
    X, _ = friedman_on(device, n_rows, len(model.tree_.schema.names), seed=2)
    found, hard = [], model.tree_
    for kind, tree in (("hard", hard), ("soft", with_gates(hard))):
        model.tree_ = tree
        for place, rows in (("device", X), ("host", np.asarray(X))):
            times = []
            try:
                for _ in range(repeats + 1):
                    started = time.perf_counter()
                    model.predict(rows)
                    times.append(time.perf_counter() - started)
            except (TypeError, ValueError) as error:
                say(f"No {kind} prediction of rows on the {place}: {error}")
                continue
            rate = n_rows / statistics.median(times[1:])
            point = {
                "kind": kind,
                "data": place,
                "rows": n_rows,
                "leaves": tree.n_leaves,
            }
            found.append({**point, "rows_per_second": rate})
            say(f"{kind} prediction, rows on the {place}: {rate / 1e6:.3g} M rows/s")
    model.tree_ = hard
    return found


def measured(options: argparse.Namespace, device: Any) -> dict[str, Any]:
    """Everything the command finds out, as JSON."""
    timer = Timer(options.minutes)
    cpu = jax.devices("cpu")[0]
    other = None if device.platform == "cpu" else cpu
    ceilings, em = {}, []
    for where in [device] if other is None else [device, other]:
        small = where.platform == "cpu"
        ceilings[where.platform] = {
            "flops": product_rate(where, options.product or (1024 if small else 8192)),
            "bytes_per_second": copy_rate(where, (1 << 26) if small else (1 << 30)),
        }
        shape = (options.em_nodes or (8 if small else 64), options.em_rows, 10, 20)
        em.append({"where": where.platform, **em_rate(where, *shape)})
        say(f"EM on {where.platform}: {em[-1]['row_steps_per_second']:.3g} row steps/s")
    fits, skipped, predictions = [], {}, []
    per_number = 0.0  # seconds of a later call for a number in the table
    for size in options.sizes:
        reason = why_not(size, device)
        # Two calls at least, and what compiles.
        guess = 2 * per_number * size.rows * size.columns + _LEAST
        if not reason and timer.left < guess:
            reason = f"about {guess:.0f} s needed, {max(timer.left, 0):.0f} s are left"
        if reason:
            say(f"{size} is skipped: {reason}")
            skipped[str(size)] = reason
            continue
        try:
            points, model = fit_point(
                size, device, other, options.repeats, timer, options.cpu_largest
            )
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            skipped[str(size)] = str(error).splitlines()[0]
            say(f"{size} failed: {skipped[str(size)]}")
            continue
        fits += points
        later = points[0]["seconds"] or points[0]["first"]
        per_number = later / (size.rows * size.columns)
        if not predictions and timer.left > _LEAST:
            predictions = prediction_rates(
                model, device, options.predict_rows, options.repeats
            )
    stats = device.memory_stats() if device.platform != "cpu" else None
    return {
        "device": device.device_kind,
        "platform": device.platform,
        "jax": jax.__version__,
        "ceilings": ceilings,
        "em": em,
        "fits": fits,
        "predictions": predictions,
        "skipped": skipped,
        "peak_device_bytes": (stats or {}).get("peak_bytes_in_use"),
    }


def report(found: dict[str, Any]) -> str:
    """The tables, as Markdown."""
    fits = [
        ["rows", "columns", "on", "data on", "first, s", "later, s", "leaves", "MSE"]
    ]
    for fit in found["fits"]:
        later = "-" if fit["seconds"] is None else f"{fit['seconds']:.3g}"
        cells = [f"{fit['rows']:,}", str(fit["columns"]), fit["where"], fit["data"]]
        cells += [f"{fit['first']:.3g}", later, str(fit["leaves"]), f"{fit['mse']:.4g}"]
        fits.append(cells)
    rates = [["prediction", "data on", "rows", "leaves", "million rows/s"]]
    for point in found["predictions"]:
        numbers = [f"{point['rows']:,}", str(point["leaves"])]
        rate = f"{point['rows_per_second'] / 1e6:.3g}"
        rates.append([point["kind"], point["data"], *numbers, rate])
    em = [["EM on", "million row steps/s", "GFLOP/s", "of the product's", "copy, GB/s"]]
    for point in found["em"]:
        ceiling = found["ceilings"][point["where"]]
        share = 100 * point["flops"] / ceiling["flops"]
        cells = [point["where"], f"{point['row_steps_per_second'] / 1e6:.4g}"]
        cells += [f"{point['flops'] / 1e9:.4g}", f"{share:.2g} %"]
        em.append([*cells, f"{ceiling['bytes_per_second'] / 1e9:.4g}"])
    parts = [f"{found['device']}, JAX {found['jax']}.", markdown(fits)]
    if len(rates) > 1:
        parts.append(markdown(rates))
    parts.append(markdown(em))
    parts += [f"{size} was skipped: {why}." for size, why in found["skipped"].items()]
    return "\n\n".join(parts)


def draw(found: dict[str, Any], path: Path) -> None:
    """Fits on the left, EM beside the ceiling on the right."""
    figure, (axes,) = new_figure(1, 2, width=6.2)
    names = list(dict.fromkeys(Size(f["rows"], f["columns"]) for f in found["fits"]))
    platforms = list(found["ceilings"])
    look = styles([*platforms, "one large float32 product", "EM, matrix products"])
    for platform in platforms:
        fits = [fit for fit in found["fits"] if fit["where"] == platform]
        places = [names.index(Size(fit["rows"], fit["columns"])) for fit in fits]
        seconds = [fit["seconds"] or fit["first"] for fit in fits]
        _points(axes[0], seconds, places, platform, look)
    axes[0].set_yticks(range(len(names)), [str(name) for name in names])
    axes[0].set_ylim(-0.5, max(len(names), 1) - 0.5)
    axes[0].set(xlabel="time of a fit (s, median)", ylabel="rows x columns")
    ceilings = [found["ceilings"][point["where"]] for point in found["em"]]
    for label, points in (
        ("EM, matrix products", found["em"]),
        ("one large float32 product", ceilings),
    ):
        rates = [point["flops"] / 1e9 for point in points]
        _points(axes[1], rates, list(range(len(rates))), label, look)
    axes[1].set_yticks(range(len(found["em"])), [p["where"] for p in found["em"]])
    axes[1].set_ylim(-0.5, len(found["em"]) - 0.5)
    axes[1].set(xlabel="rate (GFLOP/s)", ylabel="device")
    for axis in axes:
        if any(len(line.get_xdata()) for line in axis.lines):
            axis.set_xscale("log")
            axis.legend(fontsize=8, frameon=False)
    figure.suptitle(found["device"], fontsize=10)
    save(figure, path)


def _points(
    axis: Any, x: list[float], y: list[int], label: str, look: dict[str, Style]
) -> None:
    """Points without lines: on an axis of logarithms a bar would have no length."""
    style = look[label]._replace(linestyle="none")
    axis.plot(x, y, label=label, markersize=9, **style._asdict())


def _size(text: str) -> Size:
    rows, _, columns = text.partition("x")
    size = Size(whole_number(rows), whole_number(columns))
    if size.columns < 5:
        raise argparse.ArgumentTypeError(f"{text!r}: the function needs five columns")
    return size


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.device",
        description="Fits, predictions and EM on the accelerator that JAX finds.",
    )
    add = parser.add_argument
    sizes = [Size(1_000_000, 10), Size(10_000_000, 10)]
    sizes += [Size(1_000_000, 100), Size(100_000_000, 10)]
    add("--device", choices=("cpu", "gpu", "tpu"), help="else the one that JAX prefers")
    add("--sizes", nargs="+", type=_size, default=sizes, help="like 1000000x10")
    add("--repeats", type=whole_number, default=3, help="timed calls after the first")
    add("--minutes", type=float, default=9.0, help="what does not fit is skipped")
    add("--cpu-largest", type=whole_number, default=10_000_000, help="rows, on the CPU")
    add("--predict-rows", type=whole_number, default=10_000_000)
    add("--em-nodes", type=whole_number, help="64, or 8 on the CPU")
    add("--em-rows", type=whole_number, default=2048, help="of every node")
    add("--product", type=whole_number, help="side of the large matrices")
    add("--out", type=Path, default=Path("results/device.json"))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the tables, write JSON and picture."""
    options = parse_options(arguments)
    device = chosen_device(options.device)
    if device is None:
        print(
            "There is no accelerator here: JAX sees the CPU alone. Nothing was "
            "measured. --device cpu --sizes 100000x10 measures the CPU."
        )
        return
    found = measured(options, device)
    print(report(found))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    draw(found, options.out.with_suffix(".png"))
    say(f"The picture is {options.out.with_suffix('.png')}.")


if __name__ == "__main__":
    main()
