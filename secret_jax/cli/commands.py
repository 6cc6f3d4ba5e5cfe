"""The commands: demo and fit grow a tree and measure it, the others use a saved one.

Errors are those on held-out rows, beside those of the mean and least squares. A command
takes the parsed arguments, prints its result to standard output and its progress to
standard error. Files are read as the one was that the model learned from; those for a
model that was fitted in Python are read as its columns were.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
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
from secret_jax.cli.files import TableFile
from secret_jax.cli.learning import Rows, read, training_rows
from secret_jax.cli.messages import PROGRAM, CommandError, check_output, say
from secret_jax.cli.reading import Reading
from secret_jax.inspect.printing import counted, listed, number
from secret_jax.runtime.environment import VERSION, imported, replacing
from secret_jax.tree.file import estimator_name

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
_MOST_STEPS = 1000  # of logistic regression
_DIGITS = 7  # that float32 carries


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
    _draw(model, arguments.out)
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
    if hasattr(model, "export_text"):
        print(model.export_text().rstrip("\n"))
    else:  # it is too large for text
        print(f"a booster of {model.n_trees_:,} trees")
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
    for name in sorted(given.keys() - model.get_params()):
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
    _draw(model, folder / "tree.png")


def _draw(model: Any, path: str | Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # only files are drawn to, no display is needed
    model.plot_tree().savefig(path, dpi=150)


def evaluate(
    model: Any, rows: Rows, test_fraction: float, seed: int
) -> tuple[int, Rows, Scores]:
    """Fit a model on one part of the rows; measure on the rest, drawn by the seed.

    Returns the number of rows that it was fitted on, the others, and on these what
    `measured` says of it and of baselines.
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
    """Measure errors of numbers or classes; one that was never seen is wrong."""
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
    # Sparse where there are many, for which dense sums would take minutes.
    categories = OneHotEncoder(handle_unknown="ignore")
    # All of them, also those that the tree does not look at.
    text = make_column_selector(dtype_exclude="number")
    encoder = make_column_transformer((categories, text), remainder=numbers)
    # Dates in parts, and ordered categories as places.
    training, test = (
        pd.DataFrame(dict(zip(schema.names, schema.columns_of(rows.X), strict=True)))
        for rows in (grown_on, held_out)
    )
    training, test = encoder.fit_transform(training), encoder.transform(test)
    models: dict[str, Any] = {"mean": DummyRegressor()}
    models["linear regression"] = LinearRegression()
    if grown_on.classes:
        models = {"shares of the classes": DummyClassifier(strategy="prior")}
        models["logistic regression"] = LogisticRegression(max_iter=_MOST_STEPS)
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


def predict(arguments: argparse.Namespace) -> None:
    """Predict the rows of a file."""
    check_output(arguments.out)
    model = _loaded(arguments.model, "apply" if arguments.leaf else "predict")
    if arguments.interval is not None and not hasattr(model, "conformity_scores_"):
        raise CommandError(
            "--interval needs a model that knows how far off it may be: fit it to "
            "numbers with --loss squared or auto, and --calibrate 0.2 or without "
            "--refit-all"
        )
    table, X = _read_rows(model, arguments, arguments.keep)
    names, prediction = ["prediction"], model.predict(X)
    if prediction.ndim > 1:
        names = [f"prediction of {name}" for name in model._schema.target_names]
    predictions = pd.DataFrame(prediction, index=X.index, columns=names)
    if is_classifier(model):
        names = [f"probability of {name}" for name in model.classes_]
        predictions[names] = model.predict_proba(X)
    if arguments.interval is not None:
        bounds = model.predict_interval(X, coverage=arguments.interval)
        predictions["lower"], predictions["upper"] = bounds
    if arguments.leaf:
        predictions["leaf"] = model.apply(X)
    if twice := {*predictions} & {*arguments.keep}:
        raise CommandError(f"--keep names {min(twice)!r}, as a column of the output is")
    _write_table(table.frame[arguments.keep].join(predictions), arguments.out)


def show(arguments: argparse.Namespace) -> None:
    """Print a saved model, and draw it if asked to; or explain rows of a file."""
    check_output(arguments.plot, picture=True)
    check_output(arguments.out)
    model = _loaded(arguments.model, "explain")
    if arguments.file is not None:
        _explain(model, arguments)
        return
    names = ("max_depth", "precision", "max_terms")
    given = {name: getattr(arguments, name) for name in names}
    given |= {"max_categories": None} if arguments.categories else {}
    print(model.export_text(**given).rstrip("\n"))
    if arguments.plot is not None:
        _draw(model, arguments.plot)
        say(f"wrote the picture to {arguments.plot}")


def _explain(model: Any, arguments: argparse.Namespace) -> None:
    """Print why rows get their predictions, or write what each column adds."""
    table, X = _read_rows(model, arguments)
    if arguments.out is not None:
        _write_table(model.explain(X).to_dataframe(), arguments.out)
        return
    why = model.explain(X.iloc[: arguments.rows])
    for i in range(len(why)):
        text = why.row_text(i).replace(f"row {i}", table.place(i), 1)
        print("\n" * (i > 0) + text)
    if (hidden := len(X) - len(why)) > 0:
        say(f"{hidden} more rows; --rows N prints more, --out FILE writes all")


def export(arguments: argparse.Namespace) -> None:
    """Print a saved model as a program, or as text for Graphviz."""
    check_output(arguments.out)
    language = arguments.language
    model = _loaded(arguments.model, "export_code")
    if language in ("dot", "sql") and not hasattr(model, "export_text"):
        raise CommandError(
            f"{arguments.model!r} holds a sum of trees, which is not written in "
            f"{language}; fit with --model tree"
        )
    if language == "onnx" and arguments.out is None:
        raise CommandError("onnx is no text; name a file for it with --out FILE")
    given = {"table": arguments.table, "function_name": arguments.name}
    given = {name: value for name, value in given.items() if value is not None}
    if language in ("dot", "onnx") and given:
        raise CommandError(f"--name and --table do not go with {language}")
    text = model.export_code(language, **given)
    text = text.SerializeToString() if language == "onnx" else text
    if arguments.out is None:
        print(text.rstrip("\n"))
        return
    with replacing(arguments.out) as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    say(f"wrote {arguments.out}")


def _loaded(path: str, method: str) -> Any:
    """Load a saved model that can do something."""
    model = getattr(secret_jax, estimator_name(path)).load(path)
    if not hasattr(model, method):
        raise CommandError(
            f"{path!r} holds a {type(model).__name__}, which has no {method}; fit with "
            "--model tree"
        )
    return model


def _read_rows(
    model: Any, arguments: argparse.Namespace, kept: Sequence[str] = ()
) -> tuple[TableFile, pd.DataFrame]:
    """Read a file, and its columns for the model, as those of the fit were."""
    schema, needed = model._schema, [*model._schema.input_names]
    reading = Reading.of_model(model)
    if hasattr(model, "reading_"):  # of a fit on a file
        reading = Reading.from_json(model.reading_)
    reading = replace(reading, missing=(*reading.missing, *arguments.na))
    table = read(arguments)
    if not schema.named:  # fitted on an array: columns go by their order
        if table.frame.shape[1] != len(needed):
            raise CommandError(
                f"{table.path!r} has {table.frame.shape[1]} columns, but the model was "
                f"fitted without names on {len(needed)}; give a file with just these"
            )
        table = table._replace(frame=table.frame.set_axis(needed, axis=1))
    for name in (*needed, *kept):
        what = "the model needs" if name in needed else "the command asks for"
        table.column(name, f"{what} the column")
    unused = [name for name in table.frame if name not in (*needed, *kept)]
    if unused:
        say(f"  not used by the model: {listed(unused, n_max=8)}")
    return table, reading.apply(table, needed)


def _write_table(frame: pd.DataFrame, path: str | None) -> None:
    """Write a table as CSV, numbers with as many digits as a prediction has."""
    how: Any = {"index": False}
    how["float_format"] = lambda value: f"{float(f'{value:.{_DIGITS}g}'):.15g}"
    if path is None:
        frame.to_csv(sys.stdout, **how)
        return
    with replacing(path) as file:
        frame.to_csv(file, **how)
    say(f"wrote {len(frame):,} rows to {path}")
