"""The pictures of scaling: time beside rows, and time beside error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.plots import new_figure, save, styles
from benchmarks.scaling.report import Record, medians

_TITLES = {
    "3dsin": "3DSin, 2 columns",
    "fried": "Fried, 10 columns",
}


def draw(records: Sequence[Record], path: Path) -> None:
    """Growth beside the searches above, whole fits beside the peers below."""
    from matplotlib.lines import Line2D

    times = medians(records)
    sets = list(dict.fromkeys(record.set for record in records))
    models = list(dict.fromkeys(record.model for record in records))
    upper = [m for m in models if "growth" in m or m in ("exhaustive", "sampled")]
    halves = {
        "growth of a tree alone": upper,
        "whole fits": [model for model in models if model not in upper],
    }
    figure, axes = new_figure(len(halves), len(sets), width=6.4)
    for line, (title, names) in zip(axes, halves.items(), strict=True):
        style = styles(names)
        for axis, name in zip(line, sets, strict=True):
            for model in names:
                found = times.get((name, model))
                if found:
                    axis.plot(
                        list(found),
                        list(found.values()),
                        label=model,
                        markersize=5,
                        **style[model]._asdict(),
                    )
            axis.set(xscale="log", yscale="log")
            axis.set_title(f"{_TITLES[name]}: {title}", fontsize=10)
            axis.set_xlabel("training rows")
            axis.set_ylabel("time (s, median)")
        shown = [name for name in names if any((s, name) in times for s in sets)]
        lines = [Line2D([], [], label=m, **style[m]._asdict()) for m in shown]
        line[-1].legend(
            handles=lines,
            loc="upper left",
            bbox_to_anchor=(1.02, 1),
            fontsize=8,
            frameon=False,
        )
    save(figure, path)


def draw_million(records: Sequence[Record], path: Path) -> None:
    """One point for every model: how long it takes and how far it is off."""
    sizes = sorted({record.rows for record in records})
    style = styles(list(dict.fromkeys(record.model for record in records)))
    figure, axes = new_figure(1, len(sizes))
    for axis, n_rows in zip(axes[0], sizes, strict=True):
        for r in records:
            if r.rows == n_rows and math.isfinite(r.median) and r.mse is not None:
                look = style[r.model]
                axis.plot(
                    r.median,
                    r.mse,
                    color=look.color,
                    marker=look.marker,
                    linestyle="none",
                    markersize=9,
                    label=r.model,
                )
        axis.axhline(1.0, color="#7F7F7F", linewidth=1, label="variance of the noise")
        axis.set(xscale="log", yscale="log")
        axis.set_title(f"Friedman #1, {n_rows:,} rows, 10 columns", fontsize=10)
        axis.set_xlabel("time of a fit (s, median)")
        axis.set_ylabel("test mean squared error (target units squared)")
        axis.legend(fontsize=8, frameon=False)
    save(figure, path)
