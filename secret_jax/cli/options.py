"""Options of the command line that say how tables are read, and what values may be."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from typing import Any

FILE_HELP = "a CSV, Parquet or Excel file, or - for standard input"
_THOUSANDS = {"comma": ",", "dot": ".", "blank": " ", "space": " ", "apostrophe": "'"}


def names(text: str) -> list[str]:
    """Names separated by commas; one that holds a comma stands in double quotes."""
    return next(csv.reader([text], skipinitialspace=True), [])


def whole(least: int, other: str | None = None) -> Callable[[str], int | str]:
    """The type of a whole number of at least ``least``, or one word."""

    def read(text: str) -> int | str:
        try:
            if text == other or int(text) >= least:
                return text if text == other else int(text)
        except ValueError:
            pass
        choice = f", or {other}" if other else ""
        raise argparse.ArgumentTypeError(
            f"{text!r} is no whole number of at least {least}{choice}"
        )

    return read


def real(
    least: float, below: float | None = None, other: str | None = None
) -> Callable[[str], float | str]:
    """The type of a number of at least ``least``, or one word."""

    def read(text: str) -> float | str:
        if text == other:
            return text
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if least <= value < (float("inf") if below is None else below):
            return value
        limit = "" if below is None else f" and below {below:g}"
        choice = f", or {other}" if other else ""
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of at least {least:g}{limit}{choice}"
        )

    return read


def share(text: str) -> float:
    """The type of a number between 0 and 1, both excluded."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if 0 < value < 1:
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is no number between 0 and 1")


def count_or_share(text: str) -> float | str:
    """The type of a number of rows, a share of them, or auto."""
    if text == "auto":
        return text
    try:
        value = int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no count and no fraction"
        ) from None
    if value >= 1 if isinstance(value, int) else 0 < value < 1:
        return value
    raise argparse.ArgumentTypeError(
        f"{text!r} is no count of at least 1 and no fraction between 0 and 1"
    )


def _mark(text: str) -> str:
    mark = _THOUSANDS.get(text, text)
    if mark in (",", ".", " ", "'"):
        return mark
    raise argparse.ArgumentTypeError(
        f"{text!r} stands between no digits; give , . ' or blank"
    )


class _Dates(argparse.Action):
    """COLUMN or COLUMN:FORMAT, any number of times."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        found = dict(getattr(namespace, self.dest))
        name, colon, form = values.partition(":%")
        found[name] = f"%{form}" if colon else None
        setattr(namespace, self.dest, found)


def add_file_options(group: argparse._ArgumentGroup) -> None:
    """Where in a file the table is, and which cells are missing."""
    group.add_argument(
        "--sheet", metavar="NAME", help="the sheet of an Excel file to read"
    )
    group.add_argument(
        "--skip",
        metavar="N",
        type=whole(0),
        help="lines above the header, where a title or empty lines are not found out",
    )
    group.add_argument(
        "--na",
        metavar="VALUE",
        action="append",
        default=[],
        help="a cell that stands for nothing, beside the usual ones (empty, ?, -, NA)",
    )


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """What a person can say of the cells of a table."""
    cells = parser.add_argument_group(
        "reading",
        "Numbers with separators, units or signs of currencies, dates and columns that "
        "only name the rows are found out, and what was found is said.",
    )
    add_file_options(cells)
    cells.add_argument(
        "--distinct",
        action="store_true",
        help="of rows that are the same in every column use one",
    )
    for flag, metavar, purpose in (
        ("--id", "A,B", "columns that only name the rows: they are left out"),
        ("--text", "A,B", "columns of categories, taken as they stand there"),
        (
            "--ignore-case",
            "A,B",
            "columns of categories in which case and blanks mean nothing",
        ),
        ("--number", "A,B", "columns of numbers, even if they look like names of rows"),
    ):
        cells.add_argument(
            flag, metavar=metavar, type=names, action="extend", default=[], help=purpose
        )
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


def add_search_options(tree: argparse._ArgumentGroup) -> None:
    """Parameters of the estimator that need a word of their own."""
    tree.add_argument(
        "--indicators",
        choices=("auto", "yes", "no"),
        help="categories and missing values in the equations, as 0 or 1; auto: those "
        "of many rows (default: auto)",
    )
    tree.add_argument(
        "--distill",
        choices=("yes", "no"),
        help="grow the tree again on what the trees of the folds say (default: yes)",
    )
    tree.add_argument(
        "--missing-values",
        choices=("learn", "mean", "error"),
        help="splits learn the side of missing numbers, these count as their mean, or "
        "none may be missing (default: learn)",
    )
    tree.add_argument(
        "--clip-margin",
        metavar="SHARE",
        type=real(0, other="none"),
        help="how far beyond its rows' targets a leaf may predict, as a share of their "
        "range; none: any far",
    )
    tree.add_argument(
        "--equation-tolerance",
        metavar="SHARE",
        type=real(0),
        help="how short the equations are: what they may leave out, as a share of the "
        "noise in a leaf (default: 0.03; 0: nothing)",
    )
    tree.add_argument(
        "--pruning-tolerance",
        metavar="SHARE",
        type=real(0),
        help="how much more error a tree of half as many leaves may have, where there "
        "are more than four (default: 0.03; 0: none)",
    )
    tree.add_argument(
        "--leaf-penalty",
        metavar="ALPHA",
        type=real(0),
        help="prune by a penalty for each leaf, in units of the target squared",
    )
    tree.add_argument(
        "--min-gain",
        metavar="GAIN",
        type=real(0, other="auto"),
        help="what a split must save, in noise variances (default: auto)",
    )
    tree.add_argument(
        "--max-split-samples",
        metavar="N",
        type=whole(16, other="all"),
        help="most rows that the search for one split sees (default: 2048)",
    )


def add_device_options(run: argparse._ArgumentGroup) -> None:
    """Where to compute, and with how much memory."""
    run.add_argument("--device", metavar="NAME", help="cpu, gpu, tpu, or gpu:1")
    run.add_argument(
        "--max-memory",
        metavar="MIB",
        type=whole(1),
        help="most memory of the device for one step",
    )


def add_saved_commands(command: Callable[..., argparse.ArgumentParser]) -> None:
    """The commands for saved models; ``command`` adds one by its name."""
    from secret_jax.cli import saved

    def of_model(name: str, run: Callable, purpose: str) -> argparse.ArgumentParser:
        parser = command(name, help=purpose, description=purpose.capitalize() + ".")
        parser.set_defaults(run=run)
        parser.add_argument("model", metavar="MODEL", help="a file of fit --out")
        return parser

    def of_rows(name: str, run: Callable, purpose: str, more: str = "") -> Any:
        parser = of_model(name, run, purpose)
        parser.add_argument("file", metavar="FILE", help=FILE_HELP + more)
        add_file_options(parser.add_argument_group("reading"))
        return parser

    predict = of_rows("predict", saved.predict, "predict with a saved model")
    predict.add_argument(
        "--keep",
        metavar="A,B",
        type=names,
        action="extend",
        default=[],
        help="columns of the file to write beside the predictions",
    )
    predict.add_argument(
        "--interval",
        metavar="COVERAGE",
        type=share,
        help="also write lower and upper, between which so large a share of new rows "
        "lies, as 0.9",
    )
    predict.add_argument(
        "--leaf", action="store_true", help="also write the number of the leaf"
    )
    predict.add_argument(
        "--out", metavar="FILE", help="a CSV file (default: standard output)"
    )
    predict.add_argument(
        "--stream",
        action="store_true",
        help="FILE is a folder of Parquet files that need not fit into memory, and "
        "--out a Parquet file",
    )
    explain = of_rows("explain", saved.explain, "say why rows get their predictions")
    explain.add_argument(
        "--rows",
        metavar="N",
        type=whole(1),
        default=5,
        help="how many rows to print (default: %(default)s)",
    )
    explain.add_argument(
        "--out", metavar="FILE", help="write all rows to this CSV file instead"
    )
    purpose = "measure a saved model on new rows"
    of_rows("score", saved.score, purpose, "; with the target")
    export = of_model("export", saved.export, "write a saved model as a program")
    export.add_argument("language", choices=("python", "sql", "dot"))
    export.add_argument("--name", help="of the function, or of the column of a query")
    export.add_argument("--table", help="only with sql: a query on this table")
    export.add_argument(
        "--out", metavar="FILE", help="a file (default: standard output)"
    )
    show = of_model("show", saved.show, "print a saved model")
    show.add_argument("--plot", metavar="PICTURE", help="also draw it (PNG, PDF, SVG)")
    show.add_argument(
        "--max-depth", metavar="N", type=whole(0), help="deepest level to print"
    )
    show.add_argument(
        "--precision", metavar="DIGITS", type=whole(1), help="significant digits"
    )
    show.add_argument(
        "--max-terms", metavar="N", type=whole(1), help="most terms of an equation"
    )
    show.add_argument(
        "--categories", action="store_true", help="print all categories of a split"
    )
