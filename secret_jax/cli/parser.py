"""The command line's options: commands, how tables are read, and types of values."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from typing import Any

from secret_jax import __version__
from secret_jax.cli import demo, fit, saved
from secret_jax.cli.messages import PROGRAM, CommandError

_FILE = "a CSV, Parquet or Excel file, or - for standard input"
_THOUSANDS = {"comma": ",", "dot": ".", "blank": " ", "space": " ", "apostrophe": "'"}


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, as every other failure."""

    def error(self, message: str):
        raise CommandError(f"{message}; see {self.prog} --help")


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """Build the parser; only that of ``fit``, if it is the command, imports JAX."""
    parser = _Parser(
        prog=PROGRAM,
        description="Readable regression trees with linear models in their leaves.",
        epilog=f"Start with: {PROGRAM} demo. Options of a command: {PROGRAM} COMMAND "
        "--help",
    )
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {__version__}"
    )
    _add_common_options(parser)
    parser.set_defaults(cache=None, quiet=False)
    # They may stand before the command or after it; there they have no default, which
    # would take the place of what was said before.
    common = _Parser(add_help=False)
    _add_common_options(common)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, run: Callable, purpose: str, **more: Any) -> _Parser:
        words = {"description": f"{purpose[0].upper()}{purpose[1:]}.", **more}
        added = commands.add_parser(name, parents=[common], help=purpose, **words)
        added.set_defaults(run=run)
        return added

    first = add("demo", demo.demo, "grow a tree on data that is at hand")
    first.add_argument(
        "--out",
        metavar="PICTURE",
        default=demo.DEMO_PICTURE,
        help="where the picture goes (default: %(default)s)",
    )
    grow = add(
        "fit",
        fit.fit,
        "grow a tree on a table",
        description="Grow a tree on a CSV, Parquet or Excel file. Prints the "
        "tree, and its errors on held-out rows beside ordinary least squares and "
        "scikit-learn's CART.",
        epilog="Columns of text or booleans are discrete: split on, and in the "
        "equations as 0 or 1 for each category if these have rows enough. "
        "Columns of dates are split on by year, month and weekday. All "
        "others are numbers: split on, and in the equations.",
    )
    if command == "fit":
        _add_fit_options(grow)
    _add_saved_commands(add)
    return parser


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache",
        action=argparse.BooleanOptionalAction,
        default=argparse.SUPPRESS,
        help="keep compiled programs on disk (in the folder that SECRET_JAX_CACHE "
        "names, or the user's cache folder), so that the next run starts faster; it "
        "does unless told not to",
    )
    parser.add_argument(
        "--quiet",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print results, warnings and errors, but no progress and no notes",
    )


def _add_fit_options(parser: argparse.ArgumentParser) -> None:
    from secret_jax.cli.parameters import PRESETS, add_parameters

    add = parser.add_argument
    add("file", metavar="FILE", help=_FILE)
    add("target", metavar="TARGET", help="the column to predict")
    add(
        "--classes",
        action="store_true",
        help="the target is a class, although it may be written as a number; a target "
        "of text is one anyhow",
    )
    add_reading_options(parser)
    columns = parser.add_argument_group("columns")
    _add_names(
        columns.add_argument, "--categorical", "columns of numbers that are categories"
    )
    _add_names(
        columns.add_argument,
        "--split-only",
        "columns to split on, but not in the models",
    )
    _add_names(columns.add_argument, "--drop", "columns to leave out")
    tree = parser.add_argument_group(
        "tree",
        "The parameters of the estimators. Names stand for values with options, as in "
        'Python: --splits "RssSplits(max_split_features=2)", '
        '--prune "CostComplexity(alpha=3.5)".',
    )
    tree.add_argument(
        "--preset",
        choices=PRESETS,
        help="start from the settings of a learner of the literature, as paper: "
        "Dobra & Gehrke (2002), section 5",
    )
    add_parameters(tree)
    add = parser.add_argument_group("run").add_argument
    add(
        "--seed",
        metavar="N",
        type=_whole(0),
        default=0,
        help="of everything that is random (default: %(default)s)",
    )
    add(
        "--test-fraction",
        metavar="SHARE",
        type=_share(True),
        default=0.2,
        help="share of the rows to measure the errors on; 0 measures none (default: "
        "%(default)s)",
    )
    add(
        "--calibrate",
        metavar="SHARE",
        type=_share(True),
        default=0.0,
        help="share of the rows that only say how wide intervals are; without, the "
        "rows that the errors are measured on do, unless --refit-all uses them up",
    )
    add(
        "--refit-all",
        action="store_true",
        help="after measuring grow the tree again, on all rows; otherwise the tree "
        "that was measured is the one that is printed and saved",
    )
    add("--out", metavar="MODEL", help="save the model in this file")
    add(
        "--stream",
        action="store_true",
        help="FILE is a folder of Parquet files (or one) that need not fit into "
        "memory: it is read twice, a part at a time",
    )
    add(
        "--checkpoint",
        metavar="DIR",
        help="with --stream: keep in this folder how far the fit is, and go on from "
        "there",
    )
    add(
        "--report",
        metavar="DIR",
        help="write report.html, tree.png and errors.json to this folder",
    )


def _add_saved_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands for saved models; ``add`` adds one by its name."""

    def of_model(name: str, run: Callable, purpose: str, file: str = "") -> Callable:
        parser = add(name, run, purpose)
        parser.add_argument("model", metavar="MODEL", help="a file of fit --out")
        if file:
            parser.add_argument("file", metavar="FILE", help=file)
            _add_file_options(parser.add_argument_group("reading"))
        return parser.add_argument

    option = of_model("predict", saved.predict, "predict with a saved model", _FILE)
    purpose = "columns of the file to write beside the predictions"
    _add_names(option, "--keep", purpose)
    option(
        "--interval",
        metavar="COVERAGE",
        type=_share(False),
        help="also write lower and upper, between which so large a share of new rows "
        "lies, as 0.9",
    )
    option("--leaf", action="store_true", help="also write the number of the leaf")
    option("--out", metavar="FILE", help="a CSV file (default: standard output)")
    option(
        "--stream",
        action="store_true",
        help="FILE is a folder of Parquet files that need not fit into memory, and "
        "--out a Parquet file",
    )
    purpose = "say why rows get their predictions"
    option = of_model("explain", saved.explain, purpose, _FILE)
    option(
        "--rows",
        metavar="N",
        type=_whole(1),
        default=5,
        help="how many rows to print (default: %(default)s)",
    )
    option("--out", metavar="FILE", help="write all rows to this CSV file instead")
    purpose = "measure a saved model on new rows"
    of_model("score", saved.score, purpose, f"{_FILE}; with the target")
    option = of_model("export", saved.export, "write a saved model as a program")
    option("language", choices=("python", "sql", "dot"))
    option("--name", help="of the function, or of the column of a query")
    option("--table", help="only with sql: a query on this table")
    option("--out", metavar="FILE", help="a file (default: standard output)")
    option = of_model("show", saved.show, "print a saved model")
    option("--plot", metavar="PICTURE", help="also draw it (PNG, PDF, SVG)")
    for flag, metavar, least, purpose in (
        ("--max-depth", "N", 0, "deepest level to print"),
        ("--precision", "DIGITS", 1, "significant digits"),
        ("--max-terms", "N", 1, "most terms of an equation"),
    ):
        option(flag, metavar=metavar, type=_whole(least), help=purpose)
    purpose = "print all categories of a split"
    option("--categories", action="store_true", help=purpose)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add what a person can say of the cells of a table."""
    cells = parser.add_argument_group(
        "reading",
        "Numbers with separators, units or signs of currencies, dates and columns that "
        "only name the rows are found out, and what was found is said.",
    )
    _add_file_options(cells)
    cells.add_argument(
        "--distinct",
        action="store_true",
        help="of rows that are the same in every column use one",
    )
    _add_names(
        cells.add_argument, "--id", "columns that only name the rows: they are left out"
    )
    _add_names(
        cells.add_argument, "--text", "columns of categories, taken as they stand there"
    )
    purpose = "columns of categories in which case and blanks mean nothing"
    _add_names(cells.add_argument, "--ignore-case", purpose)
    purpose = "columns of numbers, even if they look like names of rows"
    _add_names(cells.add_argument, "--number", purpose)
    cells.add_argument(
        "--dates",
        metavar="COLUMN[:FORMAT]",
        action=_Dates,
        default={},
        help="a column of dates, and how they are written, as in sold:%%d.%%m.%%Y",
    )
    cells.add_argument(
        "--thousands",
        metavar="MARK",
        type=_mark,
        help="what groups digits where that is not plain: , . ' or blank",
    )
    cells.add_argument(
        "--decimal", choices=(".", ","), help="the decimal mark where it is not plain"
    )


def _add_file_options(group: argparse._ArgumentGroup) -> None:
    """Add where in a file the table is, and which cells are missing."""
    group.add_argument(
        "--sheet", metavar="NAME", help="the sheet of an Excel file to read"
    )
    group.add_argument(
        "--skip",
        metavar="N",
        type=_whole(0),
        help="lines above the header, where a title or empty lines are not found out",
    )
    group.add_argument(
        "--na",
        metavar="VALUE",
        action="append",
        default=[],
        help="a cell that stands for nothing, beside the usual ones (empty, ?, -, NA)",
    )


def _add_names(add: Callable, flag: str, purpose: str) -> None:
    """Add an option of names separated by commas; one with a comma stands in quotes."""

    def names(text: str) -> list[str]:
        return next(csv.reader([text], skipinitialspace=True), [])

    add(flag, metavar="A,B", type=names, action="extend", default=[], help=purpose)


class _Dates(argparse.Action):
    """COLUMN or COLUMN:FORMAT, any number of times."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None):
        name, colon, form = values.partition(":%")
        dates = getattr(namespace, self.dest) | {name: f"%{form}" if colon else None}
        setattr(namespace, self.dest, dates)


def _mark(text: str) -> str:
    mark = _THOUSANDS.get(text, text)
    if mark in (",", ".", " ", "'"):
        return mark
    raise argparse.ArgumentTypeError(
        f"{text!r} stands between no digits; give , . ' or blank"
    )


def _whole(least: int) -> Callable[[str], int]:
    """Build the type of a whole number of at least ``least``."""

    def read(text: str) -> int:
        try:
            if int(text) >= least:
                return int(text)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(
            f"{text!r} is no whole number of at least {least}"
        )

    return read


def _share(or_zero: bool) -> Callable[[str], float]:
    """Build the type of a number between 0 and 1, without 1 and perhaps with 0."""

    def read(text: str) -> float:
        try:
            if 0 < float(text) < 1 or (or_zero and float(text) == 0):
                return float(text)
        except ValueError:
            pass
        limits = "of at least 0 and below 1" if or_zero else "between 0 and 1"
        raise argparse.ArgumentTypeError(f"{text!r} is no number {limits}")

    return read
