"""The rows that a tree learns from: what the columns of a file mean, and what is odd.

Everything that is not plain to see is said, a line each.
"""

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit

from secret_jax.cli.files import TableFile, read_file
from secret_jax.cli.formats import (
    ColumnFormat,
    Found,
    find_dates,
    find_numbers,
    find_times,
    mixed_units,
    to_numbers,
)
from secret_jax.cli.messages import CommandError, gathered, say
from secret_jax.cli.oddities import FEWEST_ROWS, n_total_rows, oddities
from secret_jax.cli.reading import MISSING, Column, Reading, kind_of
from secret_jax.inspect.printing import counted, listed

# Options that name columns.
_NAMING = ("categorical", "split_only", "drop", "id", "text", "number", "ignore_case")
_NAMING += ("dates", "monotone", "weight", "group", "time")
# What columns beside the others hold.
_HOLDS = {"weight": "numbers, none below zero", "time": "numbers or dates"}
_HOLDS["group"] = "names"
# Of time, by which a tree's size is chosen: a few for each fold.
_STRETCHES = 20
# Text that differs in so many of the rows names them; digits with leading zeros do,
# like categories of few rows each, from here on.
_NAMES_ROWS, _NAMES_GROUPS = 0.9, 0.25
_LOOKED_AT = 2000  # rows that show how numbers are written
_FEW_TIMES = 10  # different numbers that look like times of day by chance
_MOST_CLASSES = 0.5  # of more different texts a row most would have a single row
_ID = re.compile(
    r"|unnamed: \d+|index|.*[_ .-]id|id([_ .-].*)?|rownames?|no|nr|key|uuid|guid|"
    r"obs|observation|record|serial|(?-i:.*[a-z0-9]I[Dd])|(row|user|customer|client|"
    r"respondent|patient|passenger|person|order|case)[_ .-]?(id|no|nr|num|number)?",
    re.IGNORECASE,
)
_CODE = re.compile(r".*(fips|zip|plz|postal|postcode|\bcode|_code).*", re.IGNORECASE)
Formats = tuple[ColumnFormat, ...]
Options = argparse.Namespace


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
            why = "all of one group or time"
            raise CommandError(f"no rows are left to learn from: {why}")
        return self.take(first), self.take(~first)


def read(options: Options) -> TableFile:
    """Read a file, and say what there is in it."""
    table = read_file(options.file, sheet=options.sheet, skip=options.skip)
    say(f"read {table.path}")
    say("{:,} rows, {:,} columns".format(*table.frame.shape))
    for note in table.notes:
        say(f"  {note}")
    return table


def training_rows(options: Options) -> Rows:
    """Read the columns to learn from and the target, checked before the work.

    What the owner says are the options of ``secret-jax fit``. A column that may be read
    in two ways, or most of it in one but not all, is an error that names what settles
    it.
    """
    options.dates = dict(options.dates)
    table = read(options)
    target = table.column(options.target, "TARGET names")
    _check_options(table, options)
    empty = (table.frame.isna() | table.frame.eq("")).all(axis=1)
    if empty.any():
        say(f"  {counted(int(empty.sum()), 'row', 'rows')} without any cell left out")
        table = table._replace(frame=table.frame[~empty])
    table = _without_totals(table)
    n_copies = int(table.frame.duplicated().sum())
    if options.distinct and n_copies:
        say(f"  {n_copies} rows that repeat another one left out")
        table, n_copies = table._replace(frame=table.frame.drop_duplicates()), 0
    reading, X, notes = _learned(table, target, options)
    classes = reading.formats[target].kind == "text"
    y = X.pop(target)
    known = y.notna()
    if not known.all():
        places = [table.place(int(row)) for row in np.flatnonzero(~known)]
        n_gone, where = counted(len(places), "row", "rows"), listed(places, n_max=8)
        notes.append(f"left out for want of {target}: {n_gone} ({where})")
    X, y = X[known], y[known].astype(str if classes else float)
    roles = {role: name for role in _HOLDS if (name := getattr(options, role))}
    used = [*roles.items()]
    for flag in ("categorical", "split_only", "monotone"):
        used += [(flag.replace("_", "-"), one) for one in getattr(options, flag) or ()]
    for flag, name in used:
        if name not in X:
            raise CommandError(f"--{flag} names {name!r}, which is left out")
    beside = {role: X[name] for role, name in roles.items()}
    X = X.drop(columns=[name for role, name in roles.items() if role != "time"])
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


def _without_totals(table: TableFile) -> TableFile:
    """Leave out rows at the end that hold the sums, or means, of those above."""
    n_rows = len(table.frame) - n_total_rows(table)
    for row in range(n_rows, len(table.frame)):
        say(f"  {table.place(row)} left out: it holds the sums of the rows above")
    return table._replace(frame=table.frame.iloc[:n_rows])


def _check_options(table: TableFile, options: Options) -> None:
    """Refuse options that name no column, or the target, or no mark."""
    for flag in _NAMING:
        names = getattr(options, flag) or ()
        for name in [names] if isinstance(names, str) else names:
            table.column(name, f"--{flag.replace('_', '-')} names")
            if name == options.target:
                raise CommandError(f"{name!r} is the target; name it in no other role")
    for flag, marks in (("thousands", ",.' "), ("decimal", ",.")):
        if getattr(options, flag) not in (None, *marks):
            raise CommandError(f"--{flag}: give one of {', '.join(map(repr, marks))}")
    if options.group and options.time:
        raise CommandError("rows are held out by --group or by --time; give one")


def _learned(
    table: TableFile, target: str, options: Options
) -> tuple[Reading, Any, list[str]]:
    """Find out how columns and target are read; read them, but no names of rows."""
    plain = Reading(missing=(*MISSING, *options.na))
    names = [name for name in table.frame if name not in (target, *options.drop)]
    columns = {name: plain.column(table, name) for name in (*names, target)}
    candidates = gathered(lambda name: _candidates(columns[name], options), names)
    candidates[target] = _of_target(columns[target], options.classes)
    marks = {
        one.decimal
        for name, (one, *others) in candidates.items()
        if not others and one.kind == "number"
        if columns[name].cells.str.contains(one.decimal, regex=False).any()
    }
    formats = gathered(
        lambda name: _chosen(columns[name], candidates[name], options, marks),
        candidates,
    )
    X, notes = replace(plain, formats=formats).apply(table, formats), list[str]()
    for name, chosen in formats.items():
        texts, values = columns[name].known, pd.Series(X[name])
        if name != target and (why := _left_out(name, texts, values, options)):
            notes.append(f"{name}: left out, {why}")
            X = X.drop(columns=name)
        elif name != target or not (chosen.kind == "text" or _is_plain(chosen, texts)):
            lines = _notes(name, texts, values, chosen)
            notes += [f"{name}: {note}" for note in lines]
    reading = replace(plain, formats={name: formats[name] for name in X})
    missing = []
    for name in X:
        unread = reading.column(table, name).cells.isna()
        gone = table.frame[name][unread].dropna().astype(str).str.strip()
        counts = gone[gone != ""].value_counts(sort=False)
        missing += [f"{mark!r} ({name} {count})" for mark, count in counts.items()]
    if missing:
        notes.append(f"counted as missing: {listed(missing, n_max=8)}")
    return reading, X, notes


def _candidates(column: Column, options: Options) -> Formats:
    """Find formats that fit all cells of a column."""
    name, kind, known = column.name, column.kind, column.known
    verbatim, fold = name in options.text, name in options.ignore_case
    if name in options.dates and (verbatim or fold or name in options.number):
        raise CommandError(f"--dates names {name!r}, which another option says is none")
    text = (ColumnFormat(kind="text", verbatim=verbatim, folded=fold),)
    as_text = verbatim or fold or name in options.id or kind == "category"
    if as_text or (known.empty and not kind):
        return text
    form = options.dates.get(name)
    if form and kind != "date":
        return (_dates_as_said(column, form),)
    if kind:
        return (ColumnFormat(kind=kind),)  # pyright: ignore[reportArgumentType]
    numbers, discrete = find_numbers(known), name in options.categorical
    if name in options.number:
        _refuse_mixed_units(column, numbers)
        return numbers.formats or (numbers.nearest or ColumnFormat(),)
    if numbers.formats and not _has_leading_zeros(known):
        days = known.str.fullmatch(r"(19|20)\d{6}").all() and not discrete
        return (days and find_dates(known).formats) or numbers.formats
    if {*known.str.casefold()} <= {"true", "false"}:
        return (ColumnFormat(kind="truth"),)
    if numbers.formats or discrete:
        return text
    dates, times = find_dates(known), find_times(known)
    if dates.formats or times.formats:
        return dates.formats or times.formats
    _refuse_mixed_units(column, numbers)
    if nearest := numbers.nearest or dates.nearest or times.nearest:
        what = nearest.sentence().split(":")[0]
        keeps = f"read the column as categories (--text {name!r})"
        bad = known[nearest.parse(known).isna()]
        raise column.refusal(bad, f"but most of its values are {what}", keeps)
    return text


def _refuse_mixed_units(column: Column, numbers: Found) -> None:
    """Refuse numbers that are written in several ways, which no format reads."""
    if units := mixed_units(column.known, numbers):
        names = " and ".join(f"{unit!r}" if unit else "none" for unit in units)
        why = f"numbers in several units ({names})"
        why = why if len(units) > 1 else "digits in groups that are no numbers"
        raise CommandError(
            f"{column.held(*units.values())}: {why}; write them in one way, read the "
            f"column as categories (--text {column.name!r}), or leave it out (--id "
            f"{column.name!r})"
        )


def _dates_as_said(column: Column, form: str) -> ColumnFormat:
    chosen, known = ColumnFormat(kind="date", form=form), column.known
    try:
        unread = known[chosen.parse(known).isna()]
    except ValueError as error:  # of a directive that there is not
        raise CommandError(f"--dates '{column.name}:{form}': {error}") from None
    if len(unread):
        why = f"where dates ({form}) are read by --dates"
        raise column.refusal(unread, why, "give another form")
    return chosen


def _of_target(column: Column, classes: bool) -> Formats:
    """Find whether a target holds numbers, or classes: texts that repeat themselves."""
    known, kind = column.known, column.kind
    if known.empty:
        raise CommandError(f"the target {column.name!r} has no value in any row")
    if classes or kind in ("truth", "category"):
        return (ColumnFormat(kind="text"),)
    numbers = find_numbers(known)
    if not kind and find_times(known).formats:
        return (ColumnFormat(unit=":"),)
    if kind or numbers != Found() or to_numbers(known).notna().any():
        return numbers.formats or (numbers.nearest or ColumnFormat(),)
    dates, n_max = find_dates(known), max(2, _MOST_CLASSES * len(known))
    if dates != Found() or known.nunique() > n_max:
        raise CommandError(
            f"{column.held(known.iloc[0])}, and no number; choose a target of numbers, "
            "or say that its values are classes (--classes)"
        )
    return (ColumnFormat(kind="text"),)


def _chosen(
    column: Column, formats: Formats, options: Options, marks: set[str]
) -> ColumnFormat:
    """Choose the format that the owner's options or other columns leave."""
    named = {"thousands": options.thousands, "decimal": options.decimal}

    def has_named_marks(one: ColumnFormat) -> bool:
        decimals = column.cells.str.contains(one.decimal, regex=False).any()
        own = {"thousands": one.thousands, "decimal": one.decimal * bool(decimals)}
        crossed = own["decimal"] == named["thousands"]
        crossed |= own["thousands"] == named["decimal"]
        return not crossed and all(
            named[mark] in (None, own[mark]) for mark in own if own[mark]
        )

    left = list(formats)
    if not column.kind:
        left = [one for one in left if one.kind != "number" or has_named_marks(one)]
    if not left:
        marked = column.known[column.known.str.contains(r"[.,'\u2019]|\d\s\d")]
        flags = " ".join(f"--{flag} {one!r}" for flag, one in named.items() if one)
        where = column.held(marked.iloc[0])
        raise CommandError(f"{where}, which is no number with {flags}")
    agreeing = [one for one in left if one.kind == "number" and {one.decimal} == marks]
    if len(left) == 1 or agreeing:
        return [*agreeing, *left][0]
    texts = pd.Series(column.known.unique(), dtype=object)
    first, other = (one.parse(texts) for one in left[:2])
    doubtful = (first != other).idxmax()
    forms = " or ".join(f"'{column.name}:{one.form}'" for one in left)
    remedy, form = f"--dates {forms}", "%d %B %Y"
    if left[0].kind == "number":
        # Between semicolons a comma is as often the one as the other; elsewhere decimal
        # commas are rare, and so are dots between thousands.
        if column.table.separator != ";" or "," not in texts[doubtful]:
            return next(one for one in left if one.decimal == ".")
        remedy, form = "--thousands , or --decimal ,", ".12g"
    ways = " or ".join(f"{one[doubtful]:{form}}" for one in (first, other))
    where = column.held(texts[doubtful])
    raise CommandError(f"{where}, which may be {ways}; give {remedy}")


def _left_out(name: str, known: pd.Series, values: pd.Series, options: Options) -> str:
    """Say why a column is taken to name the rows; empty if it is not."""
    n_known, n_different = int(values.count()), values.nunique()
    if name in options.id or not n_known:
        return "as --id says" if name in options.id else "it holds nothing"
    meant = (*options.number, *options.text, *options.categorical, *options.split_only)
    meant += (options.weight, options.group, options.time)
    if name in meant or n_known < FEWEST_ROWS:
        return ""
    differ = n_different >= _NAMES_ROWS * n_known  # rows may be entered twice
    if kind_of(values) == "category":
        names = differ or (_many(values) and _has_leading_zeros(known))
    else:
        names = differ and _ID.fullmatch(name) and _are_whole(values)
    reason = f"its {n_different} different values in {n_known} rows name them"
    return f"{reason}; --number {name!r} or --text {name!r} keeps it" if names else ""


def _notes(
    name: str, texts: pd.Series, values: pd.Series, chosen: ColumnFormat
) -> Iterator[str]:
    """Tell how a column is used; nothing where all is plain."""
    if chosen.kind == "date" and len(texts):
        yield f"{chosen.sentence()}; {texts.iloc[0]!r} is one"
    elif chosen.kind in ("number", "time") and not _is_plain(chosen, texts):
        longest = texts.str.len().idxmax()  # which shows most of what there is
        value = values[longest]
        value = f"{value:.12g}" if chosen.kind == "number" else value
        yield f"{chosen.sentence()}; {texts[longest]!r} is {value}"
    elif chosen.kind == "text" and _many(values):
        yield (
            f"{values.nunique()} categories in {len(texts)} rows; if it only names "
            f"the rows, leave it out (--id {name!r})"
        )
    if chosen != ColumnFormat() or len(texts) < FEWEST_ROWS:
        return
    counts = (values.dropna().diff().iloc[1:] == 1).all()
    if _are_whole(values) and (counts or _CODE.fullmatch(name) or _ID.fullmatch(name)):
        yield (
            f"whole numbers that may be names; --id {name!r} leaves them out, "
            f"--categorical {name!r} takes them as categories"
        )
    parts = texts.head(_LOOKED_AT).str.extract(r"\A(\d+)\.(\d+)\Z").dropna()
    lengths, numbers = {*parts[1].str.len()}, parts.astype(float)
    version = lengths == {1, 2} and parts[1].str.fullmatch("[1-9]0").any()
    clock = lengths == {2} and numbers[0].max() < 24 and numbers[1].max() < 60
    if version or (clock and parts[1].nunique() > 1 and len({*texts}) > _FEW_TIMES):
        text = texts[parts[1].str.endswith("0").idxmax()]
        what = "a version" if version else "a time of day"
        yield (
            f"{text!r} is read as the number {float(text):g}; if it is {what}, say so "
            f"(--text {name!r})"
        )


def _is_plain(chosen: ColumnFormat, texts: pd.Series) -> bool:
    """Whether cells are numbers as programs write them."""
    return chosen == ColumnFormat() and bool(to_numbers(texts).notna().all())


def _has_leading_zeros(known: pd.Series) -> bool:
    return bool(known.str.isdigit().all() and known.str.fullmatch(r"0\d+").any())


def _are_whole(values: pd.Series) -> bool:
    numeric, known = kind_of(values) == "number", values.dropna()
    return numeric and bool((known % 1 == 0).all() and (known >= 0).all())


def _many(values: pd.Series) -> bool:
    """Whether a column has categories of few rows each."""
    return values.nunique() > max(FEWEST_ROWS, _NAMES_GROUPS * values.count())
