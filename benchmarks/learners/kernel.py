"""Kernels over trees on the sets of Lanning (2008), beside scikit-learn's kernels.

    SECRET_JAX_DATA=FOLDER python -m benchmarks.learners.kernel

R² of numbers and accuracy of classes on test rows: of the split that the source names
(vowel's test speakers, abalone's last rows), and mean and best of random ones of its
sizes, since its other splits are single ones that it does not name; then seconds of a
fit, and the criterion and number of heads of a search. Peers choose by five folds on a
small grid.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from benchmarks.shared import folder_of_data, whole_number
from secret_jax import KernelTreeClassifier, KernelTreeRegressor
from secret_jax.composed.kernel import (
    GaussianProcess,
    GeneticSearch,
    GreedySearch,
    Head,
)


class Task(NamedTuple):
    """A set of the source, how it divides it, and what it reports of test rows."""

    files: tuple[str, ...]
    n_train: int
    classes: str  # "", "nominal" or "ordinal"
    in_order: bool
    reported: str


_VOWEL = ("vowel_train", "vowel_test")
_OF_VOWEL = "tree .42, RBF .42, kernel .46"
TASKS = {
    "boston": Task(("boston",), 455, "", False, "tree .78, RBF .89, kernel .86"),
    "auto_mpg": Task(("auto_mpg",), 352, "", False, "tree .62, RBF .89, kernel .90"),
    "wine": Task(("wine",), 125, "nominal", False, ".97 (training rows)"),
    "vowel": Task(_VOWEL, 528, "nominal", True, _OF_VOWEL),
    "iris": Task(("iris",), 105, "ordinal", False, ".98 (training rows)"),
    "abalone": Task(("abalone",), 3133, "ordinal", True, "tree .61, RBF .63"),
}


def rows_of(task: Task, folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Numeric columns and the target, in the order of the file."""
    frames = [pd.read_csv(folder / f"{name}.csv") for name in task.files]
    frame = pd.concat(frames, ignore_index=True)
    target = frame.pop(frame.columns[-1])
    if task.files == ("abalone",):  # three classes of rings
        target = pd.Series(np.digitize(target, [8.5, 10.5]))
    if task.files == ("iris",):
        target = target.map({"virginica": 1, "versicolor": 2, "setosa": 3})
    return pd.get_dummies(frame, dtype=float).astype(float), np.asarray(target)


def splits(task: Task, n_rows: int, n_splits: int) -> list[tuple[np.ndarray, ...]]:
    """Training and test rows: the file's order if it is the source's, and random ones.

    Random rows of vowel have the voices of all speakers in training.
    """
    orders = [np.random.default_rng(s).permutation(n_rows) for s in range(n_splits)]
    orders = [np.arange(n_rows)] * task.in_order + orders
    return [(order[: task.n_train], order[task.n_train :]) for order in orders]


def ours(task: Task, head: str | Head, search: Any = None) -> Any:
    """Our estimator of a task."""
    if not task.classes:
        return KernelTreeRegressor(head=head, search=search)
    ordinal = task.classes == "ordinal"
    return KernelTreeClassifier(head=head, ordinal=ordinal, search=search)


def peer(task: Task, name: str) -> Any:
    """scikit-learn's kernel machine; none where it has none or takes cubic time."""
    numbers, scales = not task.classes, 2.0 ** np.arange(-7.0, 1.0, 2.0)
    if name == "GP":
        if task.n_train > 1000:
            return None
        model: Any = GaussianProcessClassifier(ConstantKernel() * RBF(3.0))
        if numbers:
            kernel = ConstantKernel() * RBF(3.0) + WhiteKernel()
            model = GaussianProcessRegressor(kernel, normalize_y=True)
        return make_pipeline(StandardScaler(), model)
    if name == "ridge" and not numbers:
        return None
    grid = {"C": [1.0, 10.0, 100.0], "gamma": scales}
    model = SVR() if numbers else SVC()
    if name == "ridge":
        model = KernelRidge(kernel="rbf")
        grid = {"alpha": [1e-3, 1e-2, 1e-1, 1.0], "gamma": scales}
    found = make_pipeline(StandardScaler(), GridSearchCV(model, grid))
    if not numbers:
        return found
    return TransformedTargetRegressor(found, transformer=StandardScaler())


METHODS: dict[str, Callable[[Task], Any]] = {
    "kernel": lambda task: ours(task, "kernel"),
    "local": lambda task: ours(task, "local"),
    "RBF": lambda task: ours(task, "rbf"),
    "gp": lambda task: ours(task, "gp"),
    "auto": lambda task: ours(task, "auto"),
    "gp, relevances": lambda task: ours(task, GaussianProcess(relevances=True)),
    "stack": lambda task: ours(task, "stack"),
    "RBF, greedy": lambda task: ours(task, "rbf", GreedySearch()),
    "RBF, genetic": lambda task: ours(task, "rbf", GeneticSearch()),
    "kernel ridge": lambda task: peer(task, "ridge"),
    "GP": lambda task: peer(task, "GP"),
    "SVM": lambda task: peer(task, "SVM"),
}


def line(name: str, method: str, X: pd.DataFrame, y: np.ndarray, n: int) -> list[str]:
    """Scores on test rows of model and tree, seconds of a fit, and the search."""
    task, found = TASKS[name], []
    for train, test in splits(task, len(y), n):
        model, start = METHODS[method](task), time.process_time()
        if model is None:
            return []
        model.fit(X.iloc[train], y[train])
        seconds = time.process_time() - start
        own = [model.score(X.iloc[test], y[test]), np.nan, seconds, np.nan, np.nan]
        if hasattr(model, "tree_"):
            own[1] = model.tree_.score(X.iloc[test], y[test])
        if hasattr(model, "search_"):
            own[3:] = model.search_.criterion, model.search_.n_scored
        found.append(own)
    first = found[0][0] if task.in_order else np.nan
    drawn = found[task.in_order :] or [[np.nan] * 5]
    score, *others = np.mean(drawn, axis=0).tolist()
    shown = [first, score, max(one[0] for one in drawn), *others]
    return [name, method, *("" if one != one else f"{one:.3f}" for one in shown)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learners.kernel")
    add = parser.add_argument
    data = os.environ.get("SECRET_JAX_DATA")
    add("--data", default=data, help="folder of CSV files; else SECRET_JAX_DATA")
    add("--sets", nargs="+", choices=TASKS, default=list(TASKS))
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--splits", type=whole_number, default=20, help="random ones")
    options = parser.parse_args(arguments)
    folder = folder_of_data(parser, options)
    warnings.simplefilter("ignore")
    head = "set, source's, method, own split, mean, best, tree, s, criterion, heads"
    print("| " + head.replace(", ", " | ") + " |\n" + "| --- " * 10 + "|")
    for name in options.sets:
        X, y = rows_of(TASKS[name], folder)
        for method in options.methods:
            found = line(name, method, X, y, options.splits)
            if found:
                found.insert(1, TASKS[name].reported)
                print("| " + " | ".join(found) + " |", flush=True)


if __name__ == "__main__":
    main()
