"""Test error with missing cells: native handling, mean imputation, LightGBM.

The protocol of the paper, 50 % train, 30 % prune, 20 % test; cells are removed from all
three parts, each with the same probability, independently of everything else.

    python -m benchmarks.accuracy.missing --data FOLDER --repeats 3
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer

from benchmarks.accuracy.data import not_numeric
from benchmarks.shared import Experiment, Part, standard_error
from secret_jax import SecretRegressor
from secret_jax.datasets import load

Method = Callable[[Experiment], np.ndarray]


def experiment(name: str, data: str, share: float, repeat: int) -> Experiment:
    """A data set with some of its cells removed, in three parts."""
    found = load(name, data)
    random = np.random.default_rng([77, repeat])
    order = random.permutation(len(found.y))
    first, second = round(0.5 * len(order)), round(0.8 * len(order))
    removed = random.random(found.X.shape) < share
    X = found.X.mask(removed)
    parts = [
        Part(X.iloc[rows].reset_index(drop=True), found.y[rows])
        for rows in np.split(order, [first, second])
    ]
    return Experiment(*parts, discrete=list(found.discrete), seed=repeat)


def _ours(given: Experiment, **parameters) -> np.ndarray:
    model = SecretRegressor(
        random_state=given.seed, categorical_features=given.discrete
    ).set_params(**parameters)
    model.fit(*given.train, eval_set=tuple(given.prune))
    return model.predict(given.test.X)


def imputed(given: Experiment) -> np.ndarray:
    """Our tree behind mean imputation; a missing category is the commonest one."""
    numbers = [c for c in given.train.X.columns if c not in given.discrete]
    imputer = make_column_transformer(
        (SimpleImputer(keep_empty_features=True), numbers),
        (SimpleImputer(strategy="most_frequent"), given.discrete),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    imputer.fit(given.train.X)
    filled = [
        Part(cast(pd.DataFrame, imputer.transform(part.X)), part.y)
        for part in (given.train, given.prune, given.test)
    ]
    return _ours(
        Experiment(*filled, discrete=given.discrete, seed=given.seed),
        missing_values="error",
    )


def lightgbm(given: Experiment) -> np.ndarray:
    """LightGBM's native handling: early stopping, then refitted on 80 %."""
    booster: Any = importlib.import_module("lightgbm")

    def encoded(X: pd.DataFrame) -> pd.DataFrame:
        levels = {
            name: sorted(given.train.X[name].dropna().unique(), key=str)
            for name in not_numeric(given.train.X)  # numbers as in `accuracy`
        }
        return X.assign(
            **{
                name: pd.Categorical(X[name], categories=values)
                for name, values in levels.items()
            }
        )

    settings = {"learning_rate": 0.05, "random_state": given.seed, "verbose": -1}
    search = booster.LGBMRegressor(n_estimators=5000, n_jobs=2, **settings)
    search.fit(
        encoded(given.train.X),
        given.train.y,
        eval_set=[(encoded(given.prune.X), given.prune.y)],
        callbacks=[booster.early_stopping(50, verbose=False)],
    )
    n_trees = max(search.best_iteration_ or 1, 1)
    final = booster.LGBMRegressor(n_estimators=n_trees, n_jobs=2, **settings)
    X = pd.concat([given.train.X, given.prune.X])
    final.fit(encoded(X), np.concatenate([given.train.y, given.prune.y]))
    return np.asarray(final.predict(encoded(given.test.X)))


def methods() -> dict[str, Method]:
    """What is compared, by name."""
    return {
        "learn": lambda given: _ours(given),
        "no indicators": lambda given: _ours(given, leaf__indicators=False),
        "mean": lambda given: _ours(given, missing_values="mean"),
        "imputer": imputed,
        "LightGBM": lightgbm,
    }


def results(arguments: argparse.Namespace) -> Iterator[tuple[str, float, dict]]:
    """Mean relative error (MSE over the target's variance) of every method."""
    chosen = {
        name: method
        for name, method in methods().items()
        if arguments.methods is None or name in arguments.methods
    }
    for name in arguments.sets:
        for share in arguments.shares:
            errors: dict[str, list[float]] = {method: [] for method in chosen}
            for repeat in range(arguments.repeats):
                given = experiment(name, arguments.data, share, repeat)
                for method, predicted in chosen.items():
                    residual = predicted(given) - given.test.y
                    error = np.mean(residual**2) / np.var(given.test.y)
                    errors[method].append(float(error))
            yield name, share, errors


def main(argv: list[str] | None = None) -> None:
    """Print a table, a row for every data set and share of missing cells."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.missing",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--data", required=True, help="folder of the data sets")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=["abalone", "boston", "kin8nm"])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.1, 0.3, 0.5])
    parser.add_argument("--methods", nargs="+", choices=list(methods()))
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    names = arguments.methods or list(methods())
    print("MSE over the variance of the test targets, mean ± standard error")
    print(f"{'set':<12}{'missing':>8}" + "".join(f"{name:>18}" for name in names))
    every: dict[str, list[float]] = {name: [] for name in names}
    for name, share, errors in results(arguments):
        cells = ""
        for method in names:
            found = np.array(errors[method])
            every[method].append(float(found.mean()))
            cells += f"{found.mean():>10.4f} ±{standard_error(found):.4f}"
        print(f"{name:<12}{share:>8.0%}{cells}", flush=True)
    means = {m: float(np.exp(np.mean(np.log(found)))) for m, found in every.items()}
    cells = "".join(f"{means[m]:>10.4f}        " for m in names)
    print(f"{'geometric mean':<20}{cells}")


if __name__ == "__main__":
    sys.exit(main())
