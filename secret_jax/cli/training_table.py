"""The table that a tree learns from: read, checked, and what is odd in it said."""

import argparse
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import pandas.api.types as types

from secret_jax.cli.messages import CommandError, flags_for_parameters, say
from secret_jax.cli.reading.columns import MISSING
from secret_jax.cli.reading.files import TableFile, read_file
from secret_jax.cli.reading.learning import learn_reading
from secret_jax.cli.reading.oddities import oddities
from secret_jax.cli.reading.table import Reading
from secret_jax.cli.reading.targets import holds_classes, read_target
from secret_jax.data.columns import read_columns
from secret_jax.data.learning import learn_schema
from secret_jax.data.roles import ColumnOptions
from secret_jax.inspect.printing import counted

# Options that name columns, and those that name one that is nothing to learn from.
_NAMING = ("categorical", "split_only", "drop", "id", "text", "number", "dates")
_NAMING += ("ignore_case",)
_BESIDE = ("weight", "group", "time")
# Of time, by which a tree's size is chosen: a few for each fold.
_STRETCHES = 20


class TrainingTable(NamedTuple):
    """Columns to learn from, a target, and what is known of the rows beside them.

    Columns have names with units; the reading is of them and, last, of the target.
    ``classes`` says whether the target is one. Of ``weight``, ``group`` and ``time``
    those that options name are there.
    """

    X: pd.DataFrame
    y: pd.Series
    reading: Reading
    classes: bool
    weight: pd.Series | None = None
    group: pd.Series | None = None
    time: pd.Series | None = None

    @property
    def groups(self) -> pd.Series | None:
        """Groups of rows that choose a tree's size together.

        Of times stretches of the table: whole ones are held out (blocked
        cross-validation: Bergmeir & Benítez, Information Sciences 191, 2012).
        """
        if self.time is None:
            return self.group
        n_earlier = self.time.rank(method="min") - 1
        return _STRETCHES * n_earlier // len(self.time)

    def fit(self, model: Any) -> None:
        """Fit a model, whose own folds keep groups together."""
        model.fit(self.X, self.y, self.weight, groups=self.groups)

    def take(self, rows: np.ndarray) -> Self:
        """Some of the rows."""
        named = {name: getattr(self, name) for name in ("X", "y", *_BESIDE)}
        known = {name: one for name, one in named.items() if one is not None}
        return self._replace(**{name: one.iloc[rows] for name, one in known.items()})


def read(
    arguments: argparse.Namespace,
    text_columns: Collection[str] = (),
    columns: Collection[str] = (),
) -> TableFile:
    """Read a file, and say what there is in it; parameters as of `read_file`."""
    path, sheet, skip = arguments.file, arguments.sheet, arguments.skip
    say(f"reading {'standard input' if path == '-' else path}")
    table = read_file(path, text_columns, sheet=sheet, skip=skip, columns=columns)
    n_rows, n_columns = table.frame.shape
    width = counted(n_columns, "column", "columns")
    say(f"{counted(n_rows, 'row', 'rows')}, {width}")
    for note in table.notes:
        say(f"  {note}")
    return table


def training_table(arguments: argparse.Namespace) -> TrainingTable:
    """Read the columns to learn from and the target, checked before the work."""
    named_texts = {*arguments.text, *arguments.categorical, *arguments.dates}
    table = read(arguments, named_texts, (arguments.target,))
    target = table.column(arguments.target, "TARGET names")
    if arguments.distinct:
        table = _without_copies(table)
    missing = (*MISSING, *arguments.na)
    classes = arguments.classes or holds_classes(table, target, missing)
    if classes and arguments.calibrate:
        raise CommandError(
            f"--calibrate goes with a target of numbers, but {target!r} holds classes"
        )
    check_names(arguments, lambda name, what: table.column(name, what))
    names = [name for name in map(str, table.frame.columns) if name != target]
    names = [name for name in names if name not in arguments.drop]
    reading, learned = learn_reading(table, target, names, arguments, classes)
    table, values, notes = read_target(table, target, reading)
    for note in (*learned, *notes):
        say(f"  {note}")
    names = [name for name in reading.formats if name != target]
    X = reading.apply(table, names)
    beside = {role: _beside(X, role, getattr(arguments, role)) for role in _BESIDE}
    group, weight = arguments.group, arguments.weight
    X = X.drop(columns=[name for name in (group, weight) if name is not None])
    names = [*map(str, X.columns)]
    if not names:
        raise CommandError(f"no columns are left to predict {target!r} from")
    y = pd.Series(values, name=target, index=X.index)
    table.refuse_infinity(
        X, "delete the value or the row, or leave the column out (--drop)"
    )
    with flags_for_parameters(), table.placing():
        _check_columns(X, arguments)
    for line in oddities(table, X, y, reading):
        say(f"  {line}")
    reading = reading.only([*names, target])
    labels = reading.labels
    X, y = X.rename(columns=labels), y.rename(labels[target])
    return TrainingTable(X, y, reading, classes, **beside)


def _beside(X: pd.DataFrame, role: str, name: str | None) -> pd.Series | None:
    """Column that an option names; of weights numbers, of times these or dates."""
    if name is None:
        return None
    if name not in X:
        raise CommandError(f"--{role} names {name!r}, which is left out")
    column = pd.Series(X[name])
    if role == "group":
        return column
    if column.isna().any():
        raise CommandError(f"--{role} names {name!r}, which has gaps")
    numeric = types.is_numeric_dtype(column)
    if role == "weight":
        if not numeric or bool((column < 0).any()) or not bool((column > 0).any()):
            raise CommandError(
                f"--weight names {name!r}, which should hold numbers, none below zero"
            )
    elif not numeric and not types.is_datetime64_any_dtype(column):
        raise CommandError(f"--time names {name!r}, which should hold numbers or dates")
    return column


def check_names(
    arguments: argparse.Namespace, known: Callable[[str, str], Any]
) -> None:
    """Refuse options that name the target, or columns that ``known`` does not know."""
    named = [(flag, name) for flag in _NAMING for name in getattr(arguments, flag)]
    named += [(role, getattr(arguments, role)) for role in _BESIDE]
    for flag, name in named:
        if name:
            known(name, f"--{flag.replace('_', '-')} names")
            if name == arguments.target:
                raise CommandError(f"{name!r} is the target; name it in no other role")
    if arguments.group and arguments.time:
        raise CommandError("rows are held out by --group or by --time; give one")


def _without_copies(table: TableFile) -> TableFile:
    """Leave out the rows that repeat another one."""
    frame = table.frame.drop_duplicates()
    n_copies = len(table.frame) - len(frame)
    if n_copies:
        rows = "row that repeats" if n_copies == 1 else "rows that repeat"
        say(f"  {n_copies} {rows} another one left out")
    return table._replace(frame=frame)


def _check_columns(X: pd.DataFrame, arguments: argparse.Namespace) -> None:
    """Refuse what no tree can learn from."""
    texts = [name for name in arguments.text if name in X.columns]
    for both in texts:
        if both in arguments.split_only:
            raise CommandError(
                f"column {both!r} is named in both --text and --split-only; keep it in "
                "one of them"
            )
    options = ColumnOptions(
        categorical_features=[*arguments.categorical, *texts],
        split_features=arguments.split_only,
        missing="mean",
    )
    n_rows = len(X)
    learn_schema(read_columns(X), np.zeros((n_rows, 1)), np.ones(n_rows), options)
