"""Monotone constraints: what they cost, beside LightGBM's and scikit-learn's.

It prints a table: the squared error over that of the same learner without constraints,
and how often pairs of rows violate them. Every learner has its default settings.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from benchmarks.shared import folder_of_data, markdown
from secret_jax import SecretBoostingRegressor, SecretRegressor
from secret_jax.datasets import load, make_fried

# What people who know the tables would ask for.
DIRECTIONS = {
    "abalone": {"shell_weight": 1, "diameter": 1, "shucked_weight": -1},
    "auto_mpg": {"weight": -1, "horsepower": -1, "model_year": 1},
    "boston": {"rm": 1, "lstat": -1, "crim": -1, "ptratio": -1},
    "saratoga": {"livingArea": 1, "landValue": 1, "bathrooms": 1},
    "sacramento": {"sqft": 1, "baths": 1},
    "Friedman": {"x3": 1, "x4": 1},
}
SPLITS = 3
PAIRS = 1_000_000  # of rows, over all splits
# Pairs are counted whose predictions differ by more than this share of a deviation:
# less is the rounding of float32.
_ROUNDING = 1e-5


def table_of(name: str, folder: Any) -> tuple[Any, np.ndarray]:
    """Columns of numbers only, since peers take text each in their own way."""
    if name == "Friedman":
        X, y = make_fried(3000, random_state=0)
        return pd.DataFrame(X, columns=[f"x{i}" for i in range(10)]), y
    data = load(name, folder)
    X = pd.DataFrame(data.X).select_dtypes("number").astype(float)
    y = np.asarray(data.y, float)
    kept = X.notna().all(axis=1).to_numpy()
    return X[kept].reset_index(drop=True), y[kept]


def learners(constraints: dict[str, int] | None, names: list[str]) -> dict[str, Any]:
    """Learners by name, all with the same constraints."""
    lightgbm: Any = importlib.import_module("lightgbm")
    ours: dict[str, Any] = {"monotonic_cst": constraints}
    listed = [(constraints or {}).get(name, 0) for name in names]
    light: dict[str, Any] = {"verbose": -1, "random_state": 0, "n_jobs": 1}
    return {
        "secret": SecretRegressor(**ours),
        "secret, accurate": SecretRegressor.accurate(gates=False, **ours),
        "secret, booster": SecretBoostingRegressor(**ours),
        "LightGBM": lightgbm.LGBMRegressor(**light, monotone_constraints=listed),
        "scikit-learn": HistGradientBoostingRegressor(
            monotonic_cst=listed, random_state=0
        ),
    }


def violations(
    predict: Any, X: pd.DataFrame, constraints: dict[str, int], seed: int
) -> int:
    """Pairs of rows, differing in one constrained column, that are in wrong order."""
    random, count = np.random.default_rng(seed), 0
    for name, direction in constraints.items():
        n_pairs = PAIRS // (SPLITS * len(constraints))
        part = X.iloc[random.integers(len(X), size=n_pairs)]
        ends = np.sort(random.choice(X[name].to_numpy(), (len(part), 2)), axis=1)
        first, second = (predict(part.assign(**{name: end})) for end in ends.T)
        allowed = _ROUNDING * np.std(first)
        count += int(np.count_nonzero(direction * (second - first) < -allowed))
    return count


def measured(name: str, folder: Any) -> dict[str, list[float]]:
    """Errors, violations and seconds, each without constraints and with them."""
    X, y = table_of(name, folder)
    constraints, names = DIRECTIONS[name], list(X.columns)
    found: dict[str, list[list[float]]] = {}
    for seed in range(SPLITS):
        parts = train_test_split(X, y, test_size=0.3, random_state=seed)
        X_train, X_test, y_train, y_test = parts
        free = learners(None, names)
        for learner, model in learners(constraints, names).items():
            pair, seconds = (free[learner], model), []
            for each in pair:
                start = time.process_time()
                each.fit(X_train, y_train)
                seconds.append(time.process_time() - start)
            errors = [float(np.mean((m.predict(X_test) - y_test) ** 2)) for m in pair]
            wrong = [violations(m.predict, X, constraints, seed) for m in pair]
            found.setdefault(learner, []).append([*errors, *wrong, *seconds])
    return {
        learner: [
            *np.mean(runs, axis=0)[[0, 1]],
            *np.sum(runs, axis=0)[[2, 3]],
            *np.mean(runs, axis=0)[[4, 5]],
        ]
        for learner, runs in found.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learners.monotone",
        description="Monotone constraints beside LightGBM's and scikit-learn's.",
    )
    parser.add_argument("--data", default=os.environ.get("SECRET_JAX_DATA"))
    parser.add_argument("--sets", nargs="+", choices=DIRECTIONS, default=[*DIRECTIONS])
    options = parser.parse_args(arguments)
    folder = folder_of_data(parser, options)
    head = ["set", "learner", "MSE", "over free", "wrong free", "wrong"]
    lines = [[*head, "seconds free", "seconds"]]
    for name in options.sets:
        for learner, runs in measured(name, folder).items():
            free, error, wrong_free, wrong, *seconds = runs
            figures = [f"{error:.4g}", f"{error / free:.3f}", f"{wrong_free:,.0f}"]
            row = [
                name,
                learner,
                *figures,
                f"{wrong:,.0f}",
                *(f"{s:.2f}" for s in seconds),
            ]
            lines.append(row)
            print(" | ".join(row), flush=True)
    print(markdown(lines))


if __name__ == "__main__":
    main()
