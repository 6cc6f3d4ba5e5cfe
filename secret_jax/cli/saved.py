"""The commands for saved models: predict, show and export.

Files are read as the file was that the model learned from; those for a model that was
fitted in Python are read as its columns were.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from sklearn.base import is_classifier

import secret_jax
from secret_jax.cli.files import TableFile
from secret_jax.cli.formats import Reading
from secret_jax.cli.learning import read
from secret_jax.cli.messages import CommandError, check_output, draw, say
from secret_jax.inspect.printing import listed
from secret_jax.tree.file import estimator_name, replacing

_DIGITS = 7  # that float32 carries


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
    given = {"max_categories": None} if arguments.categories else {}
    for name in ("max_depth", "precision", "max_terms"):
        given[name] = getattr(arguments, name)
    print(model.export_text(**given).rstrip("\n"))
    if arguments.plot is not None:
        draw(model, arguments.plot)
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
        print(text if i == 0 else f"\n{text}")
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
