"""The commands of the command line: demo, fit, predict, show.

Each takes the parsed arguments of `secret_jax.cli.main`, prints its result to standard
output and its progress to standard error, and imports what is slow only when it runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from secret_jax.cli.evaluation import Evaluation
    from secret_jax.cli.table_file import TableFile
    from secret_jax.estimator import SecretRegressor

PROGRAM = "secret-jax"
DEMO_PICTURE = "secret_jax_demo.png"
# Options of fit that go to the estimator under the same name, unless left out.
_SAME_NAME = (
    "oblique",
    "leaf",
    "splits",
    "prune",
    "refine",
    "min_samples_split",
    "min_samples_leaf",
    "max_leaf_nodes",
    "max_depth",
)


class CommandError(Exception):
    """Something the user can mend; the text is the whole message."""


def demo(arguments: argparse.Namespace) -> None:
    """Grow a tree on data that comes with a dependency, and draw it."""
    _check_picture(arguments.out)
    _require("pandas", "data", "hold the table")
    print(
        "How large is a cell nucleus? The area of 569 nuclei under the microscope,\n"
        "from their radius, their texture and shape, and the diagnosis (the breast\n"
        "cancer data that comes with scikit-learn). An area grows with the square of\n"
        "the radius: one straight line cannot follow that, a few can.\n",
        flush=True,
    )
    say("starting JAX")
    from secret_jax.cli.evaluation import evaluate, score_table
    from secret_jax.estimator import SecretRegressor

    X, y = _demo_table()
    evaluation = evaluate(
        SecretRegressor(max_leaf_nodes=8, random_state=0, verbose=not arguments.quiet),
        X,
        y,
        test_fraction=0.2,
        seed=0,
        progress=say,
    )
    print(evaluation.model.export_text().rstrip("\n"))
    print(f"\n{score_table(evaluation)}\n")
    _draw(evaluation.model, arguments.out)
    print(f"The picture of the tree is in {arguments.out}")
    print(f"Now your own table:  {PROGRAM} fit FILE.csv --target COLUMN")


def _demo_table() -> tuple[pd.DataFrame, pd.Series]:
    from sklearn.datasets import load_breast_cancer

    data: Any = load_breast_cancer(as_frame=True)
    columns = ["radius", "texture", "smoothness", "concavity", "symmetry"]
    X = data.data[[f"mean {name}" for name in columns]].set_axis(columns, axis=1)
    X["diagnosis"] = data.target_names[data.target].astype(str)
    return X, data.data["mean area"].rename("area")


def fit(arguments: argparse.Namespace) -> None:
    """Grow a tree on a file, measure it beside the baselines, save and report it."""
    if not 0 <= arguments.test_fraction < 1:
        raise CommandError(
            f"--test-fraction is {arguments.test_fraction:g}; it must be at least 0 "
            "(which measures no errors) and below 1"
        )
    if arguments.seed < 0:
        raise CommandError(f"--seed is {arguments.seed}; it must be at least 0")
    if arguments.report is not None:
        _require("matplotlib", "plot", "draw a picture")
        os.makedirs(arguments.report, exist_ok=True)
    if arguments.out is not None:
        _check_output(arguments.out)
    table = _read(arguments.file)
    X, y = _features_and_target(table, arguments)

    from secret_jax.cli.evaluation import evaluate

    with _flags_for_parameters():
        evaluation = evaluate(
            _chosen_model(arguments),
            X,
            y,
            test_fraction=arguments.test_fraction,
            seed=arguments.seed,
            progress=say,
        )
    if arguments.refit_all and evaluation.n_test:
        say(f"growing the tree again on all {len(X)} rows")
        evaluation.model.fit(X, y)
    evaluation.model.set_params(verbose=0)
    result = _result_text(evaluation, arguments.refit_all)
    print(result)
    if arguments.report is not None:
        _write_report(Path(arguments.report), arguments, evaluation, result)
        say(f"wrote report.txt, tree.png and errors.json to {arguments.report}")
    if arguments.out is not None:
        from secret_jax.tree.file import save_model

        save_model(evaluation.model, arguments.out)
        say(f"wrote {arguments.out}; use it: {PROGRAM} predict {arguments.out} FILE")
    if arguments.out is None and arguments.report is None:
        say("nothing was saved; --out MODEL keeps the tree, --report DIR a picture too")


def _features_and_target(
    table: TableFile, arguments: argparse.Namespace
) -> tuple[pd.DataFrame, pd.Series]:
    """The columns to learn from and the target, checked before rows are taken apart."""
    import numpy as np

    from secret_jax.cli.table_file import known_column, number_column, refuse_infinity
    from secret_jax.data.columns import read_columns
    from secret_jax.data.roles import ColumnOptions, learn_schema

    columns = [str(column) for column in table.frame.columns]
    target = known_column(arguments.target, columns, "--target names")
    for flag in ("discrete", "split_only", "drop"):
        for name in getattr(arguments, flag):
            known_column(name, columns, f"--{flag.replace('_', '-')} names")
            if name == target:
                raise CommandError(f"{name!r} is the target; name it in no other role")
    y = number_column(table, target)
    X = table.frame.drop(columns=[target, *arguments.drop])
    if X.shape[1] == 0:
        raise CommandError(f"no columns are left to predict {target!r} from")
    refuse_infinity(
        table,
        X.columns,
        "delete the value or the row, or leave the column out (--drop)",
    )
    with _flags_for_parameters(), table.placing():
        schema = learn_schema(
            read_columns(X),
            y.to_numpy()[:, None],
            np.ones(len(y)),
            ColumnOptions(
                discrete_features=arguments.discrete,
                split_features=arguments.split_only,
                missing="mean",
            ),
        )
    for column, categories in zip(schema.discrete, schema.categories, strict=True):
        if len(categories) > max(20, len(X) / 4):
            name = schema.names[column]
            say(
                f"note: column {name!r} has {len(categories)} different values in "
                f"{len(X)} rows; if it only names the rows, leave it out (--drop)"
            )
    return X, y


def _chosen_model(arguments: argparse.Namespace) -> SecretRegressor:
    from secret_jax.estimator import SecretRegressor

    given = {name: getattr(arguments, name) for name in _SAME_NAME}
    chosen: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    if "oblique" in chosen:
        chosen["oblique"] = {"yes": True, "no": False}.get(arguments.oblique, "auto")
    if "prune" in chosen and arguments.prune == "none":
        chosen["prune"] = None
    start = SecretRegressor.paper() if arguments.paper else SecretRegressor()
    start.set_params(**chosen)
    if arguments.max_split_features is not None:
        if "splits__max_split_features" not in start.get_params():
            raise CommandError("--max-split-features goes with --splits rss only")
        start.set_params(splits__max_split_features=arguments.max_split_features)
    return start.set_params(
        discrete_features=arguments.discrete or None,
        split_features=arguments.split_only or None,
        random_state=arguments.seed,
        verbose=not arguments.quiet,
    )


def _result_text(evaluation: Evaluation, refitted: bool) -> str:
    from secret_jax.cli.evaluation import score_table

    parts = [evaluation.model.export_text().rstrip("\n")]
    if evaluation.scores:
        parts.append(score_table(evaluation))
        if refitted:
            parts.append(
                "The tree above was grown again on all rows. The errors are those of\n"
                f"the tree grown before on the {evaluation.n_training:,} training rows."
            )
    return "\n\n".join(parts)


def _write_report(
    folder: Path, arguments: argparse.Namespace, evaluation: Evaluation, result: str
) -> None:
    from secret_jax import __version__

    parameters = evaluation.model.get_params()
    options = {
        name: value
        for name, value in vars(arguments).items()
        if name not in ("run", "command") and value not in (None, [], False)
    }
    lines = [
        f"{PROGRAM} {__version__}: {arguments.target} from {arguments.file}",
        f"{evaluation.n_training} training rows, {evaluation.n_test} held-out rows, "
        f"{evaluation.seconds:.1f} s",
        "",
        result,
        "",
        "Options of the command",
        *(f"  {name} = {value!r}" for name, value in options.items()),
        "",
        "Parameters of the estimator",
        *(f"  {name} = {value!r}" for name, value in parameters.items()),
        "",
    ]
    content = {
        "version": __version__,
        "file": arguments.file,
        "target": arguments.target,
        "n_training": evaluation.n_training,
        "n_test": evaluation.n_test,
        "refitted_on_all_rows": arguments.refit_all,
        "errors": evaluation.scores,
        "seconds": evaluation.seconds,
        "parameters": parameters,
    }
    (folder / "report.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "errors.json").write_text(
        json.dumps(content, indent=2) + "\n", encoding="utf-8"
    )
    _draw(evaluation.model, folder / "tree.png")


def predict(arguments: argparse.Namespace) -> None:
    """Predict the rows of a file with a saved model."""
    if arguments.out is not None:
        _check_output(arguments.out)
    model = _load(arguments.model)
    schema = model.tree_.schema
    text_columns = [
        schema.names[column]
        for column, values in zip(schema.discrete, schema.categories, strict=True)
        if all(value is None or isinstance(value, str) for value in values)
    ]
    table = _read(arguments.file, text_columns)

    import pandas as pd

    from secret_jax.cli.table_file import known_column, refuse_infinity

    X = table.frame
    if schema.named:
        for name in schema.names:
            known_column(name, list(X.columns), "the model needs the column")
        X = X[list(schema.names)]
    refuse_infinity(table, X.columns, "delete the value or the row")
    with _flags_for_parameters(), table.placing():
        predictions = pd.DataFrame({"prediction": model.predict(X)})
    if arguments.out is None:
        predictions.to_csv(sys.stdout, index=False)
        return
    from secret_jax.tree.file import replacing

    with replacing(arguments.out) as file:
        predictions.to_csv(file, index=False)
    say(f"wrote {len(predictions)} predictions to {arguments.out}")


def show(arguments: argparse.Namespace) -> None:
    """Print a saved model, and draw it if asked to."""
    if arguments.plot is not None:
        _check_picture(arguments.plot)
    model = _load(arguments.model)
    print(model.export_text().rstrip("\n"))
    if arguments.plot is not None:
        _draw(model, arguments.plot)
        say(f"wrote the picture to {arguments.plot}")


def _read(path: str, text_columns: Sequence[str] = ()) -> TableFile:
    _require("pandas", "data", "read tables")
    from secret_jax.cli.table_file import read_table

    say(f"reading {path}")
    table = read_table(path, text_columns)
    rows, columns = table.frame.shape
    say(f"{rows} rows, {columns} columns")
    return table


def _load(path: str) -> SecretRegressor:
    from secret_jax.estimator import SecretRegressor
    from secret_jax.tree.file import load_model

    return load_model(path, SecretRegressor)


def _draw(model: SecretRegressor, path: str | Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # only files are drawn to, no display is needed
    axes = model.plot_tree()
    figure: Any = axes.figure
    figure.savefig(path, dpi=150, bbox_inches="tight")


def _check_output(path: str) -> None:
    """Refuse a file that cannot be written before the work, not after it."""
    if os.path.isdir(path):
        raise CommandError(f"{path!r} is a folder; name a file in it")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"{path!r} cannot be written: there is no folder {folder!r}")
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{path!r} cannot be written: {folder!r} is read-only")


def _check_picture(path: str) -> None:
    _check_output(path)
    _require("matplotlib", "plot", "draw a picture")
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.get_supported_filetypes()
    if Path(path).suffix.removeprefix(".").lower() not in kinds:
        raise CommandError(
            f"{path!r} does not end like a picture; for example .png, .pdf or .svg"
        )


def _require(module: str, extra: str, purpose: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise CommandError(
            f"{module} is needed to {purpose}: pip install 'secret-jax[{extra}]'"
        )


@contextmanager
def _flags_for_parameters() -> Iterator[None]:
    """Say in errors "--discrete" for ``discrete_features``, and so on."""
    try:
        yield
    except ValueError as error:
        message = str(error)
        for parameter, flag in (
            ("max_split_features", "--max-split-features"),
            ("discrete_features", "--discrete"),
            ("split_features", "--split-only"),
            ("test_fraction", "--test-fraction"),
        ):
            message = message.replace(parameter, flag)
        raise CommandError(message) from None


_QUIET = ContextVar("quiet", default=False)


@contextmanager
def quiet(wanted: bool = True) -> Iterator[None]:
    """Within the block `say` says nothing, if that is wanted."""
    token = _QUIET.set(wanted)
    try:
        yield
    finally:
        _QUIET.reset(token)


def say(line: str) -> None:
    """Print a line of progress, or a note, to standard error."""
    if not _QUIET.get():
        print(line, file=sys.stderr, flush=True)
