"""The tables of accuracy: errors, ratios of errors, wins, seconds, leaves.

`benchmarks/README.md` says how to read them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from benchmarks.shared import figure, markdown

FLOOR = 0.001


@dataclass(frozen=True, kw_only=True)
class Run:
    """One fit to make."""

    set: str
    model: str
    seed: int
    data: str  # tells two sets of one name apart
    key: str  # versions and settings of the model


@dataclass(frozen=True, kw_only=True)
class Record(Run):
    """One fit made: mean squared errors on the test part, leaves, seconds."""

    error: float  # over the variance of the target
    mse: float
    leaves: int  # or rules
    seconds: float  # of the clock, pruning and choosing the size included
    # rows, columns: of the training part.
    rows: int
    columns: int
    numbers: int | None = None  # what a reader has to read, where it is counted
    together: int = 1  # fits, of any sets and models, of which the seconds are the mean

    def __str__(self) -> str:
        told = f"{self.set}, {self.model}, seed {self.seed}: error {self.error:.4f}"
        return f"{told}, leaves {self.leaves}, {self.seconds:.1f} s"


class Results:
    """Fits as `benchmarks.accuracy.grid.experiments` returns them."""

    def __init__(self, fits: Any):
        alone = fits.groupby("model")["together"].transform("max") == 1
        self._fits = fits.assign(seconds=fits["seconds"].where(alone))
        self.models: list[str] = list(fits["model"].unique())
        self.sets: list[str] = list(fits["set"].unique())

    def values(self, model: str, name: str, field: str = "error") -> list[float]:
        """One field of a model's fits of a set, where known, by seed."""
        fits = self._fits
        own = fits[(fits["model"] == model) & (fits["set"] == name)]
        return own.sort_values("seed")[field].dropna().astype(float).tolist()

    def _pairs(self, first: str, second: str) -> Any:
        """Errors of two models by set and seed, where both have them."""
        pair = self._fits.pivot(index=["set", "seed"], columns="model", values="error")
        return pandas.DataFrame({"one": pair[first], "two": pair[second]}).dropna()

    def mean_errors(self, first: str, second: str) -> Any:
        """Mean errors of two models, at least `FLOOR`, over the seeds both have."""
        return self._pairs(first, second).groupby("set").mean().clip(lower=FLOOR)

    def ratio(self, first: str, second: str) -> tuple[float, float]:
        """Geometric mean, over sets, of the ratio of two models' mean errors.

        And its relative standard error, from the ratios of each set's seeds. Errors
        under `FLOOR` count as `FLOOR`: a ratio of nothing to nothing says nothing.
        """
        means = self.mean_errors(first, second)
        logs = np.log(means["one"] / means["two"])
        pairs = self._pairs(first, second).clip(lower=FLOOR)
        by_seed = np.log(pairs["one"] / pairs["two"]).groupby("set").sem()
        error = math.sqrt((by_seed**2).sum(skipna=False)) / max(len(logs), 1)
        return float(np.exp(logs.mean())), error if len(logs) else math.nan

    def wins(self, first: str, second: str) -> int:
        """Number of sets on which the first model's mean error is lower."""
        means = self.mean_errors(first, second)
        return int((means["one"] < means["two"]).sum())

    def complete(self) -> Results:
        """Of each set the seeds alone that all models with fits of it have."""
        fits = self._fits
        n_models = fits.groupby("set")["model"].transform("nunique")
        n_fits = fits.groupby(["set", "seed"])["model"].transform("nunique")
        return Results(fits[n_fits == n_models])

    def best(self, name: str) -> str:
        """The model with the lowest mean error on a set."""
        of_set = self._fits[self._fits["set"] == name]
        return str(of_set.groupby("model", sort=False)["error"].mean().idxmin())


def error_table(results: Results) -> str:
    """Mean errors and standard errors, a line per set; the best in bold."""
    lines = [["set", "rows", "seeds", *results.models]]
    for name in results.sets:
        best = results.best(name)
        rows = results.values(best, name, "rows")[0]
        errors = {model: results.values(model, name) for model in results.models}
        counts = {len(values) for values in errors.values() if values}
        seeds = "-".join(map(str, sorted({min(counts), max(counts)})))
        told = {model: str(figure(v)) if v else "-" for model, v in errors.items()}
        told[best] = f"**{told[best]}**"
        lines.append([name, f"{rows:.0f}", seeds, *told.values()])
    return markdown(lines)


def comparison_table(results: Results, baseline: str) -> str:
    """Every model beside one of them, a line per model."""
    best = [results.best(name) for name in results.sets]
    head = ["model", f"error / {baseline}", "lower on", "best of all on"]
    fields = {"seconds": "{:.2f}", "leaves": "{:.0f}", "numbers": "{:.0f}"}
    lines = [[*head, *(f"{field}, median" for field in fields)]]
    for model in results.models:
        ratio, error = results.ratio(model, baseline)
        n_sets = len(results.mean_errors(model, baseline))
        cells = [
            f"{ratio:.3f} ± {ratio * error:.3f}" if error > 0 else f"{ratio:.3f}",
            f"{results.wins(model, baseline)} of {n_sets}",
            str(best.count(model)),
        ]
        for field, form in fields.items():
            of_sets = [results.values(model, name, field) for name in results.sets]
            values = [value for of_set in of_sets for value in of_set]
            cells.append(form.format(np.median(values)) if values else "-")
        lines.append([model, *cells])
    return markdown(lines)


def report(results: Results, baseline: str) -> str:
    """Both tables, as Markdown that is legible as it is."""
    parts = [
        "### Error: test MSE over the variance of the test target",
        error_table(results),
        f"### Over all {len(results.sets)} sets",
        comparison_table(results, baseline),
    ]
    return "\n\n".join(parts)
