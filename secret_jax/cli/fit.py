"""The commands that grow a tree, on a file or on data at hand, and measure it.

Errors are those on held-out rows, beside those of the mean and least squares. A command
takes the parsed arguments, prints its result to standard output and its progress to
standard error.
"""

import argparse
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import secret_jax
from secret_jax.cli.learning import Rows, training_rows
from secret_jax.cli.messages import PROGRAM, CommandError, check_output, draw, say
from secret_jax.inspect.printing import counted, number
from secret_jax.runtime.environment import VERSION, imported

TREE = "SECRET tree"  # its name among the methods
Scores = dict[str, dict[str, float | None]]

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
_STORY = """\
How large are the largest cell nuclei of a tumour? Measured for 569 women (the breast
cancer data that comes with scikit-learn), and predicted from means and the diagnosis.
"""
_COLUMNS = ("radius", "texture", "smoothness", "concavity", "symmetry")


def demo(arguments: argparse.Namespace) -> None:
    """Grow a tree on measured cell nuclei, measure its errors, and draw it."""
    check_output(arguments.out, picture=True)
    print(_STORY, flush=True)
    data: Any = load_breast_cancer(as_frame=True)
    X = data.data[[f"mean {name}" for name in _COLUMNS]].set_axis(_COLUMNS, axis=1)
    X["diagnosis"] = pd.Categorical(data.target_names[data.target].astype(str))
    rows = Rows(X, data.data["worst area"].rename("largest area"))
    model = secret_jax.SecretRegressor(max_leaf_nodes=4, oblique=False)
    _, held_out, scores = evaluate(model, rows, test_fraction=0.2, seed=0)
    draw(model, arguments.out)
    print(model.export_text())
    print(_score_table(scores, f"Errors on {len(held_out.y)} held-out rows"))
    print(f"\nNow your own table:  {PROGRAM} fit FILE TARGET")
    print(f"The picture of the tree is in {arguments.out}")


def fit(arguments: argparse.Namespace) -> None:
    """Grow a tree on a file, measure it, save and report it."""
    out, report, share = arguments.out, arguments.report, arguments.test_fraction
    check_output(out)
    if arguments.seed < 0:
        raise CommandError(f"--seed {arguments.seed} is below zero")
    if min(arguments.calibrate, share) < 0 or arguments.calibrate + share >= 1:
        raise CommandError(
            f"--calibrate {arguments.calibrate:g} and --test-fraction {share:g} leave "
            "no rows to grow a tree on"
        )
    if report is not None:
        imported("matplotlib", "Pictures", "plot")
        imported("jinja2", "Pages", "plot")
        os.makedirs(report, exist_ok=True)
    rows = training_rows(arguments)
    if rows.classes:
        n_classes = counted(rows.y.nunique(), "class", "classes")
        say(f"  {rows.y.name}: {n_classes}, so the tree is a classifier")
    model = _model(arguments, rows)
    # Probabilities say how sure they are, and other losses predict no means.
    known = model.get_params().get("loss", "squared") in ("auto", "squared")
    has_intervals = known and hasattr(model, "conformalize") and not rows.classes
    if arguments.calibrate and not has_intervals:
        raise CommandError(
            "--calibrate needs a target of numbers, one tree, --loss auto or squared"
        )
    n_aside = round(len(rows.y) * arguments.calibrate)
    aside, rows = rows.drawn(n_aside, arguments.seed + 1)
    n_training, held_out, scores = evaluate(model, rows, share, arguments.seed)
    if arguments.refit_all and scores:
        say(f"growing the tree again on all {len(rows.y):,} rows")
        own = scores.pop(model._method)
        scores = {f"{model._method} of {n_training:,} rows": own} | scores
        rows.fit(model)
    elif not len(aside.y):
        aside = held_out
    model.set_params(verbose=0)
    if len(aside.y) and has_intervals:
        model.conformalize(aside.X, aside.y, aside.beside.get("weight"))
        say(f"intervals are calibrated on {len(aside.y):,} rows")
    model.reading_ = asdict(rows.reading) | {"target": arguments.target}
    if out is not None:
        model.save(out)  # files first: a closed pipe may end the printing
    if report is not None:
        _write_report(arguments, model, n_training, held_out, scores)
    booster = not hasattr(model, "export_text")  # it is too large for text
    text = f"a booster of {model.n_trees_:,} trees" if booster else model.export_text()
    print(text.rstrip("\n"))
    if scores:
        heading = f"Errors on {len(held_out.y):,} held-out rows"
        print(f"\n{_score_table(scores, heading)}", flush=True)
    if report is not None:
        say(f"wrote {', '.join(sorted(os.listdir(report)))}")
    if out:
        say(f"wrote {out}; use it: {PROGRAM} predict {out} FILE")
    elif report is None:
        say("nothing was saved; --out MODEL keeps the tree, --report DIR a picture too")


def _model(arguments: argparse.Namespace, rows: Rows) -> Any:
    """Build the estimator that the options ask for, or change a preset of it."""
    kind = "Boosting" * (arguments.model == "booster")
    kind = f"Secret{kind}{'Classifier' if rows.classes else 'Regressor'}"
    estimator, preset = getattr(secret_jax, kind), arguments.preset
    trees: Any = (secret_jax.SecretRegressor, secret_jax.SecretClassifier)
    names = {name for one in trees for name in one().get_params(deep=False)}
    given = {name: value for name, value in vars(arguments).items() if name in names}
    if preset in getattr(estimator, "_literature", ()):
        model = estimator.literature(preset)
    elif preset in ("accurate", "paper") and hasattr(estimator, preset):
        model = getattr(estimator, preset)()
    elif preset:
        raise CommandError(f"--preset {preset} does not go with a {kind}")
    else:
        model = estimator()
    for name in given.keys() - model.get_params():
        flag = name.replace("_", "-")
        raise CommandError(f"--{flag} does not go with a {kind}")
    roles = {"categorical_features": arguments.categorical}
    roles |= {"split_features": arguments.split_only}
    roles |= {"monotonic_cst": arguments.monotone}
    given |= {name: columns for name, columns in roles.items() if columns}
    given |= {"random_state": arguments.seed, "verbose": not arguments.quiet}
    return model.set_params(**given)


def _write_report(
    arguments: argparse.Namespace,
    model: Any,
    n_training: int,
    held_out: Rows,
    scores: Scores,
) -> None:
    """Write the errors, a picture and a page to a folder."""
    folder = Path(arguments.report)
    content = {
        "version": VERSION,
        "file": arguments.file,
        "target": arguments.target,
        "n_training": n_training,
        "n_test": len(held_out.y),
        "refitted_on_all_rows": arguments.refit_all,
        "errors": scores,
        "parameters": model.get_params(),
    }
    errors = json.dumps(content, indent=2, default=repr)
    (folder / "errors.json").write_text(errors + "\n", encoding="utf-8")
    if not hasattr(model, "to_html"):  # a booster
        return
    unseen = len(held_out.y) > 0 and not arguments.refit_all
    rows = (held_out.X, held_out.y) if unseen else ()
    others = {name: score for name, score in scores.items() if name != TREE}
    title = f"{arguments.target} from {Path(arguments.file).name}"
    page = model.to_html(*rows, comparison=others, title=title)
    (folder / "report.html").write_text(page, encoding="utf-8")
    draw(model, folder / "tree.png")


def evaluate(
    model: Any, rows: Rows, test_fraction: float, seed: int
) -> tuple[int, Rows, Scores]:
    """Fit a model on one part of the rows; measure on the rest, drawn by the seed.

    Returns the number of rows that it was fitted on, the others, and scores of
    `measured` on these, by method: with the leaves of the tree, and of baselines.
    """
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
    scores: Scores = {}
    if n_test:
        say(f"measuring on {len(held_out.y):,} rows")
        scores[model._method] = measured(model, held_out)
        if hasattr(model, "n_leaves_"):
            scores[model._method]["leaves"] = model.n_leaves_
        scores |= _baselines(model._schema, grown_on, held_out)
    return len(grown_on.y), held_out, scores


def measured(model: Any, rows: Rows) -> dict[str, float | None]:
    """Measure errors: of numbers ``mse``, ``rmse``, ``mae`` and ``r2``.

    R² is None if the targets are constant. Of classes ``error``, the share that is
    wrong, and ``log_loss``, in nats; a class that the model has never seen is wrong.
    """
    y, mean = np.asarray(rows.y), partial(np.average, weights=rows.beside.get("weight"))
    if is_classifier(model):
        probability = model.predict_proba(rows.X)
        wrong = model.classes_[probability.argmax(axis=1)] != y
        chance = (probability * (y[:, None] == model.classes_)).sum(axis=1)
        losses = -np.log(np.clip(chance, 1e-15, 1.0))
        return {"error": float(mean(wrong)), "log_loss": float(mean(losses))}
    residual = model.predict(rows.X) - y
    mse, variance = float(mean(residual**2)), mean((y - mean(y)) ** 2)
    r2 = float(1 - mse / variance) if variance > 0 else None
    mae = float(mean(abs(residual)))
    return {"mse": mse, "rmse": math.sqrt(mse), "mae": mae, "r2": r2}


def _baselines(schema: Any, grown_on: Rows, held_out: Rows) -> Scores:
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


def _score_table(scores: Mapping[str, Any], heading: str) -> str:
    """Write the errors of methods as a table for people."""
    table = pd.DataFrame(scores, dtype=float)
    cells = {
        name: table.loc[measure].astype(object).map(write, "ignore").fillna("-")
        for measure, (name, write) in _MEASURES.items()
        if measure in table.index
    }
    frame = pd.DataFrame(cells).rename("  {}".format)
    return frame.rename_axis(columns=heading).to_string(col_space=8)
