"""The rows that a tree learns from: read, checked, and what is odd in them said."""

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit

from secret_jax.cli.messages import CommandError, say
from secret_jax.cli.reading.files import TableFile, read_file
from secret_jax.cli.reading.formats import Reading, kind_of
from secret_jax.cli.reading.learning import learn_reading, oddities
from secret_jax.inspect.printing import counted, listed

# Options that name columns, and those that name one that is nothing to learn from.
_NAMING = ("categorical", "split_only", "drop", "id", "text", "number", "ignore_case")
_NAMING += ("dates", "monotone", "weight", "group", "time")
_HOLDS = {"weight": "numbers, none below zero", "time": "numbers or dates"}
_HOLDS["group"] = "names"
# Of time, by which a tree's size is chosen: a few for each fold.
_STRETCHES = 20


class Rows(NamedTuple):
    """Columns to learn from, a target, and what is known of the rows beside them.

    ``classes`` says whether the target is one; ``beside`` has those of ``weight``,
    ``group`` and ``time`` that options name.
    """

    X: pd.DataFrame
    y: pd.Series
    classes: bool = False
    beside: Mapping[str, pd.Series] = {}
    reading: Reading = Reading()

    @property
    def groups(self) -> Any:
        """Groups of rows that choose a tree's size together.

        Of times stretches of the table: whole ones are held out (blocked
        cross-validation: Bergmeir & Benítez, Information Sciences 191, 2012).
        """
        if "time" not in self.beside:
            return self.beside.get("group")
        earlier = self.beside["time"].rank(method="min") - 1
        return _STRETCHES * earlier // len(earlier)

    def fit(self, model: Any) -> None:
        """Fit a model, whose own folds keep groups together."""
        model.fit(self.X, self.y, self.beside.get("weight"), groups=self.groups)

    def take(self, rows: np.ndarray) -> Self:
        """Some of the rows, by a mask."""
        beside = {role: one[rows] for role, one in self.beside.items()}
        return self._replace(X=self.X[rows], y=self.y[rows], beside=beside)

    def drawn(self, n_first: int, seed: int) -> tuple[Self, Self]:
        """Draw about so many rows at random, and the others.

        Of groups such a share of whole ones is drawn; of times the latest rows, those
        of one time together.
        """
        n_rows, first = len(self.y), np.zeros(len(self.y), bool)
        if n_first and "time" in self.beside:
            first = self.beside["time"].rank(method="max").to_numpy() > n_rows - n_first
        elif n_first and "group" in self.beside:
            groups = self.beside["group"].astype(str)
            way = GroupShuffleSplit(1, test_size=n_first / n_rows, random_state=seed)
            first[next(way.split(groups, groups=groups))[1]] = True
        else:
            first[np.random.default_rng(seed).permutation(n_rows)[:n_first]] = True
        if first.all():
            raise CommandError(
                "no rows are left to learn from: all of one group or time"
            )
        return self.take(first), self.take(~first)


def read(arguments: argparse.Namespace) -> TableFile:
    """Read a file, and say what there is in it."""
    table = read_file(arguments.file, sheet=arguments.sheet, skip=arguments.skip)
    say(f"read {table.path}")
    say("{:,} rows, {:,} columns".format(*table.frame.shape))
    for note in table.notes:
        say(f"  {note}")
    return table


def training_rows(arguments: argparse.Namespace) -> Rows:
    """Read the columns to learn from and the target, checked before the work."""
    arguments.dates = dict(arguments.dates)
    table = read(arguments)
    target = table.column(arguments.target, "TARGET names")
    _check_names(table, arguments)
    empty = (table.frame.isna() | table.frame.eq("")).all(axis=1)
    if empty.any():
        n_empty = counted(int(empty.sum()), "row", "rows")
        say(f"  {n_empty} without any cell left out")
        table = table._replace(frame=table.frame[~empty])
    n_copies = int(table.frame.duplicated().sum())
    if arguments.distinct and n_copies:
        say(f"  {n_copies} rows that repeat another one left out")
        table, n_copies = table._replace(frame=table.frame.drop_duplicates()), 0
    names = [name for name in table.frame if name not in (target, *arguments.drop)]
    X: Any
    reading, X, notes = learn_reading(table, target, names, arguments)
    classes = reading.formats[target].kind == "text"
    y = X.pop(target)
    known = y.notna()
    if not known.all():
        places = [table.place(int(row)) for row in np.flatnonzero(~known)]
        n_gone = counted(len(places), "row", "rows")
        notes.append(
            f"left out for want of {target}: {n_gone} ({listed(places, n_max=8)})"
        )
    X, y = X[known], y[known].astype(str if classes else float)
    roles = {role: getattr(arguments, role) for role in ("weight", "group", "time")}
    for role, name in roles.items():
        if name and name not in X:
            raise CommandError(f"--{role} names {name!r}, which is left out")
    for flag in ("categorical", "split_only", "monotone"):
        for name in [one for one in getattr(arguments, flag) or () if one not in X]:
            shown = flag.replace("_", "-")
            raise CommandError(f"--{shown} names {name!r}, which is left out")
    beside = {role: X[name] for role, name in roles.items() if name}
    X = X.drop(columns=[roles[one] for one in ("weight", "group") if roles[one]])
    if X.shape[1] == 0:
        raise CommandError(f"no columns are left to predict {target!r} from")
    for note in (*notes, *oddities(X, y, n_copies)):
        say(f"  {note}")
    for role, column in beside.items():
        kind = kind_of(column)
        right = role == "group" or kind == "number" or (role, kind) == ("time", "date")
        if role == "weight" and right:
            right = column.min() >= 0 and column.max() > 0
        if column.isna().any() or not right:
            what = f"{_HOLDS[role]}, without gaps"
            raise CommandError(f"--{role} names {column.name!r}, which must be {what}")
    return Rows(X, y, classes, beside, reading)


def _check_names(table: TableFile, arguments: argparse.Namespace) -> None:
    """Refuse options that name no column, or the target."""
    for flag in _NAMING:
        names = getattr(arguments, flag) or ()
        for name in [names] if isinstance(names, str) else names:
            table.column(name, f"--{flag.replace('_', '-')} names")
            if name == arguments.target:
                raise CommandError(f"{name!r} is the target; name it in no other role")
    for flag, marks in (("thousands", ",.' "), ("decimal", ",.")):
        if getattr(arguments, flag) not in (None, *marks):
            raise CommandError(f"--{flag}: give one of {', '.join(map(repr, marks))}")
    if arguments.group and arguments.time:
        raise CommandError("rows are held out by --group or by --time; give one")
