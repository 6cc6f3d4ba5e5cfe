"""The command line's options: commands, how tables are read, and types of values."""

import argparse
import csv
from collections.abc import Callable
from typing import Any

from secret_jax.cli.messages import PROGRAM, CommandError
from secret_jax.runtime.version import VERSION

_FILE = "a CSV, Parquet or Excel file, or - for standard input"
_PICTURE = "secret_jax_demo.png"
LANGUAGES = ("python", "sql", "onnx", "dot")
_THOUSANDS = {"comma": ",", "dot": ".", "blank": " ", "space": " ", "apostrophe": "'"}


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, as every other failure."""

    def error(self, message: str):
        raise CommandError(f"{message}; see {self.prog} --help")


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """Build the parser; only that of ``fit``, if it is the command, imports JAX.

    ``run`` names the function of a command, which is imported when it runs.
    """
    parser = _Parser(
        prog=PROGRAM,
        description="Readable regression trees with linear models in their leaves.",
        epilog=f"Start with: {PROGRAM} demo. Options of a command: {PROGRAM} COMMAND "
        "--help",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {VERSION}")
    _add_common_options(parser)
    parser.set_defaults(quiet=False)
    # They may stand before the command or after it; there they have no default, which
    # would take the place of what was said before.
    common = _Parser(add_help=False)
    _add_common_options(common)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, module: str, purpose: str, **more: Any) -> _Parser:
        words = {"description": f"{purpose[0].upper()}{purpose[1:]}.", **more}
        added = commands.add_parser(name, parents=[common], help=purpose, **words)
        added.set_defaults(run=f"secret_jax.cli.{module}:{name}")
        return added

    first = add("demo", "demo", "grow a tree on data that is at hand")
    purpose = "where the picture goes (default: %(default)s)"
    _add_value(first, "--out", "PICTURE", purpose, default=_PICTURE)
    grow = add(
        "fit",
        "fit",
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
    purpose = "print results, warnings and errors, but no progress and no notes"
    _add_flag(parser, "--quiet", purpose, default=argparse.SUPPRESS)


def _add_flag(group: Any, flag: str, purpose: str, **more: Any) -> None:
    """Add an option that is there or not."""
    group.add_argument(flag, action="store_true", help=purpose, **more)


def _add_value(group: Any, flag: str, metavar: str, purpose: str, **more: Any) -> None:
    """Add an option with a value."""
    group.add_argument(flag, metavar=metavar, help=purpose, **more)


def _names(text: str) -> list[str]:
    """Read names separated by commas; one with a comma stands in quotes."""
    return next(csv.reader([text], skipinitialspace=True), [])


def _add_names(group: Any, flag: str, purpose: str) -> None:
    _add_value(group, flag, "A,B", purpose, type=_names, action="extend", default=[])


def _directions(text: str) -> dict[str, int]:
    """Read columns and their directions."""
    found = {}
    for part in _names(text):
        name, colon, sign = part.rpartition(":")
        if not colon or sign not in ("+", "-"):
            raise argparse.ArgumentTypeError(
                f"{part!r} is no column with a direction; write 'price:+' where "
                "predictions may only rise with it, 'price:-' where they may only fall"
            )
        found[name] = 1 if sign == "+" else -1
    return found


def _add_fit_options(parser: argparse.ArgumentParser) -> None:
    from secret_jax.cli.kinds import KINDS
    from secret_jax.cli.parameters import PRESETS, add_parameters

    parser.add_argument("file", metavar="FILE", help=_FILE)
    parser.add_argument("target", metavar="TARGET", help="the column to predict")
    purpose = (
        "the target is a class, although it may be written as a number; a target "
        "of text is one anyhow"
    )
    _add_flag(parser, "--classes", purpose)
    add_reading_options(parser)
    columns = parser.add_argument_group("columns")
    _add_names(columns, "--categorical", "columns of numbers that are categories")
    _add_names(columns, "--split-only", "columns to split on, but not in the models")
    purpose = "columns with which predictions may only rise or fall, as price:+,age:-"
    _add_value(columns, "--monotone", "A:+,B:-", purpose, type=_directions)
    _add_names(columns, "--drop", "columns to leave out")
    purpose = "a column of weights of the rows: how many each stands for"
    _add_value(columns, "--weight", "COLUMN", purpose)
    purpose = (
        "a column whose values name groups, as persons or places: rows of a group are "
        "held out together, and no split is on it"
    )
    _add_value(columns, "--group", "COLUMN", purpose)
    purpose = "a column of dates or numbers: the latest rows are held out"
    _add_value(columns, "--time", "COLUMN", purpose)
    tree = parser.add_argument_group(
        "tree",
        "The parameters of the estimators. Names stand for values with options, as in "
        'Python: --splits "RssSplits(max_split_features=2)", '
        '--prune "CostComplexity(alpha=3.5)".',
    )
    purpose = "one readable tree, or the sum of many trees (default: %(default)s)"
    tree.add_argument("--model", choices=KINDS, default="tree", help=purpose)
    tree.add_argument(
        "--preset",
        choices=PRESETS,
        help="start from the settings of a learner of the literature, as paper: "
        "Dobra & Gehrke (2002), section 5",
    )
    add_parameters(tree)
    run = parser.add_argument_group("run")
    purpose = "of everything that is random (default: %(default)s)"
    _add_value(run, "--seed", "N", purpose, type=_whole(0), default=0)
    purpose = (
        "share of the rows to measure the errors on; 0 measures none (default: "
        "%(default)s)"
    )
    _add_value(run, "--test-fraction", "SHARE", purpose, type=_SHARE, default=0.2)
    purpose = (
        "share of the rows that only say how wide intervals are; without, the "
        "rows that the errors are measured on do, unless --refit-all uses them up"
    )
    _add_value(run, "--calibrate", "SHARE", purpose, type=_SHARE, default=0.0)
    purpose = (
        "after measuring grow the tree again, on all rows; otherwise the tree "
        "that was measured is the one that is printed and saved"
    )
    _add_flag(run, "--refit-all", purpose)
    _add_value(run, "--out", "MODEL", "save the model in this file")
    purpose = (
        "FILE is a folder of Parquet files (or one) that need not fit into "
        "memory: it is read twice, a part at a time"
    )
    _add_flag(run, "--stream", purpose)
    purpose = "write report.html, tree.png and errors.json to this folder"
    _add_value(run, "--report", "DIR", purpose)


def _add_saved_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands for saved models; ``add`` adds one by its name."""

    def of_model(name: str, purpose: str, file: str = "") -> Any:
        parser = add(name, "saved", purpose)
        parser.add_argument("model", metavar="MODEL", help="a file of fit --out")
        if file:
            parser.add_argument("file", metavar="FILE", help=file)
            _add_file_options(parser.add_argument_group("reading"))
        return parser

    parser = of_model("predict", "predict with a saved model", _FILE)
    _add_names(parser, "--keep", "columns of the file to write beside the predictions")
    purpose = (
        "also write lower and upper, between which so large a share of new rows "
        "lies, as 0.9"
    )
    _add_value(parser, "--interval", "COVERAGE", purpose, type=_COVERAGE)
    _add_flag(parser, "--leaf", "also write the number of the leaf")
    _add_value(parser, "--out", "FILE", "a CSV file (default: standard output)")
    purpose = (
        "FILE is a folder of Parquet files that need not fit into memory, and "
        "--out a Parquet file"
    )
    _add_flag(parser, "--stream", purpose)
    purpose = "say why rows get their predictions"
    parser = of_model("explain", purpose, _FILE)
    purpose = "how many rows to print (default: %(default)s)"
    _add_value(parser, "--rows", "N", purpose, type=_whole(1), default=5)
    _add_value(parser, "--out", "FILE", "write all rows to this CSV file instead")
    purpose = "measure a saved model on new rows"
    of_model("score", purpose, f"{_FILE}; with the target")
    parser = of_model("export", "write a saved model as a program")
    parser.add_argument("language", choices=LANGUAGES)
    parser.add_argument("--name", help="of the function, or of the column of a query")
    parser.add_argument("--table", help="only with sql: a query on this table")
    _add_value(parser, "--out", "FILE", "a file (default: standard output)")
    parser = of_model("show", "print a saved model")
    _add_value(parser, "--plot", "PICTURE", "also draw it (PNG, PDF, SVG)")
    for flag, metavar, least, purpose in (
        ("--max-depth", "N", 0, "deepest level to print"),
        ("--precision", "DIGITS", 1, "significant digits"),
        ("--max-terms", "N", 1, "most terms of an equation"),
    ):
        _add_value(parser, flag, metavar, purpose, type=_whole(least))
    _add_flag(parser, "--categories", "print all categories of a split")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add what a person can say of the cells of a table."""
    cells = parser.add_argument_group(
        "reading",
        "Numbers with separators, units or signs of currencies, dates and columns that "
        "only name the rows are found out, and what was found is said.",
    )
    _add_file_options(cells)
    _add_flag(cells, "--distinct", "of rows that are the same in every column use one")
    _add_names(cells, "--id", "columns that only name the rows: they are left out")
    _add_names(cells, "--text", "columns of categories, taken as they stand there")
    purpose = "columns of categories in which case and blanks mean nothing"
    _add_names(cells, "--ignore-case", purpose)
    purpose = "columns of numbers, even if they look like names of rows"
    _add_names(cells, "--number", purpose)
    purpose = "a column of dates, and how they are written, as in sold:%%d.%%m.%%Y"
    form = "COLUMN[:FORMAT]"
    _add_value(cells, "--dates", form, purpose, action=_Dates, default={})
    purpose = "what groups digits where that is not plain: , . ' or blank"
    _add_value(cells, "--thousands", "MARK", purpose, type=_mark)
    purpose = "the decimal mark where it is not plain"
    cells.add_argument("--decimal", choices=(".", ","), help=purpose)


def _add_file_options(group: argparse._ArgumentGroup) -> None:
    """Add where in a file the table is, and which cells are missing."""
    _add_value(group, "--sheet", "NAME", "the sheet of an Excel file to read")
    purpose = "lines above the header, where a title or empty lines are not found out"
    _add_value(group, "--skip", "N", purpose, type=_whole(0))
    purpose = "a cell that stands for nothing, beside the usual ones (empty, ?, -, NA)"
    _add_value(group, "--na", "VALUE", purpose, action="append", default=[])


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


def _number(kind: type, holds: Callable, what: str) -> Callable[[str], Any]:
    """Build the type of numbers for which a condition holds."""

    def read(text: str) -> Any:
        try:
            if holds(kind(text)):
                return kind(text)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}")

    return read


def _whole(least: int) -> Callable[[str], int]:
    return _number(int, lambda v: v >= least, f"whole number of at least {least}")


_SHARE = _number(float, lambda v: 0 <= v < 1, "number of at least 0 and below 1")
_COVERAGE = _number(float, lambda v: 0 < v < 1, "number between 0 and 1")
