"""The command line ``secret-jax``: demo, fit, predict, show.

Results go to standard output, progress and notes to standard error. A failure is one
line that says what to do, and a non-zero exit code. Everything slow is imported only by
the command that needs it, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import importlib.util
import json
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from secret_jax.estimator import SecretRegressor

PROGRAM = "secret-jax"
DEMO_PICTURE = "secret_jax_demo.png"


class CommandError(Exception):
    """Something the user can mend; the text is the whole message."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; by default those of the process.

    Returns
    -------
    int
        Exit code: 0 for success, 1 for a fault of this program, 2 for something the
        user can mend, 130 after an interrupt from the keyboard.
    """
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
        if arguments.command is None:
            parser.print_help(sys.stderr)
            return 2
        with _warnings_as_lines():
            arguments.run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail(130, "interrupted; nothing more was written")
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (CommandError, ValueError) as error:
        return _fail(2, str(error))
    except OSError as error:
        where = f"{error.filename!r}: " if error.filename else ""
        return _fail(2, f"{where}{error.strerror or error}")
    except MemoryError:
        return _fail(2, "out of memory; fit a sample of the rows, or drop columns")
    except Exception as error:
        if os.environ.get("SECRET_JAX_DEBUG"):
            raise
        return _fail(
            1,
            f"a fault of {PROGRAM} itself, {type(error).__name__}: {error}. Set "
            "SECRET_JAX_DEBUG=1 to see where, and report it",
        )
    return 0


def _demo(arguments: argparse.Namespace) -> None:
    _require("matplotlib", "plot", "draw the picture")
    from secret_jax.estimator import SecretRegressor

    X, y = _demo_table()
    print(
        "How large is a cell nucleus? 569 nuclei under the microscope, with their\n"
        "perimeter, their shape and the diagnosis (the breast cancer data that comes\n"
        "with scikit-learn). Their area is not a linear function of these.\n"
    )
    evaluation = _evaluate(SecretRegressor(random_state=0), X, y, 0.2, seed=0)
    print(_result_text(evaluation))
    _draw(evaluation.model, arguments.out)
    print(f"\nThe picture of the tree is in {arguments.out}")
    print("Now your own table:  secret-jax fit FILE.csv --target COLUMN")


def _fit(arguments: argparse.Namespace) -> None:
    if not 0 <= arguments.test_fraction < 1:
        raise CommandError(
            f"--test-fraction is {arguments.test_fraction:g}; it must be at least 0 "
            "(no held-out rows, so no errors) and below 1"
        )
    report = None if arguments.report is None else Path(arguments.report)
    if report is not None:
        _require("matplotlib", "plot", "draw the picture of the report")
        report.mkdir(parents=True, exist_ok=True)
    if arguments.out is not None:
        _check_folder(arguments.out)
    table = _read_table(arguments.file)
    X, y = _features_and_target(table, arguments)
    model = _model(arguments)
    evaluation = _evaluate(model, X, y, arguments.test_fraction, arguments.seed)
    if arguments.refit_all and arguments.test_fraction > 0:
        _say(f"growing the tree again on all {len(X)} rows")
        evaluation = evaluation._replace(model=_fitted(model, X, y), refitted=True)
    text = _result_text(evaluation)
    print(text)
    if report is not None:
        _write_report(report, arguments, evaluation, text)
        _say(f"wrote report.txt, tree.png and errors.json to {report}")
    if arguments.out is not None:
        from secret_jax.model_file import save_model

        save_model(evaluation.model, arguments.out)
        _say(
            f"wrote the model to {arguments.out}; use it with: "
            f"{PROGRAM} predict {arguments.out} FILE"
        )


def _predict(arguments: argparse.Namespace) -> None:
    if arguments.out is not None:
        _check_folder(arguments.out)
    model = _load(arguments.model)
    schema = model.tree_.schema
    text_columns = [
        schema.names[column]
        for column, values in zip(schema.discrete, schema.categories, strict=True)
        if all(isinstance(value, str) for value in values)
    ]
    table = _read_table(arguments.file, text_columns)
    X = table.frame
    if schema.named:
        X = X[[_known(name, X.columns, "the model needs") for name in schema.names]]
        ignored = [name for name in table.frame.columns if name not in X.columns]
        if ignored:
            _say(f"columns that the model does not use: {', '.join(ignored)}")
    _refuse_gaps(X, table, "Fill it in or delete the row")
    import pandas as pd

    with _places_in_the_file(table):
        predictions = pd.DataFrame({"prediction": model.predict(X)})
    if arguments.out is None:
        predictions.to_csv(sys.stdout, index=False)
        return
    from secret_jax.model_file import replacing

    with replacing(arguments.out) as file:
        predictions.to_csv(file, index=False)
    _say(f"wrote {len(predictions)} predictions to {arguments.out}")


def _show(arguments: argparse.Namespace) -> None:
    if arguments.plot is not None:
        _require("matplotlib", "plot", "draw the picture")
    model = _load(arguments.model)
    print(model.export_text())
    if arguments.plot is not None:
        _draw(model, arguments.plot)
        _say(f"wrote the picture to {arguments.plot}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Readable regression trees with linear models in their leaves.",
        epilog=f"Start with '{PROGRAM} demo'. '{PROGRAM} fit --help' lists the options "
        "of fit.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    demo = commands.add_parser("demo", help="grow a tree on a data set that is at hand")
    demo.set_defaults(run=_demo)
    demo.add_argument(
        "--out",
        metavar="PICTURE",
        default=DEMO_PICTURE,
        help="where the picture goes (default: %(default)s)",
    )

    fit = commands.add_parser(
        "fit",
        help="grow a tree on a CSV or Parquet file",
        description="Grow a tree on a CSV or Parquet file; print it with its errors on "
        "held-out rows, beside ordinary least squares and scikit-learn's CART.",
        epilog="Text and boolean columns are discrete: split on, but not in the models. "
        "The other columns are numbers: split on, and in the models. Lists are "
        "separated by commas.",
    )
    fit.set_defaults(run=_fit)
    fit.add_argument("file", metavar="FILE", help="a CSV or Parquet file")
    fit.add_argument(
        "--target", metavar="COLUMN", required=True, help="the number to predict"
    )
    roles = fit.add_argument_group("columns")
    for flag, purpose in (
        ("--discrete", "columns of numbers that are categories"),
        ("--split-only", "columns to split on, but not to use in the models"),
        ("--drop", "columns to leave out"),
    ):
        roles.add_argument(
            flag, metavar="A,B", type=_names, action="extend", default=[], help=purpose
        )
    tree = fit.add_argument_group("tree")
    tree.add_argument(
        "--oblique",
        choices=("yes", "no"),
        help="splits by linear inequalities in several columns (default: yes)",
    )
    tree.add_argument(
        "--leaf",
        choices=("linear", "constant", "em"),
        help="models in the leaves (default: linear)",
    )
    tree.add_argument(
        "--criterion",
        metavar="NAME",
        help="how candidate splits are compared (default: gini)",
    )
    tree.add_argument(
        "--prune",
        choices=("holdout", "none"),
        help="prune by the error on a part of the training rows (default: holdout)",
    )
    tree.add_argument(
        "--min-samples-split",
        metavar="N",
        type=_count_or_fraction,
        help="a node with fewer rows is not split; 0.05 is 5 %% of the rows "
        "(default: 0.01)",
    )
    tree.add_argument(
        "--min-samples-leaf",
        metavar="N",
        type=_count_or_fraction,
        help="fewest rows of a leaf, or a fraction (default: 1)",
    )
    tree.add_argument("--max-leaf-nodes", metavar="N", type=int, help="most leaves")
    tree.add_argument("--max-depth", metavar="N", type=int, help="most splits in a row")
    tree.add_argument(
        "--paper",
        action="store_true",
        help="start from the settings of Dobra & Gehrke (2002), section 5",
    )
    run = fit.add_argument_group("run")
    run.add_argument(
        "--seed", metavar="N", type=int, default=0, help="(default: %(default)s)"
    )
    run.add_argument(
        "--test-fraction",
        metavar="SHARE",
        type=float,
        default=0.2,
        help="share of the rows held out to measure the errors (default: %(default)s)",
    )
    run.add_argument(
        "--refit-all",
        action="store_true",
        help="after measuring the errors grow the tree again on all rows; by default "
        "the tree that was measured is the one that is shown and saved",
    )
    run.add_argument("--out", metavar="MODEL", help="save the model to this file")
    run.add_argument(
        "--report",
        metavar="DIR",
        help="write report.txt, tree.png and errors.json to this folder",
    )

    predict = commands.add_parser("predict", help="predict with a saved model")
    predict.set_defaults(run=_predict)
    predict.add_argument("model", metavar="MODEL", help="a file that fit --out wrote")
    predict.add_argument("file", metavar="FILE", help="a CSV or Parquet file")
    predict.add_argument(
        "--out", metavar="FILE", help="a CSV file (default: standard output)"
    )

    show = commands.add_parser("show", help="print a saved model")
    show.set_defaults(run=_show)
    show.add_argument("model", metavar="MODEL", help="a file that fit --out wrote")
    show.add_argument("--plot", metavar="PICTURE", help="also draw it, as PNG, PDF, SVG")
    return parser


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, as every other failure."""

    def error(self, message: str):
        raise CommandError(f"{message}; see '{self.prog} --help'")


def _names(text: str) -> list[str]:
    return next(csv.reader([text], skipinitialspace=True), [])


def _count_or_fraction(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


class _Table(NamedTuple):
    """A table that was read, and where its rows stand in the file."""

    frame: pd.DataFrame
    path: str
    is_text: bool

    def place(self, row: int) -> str:
        """Where a row, counted from 0, stands; a CSV file has its header in line 1."""
        return f"line {row + 2}" if self.is_text else f"row {row}"


def _read_table(path: str, text_columns: Sequence[str] = ()) -> _Table:
    """Read a CSV or Parquet file; ``text_columns`` stay text even if all are numbers."""
    _require("pandas", "data", "read tables")
    import pandas as pd

    if not os.path.exists(path):
        folder = os.path.dirname(path) or "."
        siblings = os.listdir(folder) if os.path.isdir(folder) else []
        near = _nearest(os.path.basename(path), siblings)
        raise CommandError(f"there is no file {path!r}{near}")
    if os.path.isdir(path):
        raise CommandError(f"{path!r} is a folder; give one CSV or Parquet file in it")
    with open(path, "rb") as file:
        start = file.read(65536)
    _say(f"reading {path}")
    if start.startswith(b"PAR1"):
        _require("pyarrow", "data", "read Parquet files")
        return _filled(_Table(pd.read_parquet(path), path, is_text=False))
    if b"\0" in start:
        raise CommandError(
            f"{path!r} is neither CSV nor Parquet, it holds binary data; export the "
            "table as CSV (UTF-8)"
        )
    header = start.split(b"\n", 1)[0].decode("utf-8", "replace")
    separator = max(",;\t|", key=header.count)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame = pd.read_csv(
                path,
                sep=separator,
                index_col=False,  # a line with too many values is an error, no index
                low_memory=False,  # one type per column, not per chunk
                dtype=dict.fromkeys(text_columns, str),
            )
        except pd.errors.EmptyDataError:
            raise CommandError(f"{path!r} is empty") from None
        except UnicodeDecodeError as error:
            raise CommandError(
                f"{path!r} is not UTF-8 text (byte {error.object[error.start]:#x}); "
                f"convert it, for example: iconv -f latin1 -t utf-8 {path} > new.csv"
            ) from None
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
            raise CommandError(
                f"{path!r} is no well-formed CSV: {reason.rstrip('.')}; each line must "
                f"have as many values as the header, separated by {separator!r}"
            ) from None
    return _filled(_Table(frame, path, is_text=True))


def _filled(table: _Table) -> _Table:
    rows, columns = table.frame.shape
    if rows == 0:
        raise CommandError(f"{table.path!r} has a header, but no rows")
    _say(f"{rows} rows, {columns} columns")
    return table


def _features_and_target(
    table: _Table, arguments: argparse.Namespace
) -> tuple[pd.DataFrame, pd.Series]:
    """The columns to learn from and the target, checked while rows have their places."""
    import numpy as np

    from secret_jax.table import learn_schema

    columns = list(table.frame.columns)
    target = _known(arguments.target, columns, "--target is")
    y = _target(table, target)
    for flag in ("discrete", "split_only", "drop"):
        for name in getattr(arguments, flag):
            _known(name, columns, f"--{flag.replace('_', '-')} names")
            if name == target:
                raise CommandError(f"{target!r} is the target; take it out of --{flag}")
    X = table.frame.drop(columns=[target, *arguments.drop])
    if X.shape[1] == 0:
        raise CommandError(f"no columns are left to predict {target!r} from")
    _refuse_gaps(X, table, "Fill it in, delete the row, or leave the column out (--drop)")
    with _places_in_the_file(table):
        schema = learn_schema(
            X,
            y.to_numpy(),
            np.ones(len(y)),
            discrete_features=arguments.discrete,
            split_features=arguments.split_only,
        )
    for column, categories in zip(schema.discrete, schema.categories, strict=True):
        if len(categories) > max(20, len(X) / 4):
            name = schema.names[column]
            _say(
                f"note: column {name!r} has {len(categories)} different values in "
                f"{len(X)} rows; if it names the rows, use --drop {name!r}"
            )
    return X, y


def _target(table: _Table, name: str) -> pd.Series:
    import numpy as np
    import pandas as pd

    column = table.frame[name]
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    numeric = [str(c) for c in table.frame.select_dtypes("number").columns]
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        place, value = table.place(bad[0]), column.iloc[bad[0]]
        if pd.isna(value):
            raise CommandError(
                f"the target {name!r} has no value in {place}; delete such rows, "
                f"there {_are(len(bad))}"
            )
        remedy = (
            f"choose a column of numbers: {', '.join(numeric[:8])}"
            if len(bad) == len(numbers)
            else f"mend the value or delete the row, there {_are(len(bad))}"
        )
        raise CommandError(
            f"the target {name!r} holds {str(value)!r} in {place}, which is no finite "
            f"number; {remedy}"
        )
    return numbers


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"


def _refuse_gaps(X: pd.DataFrame, table: _Table, remedy: str) -> None:
    import numpy as np

    for name in X.columns:
        values = X[name]
        gap = values.isna().to_numpy()
        what = "has no value"
        if not gap.any() and values.dtype.kind == "f":
            gap, what = np.isinf(values.to_numpy()), "holds infinity"
        if gap.any():
            others = f" (and in {gap.sum() - 1} more)" if gap.sum() > 1 else ""
            raise CommandError(
                f"column {name!r} {what} in {table.place(int(gap.argmax()))}{others}. "
                f"{remedy}"
            )


def _known(name: str, columns: Sequence[str], what: str) -> str:
    """A column's name, or an error that lists what there is."""
    if name in columns:
        return name
    some = ", ".join(repr(str(column)) for column in list(columns)[:12])
    more = f" and {len(columns) - 12} more" if len(columns) > 12 else ""
    headless = all(re.fullmatch(r"[-+.\deE]+", str(column)) for column in columns)
    hint = "; the first line must be a header with names" if headless else ""
    raise CommandError(
        f"{what} {name!r}, but there is no such column{_nearest(name, columns)}. "
        f"The columns are {some}{more}{hint}"
    )


def _nearest(name: str, candidates: Sequence[str]) -> str:
    by_folded = {str(candidate).casefold(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return f"; did you mean {str(by_folded[near[0]])!r}?" if near else ""


@contextmanager
def _places_in_the_file(table: _Table) -> Iterator[None]:
    """Say the estimator's messages in the words of the file and the command line."""
    try:
        yield
    except ValueError as error:
        message = re.sub(
            r"\brow (\d+)", lambda match: table.place(int(match[1])), str(error)
        )
        message = message.replace("discrete_features", "--discrete")
        raise CommandError(message.replace("split_features", "--split-only")) from None


def _model(arguments: argparse.Namespace) -> SecretRegressor:
    from secret_jax.estimator import SecretRegressor

    chosen: dict[str, Any] = {
        name: getattr(arguments, name)
        for name in (
            "leaf",
            "criterion",
            "min_samples_split",
            "min_samples_leaf",
            "max_leaf_nodes",
            "max_depth",
        )
        if getattr(arguments, name) is not None
    }
    if arguments.oblique is not None:
        chosen["oblique"] = arguments.oblique == "yes"
    if arguments.prune is not None:
        chosen["prune"] = None if arguments.prune == "none" else arguments.prune
    model = SecretRegressor.paper() if arguments.paper else SecretRegressor()
    return model.set_params(
        **chosen,
        discrete_features=arguments.discrete or None,
        split_features=arguments.split_only or None,
        random_state=arguments.seed,
    )


class _Evaluation(NamedTuple):
    """A fitted model and what was measured.

    Attributes
    ----------
    model : SecretRegressor
    n_training, n_test : int
    scores : dict of str to dict
        Method to its errors on the held-out rows; empty without held-out rows.
    seconds : float
        Of the first fit.
    refitted : bool
        Whether the model has seen all rows since it was measured.
    """

    model: SecretRegressor
    n_training: int
    n_test: int
    scores: dict[str, dict[str, float | None]]
    seconds: float
    refitted: bool = False


def _evaluate(
    model: SecretRegressor, X: pd.DataFrame, y: pd.Series, share: float, seed: int
) -> _Evaluation:
    """Fit on one part of the rows, and measure on the rest beside two baselines."""
    import numpy as np

    n_test = round(len(X) * share)
    n_training = len(X) - n_test
    if share > 0 and (n_test < 1 or n_training < 2):
        raise CommandError(
            f"{len(X)} rows are too few to hold out a share of {share:g}; add rows, or "
            "use --test-fraction 0 to fit without measuring the errors"
        )
    order = np.random.default_rng(seed).permutation(len(X))
    test, training = np.sort(order[:n_test]), np.sort(order[n_test:])
    X_training, y_training = X.iloc[training], y.iloc[training]
    _say(f"growing the tree on {n_training} rows; the first steps compile")
    started = time.perf_counter()
    fitted = _fitted(model, X_training, y_training)
    seconds = time.perf_counter() - started
    _say(f"{fitted.n_leaves_} leaves after {seconds:.1f} s")
    scores = {}
    if n_test:
        _say(f"measuring on {n_test} held-out rows, beside two other methods")
        X_test, y_test = X.iloc[test], y.iloc[test].to_numpy()
        scores["SECRET tree"] = {
            **_errors(fitted.predict(X_test), y_test),
            "leaves": fitted.n_leaves_,
        }
        scores |= _baselines(fitted, X_training, y_training, X_test, y_test, seed)
    return _Evaluation(fitted, n_training, n_test, scores, seconds)


def _fitted(model: SecretRegressor, X: pd.DataFrame, y: pd.Series) -> SecretRegressor:
    from sklearn.base import clone

    return clone(model).fit(X, y)


def _baselines(
    model: SecretRegressor,
    X: pd.DataFrame,
    y: pd.Series,
    X_test: pd.DataFrame,
    y_test: np.ndarray,
    seed: int,
) -> dict[str, dict[str, float | None]]:
    """Ordinary least squares, and CART of the size that a held-out part asks for.

    CART chooses its size on as large a part of the training rows as the tree is pruned
    on, and is then refitted on all of them.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import mean_squared_error
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.tree import DecisionTreeRegressor

    schema = model.tree_.schema
    encoder = make_column_transformer(
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            [schema.names[column] for column in schema.discrete],
        ),
        (StandardScaler(), [schema.names[column] for column in schema.continuous]),
    )
    encoded, encoded_test = encoder.fit_transform(X), encoder.transform(X_test)
    linear = LinearRegression().fit(encoded, y)
    scores = {"ordinary least squares": _errors(linear.predict(encoded_test), y_test)}

    part, rest, y_part, y_rest = train_test_split(
        encoded, y, test_size=model.validation_fraction, random_state=seed
    )

    def cart(n_leaves: int) -> DecisionTreeRegressor:
        return DecisionTreeRegressor(max_leaf_nodes=n_leaves, random_state=seed)

    def error(n_leaves: int) -> float:
        return mean_squared_error(y_rest, cart(n_leaves).fit(part, y_part).predict(rest))

    sizes = [2**k for k in range(1, 12) if 2**k <= max(2, len(part))]
    chosen = cart(min(sizes, key=error)).fit(encoded, y)
    scores["CART (scikit-learn)"] = {
        **_errors(chosen.predict(encoded_test), y_test),
        "leaves": int(chosen.get_n_leaves()),
    }
    return scores


def _errors(prediction: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    residual = prediction - y
    mse = float((residual**2).mean())
    spread = float(y.var())
    return {
        "mse": mse,
        "rmse": math.sqrt(mse),
        "mae": float(abs(residual).mean()),
        "r2": 1 - mse / spread if spread > 0 else None,
    }


def _result_text(evaluation: _Evaluation) -> str:
    """The tree and the table of errors."""
    parts = [evaluation.model.export_text().rstrip("\n")]
    if evaluation.scores:
        parts += ["", *_score_lines(evaluation)]
    if evaluation.refitted:
        parts.append(
            "The tree above was grown again on all rows; the errors are those of the\n"
            f"tree grown the same way on the {evaluation.n_training} training rows."
        )
    return "\n".join(parts)


def _score_lines(evaluation: _Evaluation) -> Iterator[str]:
    title = f"Errors on {evaluation.n_test} held-out rows"
    yield f"{title:<34}{'MSE':>10}{'RMSE':>10}{'R²':>8}{'leaves':>8}"
    for name, score in evaluation.scores.items():
        r2 = "-" if score["r2"] is None else f"{score['r2']:.3f}"
        leaves = score.get("leaves", "")
        mse, rmse = _figure(score["mse"]), _figure(score["rmse"])
        yield f"  {name:<32}{mse:>10}{rmse:>10}{r2:>8}{leaves!s:>8}"


def _figure(value: float | None) -> str:
    """Four significant digits, without an exponent where it can be avoided."""
    if value is None or not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    decimals = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def _write_report(
    folder: Path, arguments: argparse.Namespace, evaluation: _Evaluation, text: str
) -> None:
    from secret_jax import __version__

    settings = {
        key: value
        for key, value in vars(arguments).items()
        if key not in ("run", "command") and value not in (None, [], False)
    }
    parameters = evaluation.model.get_params()
    lines = [
        f"{PROGRAM} {__version__}, fit of {arguments.target!r} in {arguments.file}",
        f"{evaluation.n_training} training rows, {evaluation.n_test} held-out rows, "
        f"{evaluation.seconds:.1f} s",
        "",
        text,
        "",
        "Options given",
        *(f"  {key} = {value!r}" for key, value in settings.items()),
        "Parameters of the estimator",
        *(f"  {key} = {value!r}" for key, value in parameters.items()),
        "",
    ]
    (folder / "report.txt").write_text("\n".join(lines), encoding="utf-8")
    content = {
        "version": __version__,
        "file": arguments.file,
        "target": arguments.target,
        "n_training": evaluation.n_training,
        "n_test": evaluation.n_test,
        "errors": evaluation.scores,
        "seconds": evaluation.seconds,
        "parameters": parameters,
    }
    (folder / "errors.json").write_text(
        json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8"
    )
    _draw(evaluation.model, str(folder / "tree.png"))


def _draw(model: SecretRegressor, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")  # files only; no display is needed
    axes = model.plot_tree()
    axes.figure.savefig(path, dpi=150, bbox_inches="tight")


def _load(path: str) -> SecretRegressor:
    from secret_jax.estimator import SecretRegressor
    from secret_jax.model_file import load_model

    if os.path.isdir(path):
        raise CommandError(f"{path!r} is a folder; give a file that fit --out wrote")
    return load_model(path, SecretRegressor)


def _demo_table() -> tuple[pd.DataFrame, pd.Series]:
    from sklearn.datasets import load_breast_cancer

    data: Any = load_breast_cancer(as_frame=True)
    X = data.data.iloc[:, :10].drop(columns=["mean radius", "mean area"])
    X["diagnosis"] = data.target_names[data.target].astype(str)
    return X, data.data["mean area"]


def _check_folder(path: str) -> None:
    """Refuse a file that cannot be written before the work, not after it."""
    if os.path.isdir(path):
        raise CommandError(f"{path!r} is a folder; give the name of a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"there is no folder {folder!r} for {path!r}; make it first")


def _require(module: str, extra: str, purpose: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise CommandError(
            f"{module} is needed to {purpose}; pip install 'secret-jax[{extra}]'"
        )


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Warnings meant for users as one line each; those for developers not at all."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _say(f"{PROGRAM}: warning: {_one_line(str(message))}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _fail(code: int, message: str) -> int:
    _say(f"{PROGRAM}: error: {_one_line(message)}")
    return code


def _one_line(message: str) -> str:
    return " ".join(message.split())


if __name__ == "__main__":
    sys.exit(main())
