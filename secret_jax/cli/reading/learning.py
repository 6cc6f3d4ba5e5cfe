"""Finding out what the columns of a file mean, what is odd in them, and saying it."""

import re
from argparse import Namespace
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from secret_jax.cli.messages import CommandError
from secret_jax.cli.reading.files import TableFile
from secret_jax.cli.reading.formats import (
    MISSING,
    ColumnFormat,
    Found,
    Reading,
    find_dates,
    find_numbers,
    folded,
    held,
    kind_of,
    to_numbers,
)
from secret_jax.inspect.printing import listed

# Of fewer rows nearly every column tells them apart.
_FEWEST_NAMED = 20
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
# What people write where they know nothing.
_CODES = (9.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)
# A code lies so many times as far out as all other values, and stands there so often.
_FAR_OUT, _FEWEST_CODES = 5.0, 2
# Rows that are the same by chance are few where a column has so many different values.
_MANY_VALUES = 0.25
# A column that explains so much of the target alone may be made of it.
_GIVEN_AWAY = 0.995
_ENOUGH_ROWS = 10_000  # to tell that of all
_FEWEST_ROWS = 20  # of fewer a column easily explains the target by chance
_FEW_NUMBERS = 10  # different whole numbers of a target that may stand for classes
Formats = tuple[ColumnFormat, ...]


def learn_reading(
    table: TableFile, target: str, names: Collection[str], options: Namespace
) -> tuple[Reading, pd.DataFrame, list[str]]:
    """Find out how the columns of a table, and its target, are read; and read them.

    What the owner says are the options of ``secret-jax fit``. Columns that only name
    the rows are left out. Returns the reading, the values, and what is not plain to
    see, a line each. A column that may be read in two ways, or most of it in one but
    not all, is an error that names what settles it.
    """
    plain = Reading(missing=(*MISSING, *options.na))
    cells = {name: plain.cells(table, name) for name in (*names, target)}
    candidates = {
        name: _candidates(table, name, cells[name], options) for name in names
    }
    candidates[target] = _of_target(table, target, cells[target], options.classes)
    marks = {
        one.decimal
        for name, (one, *others) in candidates.items()
        if not others and one.kind == "number"
        if cells[name].str.contains(one.decimal, regex=False).any()
    }
    formats = {
        name: _chosen(table, name, cells[name], ways, options, marks)
        for name, ways in candidates.items()
    }
    reading = replace(plain, formats=formats)
    X, notes = reading.apply(table, formats), list[str]()
    for name, chosen in formats.items():
        known, values = cells[name].dropna(), pd.Series(X[name])
        if name != target and (why := _left_out(name, known, values, options)):
            notes.append(f"{name}: left out, {why}")
            X = X.drop(columns=name)
        elif name != target or (chosen.kind != "text" and chosen != ColumnFormat()):
            lines = _notes(name, known, values, chosen)
            notes += [f"{name}: {note}" for note in lines]
    reading = replace(plain, formats={name: formats[name] for name in X})
    missing = []
    for name in X:
        gone = table.frame[name][reading.cells(table, name).isna()].dropna().astype(str)
        counts = gone[gone.str.strip() != ""].str.strip().value_counts(sort=False)
        missing += [f"{mark!r} ({name} {count})" for mark, count in counts.items()]
    if missing:
        notes.append(f"counted as missing: {listed(missing, n_max=8)}")
    return reading, X, notes


def _candidates(
    table: TableFile, name: str, cells: pd.Series, options: Namespace
) -> Formats:
    """Find formats that fit all cells of a column."""
    verbatim, fold = name in options.text, name in options.ignore_case
    if name in options.dates and (verbatim or fold or name in options.number):
        raise CommandError(f"--dates names {name!r}, which another option says is none")
    text = (ColumnFormat(kind="text", verbatim=verbatim, folded=fold),)
    kind, known = kind_of(table.frame[name]), cells.dropna()
    if verbatim or fold or kind == "category" or (known.empty and not kind):
        return text
    form = options.dates.get(name)
    if form and kind != "date":
        return (_dates_as_said(table, name, cells, form),)
    if kind:
        return (ColumnFormat(kind=kind),)  # pyright: ignore[reportArgumentType]
    numbers, discrete = find_numbers(known), name in options.categorical
    if name in options.number:
        return numbers.formats or (ColumnFormat(),)
    if numbers.formats and not _has_leading_zeros(known):
        days = known.str.fullmatch(r"(19|20)\d{6}").all() and not discrete
        return (days and find_dates(known).formats) or numbers.formats
    if {*known.str.casefold()} <= {"true", "false"}:
        return (ColumnFormat(kind="truth"),)
    if numbers.formats or discrete:
        return text
    dates = find_dates(known)
    if nearest := numbers.nearest or dates.nearest:
        bad = known[nearest.parse(known).isna()].iloc[0]
        raise CommandError(
            f"{held(table, name, cells, bad)}, but most of its values are "
            f"{nearest.sentence().split(':')[0]}; mend it, count it as missing (--na "
            f"{bad!r}), or read the column as categories (--text {name!r})"
        )
    return dates.formats or text


def _dates_as_said(
    table: TableFile, name: str, cells: pd.Series, form: str
) -> ColumnFormat:
    chosen, known = ColumnFormat(kind="date", form=form), cells.dropna()
    try:
        bad = known[chosen.parse(known).isna()]
    except ValueError as error:  # of a directive that there is not
        raise CommandError(f"--dates '{name}:{form}': {error}") from None
    if len(bad):
        raise CommandError(
            f"{held(table, name, cells, bad.iloc[0])}, where dates ({form}) are read "
            f"by --dates; give another form, or count it as missing "
            f"(--na {bad.iloc[0]!r})"
        )
    return chosen


def _of_target(table: TableFile, name: str, cells: pd.Series, classes: bool) -> Formats:
    """Find whether a target holds numbers, or classes: texts that repeat themselves."""
    known, kind = cells.dropna(), kind_of(table.frame[name])
    if known.empty:
        raise CommandError(f"the target {name!r} has no value in any row")
    if classes or kind in ("truth", "category"):
        return (ColumnFormat(kind="text"),)
    numbers = find_numbers(known)
    if kind or numbers != Found() or to_numbers(known).notna().any():
        return numbers.formats or (numbers.nearest or ColumnFormat(),)
    dates, n_max = find_dates(known), max(2, _MOST_CLASSES * len(known))
    if dates != Found() or known.nunique() > n_max:
        raise CommandError(
            f"{held(table, name, cells, known.iloc[0])}, and no number; choose a "
            "target of numbers, or say that its values are classes (--classes)"
        )
    return (ColumnFormat(kind="text"),)


def _chosen(
    table: TableFile,
    name: str,
    cells: pd.Series,
    formats: Formats,
    options: Namespace,
    marks: set[str],
) -> ColumnFormat:
    """Choose the format that the owner's options or other columns leave."""
    left = [one for one in formats if _has_marks(one, cells, options)]
    if kind_of(table.frame[name]):
        left = [*formats]
    if not left:
        known = cells.dropna()
        marked = known[known.str.contains(r"[.,'\u2019]|\d\s\d")]
        given = {"--thousands": options.thousands, "--decimal": options.decimal}
        flags = " ".join(f"{flag} {one!r}" for flag, one in given.items() if one)
        where = held(table, name, cells, marked.iloc[0])
        raise CommandError(f"{where}, which is no number with {flags}")
    agreeing = [one for one in left if one.kind == "number" and {one.decimal} == marks]
    if len(left) == 1 or agreeing:
        return [*agreeing, *left][0]
    texts = pd.Series(cells.dropna().unique(), dtype=object)
    first, other = (one.parse(texts) for one in left[:2])
    doubtful = (first != other).idxmax()
    forms, form = " or ".join(f"'{name}:{one.form}'" for one in left), "%d %B %Y"
    remedy = f"--dates {forms}"
    if left[0].kind == "number":
        # Between semicolons a comma is as often the one as the other; elsewhere decimal
        # commas are rare, and so are dots between thousands.
        if table.separator != ";" or "," not in texts[doubtful]:
            return next(one for one in left if one.decimal == ".")
        remedy, form = "--thousands , or --decimal ,", ".12g"
    ways = " or ".join(f"{one[doubtful]:{form}}" for one in (first, other))
    where = held(table, name, cells, texts[doubtful])
    raise CommandError(f"{where}, which may be {ways}; give {remedy}")


def _has_marks(one: ColumnFormat, cells: pd.Series, options: Namespace) -> bool:
    """Whether the marks of a format in its cells are those that the owner named."""
    has_decimals = cells.str.contains(one.decimal, regex=False).any()
    marks = {"thousands": one.thousands, "decimal": one.decimal * bool(has_decimals)}
    named = {mark: getattr(options, mark) for mark in marks}
    agree = all(named[mark] in (None, marks[mark]) for mark in marks if marks[mark])
    thousands, decimal = named["thousands"], named["decimal"]
    crossed = thousands == marks["decimal"] or decimal == marks["thousands"]
    return one.kind != "number" or (agree and not crossed)


def _left_out(
    name: str, known: pd.Series, values: pd.Series, options: Namespace
) -> str:
    """Say why a column is taken to name the rows; empty if it is not."""
    n_known, n_different = int(values.count()), values.nunique()
    if name in options.id or not n_known:
        return "as --id says" if name in options.id else "it holds nothing"
    meant = (*options.number, *options.text, *options.categorical, *options.split_only)
    meant += (options.weight, options.group, options.time)
    if name in meant or n_known < _FEWEST_NAMED:
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
    elif chosen.kind == "number" and chosen != ColumnFormat():
        longest = texts.str.len().idxmax()  # which shows most of what there is
        yield f"{chosen.sentence()}; {texts[longest]!r} is {values[longest]:.12g}"
    elif chosen.kind == "text" and _many(values):
        yield (
            f"{values.nunique()} categories in {len(texts)} rows; if it only names "
            f"the rows, leave it out (--id {name!r})"
        )
    if chosen != ColumnFormat() or len(texts) < _FEWEST_NAMED:
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


def _has_leading_zeros(known: pd.Series) -> bool:
    return bool(known.str.isdigit().all() and known.str.fullmatch(r"0\d+").any())


def _are_whole(values: pd.Series) -> bool:
    numeric, known = kind_of(values) == "number", values.dropna()
    return numeric and bool((known % 1 == 0).all() and (known >= 0).all())


def _many(values: pd.Series) -> bool:
    """Whether a column has categories of few rows each."""
    return values.nunique() > max(_FEWEST_NAMED, _NAMES_GROUPS * values.count())


def oddities(X: pd.DataFrame, y: pd.Series, n_copies: int = 0) -> Iterator[str]:
    """Tell of codes for nothing or classes, spellings, copies of rows, and leaks."""
    for name, column in (*X.items(), (y.name, y)):
        if kind_of(column) == "number":
            yield from _codes(str(name), column.dropna().to_numpy(float))
        elif kind_of(column) == "category" and name != y.name:
            yield from _spellings(str(name), column)
    whole = kind_of(y) == "number" and (y % 1 == 0).all() and len(y) >= _FEWEST_ROWS
    if whole and 1 < y.nunique() <= _FEW_NUMBERS:
        yield (
            f"{y.name}: its {y.nunique()} different whole numbers are predicted as "
            "numbers; if they stand for classes, say so (--classes)"
        )
    if n_copies and X.assign(y=y).nunique().max() >= _MANY_VALUES * len(y):
        rows = "1 row repeats" if n_copies == 1 else f"{n_copies} rows repeat"
        yield (
            f"{rows} another one in every column, so some may train the tree and "
            "measure it as well; --distinct keeps one of each"
        )
    if len(y) >= _FEWEST_ROWS and X.shape[1] > 1:
        yield from _leaks(X, y)


def _codes(name: str, values: np.ndarray) -> Iterator[str]:
    """Tell of the last value at either end, if it is a code and far from all others."""
    for sign in (-1.0, 1.0):
        code = (sign * values).max(initial=-np.inf)
        others = sign * values[sign * values < code]
        n_codes = len(values) - len(others)
        # Below zero nothing but the code; above it is far beyond the others.
        limit = 0.0 if sign < 0 else code / _FAR_OUT
        often = len(others) > n_codes >= _FEWEST_CODES
        if code in _CODES and often and others.max() <= limit:
            text = f"{sign * code:.0f}"
            yield (
                f"{name}: {text} in {n_codes} rows, far from the other values; if it "
                f"stands for nothing, say so (--na {text})"
            )


def _spellings(name: str, column: pd.Series) -> Iterator[str]:
    """Tell of categories that differ by case or blanks."""
    texts = pd.Series(column.dropna().unique(), dtype=object).map(str)
    key = texts.map(folded)
    alike = texts[key[key.duplicated(keep=False)].sort_values(kind="stable").index]
    if len(alike):
        shown = listed([*map(repr, alike)], n_max=3)
        yield (
            f"{name}: {shown} differ by case or blanks only; "
            f"to make them one, give --ignore-case {name!r}"
        )


def _leaks(X: pd.DataFrame, y: pd.Series) -> Iterator[str]:
    """Tell of columns that nearly give the target alone."""
    rows = np.linspace(0, len(y) - 1, min(len(y), _ENOUGH_ROWS)).astype(int)
    X, y = X.iloc[rows], y.iloc[rows]
    numeric = kind_of(y) == "number"
    targets = y.to_frame() if numeric else pd.get_dummies(y, dtype=float)
    for name, column in X.items():
        if not (numeric and kind_of(column) == "number"):
            share = _by_means(pd.factorize(column, use_na_sentinel=False)[0], targets)
        elif min(column.nunique(), y.nunique()) > 1:
            share = column.corr(y, min_periods=_FEWEST_ROWS) ** 2
        else:
            continue
        if share >= _GIVEN_AWAY:
            yield (
                f"{name}: it gives {y.name} away by itself (R² {share:.3f}); if it is "
                f"not known before, leave it out (--drop {str(name)!r})"
            )


def _by_means(codes: np.ndarray, targets: pd.DataFrame) -> float:
    """Share of the variance that means of groups explain, less what chance does."""
    n_rows, n_groups = len(codes), codes.max() + 1
    total = ((targets - targets.mean()) ** 2).sum().sum()
    if total <= 0 or n_groups > _MANY_VALUES * n_rows:
        return 0.0
    within = ((targets - targets.groupby(codes).transform("mean")) ** 2).sum().sum()
    return 1.0 - within / total * (n_rows - 1) / max(n_rows - n_groups, 1)
