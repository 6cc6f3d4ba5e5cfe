"""A tree's errors on held-out rows, beside two methods that everybody knows."""

import math
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from secret_jax.cli.messages import say
from secret_jax.cli.training_table import TrainingTable
from secret_jax.inspect.class_errors import log_losses
from secret_jax.inspect.printing import number

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
    held_out: TrainingTable | None = None


def evaluate(
    model: Any, table: TrainingTable, test_fraction: float, seed: int
) -> Evaluation:
    """Fit a copy of a model on one part of the rows; measure on the rest.

    The seed chooses the held-out rows, and those that CART chooses its size on.
    """
    if table.weight is not None and table.weight.any():  # rows of no weight are none
        table = table.take(np.flatnonzero(table.weight))
    n_rows = len(table.X)
    n_test = round(n_rows * test_fraction)
    if test_fraction > 0 and (n_test < 1 or n_rows - n_test < 4):
        raise ValueError(
            f"{n_rows} rows are too few to hold some out; add rows, or measure no "
            "errors (test_fraction 0)"
        )
    test, training = drawn(table, n_test, seed)
    n_test, n_training = len(test), len(training)
    say(f"fitting on {n_training:,} rows")
    grown_on = table.take(training)
    started = perf_counter()
    fitted: Any = clone(model)
    grown_on.fit(fitted)
    seconds = perf_counter() - started
    say(f"fitted in {seconds:.1f} s")
    if not n_test:
        return Evaluation(fitted, n_training, 0, {}, seconds)
    which = "held-out rows"
    if table.group is not None:
        n_groups = table.group.iloc[test].nunique(dropna=False)
        which = f"rows of {n_groups:,} held-out groups"
    which = which if table.time is None else "latest rows"
    say(f"measuring on {n_test} {which}, beside two other methods")
    held_out = table.take(test)
    own = measured(fitted, held_out.X, held_out.y, held_out.weight)
    if hasattr(fitted, "n_leaves_"):
        own |= {"leaves": fitted.n_leaves_}
    scores = {fitted._method: own}
    scores |= _baselines(fitted, grown_on, held_out, seed)
    return Evaluation(fitted, n_training, n_test, scores, seconds, held_out)


def drawn(
    table: TrainingTable, n_first: int, seed: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Draw about so many rows at random: their positions, and those of the others.

    Of groups whole ones are drawn, at least one; of times the latest rows, those of one
    time together.
    """
    n_rows, random = len(table.X), np.random.default_rng(seed)
    if not n_first:
        return np.arange(0), np.arange(n_rows)
    if table.time is not None:
        time = table.time.to_numpy()
        first = time >= np.sort(time)[n_rows - n_first]
    elif table.group is not None:
        group = table.group.astype(str).factorize()[0]
        order = random.permutation(group.max() + 1)
        n_before = np.cumsum(np.bincount(group)[order])
        n_groups = max(int(np.sum(n_before <= n_first)), 1)
        first = np.isin(group, order[:n_groups])
    else:
        order = random.permutation(n_rows)
        first = np.isin(np.arange(n_rows), order[:n_first])
    if first.all():
        raise ValueError(
            "no rows are left to grow a tree on: all are of one group or time"
        )
    return np.flatnonzero(first), np.flatnonzero(~first)


def measured(model: Any, X: Any, y: Any, weight: Any = None) -> Score:
    """Measure errors: of numbers ``mse``, ``rmse``, ``mae`` and ``r2``.

    R² is None if the targets are constant. Of classes ``error``, the share that is
    wrong, and ``log_loss``, in nats; a class that the model has never seen is wrong.
    """

    def mean(values: np.ndarray) -> float:
        return float(np.average(values, weights=weight))

    y = np.asarray(y)
    if is_classifier(model):
        probability = model.predict_proba(X)
        member = y[:, None] == model.classes_
        actual = np.where(member.any(axis=1), member.argmax(axis=1), -1)
        wrong = probability.argmax(axis=1) != actual
        losses = log_losses(probability, actual)
        return {"error": mean(wrong), "log_loss": mean(losses)}
    residual = model.predict(X) - y
    mse, variance = mean(residual**2), mean((y - mean(y)) ** 2)
    return {
        "mse": mse,
        "rmse": math.sqrt(mse),
        "mae": mean(np.abs(residual)),
        "r2": 1 - mse / variance if variance > 0 else None,
    }


def _baselines(
    model: Any, grown_on: TrainingTable, held_out: TrainingTable, seed: int
) -> dict[str, Score]:
    """Measure least squares or logistic regression, and CART of a held-out size.

    Missing numbers are filled in with the mean for both. CART chooses among powers of
    two leaves on as large a part of the training rows as the tree is pruned on, of
    groups or times like the held-out rows, and is then refitted on all of them.
    """
    schema = model._schema
    others: Any = make_pipeline(
        SimpleImputer(keep_empty_features=True), StandardScaler()
    )
    encoder = make_column_transformer(
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            [schema.names[column] for column in schema.discrete],
        ),
        remainder=others,
    )
    # Dates in parts, and ordered categories as places.
    tables = (
        pd.DataFrame(dict(zip(schema.names, schema.columns_of(one), strict=True)))
        for one in (grown_on.X, held_out.X)
    )
    training = np.asarray(encoder.fit_transform(next(tables)))
    test = np.asarray(encoder.transform(next(tables)))
    classes = is_classifier(model)
    linear: Any = LogisticRegression(max_iter=5000) if classes else LinearRegression()
    name = "logistic regression" if classes else "ordinary least squares"
    cart: Any = DecisionTreeClassifier if classes else DecisionTreeRegressor
    y, weight = grown_on.y, grown_on.weight
    judging, growing = _choosing(grown_on, seed)
    some, judges = grown_on.take(growing), grown_on.take(judging)

    def error_with(size: int) -> tuple[float, ...]:
        model = cart(max_leaf_nodes=size, random_state=seed)
        model.fit(training[growing], some.y, sample_weight=some.weight)
        score = measured(model, training[judging], judges.y, judges.weight)
        # A pure leaf that is wrong once has no end of log-loss: of trees with such
        # leaves that would choose the smallest.
        measures = ("error", "log_loss") if classes else ("mse",)
        return tuple(score[measure] or 0.0 for measure in measures)

    sizes = [2**k for k in range(1, 12) if 2**k <= max(2, len(growing))]
    chosen = cart(max_leaf_nodes=min(sizes, key=error_with), random_state=seed)
    chosen.fit(training, y, sample_weight=weight)
    leaves = {"leaves": int(chosen.get_n_leaves())}
    seen = test, held_out.y, held_out.weight
    return {
        name: measured(linear.fit(training, y, sample_weight=weight), *seen),
        "CART (scikit-learn)": measured(chosen, *seen) | leaves,
    }


def _choosing(table: TrainingTable, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the rows that choose CART's size, and those that it is grown on."""
    n_judging = math.ceil(_CHOOSING_SHARE * len(table.y))
    try:
        return drawn(table, n_judging, [seed, 2])
    except ValueError:  # all are of one group or time
        return drawn(table._replace(group=None, time=None), n_judging, [seed, 2])


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
