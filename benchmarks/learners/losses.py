"""Losses other than the squared one beside LightGBM's objectives.

    SECRET_JAX_DATA=FOLDER python -m benchmarks.learners.losses

fits all that is not in the file of records yet, and prints a table. Every learner has
its default settings but for the loss; nothing is tuned.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.metrics import mean_pinball_loss, mean_poisson_deviance
from sklearn.model_selection import train_test_split

from benchmarks.learners.classification import with_categories
from benchmarks.shared import (
    fit_missing,
    folder_of_data,
    markdown,
    randomness_of,
    whole_number,
)
from secret_jax import Huber, Poisson, Quantile, SecretRegressor
from secret_jax.losses.robust import robust_units

SETS = ("bikeshare", "births")
_TEST_SHARE = 0.3
# Of LightGBM's objective "huber", in robust deviations of the target, as ours has it.
_DELTA = Huber().delta


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A loss, as each learner names it, and what it costs on test rows."""

    ours: Any
    theirs: dict[str, Any]
    cost: Callable[[np.ndarray, np.ndarray, float], float]


def _huber(y: np.ndarray, said: np.ndarray, scale: float) -> float:
    size = np.abs(y - said) / scale
    small = np.minimum(size, _DELTA)
    return float(np.mean(small * (size - 0.5 * small)))


def _pinball(level: float) -> Measure:
    return Measure(
        ours=Quantile(level=level),
        theirs={"objective": "quantile", "alpha": level},
        cost=lambda y, said, _: mean_pinball_loss(y, said, alpha=level),
    )


MEASURES = {
    "Poisson deviance": Measure(
        ours=Poisson(),
        theirs={"objective": "poisson"},
        cost=lambda y, said, _: mean_poisson_deviance(y, said),
    ),
    "pinball, 0.1": _pinball(0.1),
    "pinball, 0.5": _pinball(0.5),
    "pinball, 0.9": _pinball(0.9),
    "Huber": Measure(ours=Huber(), theirs={"objective": "huber"}, cost=_huber),
}
MODELS = ("secret", "secret, axis", "squared", "LightGBM", "constant")


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What is to be fitted."""

    data: str
    repeat: int
    measure: str
    model: str


@dataclass(frozen=True, kw_only=True)
class Record(Fit):
    """What came of it."""

    cost: float
    leaves: int
    seconds: float


def _lightgbm(measure: Measure, scale: float) -> Any:
    lightgbm: Any = importlib.import_module("lightgbm")
    options = dict(measure.theirs)
    if options["objective"] == "huber":
        options["alpha"] = _DELTA * scale
    return lightgbm.LGBMRegressor(verbose=-1, n_jobs=1, random_state=0, **options)


def _best_constant(measure: Measure, y: np.ndarray, scale: float) -> float:
    """What costs least if it is said of all rows."""

    def cost(value: float) -> float:
        return measure.cost(y, np.full(len(y), value), scale)

    found: Any = minimize_scalar(cost, bounds=(y.min(), y.max()), method="bounded")
    return float(found.x)


def fit(run: Fit, folder: Path) -> Record:
    """Fit and test one model."""
    import pandas

    frame = pandas.read_csv(folder / f"{run.data}.csv")
    target = frame.pop(frame.columns[-1]).to_numpy(np.float64)
    random, _ = randomness_of(run.data, run.repeat)
    seed = int(random.integers(2**31))
    rows = train_test_split(
        np.arange(len(target)), test_size=_TEST_SHARE, random_state=seed
    )
    (X, y), (new, expected) = [(frame.iloc[part], target[part]) for part in rows]
    measure, (_, scale) = MEASURES[run.measure], robust_units(y, np.ones(len(y)))
    started = time.perf_counter()
    leaves = 0
    if run.model == "constant":
        said = np.full(len(expected), _best_constant(measure, y, scale))
    elif run.model == "LightGBM":
        X, new = with_categories(X, new)
        said = _lightgbm(measure, scale).fit(X, y).predict(new)
    else:
        options: dict[str, Any] = {"loss": measure.ours}
        if run.model == "squared":  # what it costs to have the wrong loss
            options = {}
        if run.model == "secret, axis":
            options["oblique"] = False
        model = SecretRegressor(**options).fit(X, y)
        said, leaves = model.predict(new), model.n_leaves_
    seconds = time.perf_counter() - started
    if run.measure.startswith("Poisson"):  # no deviance of what is not positive
        said = np.maximum(said, 1e-3)
    cost = measure.cost(expected, said, scale)
    return Record(**asdict(run), cost=cost, leaves=leaves, seconds=seconds)


def table(records: list[Record], models: Sequence[str] = MODELS) -> str:
    """Mean costs by set and loss, and geometric means of ratios to LightGBM's."""
    lines, ratios = [["set", "loss on test rows", *models, "leaves"]], []
    for data in SETS:
        for measure in MEASURES:
            found = [r for r in records if (r.data, r.measure) == (data, measure)]
            own = [[r for r in found if r.model == model] for model in models]
            if not all(own):
                continue
            costs = np.array([np.mean([r.cost for r in part]) for part in own])
            if "LightGBM" in models:
                ratios.append(costs / costs[list(models).index("LightGBM")])
            leaves = f"{np.mean([r.leaves for r in own[0]]):.1f}"
            lines.append([data, measure, *(f"{cost:.4g}" for cost in costs), leaves])
    if ratios:
        mean = np.exp(np.mean(np.log(ratios), axis=0))
        lines.append(["", "over LightGBM's", *(f"{each:.3f}" for each in mean), ""])
    return markdown(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learners.losses",
        description="Losses other than the squared one beside LightGBM's objectives.",
    )
    parser.add_argument("--data", default=os.environ.get("SECRET_JAX_DATA"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--repeats", type=whole_number, default=1)
    parser.add_argument("--out", type=Path, default=Path("losses.jsonl"))
    options = parser.parse_args(arguments)
    folder = folder_of_data(parser, options)
    planned = [
        Fit(data=data, repeat=repeat, measure=measure, model=model)
        for repeat in range(options.repeats)
        for data in options.sets
        for measure in MEASURES
        for model in options.models
    ]
    records = fit_missing(
        planned,
        options.out,
        Record,
        lambda run: fit(run, folder),
        lambda made: (
            f"{made.data} {made.repeat} {made.measure} {made.model}: {made.cost:.4g}, "
            f"{made.leaves} leaves, {made.seconds:.1f} s"
        ),
    )
    print(table(records, options.models))


if __name__ == "__main__":
    main()
