"""The tables of accuracy: errors, ratios of errors, wins, seconds, leaves.

`benchmarks/README.md` says how to read them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

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

    def __str__(self) -> str:
        told = f"{self.set}, {self.model}, seed {self.seed}: error {self.error:.4f}"
        return f"{told}, leaves {self.leaves}, {self.seconds:.1f} s"


class Results:
    """Records by model, set and seed."""

    def __init__(self, records: Iterable[Record]):
        self._of: dict[tuple[str, str], dict[int, Record]] = {}
        for record in records:
            self._of.setdefault((record.model, record.set), {})[record.seed] = record

    @property
    def models(self) -> list[str]:
        """Models, in the order of their records."""
        return list(dict.fromkeys(model for model, _ in self._of))

    @property
    def sets(self) -> list[str]:
        """Sets, in the order of their records."""
        return list(dict.fromkeys(name for _, name in self._of))

    def values(self, model: str, name: str, field: str = "error") -> list[float]:
        """One field of a model's records of a set, where known, by seed."""
        records = self._of.get((model, name), {})
        values = [getattr(records[seed], field) for seed in sorted(records)]
        return [float(value) for value in values if value is not None]

    def log_ratios(self, first: str, second: str, name: str) -> dict[int, float]:
        """Logarithms of the ratio of two models' errors on a set, by seed.

        Errors under `FLOOR` count as `FLOOR`: a ratio of nothing to nothing says
        nothing.
        """
        one, two = (self._of.get((model, name), {}) for model in (first, second))
        return {
            seed: math.log(max(one[seed].error, FLOOR) / max(two[seed].error, FLOOR))
            for seed in sorted(one.keys() & two.keys())
        }

    def mean_errors(self, first: str, second: str) -> dict[str, tuple[float, float]]:
        """Mean errors of two models, at least `FLOOR`, over the seeds both have."""
        means = {}
        for name in self.sets:
            one, two = (self._of.get((m, name), {}) for m in (first, second))
            seeds = sorted(one.keys() & two.keys())
            if seeds:
                pair = (np.mean([side[s].error for s in seeds]) for side in (one, two))
                means[name] = tuple(max(float(mean), FLOOR) for mean in pair)
        return means

    def ratio(self, first: str, second: str) -> tuple[float, float]:
        """Geometric mean, over sets, of the ratio of two models' mean errors.

        And its relative standard error, from the ratios of each set's seeds.
        """
        logs, variances = [], []
        for name, (one, two) in self.mean_errors(first, second).items():
            logs.append(math.log(one / two))
            by_seed = figure(self.log_ratios(first, second, name).values())
            variances.append(by_seed.standard_error**2)
        if not logs:
            return math.nan, math.nan
        error = math.sqrt(sum(variances)) / len(logs)
        return math.exp(sum(logs) / len(logs)), error

    def wins(self, first: str, second: str) -> int:
        """Number of sets on which the first model's mean error is lower."""
        return sum(one < two for one, two in self.mean_errors(first, second).values())

    def complete(self) -> Results:
        """Of each set the seeds alone that all models with records of it have."""
        kept: list[Record] = []
        for name in self.sets:
            of_models = [of for (_, on), of in self._of.items() if on == name]
            seeds = set.intersection(*(set(of) for of in of_models))
            kept += [of[seed] for of in of_models for seed in sorted(seeds)]
        return Results(kept)

    def best(self, name: str) -> str:
        """The model with the lowest mean error on a set."""
        values = {model: self.values(model, name) for model in self.models}
        means = {model: np.mean(errors) for model, errors in values.items() if errors}
        return min(means, key=lambda model: means[model])


def error_table(results: Results) -> str:
    """Mean errors and standard errors, a line per set; the best in bold."""
    lines = [["set", "rows", "seeds", *results.models]]
    for name in results.sets:
        best, cells, counts, rows = results.best(name), [], set(), 0.0
        for model in results.models:
            values = results.values(model, name)
            if not values:
                cells.append("-")
                continue
            counts.add(len(values))
            rows = results.values(model, name, "rows")[0]
            text = str(figure(values))
            cells.append(f"**{text}**" if model == best else text)
        seeds = "-".join(map(str, sorted({min(counts), max(counts)})))
        lines.append([name, f"{rows:.0f}", seeds, *cells])
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
