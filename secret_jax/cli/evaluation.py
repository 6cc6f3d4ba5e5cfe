"""A model's errors on held-out rows, beside those of the mean and least squares."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from secret_jax.cli.messages import CommandError, say
from secret_jax.cli.rows import Rows
from secret_jax.inspect.printing import number

TREE = "SECRET tree"  # its name among the methods
Score = dict[str, float | None]

_plain = partial(number, digits=4)
# Of what may be measured the heading, and how it is written, in the order of the table.
_MEASURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "mae": ("MAE", _plain),
    "r2": ("R²", "{:.3f}".format),
    "rmse": ("RMSE", _plain),
    "error": ("wrong", "{:.1%}".format),
    "log_loss": ("log-loss", _plain),
    "leaves": ("leaves", "{:,.0f}".format),
}


class Evaluation(NamedTuple):
    """A fitted model, and what was measured on which rows.

    ``scores`` are those of `measured`, and the leaves of the tree.
    """

    model: Any
    n_training: int
    held_out: Rows
    scores: dict[str, Score]


def evaluate(model: Any, rows: Rows, test_fraction: float, seed: int) -> Evaluation:
    """Fit a model on one part of the rows; measure on the rest, drawn by the seed."""
    if "weight" in rows.beside:  # rows of no weight are none
        rows = rows.take(rows.beside["weight"].to_numpy() > 0)
    n_rows, n_test = len(rows.y), round(len(rows.y) * test_fraction)
    if test_fraction > 0 and (n_test < 1 or n_rows - n_test < 4):
        raise CommandError(
            f"{n_rows} rows are too few to hold some out; add rows, or measure no "
            "errors (--test-fraction 0)"
        )
    held_out, grown_on = rows.drawn(n_test, seed)
    say(f"fitting on {len(grown_on.y):,} rows")
    started = perf_counter()
    grown_on.fit(model)
    say(f"fitted in {perf_counter() - started:.1f} s")
    scores: dict[str, Score] = {}
    if n_test:
        say(f"measuring on {len(held_out.y):,} rows")
        scores[model._method] = measured(model, held_out)
        if hasattr(model, "n_leaves_"):
            scores[model._method]["leaves"] = model.n_leaves_
        scores |= _baselines(model._schema, grown_on, held_out)
    return Evaluation(model, len(grown_on.y), held_out, scores)


def measured(model: Any, rows: Rows) -> Score:
    """Measure errors: of numbers ``mse``, ``rmse``, ``mae`` and ``r2``.

    R² is None if the targets are constant. Of classes ``error``, the share that is
    wrong, and ``log_loss``, in nats; a class that the model has never seen is wrong.
    """

    y, mean = np.asarray(rows.y), partial(np.average, weights=rows.beside.get("weight"))
    if is_classifier(model):
        probability = model.predict_proba(rows.X)
        wrong = model.classes_[probability.argmax(axis=1)] != y
        own = (probability * (y[:, None] == model.classes_)).sum(axis=1)
        losses = -np.log(np.clip(own, 1e-15, 1.0))
        return {"error": float(mean(wrong)), "log_loss": float(mean(losses))}
    residual = model.predict(rows.X) - y
    mse, variance = float(mean(residual**2)), mean((y - mean(y)) ** 2)
    r2 = float(1 - mse / variance) if variance > 0 else None
    mae = float(mean(abs(residual)))
    return {"mse": mse, "rmse": math.sqrt(mse), "mae": mae, "r2": r2}


def _baselines(schema: Any, grown_on: Rows, held_out: Rows) -> dict[str, Score]:
    """Measure the mean, and least squares or logistic regression; gaps are means."""
    fill: Any = SimpleImputer(keep_empty_features=True)
    numbers: Any = make_pipeline(fill, StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    # All of them, also those that the tree does not look at.
    text = make_column_selector(dtype_exclude="number")
    encoder = make_column_transformer((categories, text), remainder=numbers)
    # Dates in parts, and ordered categories as places.
    training, test = (
        pd.DataFrame(dict(zip(schema.names, schema.columns_of(rows.X), strict=True)))
        for rows in (grown_on, held_out)
    )
    training, test = encoder.fit_transform(training), encoder.transform(test)
    models: dict[str, Any] = {
        "mean": DummyRegressor(),
        "linear regression": LinearRegression(),
    }
    if grown_on.classes:
        models = {
            "shares of the classes": DummyClassifier(strategy="prior"),
            "logistic regression": LogisticRegression(max_iter=5000),
        }
    weight, tested = grown_on.beside.get("weight"), held_out._replace(X=test)
    return {
        name: measured(one.fit(training, grown_on.y, sample_weight=weight), tested)
        for name, one in models.items()
    }


def score_table(scores: Mapping[str, Score], heading: str) -> str:
    """Write the errors of methods as a table for people."""
    found = pd.DataFrame(scores, dtype=float)
    cells = {
        name: ["-" if pd.isna(value) else write(value) for value in found.loc[measure]]
        for measure, (name, write) in _MEASURES.items()
        if measure in found.index
    }
    table = pd.DataFrame(cells, index=[f"  {name}" for name in found])
    return table.rename_axis(columns=heading).to_string(col_space=8)
