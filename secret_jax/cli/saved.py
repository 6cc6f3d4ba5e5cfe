"""The commands for saved models: predict, explain, score, export and show.

Files are read as the file was that the model learned from.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from secret_jax.cli.messages import (
    PROGRAM,
    CommandError,
    check_output,
    flags_for_parameters,
    say,
)
from secret_jax.cli.pictures import check_picture, draw

if TYPE_CHECKING:
    import pandas as pd

    from secret_jax.cli.reading.files import TableFile
    from secret_jax.cli.reading.table import Reading
    from secret_jax.estimators.regressor import SecretRegressor

_DIGITS = 7  # that float32 carries


def loaded(path: str) -> Any:
    """A saved model; a misspelt name is guessed."""
    from secret_jax.cli.reading.problems import did_you_mean
    from secret_jax.estimators.classifier import SecretClassifier
    from secret_jax.estimators.regressor import SecretRegressor
    from secret_jax.tree.file import holds_classes, load_model

    if not os.path.exists(path):
        folder = os.path.dirname(path) or "."
        siblings = os.listdir(folder) if os.path.isdir(folder) else []
        hint = did_you_mean(os.path.basename(path), siblings)
        raise CommandError(f"there is no file {path!r}{hint}")
    return load_model(
        path, SecretClassifier if holds_classes(path) else SecretRegressor
    )


def predict(arguments: argparse.Namespace) -> None:
    """Predict the rows of a file with a saved model."""
    if arguments.out is not None:
        check_output(arguments.out)
    model = loaded(arguments.model)
    if arguments.stream:
        from secret_jax.cli.streaming import predict_streamed

        predict_streamed(arguments, model)
        return
    if arguments.interval is not None:
        _check_calibrated(model)
    table, X, _ = _read_rows(model, arguments, arguments.keep)
    with flags_for_parameters(), table.placing():
        columns = _predictions(model, X, arguments)
    for name in arguments.keep:
        if name in columns:
            raise CommandError(f"--keep names {name!r}, as a column of the output is")
    kept = {name: table.frame[name] for name in arguments.keep}
    _write_table(kept | columns, X.index, arguments.out, "predictions")


def _predictions(
    model: Any, X: pd.DataFrame, arguments: argparse.Namespace
) -> dict[str, list]:
    from sklearn.base import is_classifier

    prediction = model.predict(X)
    columns = {}
    if is_classifier(model):
        columns["prediction"] = prediction.tolist()
        chances = model.predict_proba(X).T
        for name, chance in zip(model.classes_.tolist(), chances, strict=True):
            columns[f"probability of {name}"] = _written(chance)
    elif prediction.ndim == 1:
        columns["prediction"] = _written(prediction)
    else:
        for name, values in zip(
            model.tree_.schema.target_names, prediction.T, strict=True
        ):
            columns[f"prediction of {name}"] = _written(values)
    if arguments.interval is not None:
        lower, upper = model.predict_interval(X, coverage=arguments.interval)
        columns |= {"lower": _written(lower), "upper": _written(upper)}
    if arguments.leaf:
        columns["leaf"] = model.apply(X).tolist()
    return columns


def _check_calibrated(model: SecretRegressor) -> None:
    if not hasattr(model, "conformity_scores_"):
        raise CommandError(
            "--interval needs a model that knows how far off it may be: fit it with "
            "--calibrate 0.2, or without --refit-all"
        )


def _written(values) -> list[str]:
    """Numbers with as many digits as a prediction has.

    Examples
    --------
    >>> _written([188485.04622061856, 0.1, 2.0, 1234567890.0])
    ['188485', '0.1', '2', '1234568000']
    """
    return [repr(float(f"{v:.{_DIGITS}g}")).removesuffix(".0") for v in values]


def explain(arguments: argparse.Namespace) -> None:
    """Print why rows get their predictions, or write what each column adds."""
    if arguments.out is not None:
        check_output(arguments.out)
    model = loaded(arguments.model)
    table, X, _ = _read_rows(model, arguments, ())
    if arguments.out is None:
        X = X.iloc[: arguments.rows]
    with flags_for_parameters(), table.placing():
        why = model.explain(X)
    if arguments.out is None:
        texts = [
            why.row_text(row).replace(f"row {row}", table.place(row), 1)
            for row in range(len(why))
        ]
        print("\n\n".join(texts))
        hidden = len(table.frame) - len(why)
        if hidden > 0:
            say(f"{hidden} more rows; --rows N prints more, --out FILE writes all")
        return
    frame = why.to_dataframe(backend="pandas")
    numbers = frame.select_dtypes("floating").columns
    columns = {
        name: _written(frame[name]) if name in numbers else frame[name].tolist()
        for name in frame.columns
    }
    _write_table(columns, frame.index, arguments.out, "explanations")


def score(arguments: argparse.Namespace) -> None:
    """Measure a saved model on a file that has the target."""
    from sklearn.base import is_classifier

    from secret_jax.cli.evaluation import measured, rounded
    from secret_jax.cli.reading.columns import Texts
    from secret_jax.cli.reading.numbers import NumberFormat
    from secret_jax.cli.reading.table import Reading
    from secret_jax.cli.reading.targets import target_labels, target_rows

    model = loaded(arguments.model)
    target = _target_of(model)
    classes = is_classifier(model)
    table, X, reading = _read_rows(model, arguments, (target,))
    table.column(target, "the target of the model is")
    if target not in reading.formats:
        chosen = Texts() if classes else NumberFormat()
        reading = Reading(formats={target: chosen}, missing=reading.missing)
    read_target = target_labels if classes else target_rows
    rows, y, notes = read_target(table, target, reading)
    for note in notes:
        say(f"  {note}")
    with flags_for_parameters(), table.placing():
        found = measured(model, X.loc[rows.frame.index], y)
    if classes:
        print(f"{'Rows':<10}{len(y):>12,}")
        print(f"{'Wrong':<10}{100 * (found['error'] or 0.0):>10.1f} %")
        print(f"{'Log-loss':<10}{rounded(found['log_loss']):>12}")
        return
    print(f"{'Rows':<6}{len(y):>12,}")
    for name, kind in (("RMSE", "rmse"), ("MAE", "mae"), ("R²", "r2")):
        print(f"{name:<6}{rounded(found[kind]):>12}")


def _target_of(model: Any) -> str:
    """The column that a model predicts; classifiers keep the names of classes only."""
    from sklearn.base import is_classifier

    reading = _reading(model)
    if not is_classifier(model):
        target = model.tree_.schema.target_name
        return reading.name_of(str(target))
    formats = [*reading.formats]  # the target is the last
    if not formats or reading.label(formats[-1]) in model.tree_.schema.input_names:
        raise CommandError(
            "the model does not know which column holds its classes: it was not "
            f"fitted by {PROGRAM} fit"
        )
    return formats[-1]


def export(arguments: argparse.Namespace) -> None:
    """Print a saved model as a program, or as text for Graphviz."""
    from secret_jax.cli.reading.dates import DateFormat
    from secret_jax.cli.reading.numbers import NumberFormat

    if arguments.out is not None:
        check_output(arguments.out)
    if arguments.table is not None and arguments.language != "sql":
        raise CommandError("--table goes with sql only")
    if arguments.name is not None and arguments.language == "dot":
        raise CommandError("--name goes with python and sql only")
    model = loaded(arguments.model)
    if arguments.language == "dot":
        text = model.export_dot()
    else:
        text = model.export_code(
            arguments.language, function_name=arguments.name, table=arguments.table
        )
        reading = _reading(model)
        for name in model.tree_.schema.input_names:
            chosen = reading.formats[reading.name_of(name)]
            if isinstance(chosen, NumberFormat) and not chosen.is_plain:
                say(f"{name}: the program takes numbers, not the texts of the file")
            if isinstance(chosen, DateFormat):
                say(f"{name}: the program takes dates, or text as in 2024-02-29")
    if arguments.out is None:
        print(text.rstrip("\n"))
        return
    from secret_jax.tree.archive import replacing

    with replacing(arguments.out) as file:
        file.write(text.encode())
    say(f"wrote {arguments.out}")


def show(arguments: argparse.Namespace) -> None:
    """Print a saved model, and draw it if asked to."""
    from secret_jax.inspect.arguments import MOST_CATEGORIES

    if arguments.plot is not None:
        check_picture(arguments.plot)
    model = loaded(arguments.model)
    text = model.export_text(
        max_depth=arguments.max_depth,
        precision=arguments.precision,
        max_terms=arguments.max_terms,
        max_categories=None if arguments.categories else MOST_CATEGORIES,
    )
    print(text.rstrip("\n"))
    if arguments.plot is not None:
        draw(model, arguments.plot)
        say(f"wrote the picture to {arguments.plot}")


def _reading(model: SecretRegressor) -> Reading:
    from secret_jax.cli.reading.table import Reading

    if hasattr(model, "reading_"):
        return Reading.from_json(model.reading_)
    return Reading.of_schema(model.tree_.schema)


def _read_rows(
    model: SecretRegressor,
    arguments: argparse.Namespace,
    kept: tuple[str, ...] | list[str],
) -> tuple[TableFile, pd.DataFrame, Reading]:
    """A file, its columns for the model, and how they are read."""
    from secret_jax.cli.reading.files import refuse_infinity
    from secret_jax.cli.reading.problems import some
    from secret_jax.cli.training_table import read

    schema, reading = model.tree_.schema, _reading(model)
    reading = replace(reading, missing=(*reading.missing, *arguments.na))
    needed = [reading.name_of(label) for label in schema.input_names]
    wanted = (*needed, *kept) if schema.named else kept
    table = read(arguments.file, arguments, {*reading.text_columns, *kept}, wanted)
    columns = list(table.frame.columns)
    if not schema.named:
        if len(columns) != len(needed):
            raise CommandError(
                f"{table.path!r} has {len(columns)} columns, but the model was fitted "
                f"without names on {len(needed)}; give a file with just these, in order"
            )
        table.frame.columns = columns = needed
    lacking = [name for name in needed if name not in columns]
    asked = _asked_columns(model) if lacking else set()
    for name, label in zip(needed, schema.input_names, strict=True):
        if name in lacking and (label in asked or not schema.allow_missing):
            table.column(name, "the model needs the column")
    if lacking:
        say(f"  not in the file, and not asked for: {some(lacking, most=8)}")
    for name in kept:
        table.column(name, "--keep names")
    unused = [name for name in columns if name not in needed and name not in kept]
    if unused:
        say(f"  not used by the model: {some(unused, most=8)}")
    frame = table.frame.assign(**dict.fromkeys(lacking))
    table = table._replace(frame=frame)
    X = reading.apply(table, needed)
    refuse_infinity(table, X, "delete the value or the row")
    return table, X.rename(columns=reading.labels), reading


def _asked_columns(model: SecretRegressor) -> set[str]:
    """Columns on which predictions depend, by the model's names for them."""
    tree = model.tree_
    schema = tree.schema
    in_sums = (tree.direction != 0).any(axis=0)
    slopes = (tree.coefficient[tree.is_leaf][:, :, 1:] != 0).any(axis=(0, 1))
    in_sums[: len(slopes)] |= slopes
    asked = {schema.input_columns[place] for place in np.flatnonzero(in_sums)}
    asked |= {schema.discrete[attribute] for attribute in tree.asked_attributes}
    if tree.additive is not None:
        asked |= {curve.input_column(schema) for curve in tree.additive.curves}
    return {schema.origin(column).column for column in asked}


def _write_table(columns: dict, index: pd.Index, path: str | None, what: str) -> None:
    import pandas as pd

    frame = pd.DataFrame(columns, index=index)
    if path is None:
        frame.to_csv(sys.stdout, index=False)
        return
    from secret_jax.tree.archive import replacing

    with replacing(path) as file:
        frame.to_csv(file, index=False)
    say(f"wrote {len(frame)} {what} to {path}")
