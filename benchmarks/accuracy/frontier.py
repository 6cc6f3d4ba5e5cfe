"""Error against the numbers that a reader has to read, on tables as people bring them.

Ours along ``equation_tolerance`` and ``pruning_tolerance``, beside other models that
can be read, and boosted trees, which cannot, as the error to reach.
`benchmarks/README.md` says more.

    python -m benchmarks.accuracy.frontier --data FOLDER --tables saratoga sacramento
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.accuracy.data import TABLES, named_source
from benchmarks.accuracy.grid import fit_all
from benchmarks.accuracy.ours import VARIANTS, Setting, candidate_of
from benchmarks.accuracy.peers import peers
from benchmarks.accuracy.report import FLOOR, Results
from benchmarks.shared import (
    code_version,
    markdown,
    new_figure,
    save_figure,
    styles,
    told_in_words,
    whole_number,
)
from secret_jax import SecretRegressor


class Point(NamedTuple):
    """A model on a table, or on all of them: mean error, mean numbers to read."""

    error: float
    numbers: float

    def __str__(self) -> str:
        return f"{self.error:.4f} / {self.numbers:.0f}"


def _along(name: str, *values: float) -> dict[str, Setting]:
    """The default with other values of a parameter; its own is among them."""
    own = getattr(SecretRegressor(), name)
    return {
        "default" if value == own else f"{name} {value:g}": Setting(
            {} if value == own else {name: value}
        )
        for value in sorted({*values, own})
    }


_TERSE = _along("equation_tolerance", 0.0, 0.01, 0.03, 0.05, 0.1)
_SHORT = _along("pruning_tolerance", 0.0, 0.025, 0.05, 0.1, 0.2)
_ACCURATE = {
    "pruning_tolerance 0": _SHORT["pruning_tolerance 0"],
    "accurate": VARIANTS["accurate"],
}
LINES: Mapping[str, Mapping[str, Setting]] = {
    "ours along equation_tolerance": _TERSE,
    "ours along pruning_tolerance": _SHORT,
    "ours accurate, hard and with gates": _ACCURATE,
}
OURS = {name: setting for line in LINES.values() for name, setting in line.items()}
READABLE = ("cubist", "cubist_on_text", "cart", "pilot", "ridge")
HORIZON = "lightgbm_refitted"
ALL = "all tables"


def points(results: Results) -> dict[str, dict[str, Point]]:
    """Of every model by table; `ALL` has geometric means, where it has every table."""
    found: dict[str, dict[str, Point]] = {}
    for model in results.models:
        of_tables = found[model] = {
            name: Point(
                float(np.mean(errors)),
                float(np.mean(results.values(model, name, "numbers") or [math.nan])),
            )
            for name in results.sets
            if (errors := results.values(model, name))
        }
        if len(of_tables) == len(results.sets):
            errors, numbers = np.array(list(of_tables.values())).T
            logs = np.log(np.maximum(errors, FLOOR)), np.log(numbers)
            of_tables[ALL] = Point(*(float(np.exp(log.mean())) for log in logs))
    return found


def frontier_table(results: Results) -> str:
    """Error / numbers, a line per model, a column per table."""
    tables = [*results.sets, ALL]
    lines = [["error / numbers", *tables]]
    for model, of_tables in points(results).items():
        cells = [str(of_tables[name]) if name in of_tables else "-" for name in tables]
        lines.append([model, *cells])
    return markdown(lines)


def draw(results: Results, path: Path) -> None:
    """Panels on log axes, one for each table and, of several, one for all."""
    found, names = points(results), list(results.sets)
    names += [ALL] * (len(names) > 1)
    n_columns = min(len(names), 3)
    figure, axes = new_figure(
        -(-len(names) // n_columns), n_columns, width=4.6, height=3.7
    )
    for axis, name in zip(axes.flat, names, strict=False):
        _draw_panel(axis, name, {m: of[name] for m, of in found.items() if name in of})
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    limits = [axis.get_xlim() for axis in axes.flat[: len(names)]]
    for axis in axes.flat:
        axis.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))
    # Of all panels: a model that lacks a table is not in the last one.
    handles = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": 5}
    figure.legend(list(handles.values()), list(handles), frameon=False, **place)
    save_figure(figure, path)


def _draw_panel(axis: Any, title: str, of_models: Mapping[str, Point]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    along = {line: list(models) for line, models in LINES.items()}
    along |= {model: [model] for model in READABLE}
    looks = styles([*LINES, HORIZON, *READABLE])
    for line, models in along.items():
        here = [of_models[model] for model in models if model in of_models]
        if here:
            errors, numbers = zip(*here, strict=True)
            look = looks[line] | {"linestyle": "-", "linewidth": 1.2}
            size = 5 if line in LINES else 8
            axis.plot(numbers, errors, label=line, markersize=size, **look)
    ring = {"markersize": 12, "markerfacecolor": "none", "color": "black"}
    for model, marker in {"default": "o", "accurate": "s"}.items():
        if model in of_models:
            error, numbers = of_models[model]
            label = "ours by default" if model == "default" else "ours accurate"
            ring |= {"marker": marker, "linestyle": "none", "label": label}
            axis.plot([numbers], [error], **ring)
    if HORIZON in of_models:
        error, numbers = of_models[HORIZON]
        colour = looks[HORIZON]["color"]
        axis.axhline(error, color=colour, linestyle="--", label=HORIZON)
        where = {"xy": (0, error), "xycoords": ("axes fraction", "data")}
        where |= {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 8}
        axis.annotate(f"{numbers:,.0f} numbers", **where)
    axis.set(xscale="log", yscale="log", title=title)
    axis.set(xlabel="numbers to read", ylabel="test MSE / variance")
    for side, marks in ((axis.xaxis, (1, 3)), (axis.yaxis, (1, 1.5, 2, 3, 4, 5, 7))):
        side.set_major_locator(LogLocator(subs=marks))
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        side.set_minor_formatter(NullFormatter())


@told_in_words()
def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing fits, print the table and draw the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.frontier",
        description=(__doc__ or "").splitlines()[0],
    )
    add = parser.add_argument
    add("--data", help="folder of CSV files; else SECRET_JAX_DATA")
    add("--tables", nargs="+", default=list(TABLES), metavar="TABLE", help="names")
    add("--splits", type=whole_number, default=2, help="80 %% train, 20 %% test")
    add("--threads", type=whole_number, help="of LightGBM; all by default")
    add("--out", type=Path, default=Path("results/frontier.jsonl"), help="JSON lines")
    add("--picture", type=Path, help="PNG; by default beside --out")
    add("--summary-only", action="store_true", help="fit nothing, print the table")
    options = parser.parse_args(arguments)
    own = [candidate_of(name, it, held_out=False) for name, it in OURS.items()]
    found = fit_all(
        [named_source(name, options.data, 0) for name in options.tables],
        [*peers([*READABLE, HORIZON], options.threads), *own],
        options.splits,
        options.out,
        together=1,
        summary_only=options.summary_only,
    )
    results = Results(found).complete()
    print(f"Code {code_version()}. Test MSE over the variance / numbers to read.\n")
    print(frontier_table(results))
    picture = options.picture or options.out.with_suffix(".png")
    draw(results, picture)
    print(f"\nPicture: {picture}")


if __name__ == "__main__":
    main()
