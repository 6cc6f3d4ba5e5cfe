"""The commands for saved models: predict, show and export.

Files are read as the file was that the model learned from.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from sklearn.base import is_classifier

import secret_jax
from secret_jax.cli.evaluation import measured, score_table
from secret_jax.cli.messages import CommandError, check_output, draw, say
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.formats import ColumnFormat
from secret_jax.cli.reading.problems import check_exists
from secret_jax.cli.reading.table import Reading
from secret_jax.cli.rows import Rows, read
from secret_jax.inspect.printing import some
from secret_jax.tree.archive import replacing
from secret_jax.tree.file import estimator_name

_DIGITS = 7  # that float32 carries


def predict(arguments: argparse.Namespace) -> None:
    """Predict the rows of a file; measure errors where it has the target."""
    check_output(arguments.out)
    model = _loaded(arguments.model, "apply" if arguments.leaf else "predict")
    if arguments.interval is not None and not hasattr(model, "conformity_scores_"):
        raise CommandError(
            "--interval needs a model that knows how far off it may be: fit it to "
            "numbers with --loss squared or auto, and --calibrate 0.2 or without "
            "--refit-all"
        )
    table, X = _read_rows(model, arguments, arguments.keep)
    columns = {name: table.frame[name] for name in arguments.keep}
    prediction = model.predict(X)
    found = {"prediction": prediction}
    if prediction.ndim > 1:
        names = [f"prediction of {name}" for name in model._schema.target_names]
        found = dict(zip(names, prediction.T, strict=True))
    if is_classifier(model):
        names = [f"probability of {name}" for name in model.classes_]
        found |= dict(zip(names, model.predict_proba(X).T, strict=True))
    if arguments.interval is not None:
        bounds = model.predict_interval(X, coverage=arguments.interval)
        found |= dict(zip(("lower", "upper"), bounds, strict=True))
    if arguments.leaf:
        found["leaf"] = model.apply(X)
    if twice := columns.keys() & found.keys():
        raise CommandError(f"--keep names {min(twice)!r}, as a column of the output is")
    _write_table(pd.DataFrame(columns | found, index=X.index), arguments.out)
    _say_errors(model, table, X)


def _say_errors(model: Any, table: TableFile, X: Any) -> None:
    """Say how far off predictions are, if the file has the target."""
    reading, classes = _reading(model), is_classifier(model)
    target: Any = getattr(model, "reading_", {}).get("target")
    if target not in table.frame:
        return
    try:
        y: Any = reading.apply(table, [target])[target]
    except CommandError as error:
        say(f"errors are not measured: {error}")
        return
    known = y.notna()
    if known.any():
        rows = Rows(X[known], y[known].astype(str if classes else float), classes)
        heading = f"Errors on the {known.sum():,} rows that have {target}"
        say(score_table({model._method: measured(model, rows)}, heading))


def show(arguments: argparse.Namespace) -> None:
    """Print a saved model, and draw it if asked to; or explain rows of a file."""
    check_output(arguments.plot, picture=True)
    check_output(arguments.out)
    if arguments.file is not None:
        _explain(arguments)
        return
    model = _loaded(arguments.model, "export_text")
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


def _explain(arguments: argparse.Namespace) -> None:
    """Print why rows get their predictions, or write what each column adds."""
    model = _loaded(arguments.model, "explain")
    table, X = _read_rows(model, arguments)
    why = model.explain(X if arguments.out else X.iloc[: arguments.rows])
    if not hasattr(why, "row_text"):
        raise CommandError(
            f"{arguments.model!r} holds a {type(model).__name__}, whose rows are "
            "explained in Python only: model.explain(X)"
        )
    if arguments.out is not None:
        _write_table(why.to_dataframe(), arguments.out)
        return
    texts = (
        why.row_text(i).replace(f"row {i}", table.place(i), 1) for i in range(len(why))
    )
    print("\n\n".join(texts))
    if (hidden := len(X) - len(why)) > 0:
        say(f"{hidden} more rows; --rows N prints more, --out FILE writes all")


def export(arguments: argparse.Namespace) -> None:
    """Print a saved model as a program, or as text for Graphviz."""
    check_output(arguments.out)
    language = arguments.language
    methods = {"dot": "export_dot", "onnx": "to_onnx"}
    model = _loaded(arguments.model, methods.get(language, "export_code"))
    given = {"table": arguments.table, "function_name": arguments.name}
    given = {name: value for name, value in given.items() if value is not None}
    if language in methods and given:
        raise CommandError(f"--name and --table do not go with {language}")
    if language == "onnx" and arguments.out is None:
        raise CommandError("onnx is no text; name a file for it with --out FILE")
    if language == "dot":
        text = model.export_dot()
    elif language == "onnx":
        text = model.to_onnx().SerializeToString()
    else:
        text = model.export_code(language, **given)
    for name in model._schema.input_names if language != "dot" else ():
        one = _reading(model).formats[name]
        takes = {"date": "dates, or text as in 2024-02-29", "number": "numbers"}
        if one.kind == "date" or (one.kind == "number" and one != ColumnFormat()):
            say(f"{name}: the program takes {takes[one.kind]}, not the file's texts")
    if arguments.out is None:
        print(text.rstrip("\n"))
        return
    with replacing(arguments.out) as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    say(f"wrote {arguments.out}")


def _loaded(path: str, method: str) -> Any:
    """Load a saved model that can do something; a misspelt name is guessed."""
    check_exists(path)
    model = getattr(secret_jax, estimator_name(path)).load(path)
    if not hasattr(model, method):
        raise CommandError(
            f"{path!r} holds a {type(model).__name__}, which has no {method}; fit with "
            "--model tree"
        )
    return model


def _reading(model: Any) -> Reading:
    if hasattr(model, "reading_"):
        return Reading.from_json(model.reading_)
    return Reading.of_schema(model._schema)


def _read_rows(
    model: Any, arguments: argparse.Namespace, kept: Sequence[str] = ()
) -> tuple[TableFile, pd.DataFrame]:
    """Read a file, and its columns for the model."""
    schema, reading = model._schema, _reading(model)
    reading = replace(reading, missing=(*reading.missing, *arguments.na))
    needed = [*schema.input_names]
    table = read(arguments, (*needed * schema.named, *kept))
    if not schema.named and table.frame.shape[1] == len(needed):
        table = table._replace(frame=table.frame.set_axis(needed, axis=1))
    elif not schema.named:
        raise CommandError(
            f"{table.path!r} has {table.frame.shape[1]} columns, but the model was "
            f"fitted without names on {len(needed)}; give a file with just these"
        )
    for name in (*needed, *kept):
        what = "the model needs" if name in needed else "the command asks for"
        table.column(name, f"{what} the column")
    unused = [name for name in table.frame if name not in (*needed, *kept)]
    if unused:
        say(f"  not used by the model: {some(unused, most=8)}")
    return table, reading.apply(table, needed)


def _write_table(frame: pd.DataFrame, path: str | None) -> None:
    """Write a table as CSV, numbers with as many digits as a prediction has."""
    for name, column in frame.select_dtypes("floating").items():
        frame[name] = [f"{float(f'{value:.{_DIGITS}g}'):.15g}" for value in column]
    if path is None:
        frame.to_csv(sys.stdout, index=False)
        return
    with replacing(path) as file:
        frame.to_csv(file, index=False)
    say(f"wrote {len(frame):,} rows to {path}")
