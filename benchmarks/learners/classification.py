"""Error and log-loss of the classifier beside others.

    SECRET_JAX_DATA=FOLDER python -m benchmarks.learners.classification

fits all that is not in the file of records yet, and prints a table. Every learner has
its default settings; nothing is tuned. The data are those of
`benchmarks.learners.class_data`.
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
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.learners.class_data import NAMES, divided
from benchmarks.shared import (
    fit_missing,
    folder_of_data,
    markdown,
    whole_number,
)
from secret_jax import SecretClassifier

# A probability of zero would make the log-loss infinite.
_LEAST = 1e-15


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What is to be fitted."""

    data: str
    repeat: int
    model: str


@dataclass(frozen=True, kw_only=True)
class Record(Fit):
    """What came of it."""

    wrong: int
    rows: int
    log_loss: float
    leaves: int
    seconds: float


def _encoded(*, scaled: bool) -> Any:
    """Columns of text as indicators; missing numbers as medians."""
    steps = [SimpleImputer(strategy="median"), *([StandardScaler()] if scaled else [])]
    text = make_column_selector(dtype_exclude="number")
    return make_column_transformer(
        (make_pipeline(*steps), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), text),
        sparse_threshold=0.0,
    )


def _boosted() -> Any:
    lightgbm: Any = importlib.import_module("lightgbm")
    return lightgbm.LGBMClassifier(verbose=-1, n_jobs=1, random_state=0)


def _tree() -> Any:
    return make_pipeline(_encoded(scaled=False), DecisionTreeClassifier(random_state=0))


def _linear() -> Any:
    return make_pipeline(_encoded(scaled=True), LogisticRegression(max_iter=5000))


MODELS: dict[str, Callable[[], Any]] = {
    "secret": SecretClassifier,
    "secret, accurate": SecretClassifier.accurate,
    "secret, axis": lambda: SecretClassifier(oblique=False),
    "secret, constant": lambda: SecretClassifier(leaf="constant"),
    "sklearn tree": _tree,
    "LightGBM": _boosted,
    "logistic": _linear,
}
SHOWN = ("secret", "secret, axis", "sklearn tree", "LightGBM", "logistic")


def fit(run: Fit, folder: Path) -> Record | None:
    """Fit and test one model; None where the set has no such repeat."""
    division = divided(run.data, folder, run.repeat)
    if division is None:
        return None
    (X, y), (new, expected) = division
    model = MODELS[run.model]()
    if run.model == "LightGBM":
        X, new = with_categories(X, new)
    started = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - started
    probability = model.predict_proba(new)
    place = np.searchsorted(model.classes_, expected)
    right = np.clip(probability[np.arange(len(place)), place], _LEAST, None)
    leaves = model.n_leaves_ if isinstance(model, SecretClassifier) else 0
    return Record(
        **asdict(run),
        wrong=int((model.predict(new) != expected).sum()),
        rows=len(expected),
        log_loss=float(-np.log(right).mean()),
        leaves=leaves,
        seconds=seconds,
    )


def with_categories(train: Any, test: Any) -> tuple[Any, Any]:
    """Tables with columns of text as categories, for LightGBM."""
    train, test = train.copy(), test.copy()
    for column in train.columns[[not _is_number(train[c]) for c in train]]:
        train[column] = train[column].astype("category")
        test[column] = test[column].astype(train[column].dtype)
    train.columns = test.columns = [f"x{i}" for i in range(train.shape[1])]
    return train, test


def _is_number(column: Any) -> bool:
    return column.dtype.kind in "iufb"


def table(records: list[Record], models: tuple[str, ...] = SHOWN) -> str:
    """Error and log-loss by set, and geometric means of ratios to LightGBM's error."""
    found = {name: [r for r in records if r.data == name] for name in NAMES}
    head = ["set", *(f"{m}" for m in models), "leaves"]
    lines, errors = [head], []
    for name, rows in found.items():
        own = [[r for r in rows if r.model == model] for model in models]
        if not all(own):
            continue
        shares = [_error(part) for part in own]
        errors.append(shares)
        cells = [
            f"{100 * share:.1f} % / {np.mean([r.log_loss for r in part]):.3f}"
            for share, part in zip(shares, own, strict=True)
        ]
        leaves = f"{np.mean([r.leaves for r in own[0]]):.1f}"
        lines.append([name, *cells, leaves])
    if errors and "LightGBM" in models:
        log = np.log(errors)
        ratio = np.exp((log.T - log[:, models.index("LightGBM")]).mean(axis=1))
        lines.append(["error / LightGBM's", *(f"{each:.3f}" for each in ratio), ""])
    return markdown(lines)


def _error(records: list[Record]) -> float:
    """Share of wrong classes; half a row more, so that none has a ratio of zero."""
    wrong, rows = sum(r.wrong for r in records), sum(r.rows for r in records)
    return (wrong + 0.5) / (rows + 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learners.classification",
        description="Error and log-loss of the classifier beside others.",
    )
    parser.add_argument("--data", default=os.environ.get("SECRET_JAX_DATA"))
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(SHOWN))
    parser.add_argument("--repeats", type=whole_number, default=3)
    parser.add_argument("--out", type=Path, default=Path("classification.jsonl"))
    options = parser.parse_args(arguments)
    folder = folder_of_data(parser, options)
    planned = [
        Fit(data=data, repeat=repeat, model=model)
        for repeat in range(options.repeats)
        for data in options.sets
        for model in options.models
    ]
    records = fit_missing(
        planned,
        options.out,
        Record,
        lambda run: fit(run, folder),
        lambda made: (
            f"{made.data} {made.repeat} {made.model}: {made.wrong} of {made.rows}, "
            f"log-loss {made.log_loss:.3f}, {made.seconds:.1f} s"
        ),
    )
    print(table(records, tuple(options.models)))


if __name__ == "__main__":
    main()
