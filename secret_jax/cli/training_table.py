"""The table that a tree learns from: read, checked, and what is odd in it said."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from secret_jax.cli.messages import CommandError, flags_for_parameters, require, say

if TYPE_CHECKING:
    import pandas as pd

    from secret_jax.cli.reading.files import TableFile
    from secret_jax.cli.reading.learning import Learned
    from secret_jax.cli.reading.table import Reading

# Options that name columns.
_NAMING = ("discrete", "split_only", "drop", "id", "text", "number", "dates")
_NAMING += ("ignore_case",)


class TrainingTable(NamedTuple):
    """What a tree learns from.

    Attributes
    ----------
    X : DataFrame of shape (n_rows, n_columns)
        Under names with units.
    y : Series of shape (n_rows,)
    reading : Reading
        Of the columns and, last, the target.
    classes : bool
        Whether the target is a class.
    """

    X: pd.DataFrame
    y: pd.Series
    reading: Reading
    classes: bool


def read(
    path: str,
    arguments: argparse.Namespace,
    text_columns: Collection[str] = (),
    columns: Collection[str] = (),
) -> TableFile:
    """Read a file, and say what there is in it; parameters as of `read_file`."""
    require("pandas", "data", "read tables")
    from secret_jax.cli.reading.files import read_file

    say(f"reading {'standard input' if path == '-' else path}")
    table = read_file(
        path,
        text_columns,
        sheet=arguments.sheet,
        skip=arguments.skip,
        columns=columns,
    )
    rows, n_columns = table.frame.shape
    say(f"{rows} rows, {n_columns} columns")
    for note in table.notes:
        say(f"  {note}")
    return table


def training_table(arguments: argparse.Namespace) -> TrainingTable:
    """The columns to learn from and the target, checked before rows are taken apart.

    Raises
    ------
    CommandError
        If an option does not go with the table.
    TableFileError
        If the table cannot be read.
    """
    import pandas as pd

    from secret_jax.cli.reading.files import refuse_infinity
    from secret_jax.cli.reading.oddities import oddities
    from secret_jax.cli.reading.targets import target_labels, target_rows

    named_texts = {*arguments.text, *arguments.discrete, *arguments.dates}
    table = read(arguments.file, arguments, named_texts, (arguments.target,))
    target = table.column(arguments.target, "--target names")
    if arguments.distinct:
        table = _without_copies(table)
    classes = _is_of_classes(table, arguments)
    learned = _learned(table, arguments, classes)
    rows = target_labels if classes else target_rows
    table, values, notes = rows(table, target, learned.reading)
    for note in (*learned.notes, *notes):
        say(f"  {note}")
    names = [name for name in learned.reading.formats if name != target]
    if not names:
        raise CommandError(f"no columns are left to predict {target!r} from")
    X = learned.reading.apply(table, names)
    y = pd.Series(values, name=target, index=X.index)
    refuse_infinity(
        table, X, "delete the value or the row, or leave the column out (--drop)"
    )
    _check_columns(table, X, values, arguments, classes)
    for line in oddities(table, X, y, learned.reading):
        say(f"  {line}")
    reading = learned.reading.only([*names, target])
    labels = reading.labels
    X, y = X.rename(columns=labels), y.rename(labels[target])
    return TrainingTable(X, y, reading, classes)


def _without_copies(table: TableFile) -> TableFile:
    """A table without the rows that repeat another one."""
    frame = table.frame.drop_duplicates()
    n_copies = len(table.frame) - len(frame)
    if n_copies:
        rows = "row that repeats" if n_copies == 1 else "rows that repeat"
        say(f"  {n_copies} {rows} another one left out")
    return table._replace(frame=frame)


def _is_of_classes(table: TableFile, arguments: argparse.Namespace) -> bool:
    """Whether the target is a class; an option that goes with numbers is refused."""
    from secret_jax.cli.reading.columns import MISSING
    from secret_jax.cli.reading.targets import holds_classes

    target, missing = arguments.target, (*MISSING, *arguments.na)
    if not (arguments.classes or holds_classes(table, target, missing)):
        return False
    for flag in ("paper", "calibrate", "clip_margin"):
        if getattr(arguments, flag):
            raise CommandError(
                f"--{flag.replace('_', '-')} goes with a target of numbers, but "
                f"{target!r} holds classes"
            )
    return True


def _learned(table: TableFile, arguments: argparse.Namespace, classes: bool) -> Learned:
    """How the columns are read, by what the options say of them."""
    from secret_jax.cli.reading.learning import ReadingOptions, learn_reading

    target = arguments.target
    for flag in _NAMING:
        for name in getattr(arguments, flag):
            table.column(name, f"--{flag.replace('_', '-')} names")
            if name == target:
                raise CommandError(f"{name!r} is the target; name it in no other role")
    names = [
        name
        for name in map(str, table.frame.columns)
        if name != target and name not in arguments.drop
    ]
    options = ReadingOptions(
        thousands=arguments.thousands,
        decimal=arguments.decimal,
        dates=arguments.dates,
        missing=tuple(arguments.na),
        ids=tuple(arguments.id),
        texts=tuple(arguments.text),
        numbers=tuple(arguments.number),
        discrete=tuple(arguments.discrete),
        ignore_case=tuple(arguments.ignore_case),
        used=(*arguments.discrete, *arguments.split_only),
        classes=classes,
    )
    return learn_reading(table, target, names, options)


def _check_columns(
    table: TableFile,
    X: pd.DataFrame,
    values: np.ndarray,
    arguments: argparse.Namespace,
    classes: bool,
) -> None:
    """Refuse what no tree can learn from, with places in the file."""
    from secret_jax.data.columns import read_columns
    from secret_jax.data.learning import learn_schema
    from secret_jax.data.roles import ColumnOptions

    with flags_for_parameters(), table.placing():
        learn_schema(
            read_columns(X),
            np.zeros((len(values), 1)) if classes else values[:, None],
            np.ones(len(values)),
            ColumnOptions(
                categorical_features=arguments.discrete,
                split_features=arguments.split_only,
                missing="mean",
            ),
        )
