"""The commands for saved models: predict, explain, score, export and show.

Files are read as the file was that the model learned from.
"""

import argparse
import sys
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from secret_jax.cli.evaluation import measured, score_lines
from secret_jax.cli.kinds import loaded
from secret_jax.cli.messages import (
    PROGRAM,
    CommandError,
    check_output,
    check_picture,
    draw,
    flags_for_parameters,
    say,
)
from secret_jax.cli.reading.columns import Texts
from secret_jax.cli.reading.dates import DateFormat
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.numbers import NumberFormat
from secret_jax.cli.reading.table import Reading
from secret_jax.cli.reading.targets import read_target
from secret_jax.cli.streaming import predict_streamed
from secret_jax.cli.training_table import read
from secret_jax.inspect.printing import some
from secret_jax.tree.archive import replacing
from secret_jax.tree.structure import Tree

_DIGITS = 7  # that float32 carries


def predict(arguments: argparse.Namespace) -> None:
    """Predict the rows of a file with a saved model."""
    check_output(arguments.out)
    model = loaded(arguments.model)
    if arguments.stream:
        predict_streamed(arguments, model)
        return
    if arguments.interval is not None and not hasattr(model, "conformity_scores_"):
        raise CommandError(
            "--interval needs a model that knows how far off it may be: fit it to "
            "numbers with --loss squared or auto, and --calibrate 0.2 or without "
            "--refit-all"
        )
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
) -> dict[str, Any]:
    """Predict rows, a column of the output for each thing that is asked for."""
    prediction = model.predict(X)
    columns = {"prediction": prediction}
    if hasattr(model, "classes_"):
        chances = model.predict_proba(X).T
        names = [f"probability of {name}" for name in model.classes_]
        columns |= dict(zip(names, chances, strict=True))
    elif prediction.ndim > 1:
        names = [f"prediction of {name}" for name in model._schema.target_names]
        columns = dict(zip(names, prediction.T, strict=True))
    if arguments.interval is not None:
        bounds = model.predict_interval(X, coverage=arguments.interval)
        columns |= dict(zip(("lower", "upper"), bounds, strict=True))
    if arguments.leaf and not hasattr(model, "apply"):
        raise CommandError("--leaf goes with a model of one tree")
    if arguments.leaf:
        columns["leaf"] = model.apply(X)
    return columns


def explain(arguments: argparse.Namespace) -> None:
    """Print why rows get their predictions, or write what each column adds."""
    check_output(arguments.out)
    model = loaded(arguments.model, "explain")
    table, X, _ = _read_rows(model, arguments)
    if arguments.out is None:
        X = X.iloc[: arguments.rows]
    with flags_for_parameters(), table.placing():
        why = model.explain(X)
    if not hasattr(why, "row_text"):
        raise CommandError(
            f"{arguments.model!r} holds a {type(model).__name__}, whose rows are "
            "explained in Python only: model.explain(X)"
        )
    if arguments.out is not None:
        frame = why.to_dataframe()
        _write_table(dict(frame.items()), frame.index, arguments.out, "explanations")
        return
    texts = [
        why.row_text(row).replace(f"row {row}", table.place(row), 1)
        for row in range(len(why))
    ]
    print("\n\n".join(texts))
    hidden = len(table.frame) - len(why)
    if hidden > 0:
        say(f"{hidden} more rows; --rows N prints more, --out FILE writes all")


def score(arguments: argparse.Namespace) -> None:
    """Measure a saved model on a file that has the target."""
    model = loaded(arguments.model)
    classes = hasattr(model, "classes_")
    target = _target_of(model, classes)
    table, X, reading = _read_rows(model, arguments, (target,))
    if target not in reading.formats:
        chosen = Texts() if classes else NumberFormat()
        reading = Reading(formats={target: chosen}, missing=reading.missing)
    rows, y, notes = read_target(table, target, reading)
    for note in notes:
        say(f"  {note}")
    with flags_for_parameters(), table.placing():
        errors = measured(model, X.loc[rows.frame.index], y)
    print(f"{'rows':<10}{len(y):>12,}\n{score_lines(errors)}")


def _target_of(model: Any, classes: bool) -> str:
    """Name the column that a model predicts; classifiers keep names of classes only."""
    reading = _reading(model)
    if not classes:
        return reading.name_of(str(model._schema.target_name))
    *_, last = [None, *reading.formats]  # the target
    if last is None or reading.labels[last] in model._schema.input_names:
        raise CommandError(
            "the model does not know which column holds its classes: it was not "
            f"fitted by {PROGRAM} fit"
        )
    return last


def export(arguments: argparse.Namespace) -> None:
    """Print a saved model as a program, or as text for Graphviz."""
    check_output(arguments.out)
    language = arguments.language
    if arguments.table is not None and language != "sql":
        raise CommandError("--table goes with sql only")
    if arguments.name is not None and language in ("dot", "onnx"):
        raise CommandError(f"--name does not go with {language}")
    if language == "onnx" and arguments.out is None:
        raise CommandError("onnx is no text; name a file for it with --out FILE")
    methods = {"dot": "export_dot", "onnx": "to_onnx"}
    model = loaded(arguments.model, methods.get(language, "export_code"))
    if language == "dot":
        text = model.export_dot()
    elif language == "onnx":
        text = model.to_onnx().SerializeToString()
    else:
        of_sql = {"table": arguments.table} if arguments.table is not None else {}
        text = model.export_code(language, function_name=arguments.name, **of_sql)
    if language != "dot":
        _say_what_it_takes(model, language)
    if arguments.out is None:
        print(text.rstrip("\n"))
        return
    with replacing(arguments.out) as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    say(f"wrote {arguments.out}")


def _say_what_it_takes(model: Any, language: str) -> None:
    """Say where a program takes other things than the file held."""
    reading = _reading(model)
    dates = "its parts as numbers, each a column of its own"
    dates = "dates, or text as in 2024-02-29" if language == "python" else dates
    asked = _asked_columns(model)
    for name in model._schema.input_names:
        if name not in asked:
            continue
        chosen = reading.formats[reading.name_of(name)]
        if isinstance(chosen, NumberFormat) and not chosen.is_plain:
            say(f"{name}: the program takes numbers, not the texts of the file")
        if isinstance(chosen, DateFormat):
            say(f"{name}: the program takes {dates}")


def show(arguments: argparse.Namespace) -> None:
    """Print a saved model, and draw it if asked to."""
    if arguments.plot is not None:
        check_picture(arguments.plot)
    model = loaded(arguments.model, "export_text")
    whole = {"max_categories": None} if arguments.categories else {}
    text = model.export_text(
        max_depth=arguments.max_depth,
        precision=arguments.precision,
        max_terms=arguments.max_terms,
        **whole,
    )
    print(text.rstrip("\n"))
    if arguments.plot is not None:
        draw(model, arguments.plot)
        say(f"wrote the picture to {arguments.plot}")


def _reading(model: Any) -> Reading:
    if hasattr(model, "reading_"):
        return Reading.from_json(model.reading_)
    return Reading.of_schema(model._schema)


def _read_rows(
    model: Any, arguments: argparse.Namespace, kept: Collection[str] = ()
) -> tuple[TableFile, pd.DataFrame, Reading]:
    """Read a file, its columns for the model, and say how they are read."""
    schema, reading = model._schema, _reading(model)
    reading = replace(reading, missing=(*reading.missing, *arguments.na))
    needed = [reading.name_of(label) for label in schema.input_names]
    wanted = (*needed, *kept) if schema.named else kept
    table = read(arguments, {*reading.text_columns, *kept}, wanted)
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
        table.column(name, "the command asks for")
    unused = [name for name in columns if name not in needed and name not in kept]
    if unused:
        say(f"  not used by the model: {some(unused, most=8)}")
    table = table._replace(frame=table.frame.assign(**dict.fromkeys(lacking)))
    X = reading.apply(table, needed)
    table.refuse_infinity(X, "delete the value or the row")
    return table, X.rename(columns=reading.labels), reading


def _asked_columns(model: Any) -> set[str]:
    """Columns on which predictions depend, by the model's names; of a sum, all."""
    schema, tree = model._schema, getattr(model, "tree_", None)
    if not isinstance(tree, Tree):
        return {*schema.input_names}
    in_sums = tree.in_splits
    slopes = (tree.coefficient[tree.is_leaf][:, :, 1:] != 0).any(axis=(0, 1))
    in_sums[: len(slopes)] |= slopes
    asked = {schema.input_columns[place] for place in np.flatnonzero(in_sums)}
    asked |= {schema.discrete[attribute] for attribute in tree.asked_attributes}
    return {schema.origin(column).column for column in asked}


def _write_table(
    columns: dict[str, Any], index: pd.Index, path: str | None, what: str
) -> None:
    """Write columns as CSV, numbers with as many digits as a prediction has."""
    frame = pd.DataFrame(columns, index=index)
    for name, column in frame.select_dtypes("floating").items():
        digits = [repr(float(f"{value:.{_DIGITS}g}")) for value in column]
        frame[name] = [text.removesuffix(".0") for text in digits]
    if path is None:
        frame.to_csv(sys.stdout, index=False)
        return
    with replacing(path) as file:
        frame.to_csv(file, index=False)
    say(f"wrote {len(frame)} {what} to {path}")
