"""Error and log-loss of the classifier beside others.

    SECRET_JAX_DATA=FOLDER python -m benchmarks.learners.classification

fits all that is not in the file of records yet, and prints a table. Every learner has
its default settings; nothing is tuned, but for the number and the size of the trees of
"LightGBM, stopped". The data are those of `benchmarks.learners.class_data`;
``--sets chosen`` are twelve tables, ``--sets teaching`` others that chose nothing.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.learners.class_data import GROUPS, NAMES, divided
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


def _boosted(**parameters: Any) -> Any:
    lightgbm: Any = importlib.import_module("lightgbm")
    own = {"verbose": -1, "n_jobs": 1, "random_state": 0}
    return lightgbm.LGBMClassifier(**own | parameters)


class _Stopped:
    """LightGBM that a quarter of the rows stop early, fitted again to all rows."""

    _SHAPES = (
        {"num_leaves": 31, "min_child_samples": 20},
        {"num_leaves": 8, "min_child_samples": 5},
    )

    def fit(self, X: Any, y: np.ndarray) -> None:
        lightgbm: Any = importlib.import_module("lightgbm")
        grown, stops = train_test_split(
            np.arange(len(y)), test_size=0.25, stratify=y, random_state=0
        )
        stop = lightgbm.early_stopping(50, verbose=False)
        held_out = [(X.iloc[stops], y[stops])]
        tried = []
        for shape in self._SHAPES:
            own = {"learning_rate": 0.05, **shape}
            model = _boosted(n_estimators=2000, **own)
            with warnings.catch_warnings():  # newer versions rename eval_set
                warnings.simplefilter("ignore", FutureWarning)
                model.fit(X.iloc[grown], y[grown], eval_set=held_out, callbacks=[stop])
            (loss,) = model.best_score_["valid_0"].values()
            tried.append((loss, max(model.best_iteration_, 1), own))
        _, n_rounds, own = min(tried, key=lambda each: each[0])
        self._model = _boosted(n_estimators=n_rounds, **own).fit(X, y)
        self.classes_ = self._model.classes_
        self.predict, self.predict_proba = (
            self._model.predict,
            self._model.predict_proba,
        )


def _tree() -> Any:
    return make_pipeline(_encoded(scaled=False), DecisionTreeClassifier(random_state=0))


def _linear() -> Any:
    return make_pipeline(_encoded(scaled=True), LogisticRegression(max_iter=5000))


MODELS: dict[str, Callable[[], Any]] = {
    "secret": SecretClassifier,
    "secret, accurate": SecretClassifier.accurate,
    "secret, accurate, hard": lambda: SecretClassifier.accurate(gates=False),
    "secret, axis": lambda: SecretClassifier(oblique=False),
    "secret, constant": lambda: SecretClassifier(leaf="constant"),
    "sklearn tree": _tree,
    "LightGBM": _boosted,
    "LightGBM, stopped": _Stopped,
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
    if run.model.startswith("LightGBM"):
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
    """Error and log-loss by set, and geometric means of their ratios to LightGBM's."""
    found = {name: [r for r in records if r.data == name] for name in NAMES}
    head = ["set", *(f"{m}" for m in models), "leaves"]
    lines, errors, losses = [head], [], []
    for name, rows in found.items():
        own = [[r for r in rows if r.model == model] for model in models]
        if not all(own):
            continue
        errors.append([_error(part) for part in own])
        losses.append([np.mean([r.log_loss for r in part]) for part in own])
        cells = [
            f"{100 * share:.1f} % / {loss:.3f}"
            for share, loss in zip(errors[-1], losses[-1], strict=True)
        ]
        leaves = f"{np.mean([r.leaves for r in own[0]]):.1f}"
        lines.append([name, *cells, leaves])
    peers = [i for i, model in enumerate(models) if model.startswith("LightGBM")]
    if errors and peers:
        for what, values in (("log-loss", losses), ("error", errors)):
            log = np.log(values)
            ratio = np.exp((log.T - log[:, peers[-1]]).mean(axis=1))
            cells = [f"{each:.3f}" for each in ratio]
            lines.append([f"{what} / {models[peers[-1]]}'s", *cells, ""])
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
    known = [*GROUPS, *NAMES]
    parser.add_argument("--sets", nargs="+", choices=known, default=["ordinary"])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(SHOWN))
    parser.add_argument("--repeats", type=whole_number, default=3)
    parser.add_argument("--out", type=Path, default=Path("classification.jsonl"))
    options = parser.parse_args(arguments)
    folder = folder_of_data(parser, options)
    sets = [name for word in options.sets for name in GROUPS.get(word, (word,))]
    planned = [
        Fit(data=data, repeat=repeat, model=model)
        for repeat in range(options.repeats)
        for data in sets
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
