"""What in a table should make its owner wonder, a line each, with what settles it."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from secret_jax.cli.reading.formats import folded
from secret_jax.cli.reading.table import kind_of
from secret_jax.inspect.printing import listed

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
