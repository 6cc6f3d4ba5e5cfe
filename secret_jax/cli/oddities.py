"""What is odd in the rows to learn from, a line each with what settles it."""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from secret_jax.cli.files import TableFile
from secret_jax.cli.formats import find_numbers, folded
from secret_jax.cli.reading import Column, Reading, kind_of
from secret_jax.inspect.printing import listed

# Of fewer rows nearly every column tells them apart, or easily explains the target.
FEWEST_ROWS = 20
# What people write where they know nothing.
_CODES = (9.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)
# A code lies so many times as far out as all other values, and stands there so often.
_FAR_OUT, _FEWEST_CODES = 5.0, 2
# Rows that are the same by chance are few where a column has so many different values.
_MANY_VALUES = 0.25
# A column that explains so much of the target alone may be made of it.
_GIVEN_AWAY = 0.995
_ENOUGH_ROWS = 10_000  # to tell that of all
_FEW_NUMBERS = 10  # different whole numbers of a target that may stand for classes
_ENDS = 0.01, 0.99  # quantiles beyond which few rows may make a correlation
_TOTAL = re.compile(
    r"((grand|sub)[ _-]?)?(totals?|sums?|average|avg|mean|summen?|gesamt.*|insgesamt|"
    r"mittelwert|durchschnitt|somme|moyenne|suma|totale|totaal)\b.{0,20}"
)
_MOST_TOTALS, _FEWEST_ABOVE = 3, 4  # rows at the end, and those before them
_LOOKED_AT = 2000  # rows that show how numbers are written


def oddities(X: pd.DataFrame, y: pd.Series, n_copies: int = 0) -> Iterator[str]:
    """Tell of codes for nothing or classes, spellings, copies of rows, and leaks."""
    for name, column in (*X.items(), (y.name, y)):
        if kind_of(column) == "number":
            yield from _codes(str(name), column.dropna().to_numpy(float))
        elif kind_of(column) == "category" and name != y.name:
            texts = pd.Series(column.dropna().unique(), dtype=object).map(str)
            key = texts.map(folded)
            key = key[key.duplicated(keep=False)].sort_values(kind="stable")
            if len(key):
                yield (
                    f"{name}: {listed([*map(repr, texts[key.index])], n_max=3)} differ "
                    "by case or blanks only; to make them one, give --ignore-case "
                    f"{str(name)!r}"
                )
    whole = kind_of(y) == "number" and (y % 1 == 0).all() and len(y) >= FEWEST_ROWS
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
    if len(y) >= FEWEST_ROWS and X.shape[1] > 1:
        yield from _leaks(X, y)


def _codes(name: str, values: np.ndarray) -> Iterator[str]:
    """Tell of the last value at either end, if it is a code and far from all others."""
    for sign in (-1.0, 1.0):
        ends, counts = np.unique(sign * values, return_counts=True)
        if len(ends) < 2 or ends[-1] not in _CODES:
            continue
        # Below zero nothing but the code; above it is far beyond the others.
        far = ends[-2] <= (0.0 if sign < 0 else ends[-1] / _FAR_OUT)
        if far and _FEWEST_CODES <= counts[-1] < counts[:-1].sum():
            text = f"{sign * ends[-1]:.0f}"
            yield (
                f"{name}: {text} in {counts[-1]} rows, far from the other values; if "
                f"it stands for nothing, say so (--na {text})"
            )


def _leaks(X: pd.DataFrame, y: pd.Series) -> Iterator[str]:
    """Tell of columns that nearly give the target alone, not that of a few rows."""
    rows = np.linspace(0, len(y) - 1, min(len(y), _ENOUGH_ROWS)).astype(int)
    X, y = X.iloc[rows], y.iloc[rows]
    for name, column in X.items():
        share = _explained(column, y)
        if share >= _GIVEN_AWAY:
            numeric = [one for one in (column, y) if kind_of(one) == "number"]
            inside = np.full(len(y), True)
            for one in numeric:
                inside &= one.between(*one.quantile([*_ENDS])).to_numpy()
            if inside.sum() >= FEWEST_ROWS:
                share = min(share, _explained(column[inside], y[inside]))
        if share >= _GIVEN_AWAY:
            yield (
                f"{name}: it gives {y.name} away by itself (R² {share:.3f}); if it is "
                f"not known before, leave it out (--drop {str(name)!r})"
            )


def _explained(column: pd.Series, y: pd.Series) -> float:
    """Share of the target that a straight line, or means of groups, explain."""
    numeric = kind_of(y) == "number"
    if numeric and kind_of(column) == "number":
        if min(column.nunique(), y.nunique()) < 2:
            return 0.0
        return column.corr(y, min_periods=FEWEST_ROWS) ** 2
    targets = y.to_frame() if numeric else pd.get_dummies(y, dtype=float)
    total = ((targets - targets.mean()) ** 2).sum().sum()
    # By means of groups, less what chance does.
    codes = pd.factorize(column, use_na_sentinel=False)[0]
    n_groups, n_rows = codes.max() + 1, len(codes)
    if total == 0 or n_groups > _MANY_VALUES * n_rows:
        return 0.0
    means = targets.groupby(codes).transform("mean")
    within = ((targets - means) ** 2).sum().sum() / total
    return 1.0 - within * (n_rows - 1) / max(n_rows - n_groups, 1)


def n_total_rows(table: TableFile) -> int:
    """Count the rows at the end of a table that are totals of those above them."""
    for n_rows in range(min(_MOST_TOTALS, len(table.frame) - _FEWEST_ABOVE), 0, -1):
        above = table._replace(frame=table.frame.iloc[:-n_rows])
        ends = table._replace(frame=table.frame.iloc[-n_rows:])
        if all(_is_total(above, ends, row) for row in range(n_rows)):
            return n_rows
    return 0


def _is_total(above: TableFile, ends: TableFile, row: int) -> bool:
    """Whether all numbers of a row are sums, or some are where a cell says so."""
    cells = {name: Reading().column(ends, name).cells.iloc[row] for name in ends.frame}
    cells = {name: cell for name, cell in cells.items() if cell is not None}
    words = [
        name
        for name, cell in cells.items()
        if _TOTAL.fullmatch(cell.casefold())
        and cell not in set(Reading().column(above, name).known)  # else a category
    ]
    n_totals = 0
    for name in cells.keys() - words:
        total = _is_sum(Reading().column(above, name), cells[name], means=bool(words))
        if not (total or words):
            return False
        n_totals += total
    return n_totals >= (1 if words else 2)


def _is_sum(column: Column, cell: str, means: bool) -> bool:
    """Whether a cell holds the sum, or mean, of those above it."""
    formats = find_numbers(column.known.iloc[:_LOOKED_AT]).formats
    if column.known.empty or not formats:
        return False
    values, last = (formats[0].parse(one) for one in (column.known, pd.Series([cell])))
    size = float(values.abs().sum())
    totals = [(values.sum(), size), (values.mean(), size / len(values))][: 1 + means]
    return size > 0 and any(abs(last[0] - t) <= 1e-6 * scale for t, scale in totals)
