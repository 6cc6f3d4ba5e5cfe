"""A tree's errors on held-out rows, beside two methods that everybody knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from secret_jax.cli.messages import say
from secret_jax.inspect.class_errors import class_errors
from secret_jax.inspect.printing import number

if TYPE_CHECKING:
    import pandas as pd

TREE = "SECRET tree"  # its name among the methods
Score = dict[str, float | None]
# Headings and forms of what may be measured, in the order of the table.
_MEASURES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "mae": ("MAE", lambda value: number(value, digits=4)),
    "r2": ("R²", "{:.3f}".format),
    "rmse": ("RMSE", lambda value: number(value, digits=4)),
    "error": ("wrong", lambda value: f"{100 * value:.1f} %"),
    "log_loss": ("log-loss", lambda value: number(value, digits=4)),
    "leaves": ("leaves", str),
}
# Of the training rows of CART, to choose its size by: what a hold-out part is for us.
_CHOOSING_SHARE = 0.25


class Evaluation(NamedTuple):
    """A fitted model, what was measured on which rows, and the seconds of the fit.

    ``scores`` are those of `measured` and the ``leaves`` of each method, if any.
    """

    model: Any
    n_training: int
    n_test: int
    scores: dict[str, Score]
    seconds: float
    held_out: tuple[pd.DataFrame, pd.Series] | None = None


def evaluate(
    model: Any, X: pd.DataFrame, y: pd.Series, test_fraction: float, seed: int
) -> Evaluation:
    """Fit a copy of a model on one part of the rows; measure on the rest.

    The seed chooses the held-out rows, and those that CART chooses its size on.
    """
    n_test = round(len(X) * test_fraction)
    n_training = len(X) - n_test
    if test_fraction > 0 and (n_test < 1 or n_training < 4):
        raise ValueError(
            f"{len(X)} rows are too few to hold some out; add rows, or measure no "
            "errors (test_fraction 0)"
        )
    test, training = drawn(len(X), n_test, seed)
    say(f"growing the tree on {n_training:,} rows")
    started = perf_counter()
    fitted: Any = clone(model)
    fitted.fit(X.iloc[training], y.iloc[training])
    seconds = perf_counter() - started
    say(f"fitted in {seconds:.1f} s")
    if not n_test:
        return Evaluation(fitted, n_training, 0, {}, seconds)
    say(f"measuring on {n_test} held-out rows, beside two other methods")
    held_out = X.iloc[test], y.iloc[test]
    scores = {TREE: measured(fitted, *held_out) | {"leaves": fitted.n_leaves_}}
    scores |= _baselines(fitted, X.iloc[training], y.iloc[training], *held_out, seed)
    return Evaluation(fitted, n_training, n_test, scores, seconds, held_out)


def drawn(n_rows: int, n_first: int, seed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draw some rows at random: their positions, and those of the others."""
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(order[:n_first]), np.sort(order[n_first:])


def measured(model: Any, X: Any, y: Any) -> Score:
    """Measure errors: of numbers ``mse``, ``rmse``, ``mae`` and ``r2``.

    R² is None if the targets are constant. Of classes ``error``, the share that is
    wrong, and ``log_loss``, in nats; a class that the model has never seen is wrong.
    """
    y = np.asarray(y)
    if is_classifier(model):
        probability = model.predict_proba(X)
        member = y[:, None] == model.classes_
        actual = np.where(member.any(axis=1), member.argmax(axis=1), -1)
        errors = class_errors(probability, probability.argmax(axis=1), actual)
        return {"error": 1.0 - errors.accuracy, "log_loss": errors.log_loss}
    residual = model.predict(X) - y
    mse, variance = float(np.mean(residual**2)), float(np.var(y))
    return {
        "mse": mse,
        "rmse": math.sqrt(mse),
        "mae": float(np.mean(np.abs(residual))),
        "r2": 1 - mse / variance if variance > 0 else None,
    }


def _baselines(
    model: Any,
    X: pd.DataFrame,
    y: pd.Series,
    X_test: pd.DataFrame,
    y_test: pd.Series,
    seed: int,
) -> dict[str, Score]:
    """Measure least squares or logistic regression, and CART of a held-out size.

    Missing numbers are filled in with the mean for both. CART chooses among powers of
    two leaves on as large a part of the training rows as the tree is pruned on, and is
    then refitted on all of them.
    """
    import pandas as pd

    schema = model.tree_.schema
    encoder = make_column_transformer(
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            [schema.names[column] for column in schema.discrete],
        ),
        (
            make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler()),
            [schema.names[column] for column in schema.continuous],
        ),
    )
    # Dates in parts, and ordered categories as places.
    tables = (
        pd.DataFrame(dict(zip(schema.names, schema.columns_of(one), strict=True)))
        for one in (X, X_test)
    )
    training = np.asarray(encoder.fit_transform(next(tables)))
    test = np.asarray(encoder.transform(next(tables)))
    classes = is_classifier(model)
    linear: Any = LogisticRegression(max_iter=5000) if classes else LinearRegression()
    name = "logistic regression" if classes else "ordinary least squares"
    cart: Any = DecisionTreeClassifier if classes else DecisionTreeRegressor
    measure = "log_loss" if classes else "mse"
    n_growing = len(y) - math.ceil(_CHOOSING_SHARE * len(y))
    search = GridSearchCV(
        cart(random_state=seed),
        {"max_leaf_nodes": [2**k for k in range(1, 12) if 2**k <= max(2, n_growing)]},
        scoring=lambda *fitted: -(measured(*fitted)[measure] or 0.0),
        cv=ShuffleSplit(1, test_size=_CHOOSING_SHARE, random_state=seed),
    )
    search.fit(training, y)
    chosen: Any = search.best_estimator_
    leaves = {"leaves": int(chosen.get_n_leaves())}
    return {
        name: measured(linear.fit(training, y), test, y_test),
        "CART (scikit-learn)": measured(chosen, test, y_test) | leaves,
    }


def score_table(scores: Mapping[str, Score], heading: str) -> str:
    """Write the errors of methods as a table for people."""
    lines = [heading, *(f"  {name}" for name in scores)]
    lines = [line.ljust(max(34, len(heading))) for line in lines]
    known = {key for score in scores.values() for key in score}
    for key, (name, form) in _MEASURES.items():
        if key in known:
            found = [score.get(key) for score in scores.values()]
            cells = [name, *("-" if value is None else form(value) for value in found)]
            lines = [
                f"{line}{cell:>10}" for line, cell in zip(lines, cells, strict=True)
            ]
    return "\n".join(lines)


def score_lines(score: Score) -> str:
    """Write the errors of one method below each other."""
    return "\n".join(
        f"{name:<10}{'-' if score[key] is None else form(score[key]):>12}"
        for key, (name, form) in _MEASURES.items()
        if key in score
    )
